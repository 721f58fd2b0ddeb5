package proof

import (
	"cmp"
	"slices"

	"ebb/fleet"
)

// surveyed is what stands on a host once the host's own and the kept things are
// set aside. Digest and issues are made from the same survey, so that nothing
// can be in the one and escape the other.
type surveyed struct {
	processes []fleet.Process
	workloads []fleet.Workload
	resources []fleet.Resource
	holders   []holder
	kept      []Kept

	present map[fleet.Key]bool // workloads that run or rest, kept ones too
}

// holder is a process that has a GPU open.
type holder struct {
	gpu    fleet.GPU
	run    fleet.Run
	listed bool // it is among processes
}

// survey looks at the values of all readings, even of those that did not
// answer: whatever is seen at all counts.
func survey(f fleet.Facts) surveyed {
	s := surveyed{present: map[fleet.Key]bool{}}
	keptOwner, keptThing := map[fleet.Key]bool{}, map[fleet.Key]bool{}
	for _, w := range f.Workloads.Value {
		s.present[w.Key] = true
		if w.Kept == "" {
			s.workloads = append(s.workloads, w)
			continue
		}
		s.kept = append(s.kept, Kept{Key: w.Key, Rule: w.Kept})
		keptOwner[w.Key] = true
		for _, k := range w.Owns {
			keptThing[k] = true
		}
	}
	aside := map[fleet.Run]bool{}
	listed := map[fleet.Run]bool{}
	for _, p := range f.Processes.Value {
		switch {
		case p.Kept != "":
			s.kept = append(s.kept, Kept{Key: p.Key(), Name: p.Comm, Rule: p.Kept})
			aside[p.Run] = true
		case !p.Owner.IsZero() && keptOwner[p.Owner], p.Owner.IsZero() && p.System != "":
			aside[p.Run] = true
		default:
			s.processes = append(s.processes, p)
			listed[p.Run] = true
		}
	}
	for _, list := range [][]fleet.Resource{f.Netns.Value, f.Loops.Value, f.Dirs.Value} {
		for _, r := range list {
			if r.System == "" && !keptThing[r.Key] && !keptOwner[r.Owner] {
				s.resources = append(s.resources, r)
			}
		}
	}
	for _, g := range f.GPUs.Value {
		for _, run := range g.Holders {
			if !aside[run] {
				s.holders = append(s.holders, holder{gpu: g, run: run, listed: listed[run]})
			}
		}
	}
	return s
}

// KeptOf lists what stays on the host by a keep rule, sorted, for the document.
func KeptOf(f fleet.Facts) []Kept {
	kept := survey(f).kept
	slices.SortFunc(kept, func(a, b Kept) int {
		return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Name, b.Name))
	})
	return kept
}
