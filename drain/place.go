package drain

import (
	"cmp"
	"slices"

	"ebb/fleet"
)

// place picks the host on which a replacement starts: reachable, held by
// nothing, not flagged by its plane, of the same pool, with the fewest moves on
// their way and then the fewest workloads. A target that just failed is taken
// only if there is no other.
func (d *decider) place(it Item) (fleet.HostID, string) {
	type candidate struct {
		id        fleet.HostID
		failed    bool
		moves     int
		workloads int
	}
	var fit []candidate
	refused := "there is no other host"
	for _, t := range d.v.Targets {
		if why := d.unfit(t); why != "" {
			refused = t.Host.ID.Name() + ": " + why
			continue
		}
		if d.inbound[t.Host.ID] >= d.p.MovesPerTarget {
			refused = t.Host.ID.Name() + ": it already receives as many moves as it may"
			continue
		}
		failed := it.Target == t.Host.ID // it was tried there, and is being placed anew
		fit = append(fit, candidate{t.Host.ID, failed, d.inbound[t.Host.ID], load(t)})
	}
	if len(fit) == 0 {
		return "", refused
	}
	best := slices.MinFunc(fit, func(a, b candidate) int {
		if a.failed != b.failed {
			if a.failed {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.moves, b.moves), cmp.Compare(a.workloads, b.workloads), cmp.Compare(a.id, b.id))
	})
	return best.id, ""
}

func (d *decider) unfit(t fleet.HostView) string {
	src := d.v.Source.Host
	holds, _, known := t.Holds()
	switch {
	case t.Host.ID == src.ID:
		return "it is the source"
	case t.Host.Pool() != src.Pool():
		return "pool " + quoted(t.Host.Pool()) + ", wanted " + quoted(src.Pool())
	case !t.Unreachable.IsZero() || !known:
		return "it can't be read"
	case holds.Any():
		return "it is held"
	case t.Host.Draining:
		return "its plane keeps work away"
	}
	return ""
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func load(t fleet.HostView) int {
	n := 0
	if s, ok := t.Summary.Get(); ok {
		for _, c := range s.Classes {
			n += c
		}
		return n
	}
	if f, ok := t.Facts.Get(); ok {
		return len(f.Workloads.Value)
	}
	return n
}
