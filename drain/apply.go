package drain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// ErrIllegal says that an event does not follow from the state it meets: two
// drains at once, an outcome without an intent. The state is left as it was.
var ErrIllegal = errors.New("illegal transition")

// Fold applies events in order. What does not fit is reported and passed over:
// the journal is what happened, and a reader must be able to show all of it.
func Fold(s State, events []Event) (State, error) {
	var errs []error
	for _, e := range events {
		next, err := Apply(s, e)
		if err != nil {
			errs = append(errs, err)
		}
		s = next
	}
	return s, errors.Join(errs...)
}

// Apply folds one event into a state and returns the new one.
func Apply(s State, e Event) (State, error) {
	body, err := e.Decode()
	if err != nil {
		return skip(s, e), err
	}
	if start, ok := body.(AskStart); ok {
		return applyStart(s, e, start)
	}
	if acc, ok := body.(RecAccepted); ok && s.Drain != "" {
		s.Accepted = set(s.Accepted, acc.Key, acc.Reason)
		return skip(s, e), nil
	}
	if s.Drain == "" || e.Drain != s.Drain {
		return skip(s, e), nil
	}
	next, err := applyBody(s, e, body)
	if err != nil {
		return skip(s, e), fmt.Errorf("%s event %d (%s): %w", e.Stream, e.Num, e.Kind, err)
	}
	next.LastAt = e.At
	return skip(next, e), nil
}

func skip(s State, e Event) State {
	s.Num = e.Num
	return s
}

func applyStart(s State, e Event, a AskStart) (State, error) {
	again := s.Drain == e.Drain && (s.Phase.Ended() || s.Undone)
	if s.Drain != "" && !again && !s.Undone {
		return skip(s, e), fmt.Errorf("%s: drain %s starts while drain %s is there: %w", e.Stream, e.Drain, s.Drain, ErrIllegal)
	}
	if again && !s.Undone {
		s.Phase, s.Since, s.Deadline, s.LastAt = Planned, e.At, a.Deadline, e.At
		s.Person, s.Left, s.Waiting = false, nil, fleet.Reason{}
		return skip(s, e), nil
	}
	fresh := State{Drain: e.Drain, Host: fleet.HostID(e.Stream), Phase: Planned, For: a.For, Evacuate: a.Evacuate,
		Reason: a.Reason, By: e.By, Started: e.At, Since: e.At, Deadline: a.Deadline, LastAt: e.At}
	for _, k := range a.MayDie {
		fresh.MayDie = set(fresh.MayDie, k, true)
	}
	return skip(fresh, e), nil
}

func applyBody(s State, e Event, body Body) (State, error) {
	switch b := body.(type) {
	case AskExtend, AskStop, AskHandover, AskClass, AskMoreTime, AskHold, AskRetry, AskEscalate, AskKeep:
		return applyAsk(s, e, body)
	case DriveTook:
		return applyTook(s, e, b), nil
	case DriveReleased:
		s.Driver = ""
	case DrivePhase:
		return applyPhase(s, e, b)
	case DriveFound:
		return applyFound(s, e, b), nil
	case DriveIntent:
		return applyIntent(s, e, b)
	case DriveOutcome:
		return applyOutcome(s, e, b)
	case DriveWaits:
		return applyWaits(s, b), nil
	case DriveMissing:
		for _, k := range b.Keys {
			s = with(s, k, func(it *Item) {
				if it.MissingAt = e.At; b.Back {
					it.MissingAt = time.Time{}
				}
			})
		}
	case DriveEnded:
		return applyEnded(s, e, b), nil
	case DriveLate:
		for _, k := range b.Keys {
			s = with(s, k, func(it *Item) { it.Overdue = true })
		}
	case DriveRecord:
		s = with(s, b.Key, func(it *Item) { it.RecordAt, it.Record, it.Step = e.At, e.ID, StepRecord })
	case DriveDeadline:
		s.Left = slices.Clone(b.Left)
	case RecUndrain:
		s.Undone, s.Driver = true, ""
		if !s.Phase.Ended() {
			s.Phase, s.Since = Stopped, e.At
		}
	}
	return s, nil
}

