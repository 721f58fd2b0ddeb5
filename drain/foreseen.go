package drain

import "ebb/fleet"

// Foreseen is a drain with a workload that its first inventory has still to find,
// as it would find it: what a person asks about it before is judged by that. Where
// the inventory has been taken, or the host has no such workload, the drain is as
// it was.
func (s State) Foreseen(k fleet.Key, on fleet.HostView, p Policy) State {
	if _, found := s.Items[k]; found || s.First {
		return s
	}
	for _, f := range on.Findings {
		if f.Key == k {
			s.First, s.Items = true, map[fleet.Key]Item{k: {Found: Classify(f, on.Host, p)}}
			return s
		}
	}
	return s
}
