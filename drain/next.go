package drain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ebb/fleet"
)

// View is what was just observed: the source, the targets, and what the gate
// would say. Issues are those of the gate, without anything already accepted.
type View struct {
	Source  fleet.HostView
	Targets []fleet.HostView
	Issues  []fleet.Issue
	// SelfClaims says that the plane claims nothing of its own: what the host
	// recognises is what is claimed.
	SelfClaims bool
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

// decider carries one call of Next.
type decider struct {
	s       State
	v       View
	p       Policy
	now     time.Time
	facts   fleet.Facts
	out     Decision
	waits   []Wait
	moving  int                    // items whose strategy has begun and not ended
	inbound map[fleet.HostID]int   // moves towards each target
	present map[fleet.Key]struct{} // open items that are on the host
}

func (d *decider) run() {
	if d.s.Drain == "" || d.s.Phase == Stopped || d.s.Phase == NoDrain || d.s.Undone {
		return
	}
	d.wake(d.s.Deadline)
	late := d.s.Phase != DeadlineReached && d.s.Phase != Empty && !d.now.Before(d.s.Deadline)
	if late {
		d.deadline()
		return
	}
	if !d.readable() {
		return
	}
	if d.s.Boot != "" && d.facts.Boot != d.s.Boot {
		d.rebooted()
		return
	}
	if d.s.Person {
		return
	}
	switch d.s.Phase {
	case Planned:
		d.phase(Cordoning, fleet.Reason{}, nil)
		return
	case Cordoning:
		d.cordoning()
		return
	}
	if !d.held() {
		return
	}
	d.inventory()
	d.missing()
	if d.claimed() {
		d.strategies()
	}
	d.overdue()
	d.close()
	d.flushWaits()
}

// readable reports whether host and plane could be read well enough to decide
// anything, and says why not.
func (d *decider) readable() bool {
	f, ok := d.v.Source.Facts.Get()
	if !ok {
		d.wait(fleet.Because(WaitUnreachable, "detail", cmp.Or(d.v.Source.Facts.Error, d.v.Source.Problem, "not read yet"), "since", stamp(d.v.Source.Unreachable)))
		return false
	}
	d.facts = f
	if d.s.Machine != "" && f.Machine != d.s.Machine {
		d.wait(fleet.Because(WaitOtherMachine, "have", f.Machine, "want", d.s.Machine))
		return false
	}
	return true
}

// rebooted ends every open workload as lost: nothing of the old boot runs.
func (d *decider) rebooted() {
	var ends []Ended
	for _, k := range sortedKeys(d.s.Items) {
		it := d.s.Items[k]
		if it.Open() && it.Phase != fleet.AtRest && it.Verdict != fleet.Unattributed {
			ends = append(ends, Ended{Key: k, End: Lost, By: "the host was rebooted: boot id " + d.facts.Boot})
		}
	}
	if len(ends) > 0 {
		d.emit(DriveEnded{Ends: ends})
	}
	d.wait(fleet.Because(WaitRebooted, "boot", d.facts.Boot))
}

func (d *decider) cordoning() {
	state := d.v.Source.Cordon
	if state == fleet.Cordoned && d.facts.Holds.Both() && d.facts.Holds.Drain.Drain == d.s.Drain {
		d.phase(Draining, fleet.Reason{}, nil)
		return
	}
	if !d.s.Waiting.IsZero() && d.now.Before(d.s.LastAt.Add(d.p.Retry)) {
		d.wake(d.s.LastAt.Add(d.p.Retry))
		return
	}
	if len(d.s.Open) == 0 {
		// One act a driver and second: the plane's and the host's answers are read
		// back by it, so repeating it is how a half-done cordon is completed.
		d.out.Acts = append(d.out.Acts, Act{ID: fmt.Sprintf("%s/cordon/%d.%d", d.s.Drain, d.s.Epoch, d.s.Num), Kind: ActCordon})
	}
}

// held reports whether both holds still stand at the host. A hold that somebody
// lifted in mid-drain is not set again: that was a decision.
func (d *decider) held() bool {
	h := d.facts.Holds
	switch {
	case h.Drain == nil || h.Drain.Drain != d.s.Drain:
		d.wait(fleet.Because(WaitHold, "what", "drain"))
	case h.Cordon == nil:
		d.wait(fleet.Because(WaitHold, "what", "cordon"))
	default:
		return true
	}
	return false
}

// claimed reports whether the plane could be read. Without its claims nothing
// new is begun: an expiry may have been renewed, an orphan may be claimed.
func (d *decider) claimed() bool {
	if d.v.SelfClaims || d.v.Source.Claims.Status == fleet.OK {
		return true
	}
	d.waits = append(d.waits, Wait{Reason: fleet.Because(WaitPlane, "detail", d.v.Source.Claims.Error)})
	return false
}

func (d *decider) emit(b Body) { d.out.Events = append(d.out.Events, b) }

func (d *decider) phase(p Phase, r fleet.Reason, issues []fleet.Issue) {
	d.emit(DrivePhase{Phase: p, Reason: r, Issues: issues})
}

// wake asks to be called no later than t.
func (d *decider) wake(t time.Time) {
	if t.After(d.now) && (d.out.Wake.IsZero() || t.Before(d.out.Wake)) {
		d.out.Wake = t
	}
}

// wait records why the drain as a whole waits, if that is news.
func (d *decider) wait(r fleet.Reason) {
	if !d.s.Waiting.Equal(r) {
		d.emit(DriveWaits{Reasons: []Wait{{Reason: r}}})
	}
}

// because records why one workload waits, if that is news.
func (d *decider) because(it Item, r fleet.Reason) {
	if !it.Reason.Equal(r) {
		d.waits = append(d.waits, Wait{Key: it.Key, Reason: r})
	}
}

// flushWaits records the reasons that are news. What the drain as a whole waited
// for is over unless this pass said it again.
func (d *decider) flushWaits() {
	whole := fleet.Reason{}
	d.waits = slices.DeleteFunc(d.waits, func(w Wait) bool {
		if w.Key.IsZero() {
			whole = w.Reason
		}
		return w.Key.IsZero()
	})
	if !d.s.Waiting.Equal(whole) {
		d.waits = append(d.waits, Wait{Reason: whole})
	}
	if len(d.waits) > 0 {
		d.emit(DriveWaits{Reasons: d.waits})
	}
}

// busy reports whether an act on the workload has begun and not ended.
func (d *decider) busy(k fleet.Key) bool {
	for _, a := range d.s.Open {
		if a.Key == k {
			return true
		}
	}
	return false
}

// act asks for an act on a workload, with an id that another driver in the same
// state would give it too.
func (d *decider) act(it Item, a Act) {
	a.Key = it.Key
	a.ID = fmt.Sprintf("%s/%s/%s/%d", d.s.Drain, it.Key, a.Step, it.Tries[a.Step]+1)
	d.out.Acts = append(d.out.Acts, a)
}

// overdue says which move budgets have run out.
func (d *decider) overdue() {
	var keys []fleet.Key
	for _, k := range sortedKeys(d.s.Items) {
		it := d.s.Items[k]
		if !it.Open() || it.Overdue || it.FirstAct.IsZero() || it.Budget.Move == 0 {
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

// close moves the drain to verifying, empty, or back, by what is left.
func (d *decider) close() {
	open := 0
	for _, it := range d.s.Items {
		if it.Open() && !it.Keep {
			open++
		}
	}
	if open > 0 || d.found() || d.ended() {
		if d.s.Phase == Verifying || d.s.Phase == Empty {
			d.phase(Draining, fleet.Reason{}, nil)
		}
		return
	}
	switch {
	case d.s.Phase == DeadlineReached && len(d.v.Issues) == 0:
		d.phase(Verifying, fleet.Reason{}, nil)
		d.phase(Empty, fleet.Reason{}, nil)
	case d.s.Phase == DeadlineReached && !slices.Equal(d.s.Issues, d.v.Issues):
		d.phase(DeadlineReached, fleet.Reason{}, d.v.Issues)
	case d.s.Phase == DeadlineReached:
	case d.s.Phase == Draining:
		d.phase(Verifying, fleet.Reason{}, d.v.Issues)
	case d.s.Phase == Verifying && len(d.v.Issues) == 0:
		d.phase(Empty, fleet.Reason{}, nil)
	case d.s.Phase == Empty && len(d.v.Issues) > 0, !slices.Equal(d.s.Issues, d.v.Issues):
		d.phase(Verifying, fleet.Reason{}, d.v.Issues)
	}
}

// found and ended report whether this very pass records such events: then the
// state that close looks at is about to change.
func (d *decider) found() bool {
	return slices.ContainsFunc(d.out.Events, func(b Body) bool { _, ok := b.(DriveFound); return ok })
}

func (d *decider) ended() bool {
	return slices.ContainsFunc(d.out.Events, func(b Body) bool { _, ok := b.(DriveEnded); return ok })
}

// deadline names what is left. Nothing new begins after it.
func (d *decider) deadline() {
	var left []Left
	for _, k := range sortedKeys(d.s.Items) {
		if it := d.s.Items[k]; it.Open() {
			left = append(left, Left{Key: k, Class: it.Class, Owner: it.Owner, Step: it.Step, Reason: it.Reason})
		}
	}
	for _, is := range d.v.Issues {
		if !slices.ContainsFunc(left, func(l Left) bool { return l.Key == is.Key && !is.Key.IsZero() }) {
			left = append(left, Left{Key: is.Key, Reason: fleet.Because("issue", "check", is.Check, "detail", is.Detail)})
		}
	}
	ev := DriveDeadline{Left: left}
	if d.v.Source.Facts.Status != fleet.OK {
		ev.Age = "the host can't be read: this is what was last known"
		if at := d.s.LastAt; !at.IsZero() {
			ev.Age += ", " + d.now.Sub(at).Round(time.Second).String() + " old"
		}
	}
	d.emit(ev)
	d.phase(DeadlineReached, fleet.Reason{}, d.v.Issues)
}

func sortedKeys(m map[fleet.Key]Item) []fleet.Key {
	keys := make([]fleet.Key, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, fleet.Key.Compare)
	return keys
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
