package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ebb/fleet"
)

// View is what was just observed: the source, the targets (where the source may be
// among them, it is none), and what the gate would say. Issues are those of the gate, without anything already accepted.
type View struct {
	Source  fleet.HostView
	Targets []fleet.HostView
	Issues  []fleet.Issue
	// SelfClaims says that the plane claims nothing of its own: what the host
	// recognises is what is claimed.
	SelfClaims bool
	// Anew are the targets that were read for this decision, after everything that
	// the state knows; what the others show may be older.
	Anew []fleet.HostID
	// Promised is what other drains are bringing to the targets.
	Promised map[fleet.HostID][]fleet.Needs
	// Parked is what the journal says is parked on the source, and since when; for a
	// plan, which knows no state.
	Parked map[fleet.Key]time.Time
	// Standing is the drain that would go on, for a plan; zero where a new one would
	// begin.
	Standing State
	// JournalHost is the address of the machine that serves the journal, where
	// that is known.
	JournalHost string
}

// Decision is what to do about a drain: the events to append first, in order,
// then the acts to carry out, and when to look again at the latest.
type Decision struct {
	Events []Body
	Acts   []Act
	Wake   time.Time
}

// Next decides. It is a function of its arguments: called again with the same
// ones it answers the same, and called after its events and intents have been
// folded it asks for nothing twice.
func Next(s State, v View, p Policy, now time.Time) Decision {
	d := &decider{s: s, v: v, p: p, now: now}
	d.run()
	return d.out
}

// decider carries one call of Next. Its state is moved on with every event that
// the call decides upon, so that what follows sees what stands.
type decider struct {
	s       State
	v       View
	p       Policy
	now     time.Time
	facts   fleet.Facts
	out     Decision
	whole   fleet.Reason // why the drain as a whole waits
	waits   []Wait
	keys    []fleet.Key              // of the items, in order
	open    map[fleet.Key][]Act      // acts that have begun and not ended
	moving  int                      // items whose strategy has begun and not ended
	inbound map[fleet.HostID][]Found // what this drain brings to each target
	present map[fleet.Key]bool       // what is on the host
	seen    map[fleet.Key]*Found     // subjects, as this reading shows them
	only    func(Item) bool          // the items that may be acted upon; nil is all
}

func (d *decider) run() {
	if d.s.Drain == "" || d.s.Phase == NoDrain || d.s.Undone && !d.s.Resumes() {
		return
	}
	if d.s.Phase == Stopped || d.s.Undone {
		if d.s.Unsettled() {
			d.unsettled()
		}
		return
	}
	d.wake(d.s.Deadline)
	why := d.readable()
	d.index()
	if d.s.Phase != DeadlineReached && d.s.Phase != Empty && d.s.Phase != Parked && !d.now.Before(d.s.Deadline) {
		d.deadline(why)
		return
	}
	switch {
	case d.s.Newer != "":
		d.wait(fleet.Because(WaitNewer, "kind", d.s.Newer))
		return
	case !why.IsZero():
		d.wait(why)
		return
	case d.rebooted():
		d.wait(fleet.Because(WaitRebooted, "boot", d.facts.Boot))
		return
	}
	switch d.s.Phase {
	case Planned:
		if !d.s.Person {
			d.phase(Cordoning, nil, time.Time{})
		}
	case Cordoning:
		if !d.s.Person {
			d.cordoning()
		}
	default:
		d.draining()
	}
}

// draining is one pass over the workloads. What is there is looked at in any
// case; whether something is done is another question.
func (d *decider) draining() {
	act := d.mayAct()
	d.inventory()
	d.missing(everyone)
	if act || d.only != nil {
		d.strategies()
	}
	d.overdue()
	d.close(act)
	if d.s.Phase == DeadlineReached {
		d.nameLeft()
	}
	d.flushWaits()
}

// readable says why host and plane can't be read well enough to decide anything.
func (d *decider) readable() fleet.Reason {
	f, ok := d.v.Source.Facts.Get()
	if !ok {
		return fleet.Because(WaitUnreachable, "detail", cmp.Or(d.v.Source.Facts.Error, d.v.Source.Problem, "not read yet"), "since", stamp(d.v.Source.Unreachable))
	}
	if want := cmp.Or(d.s.Machine, d.s.Bound); want != "" && f.Machine != want {
		return fleet.Because(WaitOtherMachine, "have", f.Machine, "want", want)
	}
	d.facts = f
	return fleet.Reason{}
}

// index sorts the items and files the open acts by workload.
func (d *decider) index() {
	d.keys = sortedKeys(d.s.Items)
	d.open = make(map[fleet.Key][]Act, len(d.s.Open))
	for _, a := range d.s.Open {
		d.open[a.Key] = append(d.open[a.Key], a)
	}
}

// rebooted ends what ran before a reboot as lost: nothing of the old boot runs.
// What had been seen to be gone before has its own end. It reports whether the
// boot is another one: then a person has to say that the drain goes on.
func (d *decider) rebooted() bool {
	if d.s.Boot == "" || d.facts.Boot == d.s.Boot {
		return false
	}
	var ends []Ended
	for _, k := range d.keys {
		it := d.s.Items[k]
		if !it.Open() || it.Phase == fleet.AtRest || it.Verdict == fleet.Unattributed || it.Move.Underway() || it.Move.Resting() {
			continue
		}
		end := Ended{Key: k, End: Lost, By: "the host was rebooted: boot id " + d.facts.Boot}
		if !it.MissingAt.IsZero() {
			if by := d.cause(it); by != "" {
				end = Ended{Key: k, End: LeftHost, By: by}
			}
		}
		ends = append(ends, end)
	}
	if len(ends) > 0 {
		d.emit(DriveEnded{Ends: ends})
	}
	return true
}