func applyAsk(s State, e Event, body Body) (State, error) {
	if s.Undone {
		return s, fmt.Errorf("the drain's hold has been lifted: %w", ErrIllegal)
	}
	switch a := body.(type) {
	case AskExtend:
		s.Deadline = a.Until
		if s.Phase == DeadlineReached && a.Until.After(e.At) {
			s.Phase, s.Since, s.Left = Draining, e.At, nil
		}
		s.Person = false
	case AskStop:
		s.Phase, s.Since = Stopped, e.At
	case AskClass:
		s = with(s, a.Key, func(it *Item) {
			if it.Class != a.Class {
				resetStrategy(it)
			}
			it.Class, it.ClassBy, it.Rule = a.Class, e.By.Name, "chosen by "+e.By.Name
		})
	case AskMoreTime:
		s = with(s, a.Key, func(it *Item) {
			it.Budget.Move += a.By
			it.Budget.Grace += a.By
			it.Overdue = false
		})
	case AskHold:
		s = with(s, a.Key, func(it *Item) { it.Held = true; it.Reason = fleet.Because(WaitHeld, "why", a.Reason, "by", e.By.Name) })
	case AskKeep:
		s = with(s, a.Key, func(it *Item) { it.Keep = true; it.Reason = fleet.Because(WaitKept, "why", a.Reason, "by", e.By.Name) })
	case AskRetry:
		if a.Key.IsZero() {
			s.Person = false
			break
		}
		s = with(s, a.Key, func(it *Item) {
			it.Held, it.Keep, it.RetryAt = false, false, time.Time{}
			if it.HealthyAt.IsZero() {
				it.StartedAt = time.Time{} // its replacement is placed anew
			}
		})
	case AskEscalate:
		s = with(s, a.Key, func(it *Item) {
			if a.Run.IsZero() || a.Run == it.Run {
				it.Escalated, it.Held, it.Keep = e.By.Name, false, false
			}
		})
	}
	return s, nil
}

// applyTook opens a driver's turn. Timers that run against a workload are moved
// on by the time in which nobody drove.
func applyTook(s State, e Event, b DriveTook) State {
	s.Epoch, s.Driver = e.Epoch, b.Driver
	if s.Machine == "" {
		s.Machine = b.Machine
	}
	if s.Boot == "" {
		s.Boot = b.Boot
	}
	s.Person = s.Person || b.Person
	if b.Person {
		s.Waiting = fleet.Because(WaitBlind, "gap", b.Blind.Round(time.Second).String())
	}
	if b.Blind <= 0 {
		return s
	}
	s.Items = maps.Clone(s.Items)
	for k, it := range s.Items {
		for _, t := range []*time.Time{&it.NoticeAt, &it.TermAt, &it.Term2At, &it.FirstAct, &it.MissingAt} {
			if !t.IsZero() {
				*t = t.Add(b.Blind)
			}
		}
		s.Items[k] = it
	}
	return s
}

var follows = map[Phase][]Phase{
	Planned:         {Cordoning},
	Cordoning:       {Draining},
	Draining:        {Verifying, Cordoning},
	Verifying:       {Empty, Draining},
	Empty:           {Verifying, Draining},
	DeadlineReached: {Draining, Verifying},
}

func applyPhase(s State, e Event, b DrivePhase) (State, error) {
	s.Issues = slices.Clone(b.Issues)
	s.Waiting = b.Reason
	if b.Phase == s.Phase {
		return s, nil
	}
	ending := (b.Phase == DeadlineReached || b.Phase == Stopped) && s.Phase != Stopped
	if !ending && !slices.Contains(follows[s.Phase], b.Phase) {
		return s, fmt.Errorf("phase %s after %s: %w", b.Phase, s.Phase, ErrIllegal)
	}
	s.Phase, s.Since = b.Phase, e.At
	return s, nil
}

func applyFound(s State, e Event, b DriveFound) State {
	s.Items = maps.Clone(s.Items)
	if s.Items == nil {
		s.Items = make(map[fleet.Key]Item, len(b.Items))
	}
	for _, f := range b.Items {
		old, known := s.Items[f.Key]
		if known && old.Open() && old.Run == f.Run {
			s.Items[f.Key] = refresh(old, f)
			continue
		}
		it := Item{Found: f, FoundAt: e.At, Late: b.Late}
		if known && old.ClassBy != "" && old.Open() {
			it.Class, it.ClassBy, it.Rule = old.Class, old.ClassBy, old.Rule
		}
		s.Items[f.Key] = it
	}
	s.First = true
	return s
}

// refresh takes over what was observed anew and keeps what the drain has done.
func refresh(old Item, f Found) Item {
	class, rule, budget := old.Class, old.Rule, old.Budget
	if old.ClassBy == "" {
		class, rule = f.Class, f.Rule
	}
	budget.Move, budget.Grace = max(budget.Move, f.Budget.Move), max(budget.Grace, f.Budget.Grace)
	mayDie := old.MayDie
	old.Found = f
	old.Class, old.Rule, old.Budget, old.MayDie = class, rule, budget, mayDie || f.MayDie
	return old
}

func applyIntent(s State, e Event, b DriveIntent) (State, error) {
	if _, open := s.Open[b.Act.ID]; open {
		return s, fmt.Errorf("act %s begun twice: %w", b.Act.ID, ErrIllegal)
	}
	s.Open = set(s.Open, b.Act.ID, b.Act)
	return with(s, b.Act.Key, func(it *Item) {
		it.Step = b.Act.Step
		it.Tries = set(it.Tries, b.Act.Step, it.Tries[b.Act.Step]+1)
		if it.FirstAct.IsZero() {
			it.FirstAct = e.At
		}
		if b.Act.Target != "" {
			it.Target = b.Act.Target
		}
	}), nil
}

func applyOutcome(s State, e Event, b DriveOutcome) (State, error) {
	act, open := s.Open[b.Act]
	if !open {
		return s, fmt.Errorf("outcome of %s without an intent: %w", b.Act, ErrIllegal)
	}
	s.Open = maps.Clone(s.Open)
	delete(s.Open, b.Act)
	if act.Kind == ActCordon {
		s.Waiting = b.Reason
		return s, nil
	}
	return with(s, act.Key, func(it *Item) {
		if b.Result == Done {
			it.succeeded(act.Step, e.At)
			return
		}
		it.failed(act, b, e.At)
	}), nil
}

func (it *Item) succeeded(step Step, at time.Time) {
	it.RetryAt, it.Reason = time.Time{}, fleet.Reason{}
	switch step {
	case StepNotice:
		it.NoticeAt, it.Accepted = first(it.NoticeAt, at), true
	case StepStart:
		it.StartedAt = at
	case StepHealth:
		it.HealthyAt = at
	case StepFlip:
		it.FlippedAt = at
	case StepTerm:
		it.TermAt = first(it.TermAt, at)
	case StepTerm2:
		it.Term2At = first(it.Term2At, at)
	case StepKill:
		it.KillAt = first(it.KillAt, at)
	}
}

// failed keeps the reason and the time before which it is not tried again. A
// notice that nobody took has still been sent: the escalation goes on, but KILL
// will wait for one that is taken.
func (it *Item) failed(act Act, b DriveOutcome, at time.Time) {
	if act.Step == StepNotice {
		it.NoticeAt = first(it.NoticeAt, at)
	}
	detail := b.Detail
	if detail == "" {
		detail = string(b.Result)
	}
	it.Reason = fleet.Because(WaitFailed, "step", string(act.Step), "detail", detail, "code", b.Reason.Code)
	it.RetryAt = at // the strategy adds its delay
}

func applyWaits(s State, b DriveWaits) State {
	for _, w := range b.Reasons {
		if w.Key.IsZero() {
			s.Waiting = w.Reason
			continue
		}
		s = with(s, w.Key, func(it *Item) { it.Reason = w.Reason })
	}
	return s
}

func applyEnded(s State, e Event, b DriveEnded) State {
	for _, end := range b.Ends {
		var owner string
		s = with(s, end.Key, func(it *Item) {
			it.End, it.EndBy, it.EndAt, it.Reason = end.End, end.By, e.At, fleet.Reason{}
			owner = it.Owner
		})
		if end.End == Lost {
			s.Lost = append(slices.Clone(s.Lost), LostItem{Key: end.Key, Owner: owner, How: end.By, At: e.At})
		}
	}
	return s
}

func resetStrategy(it *Item) {
	it.Held, it.RetryAt, it.Reason = false, time.Time{}, fleet.Reason{}
}

func first(have, now time.Time) time.Time {
	if have.IsZero() {
		return now
	}
	return have
}

// with returns a state in which one item is changed; without that item, the
// state itself.
func with(s State, k fleet.Key, change func(*Item)) State {
	it, ok := s.Items[k]
	if !ok {
		return s
	}
	change(&it)
	s.Items = set(s.Items, k, it)
	return s
}

// set returns a copy of a map with one entry more.
func set[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	c := make(map[K]V, len(m)+1)
	maps.Copy(c, m)
	c[k] = v
	return c
}
