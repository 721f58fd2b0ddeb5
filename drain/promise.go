package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// coming reports whether something of an item is on its way to its target, or may
// be.
func (s State) coming(it Item) bool {
	if !it.Open() || it.Target == "" {
		return false
	}
	if !it.StartedAt.IsZero() || !it.Unsure.IsZero() || !it.Remains.IsZero() || it.Move.Underway() {
		return true
	}
	for _, a := range s.Open {
		if a.Key == it.Key && a.Step == StepStart {
			return true
		}
	}
	return false
}

// Places reports whether an act is the one that chooses where its workload goes.
func (a Act) Places() bool {
	return a.Target != "" && (a.Op == "" || a.Op == OpDo) && (a.Step == StepStart || len(a.Steps) > 0)
}

// Crowded says why the target of an act, whose intent stands, has no room for it
// any more: promised is what other drains chose before. It is the last look
// before the act, because two that decide at the same time see the same free
// room; the journal says which of them was first.
func Crowded(s State, v View, promised map[fleet.HostID][]fleet.Needs, a Act) fleet.Reason {
	it, ok := s.Items[a.Key]
	if !ok {
		return fleet.Reason{}
	}
	var inbound []Found
	for _, k := range sortedKeys(s.Items) {
		if other := s.Items[k]; k != a.Key && other.Target == a.Target && s.coming(other) {
			inbound = append(inbound, other.Found)
		}
	}
	only := slices.DeleteFunc(slices.Clone(v.Targets), func(t fleet.HostView) bool { return t.Host.ID != a.Target })
	_, why := Place(Placing{Found: it.Found, For: s.For, Source: v.Source, Targets: only,
		Inbound: map[fleet.HostID][]Found{a.Target: inbound}, Promised: promised})
	return why
}

// withdrawn takes an intent back: it is placed anew, a little later.
func (it *Item) withdrawn(a Act, b DriveOutcome, at time.Time) {
	it.RetryAt, it.Placed = at, 0
	if a.Op == OpDo && len(a.Steps) > 0 {
		it.Move = it.Move.undone(a.Step)
	}
	if !it.Held && !it.Keep {
		it.Reason = b.Reason
	}
}
