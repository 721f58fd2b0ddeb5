package words

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ebb/drain"
	"ebb/fleet"
)

// Reason says in a sentence why a workload or a drain waits.
func Reason(r fleet.Reason) string {
	if s, ok := reason(r); ok {
		return s
	}
	return raw(r)
}

// raw shows a code that has no sentence, with its arguments.
func raw(r fleet.Reason) string {
	if r.IsZero() {
		return ""
	}
	parts := []string{Name(r.Code)}
	for _, k := range slices.Sorted(maps.Keys(r.Args)) {
		parts = append(parts, Name(k)+"="+Name(r.Args[k]))
	}
	return strings.Join(parts, " ")
}

// reason makes the sentence of every code of package drain, and of those that
// acts answer with. ok is false for a code it does not know.
func reason(r fleet.Reason) (text string, ok bool) {
	if text, ok := waitsForItself(r); ok {
		return text, true
	}
	if text, ok := waitsForPerson(r); ok {
		return text, true
	}
	if text, ok := waitsForHost(r); ok {
		return text, true
	}
	return lever(r)
}

// waitsForItself are reasons that time or the next step will end.
func waitsForItself(r fleet.Reason) (string, bool) {
	a := func(k string) string { return r.Args[k] }
	switch r.Code {
	case drain.WaitExpires:
		return join(" at ", "expires by itself", When(a("at"))), true
	case drain.WaitOutlives:
		text := "has no expiry"
		if a("expires") != "" {
			text = "expires only at " + When(a("expires"))
		}
		return join("; escalates at ", text, When(a("escalates"))), true
	case drain.WaitTurn:
		return "waits for its turn: " + Text(a("running")) + " of " + Text(a("limit")) + " moves run", true
	case drain.WaitStarting:
		return join(" on ", "starting its replacement", nameOf(a("target"))), true
	case drain.WaitHealth:
		return join(": ", join(" on ", "waiting until healthy", nameOf(a("target"))), Text(a("detail"))), true
	case drain.WaitUnsure:
		text := join(" on ", "nobody knows yet whether its replacement was started", nameOf(a("target")))
		return join("; decided at ", join(": ", text, Text(a("detail"))), When(a("until"))), true
	case drain.WaitTargetGone:
		return "its replacement may run on " + nameOf(a("target")) + ", which is no longer in the fleet: ask target-gone once that is known to be gone", true
	case drain.WaitCopyGone:
		return goneCopy(nameOf(a("target")), a("has") != ""), true
	case drain.WaitCopyUnread:
		return join(": ", "what is left of it here goes once "+nameOf(a("target"))+", which took it over, can be read", Text(a("detail"))), true
	case drain.WaitFlip:
		return join(" to ", "moving its claim", nameOf(a("target"))), true
	case drain.WaitNotice:
		return join("; TERM at ", "its notice runs", WhenS(a("term"))), true
	case drain.Untold:
		return "the owner is not told", true
	case drain.WaitGrace:
		return join(" until ", "TERM sent, its grace runs", WhenS(a("until"))), true
	case drain.WaitTermGap:
		return join(" at ", "second TERM sent, KILL", WhenS(a("until"))), true
	case drain.WaitKill:
		return "KILL is being sent", true
	case drain.WaitParked:
		return join(" since ", "parked here", When(a("since"))), true
	case drain.WaitResumed:
		return join(", asked for by ", "runs here again", nameOf(a("by"))), true
	case drain.WaitMissing:
		return join(" until ", "gone from the host; its owner has", When(a("until"))) + " to say that it left", true
	}
	return "", false
}

// nameOf is Name, and nothing for nothing.
func nameOf(s string) string {
	if s == "" {
		return ""
	}
	return Name(s)
}

// waitsForPerson are reasons that mostly end when somebody acts.
func waitsForPerson(r fleet.Reason) (string, bool) {
	a := func(k string) string { return r.Args[k] }
	switch r.Code {
	case drain.WaitUnclassified:
		switch fleet.Verdict(a("verdict")) {
		case fleet.Orphan, fleet.Unattributed:
			return "nothing claims it: keep it, escalate it by name, or clean it", true
		}
		return "no rule classifies it: choose a class or keep it", true
	case drain.WaitNoStrategy:
		text := "nothing here moves a " + Name(Class(fleet.Class(a("class")))) + " workload yet"
		return join(": ", text, Text(a("state"))) + "; its owner ends it, or you decide", true
	case drain.WaitNoCommand:
		return "its owner names no " + Name(a("what")) + " command, so it can't be moved", true
	case drain.WaitNoTarget:
		return join(": ", "no host can take it", Text(a("why"))), true
	case drain.WaitNoReceiver:
		return "nobody took the notice: KILL waits for that, or for you to escalate it by name", true
	case drain.WaitParkedStays:
		return join(" for ", "parked here, and the host is drained", nameOf(a("for"))) + ": resume it, and drain again", true
	case drain.WaitNotResumed:
		return join(": ", join(" ", "not resumed:", stepOf(a("step"))), Text(a("detail"))), true
	case drain.WaitOtherHere:
		return "it was parked on " + join(" ", nameOf(a("what")), nameOf(a("wants"))) + ", and there is " + nameOf(a("has")) + " here", true
	case drain.NotParkedFor:
		return join(" for ", "a host that is drained", nameOf(a("for"))) + " may not come back with its state", true
	case drain.NotParkedOn:
		return "its snapshot needs " + join(" ", nameOf(a("what")), nameOf(a("has"))) + ", which the drain is about", true
	case drain.WaitHeld:
		return heldBy("held", r), true
	case drain.WaitKept:
		return heldBy("kept here", r), true
	case drain.WaitNoTime:
		return "not enough time left: an escalation needs " + span(a("needs")) + ", there is " + span(a("has")), true
	case drain.WaitNotPlanned:
		return "the plan did not name it: escalate it by name, or extend", true
	case drain.WaitBlind:
		return join(" ", "nobody drove for", span(a("gap"))) + ": say that it may go on (retry)", true
	case drain.WaitRebooted:
		return "the host was rebooted: look, then undrain or begin again", true
	case drain.WaitOtherMachine:
		return "another machine answers at its address: " + Name(a("have")) + ", not " + Name(a("want")), true
	}
	return "", false
}