// cordoning asks for both holds until the cordon is shown to have taken at plane
// and host. The act reads both sides back, so repeating it is how a half-done
// cordon is completed.
func (d *decider) cordoning() {
	state := d.v.Source.Cordon
	if state == fleet.Cordoned && d.facts.Holds.Both() && d.facts.Holds.Drain.Drain == d.s.Drain {
		d.phase(Draining, nil, time.Time{})
		return
	}
	if !d.s.CordonFailed { // else the last answer stands as the reason until the next
		d.wait(fleet.Because(WaitCordon, "state", string(state)))
	}
	if again := d.s.CordonAt.Add(d.p.Retry); !d.s.CordonAt.IsZero() && d.now.Before(again) {
		d.wake(again)
		return
	}
	if len(d.s.Open) == 0 {
		d.out.Acts = append(d.out.Acts, Act{ID: fmt.Sprintf("%s/cordon/%d.%d", d.prefix(), d.s.Epoch, d.s.Num), Kind: ActCordon})
	}
}

// mayAct reports whether anything may be done in this pass, and says why not, and
// to what alone something may be done even so. A hold that somebody lifted in mid-drain is not set again by
// itself: that was a decision.
func (d *decider) mayAct() bool {
	h := d.facts.Holds
	switch {
	case h.Drain == nil || h.Drain.Drain != d.s.Drain:
		d.whole = fleet.Because(WaitHold, "what", "drain")
		return false
	case h.Cordon == nil:
		d.whole = fleet.Because(WaitHold, "what", "cordon")
		return false
	case !d.s.Proved: // its deadline came first: not even what a person names is acted upon
		d.whole = fleet.Because(WaitCordon, "state", string(d.v.Source.Cordon))
		if !d.s.Person { // but what a drain before it, or an earlier proof, has left half done is not left so
			d.only = func(it Item) bool { return it.Escalated == "" && it.Move.Underway() }
		}
		return false
	case d.s.Person:
		d.whole = fleet.Because(WaitBlind)
		if d.s.Waiting.Code == WaitBlind {
			d.whole = d.s.Waiting
		}
		d.only = func(it Item) bool { return it.Escalated != "" && !it.EscalatedAt.Before(d.s.PersonAt) }
	case !d.v.SelfClaims && d.v.Source.Claims.Status != fleet.OK:
		// An expiry may have been renewed, an orphan may be claimed: without the
		// claims only what a person named, or what was flipped already, goes on.
		d.whole = fleet.Because(WaitPlane, "detail", d.v.Source.Claims.Error)
		d.only = func(it Item) bool {
			return it.Escalated != "" || !it.FlippedAt.IsZero() || it.Move.NoReturn || it.Move.Undoing || d.rollback(it) != ""
		}
	}
	return true
}

// emit records an event, and moves the decider's own state on as its fold will.
func (d *decider) emit(b Body) {
	d.out.Events = append(d.out.Events, b)
	if next, err := applyBody(d.s.owned(), Event{At: d.now, Kind: b.Kind(), Epoch: d.s.Epoch}, b); err == nil {
		d.s = next
	}
}

// phase moves the drain on, and asks to be called again at once.
func (d *decider) phase(p Phase, issues []fleet.Issue, seen time.Time) {
	if p != d.s.Phase {
		d.wake(d.now.Add(time.Millisecond))
	}
	d.emit(DrivePhase{Phase: p, Issues: issues, Seen: seen})
}

// wake asks to be called no later than t.
func (d *decider) wake(t time.Time) {
	if t.After(d.now) && (d.out.Wake.IsZero() || t.Before(d.out.Wake)) {
		d.out.Wake = t
	}
}

// busy reports whether an act on the workload has begun and not ended.
func (d *decider) busy(k fleet.Key) bool { return len(d.open[k]) > 0 }

func (d *decider) starting(k fleet.Key) bool {
	return slices.ContainsFunc(d.open[k], func(a Act) bool { return a.Step == StepStart })
}

func (d *decider) signalling(k fleet.Key) bool {
	return slices.ContainsFunc(d.open[k], func(a Act) bool { return a.Kind == ActSignal })
}

// act asks for an act on a workload, with an id that another driver in the same
// state would give it too, and that no other act ever has.
func (d *decider) act(it Item, a Act) {
	a.Key = it.Key
	a.ID = fmt.Sprintf("%s/%s/%s/%d", d.prefix(), handle(it.Key), a.tag(), it.Tries[a.tag()]+1)
	d.out.Acts = append(d.out.Acts, a)
}

func (d *decider) prefix() string {
	if d.s.Round == 0 {
		return d.s.Drain
	}
	return fmt.Sprintf("%s~%d", d.s.Drain, d.s.Round)
}

// overdue says which move budgets have run out.
func (d *decider) overdue() {
	var keys []fleet.Key
	for _, k := range d.keys {
		it := d.s.Items[k]
		if !it.Open() || it.Overdue || it.FirstAct.IsZero() || it.Budget.Move == 0 || it.Move.Resting() {
			continue
		}
		if due := it.FirstAct.Add(it.Budget.Move); !d.now.Before(due) {
			keys = append(keys, k)
		} else {
			d.wake(due)
		}
	}
	if len(keys) > 0 {
		d.emit(DriveLate{Keys: keys})
	}
}
