package words

import (
	"strings"

	"ebb/drain"
	"ebb/fleet"
)

// Verdict says what comparing claims with the host found.
func Verdict(v fleet.Verdict) string {
	switch v {
	case fleet.Agreed:
		return "agreed"
	case fleet.Resting:
		return "at rest, as claimed"
	case fleet.Ghost:
		return "ghost: claimed, not there"
	case fleet.Orphan:
		return "orphan: runs, not claimed"
	case fleet.Leak:
		return "leak: its owner is gone"
	case fleet.Unattributed:
		return "unattributed: no rule knows it"
	case fleet.UnknownV:
		return "unknown: can't be read"
	}
	return Name(string(v))
}

// VerdictName is Verdict in one word.
func VerdictName(v fleet.Verdict) string {
	name, _, _ := strings.Cut(Verdict(v), ":")
	return name
}

// Phase says where a drain stands.
func Phase(p drain.Phase) string {
	switch p {
	case drain.NoDrain:
		return "no drain"
	case drain.Planned:
		return "planned"
	case drain.Cordoning:
		return "cordoning"
	case drain.Draining:
		return "draining"
	case drain.Verifying:
		return "verifying"
	case drain.Empty:
		return "empty" // no proof: that is made by verify
	case drain.Parked:
		return "parked, at rest here"
	case drain.DeadlineReached:
		return "deadline reached"
	case drain.Stopped:
		return "stopped"
	}
	return Name(string(p))
}

// Step says how far a workload is on its way out.
func Step(s drain.Step) string {
	switch s {
	case drain.StepWait:
		return "waiting"
	case drain.StepExpire:
		return "expiry"
	case drain.StepStart:
		return "start elsewhere"
	case drain.StepHealth:
		return "health check"
	case drain.StepFlip:
		return "flip"
	case drain.StepNotice:
		return "notice"
	case drain.StepTerm:
		return "TERM"
	case drain.StepTerm2:
		return "second TERM"
	case drain.StepRecord:
		return "record before KILL"
	case drain.StepKill:
		return "KILL"
	case drain.StepMissing:
		return "gone, being judged"
	}
	if w, ok := moveSteps[string(s)]; ok {
		return w
	}
	return Name(string(s))
}

// Result says how an act went.
func Result(r drain.Result) string {
	switch r {
	case drain.Done:
		return "done"
	case drain.FailedAct:
		return "failed"
	case drain.Refused:
		return "refused"
	case drain.Interrupted:
		return "interrupted, will be observed again"
	case drain.NotDone:
		return "did not begin"
	case "running":
		return "goes on"
	case "wait":
		return "can't begin yet"
	}
	return Name(string(r))
}

// Class is a class as it is written; what has none is "unclassified".
func Class(c fleet.Class) string {
	if c == fleet.Unclassified || c.Valid() {
		return c.String()
	}
	return Name(string(c))
}

// Letter is the one letter by which narrow screens show a class.
func Letter(c fleet.Class) string {
	switch c {
	case fleet.Ephemeral:
		return "E"
	case fleet.Stateless:
		return "S"
	case fleet.Pausable:
		return "P"
	case fleet.Durable:
		return "D"
	case fleet.Stuck:
		return "X"
	}
	return "?"
}

// Strategy says how a class leaves, in the order of its steps.
func Strategy(c fleet.Class) string {
	switch c {
	case fleet.Ephemeral:
		return "let it expire"
	case fleet.Stateless:
		return "start elsewhere, healthy, flip, finish, stop"
	case fleet.Pausable:
		return "snapshot, ship, restore, clock"
	case fleet.Durable:
		return "fence, archive, promote, repoint"
	case fleet.Stuck:
		return "notice, TERM, grace, TERM, KILL"
	}
	return "nothing is done to it: a person decides"
}

// Check is what has to hold, as the gate lists it.
func Check(c string) string {
	switch c {
	case fleet.CheckReach:
		return "the host answers, and is the same"
	case fleet.CheckHolds:
		return "both holds are there"
	case fleet.CheckProbes:
		return "every probe answered"
	case fleet.CheckLeft:
		return "nothing runs that has to leave"
	case fleet.CheckLeaks:
		return "no leaks"
	case fleet.CheckTickets:
		return "no admission is open"
	case fleet.CheckClaims:
		return "claims agree"
	case fleet.CheckLost:
		return "nothing was lost"
	}
	return Name(c)
}

// CheckFails is a check that does not hold, in few words.
func CheckFails(c string) string {
	switch c {
	case fleet.CheckReach:
		return "host"
	case fleet.CheckHolds:
		return "hold missing"
	case fleet.CheckProbes:
		return "probe"
	case fleet.CheckLeft:
		return "still here"
	case fleet.CheckLeaks:
		return "leak"
	case fleet.CheckTickets:
		return "open admission"
	case fleet.CheckClaims:
		return "claim differs"
	case fleet.CheckLost:
		return "lost"
	case "":
		return ""
	}
	return Name(c)
}

// Issue is one thing that keeps a host from being proved empty, by name.
func Issue(i fleet.Issue) string {
	if !i.Key.IsZero() && strings.HasPrefix(i.Detail, i.Key.String()) {
		return join(": ", CheckFails(i.Check), Text(i.Detail)) // the detail names it already
	}
	return join(": ", join(" ", CheckFails(i.Check), Key(i.Key)), Text(i.Detail))
}

// Status is how far a reading can be relied on.
func Status(s fleet.Status) string {
	switch s {
	case fleet.Unknown:
		return "not read"
	case fleet.OK:
		return "ok"
	case fleet.Failed:
		return "failed"
	case fleet.NotApplicable:
		return "not applicable"
	}
	return Name(string(s))
}

// End says how a workload left the host, with what ended it.
func End(e drain.End, by string) string {
	switch e {
	case drain.LeftHost:
		switch by {
		case "lever":
			return "left: stopped by this drain"
		case "ttl":
			return "left: it expired"
		case "owner":
			return "left: its owner ended it"
		case "itself":
			return "left: it ended by itself"
		}
		return join(": ", "left", Text(by))
	case drain.Lost:
		return join(": ", "LOST", Text(by))
	}
	return Name(string(e))
}
