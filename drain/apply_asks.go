package drain

import (
	"cmp"
	"slices"
	"time"

	"ebb/fleet"
)

// Limits on what an ask may add: they keep sums of times from turning negative.
const (
	maxMoreTime = 30 * 24 * time.Hour
	maxEarly    = 4096
)

func applyAsk(s State, e Event, body Body) (State, error) {
	if resume, ok := body.(AskResume); ok {
		return applyResume(s, e, resume)
	}
	if s.Undone {
		return s, illegal("the drain's hold has been lifted")
	}
	switch a := body.(type) {
	case AskHandover:
		return s, nil
	case AskExtend:
		return applyExtend(s, e, a)
	case AskStop:
		if s.Phase != Stopped {
			s.Phase, s.Since = Stopped, e.At
			s = triesAnew(s)
		}
		return s, nil
	case AskTargetGone:
		return applyTargetGone(s, e, a)
	case AskRetry:
		if a.Key.IsZero() {
			return goOn(s, e), nil
		}
	}
	return askItem(s, e, body)
}

func applyExtend(s State, e Event, a AskExtend) (State, error) {
	switch {
	case s.Phase == Stopped:
		return s, illegal("a stopped drain is started, not extended")
	case !a.Until.After(e.At):
		return s, illegal("a deadline is extended to a time that has passed")
	}
	s.Deadline = a.Until
	if s.Phase == DeadlineReached {
		s.Phase, s.Since, s.Left = Draining, e.At, nil
		if !s.Proved {
			s.Phase = Cordoning // it ran out before the cordon took
		}
	}
	s.Person = false
	return s, nil
}

// goOn lets a drain go on that waits for a person, by what it waits for: a hold
// that was lifted is set again, another boot is taken as the one to drain.
func goOn(s State, e Event) State {
	s.Person, s.Newer = false, ""
	switch s.Waiting.Code {
	case WaitHold:
		if s.Phase == Draining || s.Phase == Verifying || s.Phase == Empty {
			s.Phase, s.Since, s.CordonAt = Cordoning, e.At, time.Time{} // asked for at once
		}
	case WaitRebooted:
		s.Boot = s.Waiting.Args["boot"]
	case WaitBlind, WaitNewer:
	default:
		return s
	}
	s.Waiting = fleet.Reason{}
	return s
}

// askedKey is the workload that an ask names.
func askedKey(body Body) fleet.Key {
	switch a := body.(type) {
	case AskClass:
		return a.Key
	case AskMoreTime:
		return a.Key
	case AskHold:
		return a.Key
	case AskRetry:
		return a.Key
	case AskEscalate:
		return a.Key
	case AskKeep:
		return a.Key
	case AskPark:
		return a.Key
	case AskTargetGone:
		return a.Key
	}
	return fleet.Key{}
}

// askItem folds an ask about one workload. An ask that comes before the first
// inventory is kept until the workload is found: somebody who read the plan and
// said "leave it alone" must not be too early.
func askItem(s State, e Event, body Body) (State, error) {
	k := askedKey(body)
	it, known := s.Items[k]
	if esc, ok := body.(AskEscalate); ok && (!known || !it.Open()) && esc.Run.IsZero() {
		return s, illegal("escalate %s: no incarnation of it is there, and none is named", k)
	}
	if _, retry := body.(AskRetry); !known && !retry && usable(k) && len(s.Early) < maxEarly {
		if err := askLegal(body, Item{}); err != nil {
			return s, err
		}
		s.Early = append(slices.Clone(s.Early), e)
		return s, nil
	}
	if !known {
		return s, illegal("%s is not in the drain", k)
	}
	if !it.Open() {
		return s, illegal("%s has ended", k)
	}
	if err := askLegal(body, it); err != nil {
		return s, err
	}
	if a, ok := body.(AskPark); ok && s.Refuses(a) != "" {
		return s, illegal("%s", s.Refuses(a))
	}
	return change(s, k, func(it *Item) { it.asked(e, body) }), nil
}

