package drain

import (
	"time"

	"ebb/fleet"
)

// Remains is what the start of a replacement may have left on its target although
// its lever says that it failed: half of it may run. It is taken back there before
// a replacement is started anywhere.
type Remains struct {
	Lever  string       `json:"lever,omitempty"`
	Target fleet.HostID `json:"target,omitempty"`
}

// IsZero reports whether there is nothing to take back.
func (r Remains) IsZero() bool { return r == Remains{} }

// leaves reports whether an outcome may have left something. What was refused has
// not begun.
func (b DriveOutcome) leaves(a Act) bool {
	return a.Kind == ActLever && a.Step == StepStart && a.Op != OpUndo && b.Result == FailedAct
}

// takeBack has the lever undo a start that failed. Until it says that nothing is
// left there, nothing is started elsewhere.
func (d *decider) takeBack(it Item) {
	r := it.Remains
	if d.beyondReach(it) || d.delayed(it) {
		return
	}
	d.act(it, Act{Kind: ActLever, Op: OpUndo, Step: StepStart, Lever: r.Lever, Target: r.Target})
	d.because(it, fleet.Because(WaitUndo, "step", string(StepStart), "why", "it failed"))
}

// gone reports whether the target on which something of an item may run is listed
// no more, and has not been for longer than a reading takes to be renewed. What
// became of it there can't be found out then: a person says so (AskTargetGone).
func (d *decider) gone(it Item) bool {
	if _, doubt := d.s.InDoubt(it.Key); !doubt {
		return false
	}
	since := it.FirstAct
	if it.Unsure.At.After(since) {
		since = it.Unsure.At
	}
	_, listed := d.target(it.Target)
	return !listed && d.now.Sub(since) > d.p.CacheWindow
}

// beyondReach reports whether an item can't go on because its target is gone, and
// says so.
func (d *decider) beyondReach(it Item) bool {
	if !d.gone(it) {
		return false
	}
	d.because(it, fleet.Because(WaitTargetGone, "target", it.Target.Name()))
	return true
}

// InDoubt names the target on which a replacement of a workload may run of which
// it is not known whether it answers. One that has left the host is in doubt while
// an act there has no outcome: that too stands in the way of a proof.
func (s State) InDoubt(k fleet.Key) (on fleet.HostID, doubt bool) {
	it := s.Items[k]
	if it.Open() {
		flipped := !it.FlippedAt.IsZero() && !it.HealthyAt.IsZero() // else it is asked anew whether it answers
		if it.Target == "" || flipped || it.Move.Underway() {
			return "", false
		}
		if !it.Unsure.IsZero() || !it.Remains.IsZero() || !it.StartedAt.IsZero() && it.HealthyAt.IsZero() {
			return it.Target, true
		}
	}
	for _, a := range s.Open {
		if a.Key == k && a.replaces() {
			return a.Target, true
		}
	}
	return "", false
}

// replaces reports whether an act is about a replacement on a target.
func (a Act) replaces() bool { return a.Target != "" && (a.Step == StepStart || a.Step == StepHealth) }

// applyTargetGone takes a person's word that a target will run nothing again: what
// was started there counts for nothing, nor does the flip to it; acts there are not
// asked about any more, and a replacement is started elsewhere. A move's other copy is another matter:
// only its lever can say that it is gone.
func applyTargetGone(s State, e Event, a AskTargetGone) (State, error) {
	if on, doubt := s.InDoubt(a.Key); !doubt || on != a.Target {
		return s, illegal("nothing of %s is in doubt on %s", a.Key, a.Target)
	}
	for id, act := range s.Open {
		if act.Key == a.Key && act.Target == a.Target && act.replaces() {
			s.Open = without(s.Open, id)
		}
	}
	return change(s, a.Key, func(it *Item) {
		it.Unsure, it.Remains, it.StartedAt, it.HealthyAt, it.FlippedAt = Unsure{}, Remains{}, time.Time{}, time.Time{}, time.Time{}
		it.Move.Asked, it.Move.Failed, it.Move.Result = "", "", ""
		it.RetryAt, it.Fails = time.Time{}, 0
		if !it.Held && !it.Keep {
			it.Reason = fleet.Reason{}
		}
	}), nil
}
