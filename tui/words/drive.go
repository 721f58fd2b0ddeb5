package words

import (
	"strings"

	"ebb/drain"
	"ebb/fleet"
)

func drive(b drain.Body) (string, bool) {
	switch d := b.(type) {
	case drain.DriveTook:
		text := "driven by " + Name(d.Driver)
		if d.Blind > 0 {
			text += ", after " + Duration(d.Blind) + " without a driver"
		}
		if d.Person {
			text += ": waits for a person"
		}
		return text, true
	case drain.DriveReleased:
		return because("released by its driver", d.Why), true
	case drain.DrivePhase:
		return phase(d), true
	case drain.DriveFound:
		return found(d), true
	case drain.DriveIntent:
		return Act(d.Act), true
	case drain.DriveOutcome:
		return outcome(d), true
	case drain.DriveWaits:
		return waits(d.Reasons), true
	case drain.DriveMissing:
		if d.Back {
			return "there after all: " + Keys(d.Keys), true
		}
		return "no longer there: " + Keys(d.Keys), true
	case drain.DriveEnded:
		return ended(d.Ends), true
	case drain.DriveLate:
		return "late: the move budget of " + Keys(d.Keys) + " has run out", true
	case drain.DriveRecord:
		return "on record before KILL: " + Key(d.Key) + ", owner " + Name(d.Owner) + ", named by " + Name(d.Named), true
	case drain.DriveDeadline:
		return deadline(d), true
	}
	return "", false
}

func phase(d drain.DrivePhase) string {
	text := Phase(d.Phase)
	if !d.Reason.IsZero() {
		text += ": " + Reason(d.Reason)
	}
	if len(d.Issues) > 0 {
		text += "; still: " + issues(d.Issues)
	}
	return text
}

func found(d drain.DriveFound) string {
	if len(d.Items) == 0 {
		return "found nothing that has to leave"
	}
	verb := "found "
	switch {
	case d.Again:
		verb = "seen anew: "
	case d.Late:
		verb = "arrived late: "
	}
	var parts, rest []string
	for _, f := range d.Items {
		part := Key(f.Key) + " (" + Class(f.Class) + ")"
		if d.Late && f.Phase == fleet.AtRest { // nothing new: what was parked has no process any more
			rest = append(rest, part)
			continue
		}
		parts = append(parts, part)
	}
	return join("; ", listed(verb, parts), listed("at rest now: ", rest))
}

func listed(verb string, parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	return verb + few(parts, ", ")
}

// Act says what an act does, to what.
func Act(a drain.Act) string {
	on := ""
	if a.Target != "" {
		on = " on " + Host(a.Target)
	}
	switch a.Kind {
	case drain.ActCordon:
		return "set both holds at plane and host"
	case drain.ActNotice:
		return join("; TERM at ", "tell the owner of "+Key(a.Key), HMS(a.At))
	case drain.ActSignal:
		return join(", named by ", "send "+Name(a.Signal)+" to "+Key(a.Key), nameOf(a.Named))
	case drain.ActExec:
		if a.Step == drain.StepHealth {
			return "ask whether " + Key(a.Key) + " answers" + on
		}
		return "start " + Key(a.Key) + on
	case drain.ActFlip:
		return join(" to ", "move the claim of "+Key(a.Key), strings.TrimPrefix(on, " on "))
	}
	if a.Kind == drain.ActRest {
		what := "park " + Key(a.Key) + " here, and say that it rests"
		if a.Step == drain.StepWake {
			what = "say that " + Key(a.Key) + " runs again"
		} else if a.Op == drain.OpUndo {
			what = "take the park of " + Key(a.Key) + " back"
		}
		return what
	}
	switch a.Kind { // beside the engine, or on the source's agent
	case "lever":
		return join(" of ", "lever: "+Step(a.Step), Key(a.Key)) + on
	case "quiet":
		return "wait until nothing is in flight for " + Key(a.Key)
	}
	return Name(string(a.Kind)) + " " + Key(a.Key) + on
}

func outcome(d drain.DriveOutcome) string {
	// The id of an act ends in its step and attempt: "d-31/sandbox/vm-1/term/1".
	step := ""
	if parts := strings.Split(d.Act, "/"); len(parts) >= 2 {
		step = Step(drain.Step(parts[len(parts)-2]))
	}
	text := join(" ", Key(d.Key), step) + ": " + Result(d.Result)
	if !d.Reason.IsZero() {
		text += ", " + Reason(d.Reason)
	}
	return because(text, d.Detail)
}

func waits(all []drain.Wait) string {
	parts := make([]string, len(all))
	for i, w := range all {
		who := keyOr(w.Key, "the drain")
		if w.Reason.IsZero() {
			parts[i] = who + " goes on"
			continue
		}
		parts[i] = who + ": " + Reason(w.Reason)
	}
	return few(parts, "; ")
}

func ended(all []drain.Ended) string {
	parts := make([]string, len(all))
	for i, e := range all {
		parts[i] = Key(e.Key) + " " + End(e.End, e.By)
	}
	return few(parts, "; ")
}

func deadline(d drain.DriveDeadline) string {
	if len(d.Left) == 0 {
		return because("the outer deadline is reached, nothing is left", d.Age)
	}
	parts := make([]string, len(d.Left))
	for i, l := range d.Left {
		parts[i] = Left(l)
	}
	// All of them: a deadline is never reached by a number.
	return because("the outer deadline is reached; left: "+strings.Join(parts, "; "), d.Age)
}

// Left is one line of what a deadline found.
func Left(l drain.Left) string {
	name := Key(l.Key)
	var about []string
	if l.Class != fleet.Unclassified {
		about = append(about, Class(l.Class))
	}
	if l.Owner != "" {
		about = append(about, "owner "+Name(l.Owner))
	}
	if l.Step != drain.StepWait {
		about = append(about, "at "+Step(l.Step))
	}
	if len(about) > 0 {
		name += " (" + strings.Join(about, ", ") + ")"
	}
	return join(": ", name, Reason(l.Reason))
}