func askLegal(body Body, it Item) error {
	switch a := body.(type) {
	case AskClass:
		if !a.Class.Valid() && a.Class != fleet.Unclassified {
			return illegal("class %q of %s", a.Class, a.Key)
		}
	case AskMoreTime:
		if a.By <= 0 || a.By > maxMoreTime {
			return illegal("%v more time for %s", a.By, a.Key)
		}
	case AskPark:
		if !it.Key.IsZero() && (it.Class != fleet.Pausable || it.Move.Underway() || it.Move.Resting()) {
			return illegal("park %s: only what is pausable, and not being moved or parked", a.Key)
		}
	case AskEscalate:
		if !it.Key.IsZero() && !a.Run.IsZero() && a.Run != it.Run {
			return illegal("escalate %s: it runs as %s, not as %s", a.Key, it.Run, a.Run)
		}
	}
	return nil
}

func (it *Item) asked(e Event, body Body) {
	who := whoOf(e)
	switch a := body.(type) {
	case AskClass:
		if it.Class != a.Class {
			it.calm()
			it.RetryAt, it.Fails = time.Time{}, 0
			it.Budget = fleet.Budget{} // the next pass gives it that of its class
			it.Lever = ""
			if !it.Replaced() { // else nobody will say anew how its traffic is read
				it.InFlight, it.Readiness = nil, ""
			}
			if !it.Held && !it.Keep {
				it.Reason = fleet.Reason{}
			}
		}
		it.Class, it.ClassBy, it.Rule = a.Class, who, "chosen by "+who
	case AskMoreTime:
		if it.Budget.Move > 0 {
			it.Budget.Move = min(it.Budget.Move+a.By, 12*maxMoreTime)
			it.Overdue = false
		}
		if it.graceRuns() {
			it.Extra = min(it.Extra+a.By, 12*maxMoreTime)
		}
	case AskHold:
		it.Held, it.Escalated = true, ""
		it.Reason = fleet.Because(WaitHeld, "why", a.Reason, "by", who)
	case AskKeep:
		it.Keep, it.Escalated = true, ""
		it.Reason = fleet.Because(WaitKept, "why", a.Reason, "by", who)
	case AskPark:
		it.Park, it.ParkBy = !a.Ship, who
		it.RetryAt, it.Fails = time.Time{}, 0
	case AskRetry:
		it.retried(e.At)
	case AskEscalate:
		if a.Run.IsZero() || a.Run == it.Run {
			it.Escalated, it.EscalatedAt, it.Held, it.Keep, it.Excepted = who, e.At, false, false, false
		}
	}
}

// whoOf names who made an event.
func whoOf(e Event) string { return cmp.Or(e.By.Name, e.By.Console, e.By.Key, "an operator") }

// retried takes a held or failed workload up again. The grace that ran out while
// it was held counts for nothing, and a replacement that did not come to answer is
// placed anew once its target shows none any more.
func (it *Item) retried(at time.Time) {
	held := it.Held || it.Keep
	it.Held, it.Keep, it.RetryAt, it.Fails, it.Reason = false, false, time.Time{}, 0, fleet.Reason{}
	it.Move.Rounds, it.Move.Failed, it.Move.Result = 0, "", ""
	switch {
	case held:
		it.calm()
	case it.HealthyAt.IsZero() && !it.StartedAt.IsZero():
		it.StartedAt, it.Unsure = time.Time{}, Unsure{At: at}
	}
}

// calm ends the escalation of a workload: another one begins with a notice. That
// a signal has been sent stays known, as does the replacement, which is asked
// again whether it answers.
func (it *Item) calm() {
	it.Escalated, it.EscalatedAt = "", time.Time{}
	it.NoticeAt, it.Accepted, it.AcceptedAt, it.Untold = time.Time{}, false, time.Time{}, false
	it.TermAt, it.Term2At, it.Extra = time.Time{}, time.Time{}, 0
	it.RecordAt, it.Record, it.RecordRuns = time.Time{}, "", nil
	it.KillAt, it.HealthyAt = time.Time{}, time.Time{}
}