func heldBy(verb string, r fleet.Reason) string {
	return join(": ", join(" by ", verb, nameOf(r.Args["by"])), Text(r.Args["why"]))
}

// waitsForHost are reasons that end when a host, a plane or an act answers.
func waitsForHost(r fleet.Reason) (string, bool) {
	a := func(k string) string { return r.Args[k] }
	switch r.Code {
	case drain.WaitFailed:
		text := "failed" // an agent answers with this code too, without a step
		if a("step") != "" {
			text = stepOf(a("step")) + " failed"
		}
		return join(": ", text, Text(a("detail")), Text(a("error"))) + retry(a("retry")), true
	case drain.WaitUnknown:
		return join(": ", "not known", Text(a("detail"))), true
	case drain.WaitCordon:
		return join(": ", cordonWaits(fleet.CordonState(a("state"))), Text(a("detail"))), true
	case drain.WaitProbe:
		return join(": ", "probe "+Name(a("probe"))+" did not answer", Text(a("detail"))), true
	case drain.WaitUnreachable:
		return join(": ", join(" since ", "the host can't be read", When(a("since"))), Text(a("detail"))), true
	case drain.WaitPlane:
		return join(": ", "the control plane can't be read, nothing new is begun", Text(a("detail"))), true
	case drain.WaitHold:
		return "its " + Name(a("what")) + " hold was lifted: nothing is done until it is back; retry the drain to set it again, or undrain", true
	case drain.WaitSurvived:
		return join(" since ", "KILL was sent and it is still there", WhenS(a("since"))), true
	case drain.WaitArrived:
		return "arrived in the moment of the deadline", true
	case drain.WaitNewer:
		return join(" ", "the journal holds an event that this program can't read", nameOf(a("kind"))) + ": drive it with a newer ebb", true
	case drain.WaitNoProcess:
		return "there is no process to signal: its owner ends it, or you decide", true
	case "issue":
		if a("check") == "" && a("detail") == "" {
			return "keeps the host from being empty", true
		}
		return join(": ", CheckFails(a("check")), Text(a("detail"))), true
	case "driver_ended":
		return "its driver ended before it could begin", true
	}
	return "", false
}

// stepOf is the word of a step that stands as text in a reason.
func stepOf(s string) string {
	if s == "" {
		return ""
	}
	return Step(drain.Step(s))
}

// cordonWaits says what a drain that has to be cordoned first waits for.
func cordonWaits(s fleet.CordonState) string {
	switch s {
	case fleet.Uncordoned:
		return "the cordon has not taken"
	case fleet.Cordoning:
		return "the cordon is being proved: a scheduler may still act on an old view"
	case fleet.HostOnly:
		return "the plane does not know of the cordon: told again"
	case fleet.PlaneOnly:
		return "the host does not know of the cordon: told again"
	case fleet.Cordoned:
		return "cordoned; the drain hold is awaited"
	}
	return "the cordon: " + Name(string(s))
}

func retry(at string) string {
	if at == "" {
		return ""
	}
	return "; tried again at " + When(at)
}

// goneCopy says that what is left of a workload here may be all there is.
func goneCopy(target string, swapped bool) string {
	what := "which took it over, is no longer in the fleet"
	if swapped {
		what = "which took it over, is another machine now"
	}
	return target + ", " + what + ": what is left of it here is not removed; save it, then keep it or escalate it by name"
}

// Brief is Reason in few words, for narrow columns.
func Brief(r fleet.Reason) string {
	a := func(k string) string { return r.Args[k] }
	switch r.Code {
	case drain.WaitExpires:
		return "expires"
	case drain.WaitOutlives:
		return join(" ", "escalates", When(a("escalates")))
	case drain.WaitTurn:
		return "waits its turn"
	case drain.WaitStarting:
		return join(" on ", "starting", nameOf(a("target")))
	case drain.WaitHealth:
		return join(" on ", "healthy?", nameOf(a("target")))
	case drain.WaitUnsure:
		return join(" on ", "started?", nameOf(a("target")))
	case drain.WaitTargetGone:
		return nameOf(a("target")) + " gone?"
	case drain.WaitCopyGone:
		return "its new host is gone: save it"
	case drain.WaitCopyUnread:
		return nameOf(a("target")) + " can't be read"
	case drain.WaitFlip:
		return join(" to ", "flip", nameOf(a("target")))
	case drain.WaitNotice:
		return "owner told"
	case drain.WaitGrace:
		return "TERM sent"
	case drain.WaitTermGap:
		return "TERM sent twice"
	case drain.WaitParked:
		return "parked here"
	case drain.WaitResumed:
		return "runs here again"
	case drain.WaitUnclassified:
		return "nothing claims it"
	case drain.WaitNoStrategy:
		return "its owner, or you"
	case drain.WaitNotPlanned:
		return "not in the plan"
	case "running", "lever_waits", "lever":
		return cmp.Or(join(" ", stepOf(a("step")), Text(a("detail"))), Reason(r))
	case "rolled_back":
		return "rolled back"
	case "in_flight":
		return "in flight " + Text(a("detail"))
	}
	return Reason(r)
}
