package drain

import (
	"time"

	"ebb/fleet"
)

// Against says what stands against an ask of a drain: why it would change
// nothing, or come too late. Whoever asks is told before it is written down,
// since an ask that the journal took reads as one that was obeyed. Nil: it can
// be asked.
//
// Folding is more patient: the workload may end between the look and the ask, and
// an ask that then changes nothing does no harm.
func Against(s State, ask Body) []fleet.Issue {
	k := askedKey(ask)
	var why string
	resume, isResume := ask.(AskResume)
	switch {
	case isResume: // the hold may have been lifted long ago
		k, why = resume.Key, againstResume(s, resume)
	case s.Drain == "" || s.Undone:
		why = "the host has no drain"
	case !s.Terminated.IsZero():
		why = "the host was terminated at " + utc(s.Terminated)
	case !k.IsZero():
		why = againstItem(s, k, ask)
	default:
		why = againstDrain(s, ask)
	}
	if why == "" {
		return nil
	}
	return []fleet.Issue{{Key: k, Detail: why}}
}

// againstDrain is about an ask of the drain as a whole.
func againstDrain(s State, ask Body) string {
	switch ask.(type) {
	case AskStop:
		if s.Phase == Stopped {
			return "the drain is stopped already, since " + utc(s.Since)
		}
	case AskExtend:
		switch s.Phase {
		case Stopped:
			return "the drain is stopped: it is begun anew, with a deadline of its own"
		case Empty:
			return "the drain is over, the host is empty: there is nothing to give more time to"
		case Parked:
			return "the drain is over, nothing is left but what is parked: there is nothing to give more time to"
		}
	case AskRetry:
		if !s.Person && s.Newer == "" && goOn(s, Event{}).Waiting.Code == s.Waiting.Code {
			return "the drain does not wait for a word"
		}
	}
	return ""
}

// againstItem is about an ask of one workload. One that the first inventory has
// still to find may be spoken of before.
func againstItem(s State, k fleet.Key, ask Body) string {
	it, known := s.Items[k]
	if gone, ok := ask.(AskTargetGone); ok && known {
		if on, doubt := s.InDoubt(k); !doubt || on != gone.Target {
			return k.String() + " has nothing in doubt on another host"
		}
		return ""
	}
	switch {
	case !known && s.First:
		return k.String() + " is not in the drain"
	case !known:
		return ""
	case it.End == Lost:
		return k.String() + " was lost at " + utc(it.EndAt)
	case !it.Open():
		return k.String() + " has left at " + utc(it.EndAt)
	case !it.KillAt.IsZero():
		if _, again := ask.(AskEscalate); !again {
			return k.String() + " was sent KILL at " + utc(it.KillAt) + ": it is too late for that"
		}
	}
	switch a := ask.(type) {
	case AskClass:
		switch {
		case Claimless(it):
			return k.String() + " is claimed by nobody, and a class does not make it somebody's: keep it, or escalate it by name"
		case a.Class.Valid() && it.Class == a.Class:
			return k.String() + " is " + a.Class.String() + " already"
		}
	case AskMoreTime:
		if it.Parked() && it.Resume.IsZero() {
			return k.String() + " is parked: it has no time that could be lengthened; resume it, or extend the drain"
		}
		if it.Budget.Move <= 0 && !it.graceRuns() {
			return k.String() + " has no time that could be lengthened: its way out has no budget, and no grace runs; hold it, or extend the drain"
		}
	case AskEscalate:
		switch {
		case s.Phase == Stopped:
			return "the drain is stopped: nothing is escalated"
		case !a.Run.IsZero() && a.Run != it.Run:
			return k.String() + " is another incarnation now: " + it.Run.String() + ", not " + a.Run.String()
		}
	case AskPark:
		return againstPark(s, it, a)
	case AskRetry:
		if !it.waitsForRetry() {
			return k.String() + " is neither held, kept nor failed: there is nothing to take up again"
		}
	}
	return ""
}

// againstPark is about a choice between parking and shipping.
func againstPark(s State, it Item, a AskPark) string {
	switch why := s.Refuses(a); {
	case why != "":
		return why
	case a.Ship && !it.Park:
		return a.Key.String() + " is to be shipped already, not parked"
	case !a.Ship && it.Park:
		return a.Key.String() + " is to be parked already"
	}
	return ""
}

// againstResume is about bringing back what is parked. The drain need not be there
// any more, but must not be one that would park it again.
func againstResume(s State, a AskResume) string {
	none := len(s.Resumable(a.Key)) == 0
	switch {
	case !s.Terminated.IsZero():
		return "the host was terminated at " + utc(s.Terminated)
	case none && a.Key.IsZero():
		return "nothing is parked here"
	case none:
		return a.Key.String() + " is not parked here"
	case !s.Phase.Ended() && !s.Undone:
		return "its drain is at work, and would park it again: stop it first"
	}
	return ""
}

// Claimless reports whether nothing claims an item: no class makes it somebody's,
// and nothing is done to it but by name.
func Claimless(it Item) bool { return it.Verdict == fleet.Orphan || it.Verdict == fleet.Unattributed }

// graceRuns reports whether a TERM was sent whose grace a person can lengthen.
func (i Item) graceRuns() bool { return !i.TermAt.IsZero() && i.Term2At.IsZero() }

// waitsForRetry reports whether taking an item up again would change anything.
func (i Item) waitsForRetry() bool {
	replacing := i.HealthyAt.IsZero() && !i.StartedAt.IsZero()
	return i.Held || i.Keep || replacing || !i.RetryAt.IsZero() || i.Fails > 0 ||
		i.Move.Rounds > 0 || i.Move.Failed != "" || NeedsPerson(i.Reason.Code)
}

func utc(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }
