package drain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// ErrIllegal says that an event does not follow from the state it meets: two
// drains at once, an outcome without an intent, a KILL without its record. The
// state is left as it was, and an act whose intent is illegal must not be done.
var ErrIllegal = errors.New("illegal transition")

// Fold applies events in order. What does not fit is reported and passed over:
// the journal is what happened, and a reader must be able to show all of it.
func Fold(s State, events []Event) (State, error) {
	var errs []error
	for _, e := range events {
		next, err := Apply(s.owned(), e)
		if err != nil {
			errs = append(errs, err)
		}
		s = next
	}
	s.own = false
	return s, errors.Join(errs...)
}

// owned is the state with a map of items of its own: a fold of a long history
// copies the map once, not with every event.
func (s State) owned() State {
	if !s.own {
		s.Items, s.own = maps.Clone(s.Items), true
	}
	return s
}

func (s State) ownItems() map[fleet.Key]Item {
	if s.own {
		return s.Items
	}
	return maps.Clone(s.Items)
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
	if acc, ok := body.(RecAccepted); ok && s.Drain != "" && usable(acc.Key) {
		s.Accepted = set(s.Accepted, acc.Key, acc.Reason)
		s = change(s, acc.Key, func(it *Item) { it.Excepted = it.Open() })
		return skip(s, e), nil
	}
	if isBinding(body) {
		return bind(s, e, body)
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

func illegal(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrIllegal)...)
}

func applyStart(s State, e Event, a AskStart) (State, error) {
	same := s.Drain == e.Drain
	var err error
	switch {
	case e.Drain == "":
		err = illegal("%s: a drain starts without an id", e.Stream)
	case a.Deadline.IsZero():
		err = illegal("%s: drain %s starts without a deadline", e.Stream, e.Drain)
	case s.Drain != "" && !s.Over() && !(same && s.Phase.Ended()):
		err = illegal("%s: drain %s starts while drain %s is there", e.Stream, e.Drain, s.Drain)
	}
	if err != nil {
		return skip(s, e), err
	}
	if same && !s.Over() {
		return skip(restart(s, e, a), e), nil
	}
	fresh := State{Drain: e.Drain, Host: fleet.HostID(e.Stream), Phase: Planned, For: a.For, Evacuate: a.Evacuate,
		Bound: s.Bound, Reason: a.Reason, By: e.By, Started: e.At, Since: e.At, Deadline: a.Deadline, LastAt: e.At, MayDie: named(a.MayDie)}
	if same {
		fresh.Round = s.Round + 1
	}
	fresh.Items = carried(s)
	return skip(fresh, e), nil
}

// restart takes an ended drain up again. What may die is what the new plan
// names, and no countdown of the old turn goes on: whoever was told TERM before
// the stop had reason to think that it was over.
func restart(s State, e Event, a AskStart) State {
	s.Phase, s.Since, s.Deadline, s.LastAt = Planned, e.At, a.Deadline, e.At
	s.Person, s.Left, s.Waiting, s.Seen = false, nil, fleet.Reason{}, time.Time{}
	s.CordonAt, s.CordonFailed, s.Proved = time.Time{}, false, false
	s.Evacuate, s.MayDie = a.Evacuate, named(a.MayDie)
	if a.For != "" {
		s.For = a.For
	}
	s.Items = s.ownItems()
	for k, it := range s.Items {
		if it.Open() {
			it.calm()
			it.Resume = it.goingOn()
			s.Items[k] = it
		}
	}
	return s
}

// carried are the workloads that a drain whose hold was lifted left in the middle
// of a move, or parked: whoever drains the host next must not begin with a paused
// workload of which it knows nothing.
func carried(s State) map[fleet.Key]Item {
	var m map[fleet.Key]Item
	for k, it := range s.Items {
		if it.Open() && (it.Move.Underway() || it.Move.Resting() && s.Terminated.IsZero()) {
			it.calm()
			it.Resume = it.goingOn()
			for id, a := range s.Open {
				if a.Key == k && a.Op == OpDo && it.Move.Asked == "" {
					it.Move.Asked = id // nobody will write its outcome into this drain
				}
			}
			m = set(m, k, it)
		}
	}
	return m
}

func named(keys []fleet.Key) map[fleet.Key]bool {
	var m map[fleet.Key]bool
	for _, k := range keys {
		if usable(k) {
			if m == nil {
				m = make(map[fleet.Key]bool, len(keys))
			}
			m[k] = true
		}
	}
	return m
}

func applyBody(s State, e Event, body Body) (State, error) {
	if e.Kind.IsDrive() && e.Epoch < s.Epoch {
		return s, illegal("driven with epoch %d after %d", e.Epoch, s.Epoch)
	}
	switch b := body.(type) {
	case AskExtend, AskStop, AskHandover, AskClass, AskMoreTime, AskHold, AskRetry, AskEscalate, AskKeep, AskTargetGone, AskPark, AskResume:
		return applyAsk(s, e, body)
	case DriveTook:
		return applyTook(s, e, b), nil
	case DriveReleased:
		s.Driver, s.Released = "", e.At
	case DrivePhase:
		return applyPhase(s, e, b)
	case RecUndrain:
		s.Undone, s.Driver = true, ""
		if !s.Phase.Ended() {
			s.Phase, s.Since = Stopped, e.At
		}
	case RecTerminateIntent:
		s.Terminating = Termination{Act: b.Act, At: e.At, By: e.By.Name}
	case RecTerminateOutcome:
		if b.Act == s.Terminating.Act {
			s.Terminating = Termination{}
		}
		if b.Done {
			s.Terminated, s.TerminatedBy = e.At, e.By.Name
			s.Bound = "" // that machine is gone: another may take its name
		}
	case DriveDeadline:
		s.Left = slices.Clone(b.Left)
	case Unrecognised:
		if strings.HasPrefix(string(b.Name), "ask.") || b.Name.IsDrive() {
			s.Newer = fmt.Sprintf("%s v%d", b.Name, b.Version)
		}
	default:
		return applyItems(s, e, body)
	}
	return s, nil
}

// applyTook opens a driver's turn. Timers that run against a workload are moved
// on by the time in which nobody drove.
func applyTook(s State, e Event, b DriveTook) State {
	s.Epoch, s.Driver, s.Released = e.Epoch, b.Driver, time.Time{}
	if s.Machine == "" {
		s.Machine = b.Machine
	}
	s.Bound = s.boundTo(b.Machine)
	if s.Boot == "" {
		s.Boot = b.Boot
	}
	if b.Person {
		s.Person, s.PersonAt = true, e.At
		s.Waiting = fleet.Because(WaitBlind, "gap", b.Blind.Round(time.Second).String())
	}
	if b.Blind <= 0 {
		return s
	}
	// When something vanished is a time of the host, not a countdown: it stays.
	s.Items = s.ownItems()
	for k, it := range s.Items {
		for _, t := range []*time.Time{&it.NoticeAt, &it.AcceptedAt, &it.TermAt, &it.Term2At, &it.FirstAct} {
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
	Verifying:       {Empty, Parked, Draining},
	Parked:          {Verifying, Draining},
	Empty:           {Verifying, Draining},
	DeadlineReached: {Draining, Verifying},
}

func applyPhase(s State, e Event, b DrivePhase) (State, error) {
	ending := (b.Phase == DeadlineReached || b.Phase == Stopped) && s.Phase != Stopped
	if b.Phase != s.Phase && !ending && !slices.Contains(follows[s.Phase], b.Phase) {
		return s, illegal("phase %s after %s", b.Phase, s.Phase)
	}
	s.Issues, s.Waiting, s.Seen = slices.Clone(b.Issues), b.Reason, b.Seen
	if b.Phase != s.Phase {
		s.Phase, s.Since = b.Phase, e.At
		if ending {
			s = triesAnew(s)
		}
	}
	s.Proved = s.Proved || s.Phase == Draining
	return s, nil
}

// triesAnew counts failures of moves anew: what has to be rolled back or finished
// when a drain ends is tried at once, and a few times.
func triesAnew(s State) State {
	var keys []fleet.Key
	for k, it := range s.Items {
		if it.Open() && it.Move.Underway() {
			keys = append(keys, k)
		}
	}
	return changeAll(s, keys, func(it *Item) { it.Fails, it.RetryAt = 0, time.Time{} })
}

// usable reports whether a key can name something in a state: it has a kind
// without a slash, and an id.
func usable(k fleet.Key) bool {
	return k.Kind != "" && k.ID != "" && !strings.Contains(k.Kind, "/")
}

// change returns a state in which one item is changed; without that item, the
// state itself.
func change(s State, k fleet.Key, f func(*Item)) State {
	it, ok := s.Items[k]
	if !ok {
		return s
	}
	f(&it)
	s.Items = s.ownItems()
	s.Items[k] = it
	return s
}

// changeAll is change for many: the map is copied once.
func changeAll(s State, keys []fleet.Key, f func(*Item)) State {
	if len(keys) == 0 {
		return s
	}
	s.Items = s.ownItems()
	for _, k := range keys {
		if it, ok := s.Items[k]; ok {
			f(&it)
			s.Items[k] = it
		}
	}
	return s
}

// without returns a copy of a map that lacks one entry.
func without[K comparable, V any](m map[K]V, k K) map[K]V {
	c := maps.Clone(m)
	delete(c, k)
	return c
}

// set returns a copy of a map with one entry more.
func set[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	c := maps.Clone(m)
	if c == nil {
		c = make(map[K]V, 1)
	}
	c[k] = v
	return c
}
