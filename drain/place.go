package drain

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"ebb/fleet"
)

// Placing is the question on which host a workload goes on. It is answered from
// what the agents report: an offer where they state one (capacity, versions,
// labels), what runs there, holds; and from what is on its way there already. A
// host that says nothing about its capacity is not thought to be full.
//
// Versions must be equal, by name: those that the workload names, and for one
// that is restored from its state also that which the drain is about. In the
// middle of a new engine on every host, a snapshot of the old one goes to a host
// that still has the old one, whether the workload thought of that or not; where
// this host states no version of it, there is nothing to compare.
type Placing struct {
	Found  Found
	For    fleet.Purpose
	Source fleet.HostView
	// Avoid is where it has just failed: taken only if there is no other.
	Avoid    fleet.HostID
	Targets  []fleet.HostView
	Inbound  map[fleet.HostID][]Found       // what this drain brings there
	Promised map[fleet.HostID][]fleet.Needs // what other drains bring there
	Limit    int                            // moves of this drain to one target
}

// candidate is a host that can take the workload.
type candidate struct {
	id        fleet.HostID
	failed    int
	together  int // 2 where another of its group is on the host, 1 in the rack
	moves     int
	workloads int
}

// Place picks a host, or says why the nearest one can't take it. Among those that
// can it prefers one without another of its group, first on the host and then in
// the rack; then the fewest moves on their way, then the fewest workloads.
func Place(p Placing) (fleet.HostID, fleet.Reason) {
	var fit []candidate
	refused, nearest := fleet.Because(WaitNoTarget, "why", "there is no other host"), 0
	racks := p.racks()
	for _, t := range p.Targets {
		if t.Host.ID == p.Source.Host.ID {
			continue
		}
		why, how := p.unfit(t)
		if !why.IsZero() {
			if how >= nearest {
				refused, nearest = why, how
			}
			continue
		}
		c := candidate{id: t.Host.ID, moves: len(p.Inbound[t.Host.ID]) + len(p.Promised[t.Host.ID]), workloads: load(t)}
		if t.Host.ID == p.Avoid {
			c.failed = 1
		}
		switch group := p.Found.Needs.Group; {
		case group == "":
		case p.has(t, group):
			c.together = 2
		case t.Host.Labels["rack"] != "" && racks[t.Host.Labels["rack"]]:
			c.together = 1
		}
		fit = append(fit, c)
	}
	if len(fit) == 0 {
		return "", refused
	}
	best := slices.MinFunc(fit, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.failed, b.failed), cmp.Compare(a.together, b.together), cmp.Compare(a.moves, b.moves),
			cmp.Compare(a.workloads, b.workloads), cmp.Compare(a.id, b.id))
	})
	return best.id, fleet.Reason{}
}

// unfit says why a host can't take the workload, and how near it came: a full
// host is worth more words than one that is held.
func (p Placing) unfit(t fleet.HostView) (fleet.Reason, int) {
	src := p.Source.Host
	holds, _, known := t.Holds()
	no := func(why string) (fleet.Reason, int) {
		return fleet.Because(WaitNoTarget, "why", t.Host.ID.Name()+": "+why), 1
	}
	switch {
	case t.Host.Pool() != src.Pool():
		return no("pool " + quoted(t.Host.Pool()) + ", wanted " + quoted(src.Pool()))
	case !t.Unreachable.IsZero() || !known:
		return no("it can't be read")
	case holds.Any():
		return no("it is held")
	case t.Host.Draining:
		return no("its plane keeps work away")
	}
	if r := p.incompatible(t); !r.IsZero() {
		return r, 2
	}
	if p.Limit > 0 && len(p.Inbound[t.Host.ID]) >= p.Limit {
		r, _ := no("it already receives as many moves as it may")
		return r, 3
	}
	return p.noRoom(t), 4
}

// incompatible compares labels and versions.
func (p Placing) incompatible(t fleet.HostView) fleet.Reason {
	offer, host := offerOf(t), t.Host
	differs := func(what, has, wants string) fleet.Reason {
		return fleet.Because(WaitIncompatible, "what", what, "has", quoted(has), "wants", wants, "host", host.ID.Name())
	}
	labels := p.Found.Needs.Labels
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		has, ok := host.Labels[k]
		if !ok {
			has = offer.Labels[k]
		}
		if has != labels[k] {
			return differs("label "+k, has, labels[k])
		}
	}
	want := p.compat()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if has := offer.Compat[name]; has != want[name] || has == "" {
			return differs(name, has, quoted(want[name]))
		}
	}
	return fleet.Reason{}
}

// compat is which versions the target must have.
func (p Placing) compat() map[string]string {
	here := offerOf(p.Source).Compat
	want := make(map[string]string, len(p.Found.Needs.Compat)+1)
	for name, version := range p.Found.Needs.Compat {
		want[name] = cmp.Or(version, here[name])
	}
	if p.Found.Class != fleet.Pausable {
		return want
	}
	switch p.For {
	case fleet.ForEngine, fleet.ForDriver, fleet.ForKernel:
		name := string(p.For)
		if _, named := want[name]; !named && here[name] != "" {
			want[name] = here[name]
		}
	}
	return want
}

// noRoom counts what is there and what is on its way.
func (p Placing) noRoom(t fleet.HostView) fleet.Reason {
	offer, used := offerOf(t), p.used(t)
	full := func(what string, used, wants, of int) fleet.Reason {
		return fleet.Because(WaitNoRoom, "what", what, "has", strconv.Itoa(max(of-used, 0)), "wants", strconv.Itoa(wants), "host", t.Host.ID.Name())
	}
	n := p.Found.Needs
	kind := p.Found.Key.Kind
	limit, limited := offer.Kinds[kind]
	switch wants := slots(n); {
	case offer.Slots > 0 && used.slots+wants > offer.Slots:
		return full("slots", used.slots, wants, offer.Slots)
	case limited && used.kind+1 > limit:
		return full("places for kind "+kind, used.kind, 1, limit)
	case n.GPUs > 0 && (offer.GPUs > 0 || !offer.IsZero()) && used.gpus+n.GPUs > offer.GPUs:
		return full("GPUs", used.gpus, n.GPUs, offer.GPUs)
	}
	return fleet.Reason{}
}

type usage struct{ slots, gpus, kind int }

// used is what a target has, and what will come: a workload of this drain that is
// already seen there counts once.
func (p Placing) used(t fleet.HostView) usage {
	var u usage
	there := map[fleet.Key]bool{}
	kind := p.Found.Key.Kind
	add := func(n fleet.Needs, same bool) {
		u.slots += slots(n)
		u.gpus += n.GPUs
		if same {
			u.kind++
		}
	}
	if f, ok := t.Facts.Get(); ok {
		for _, w := range f.Workloads.Value {
			if w.Phase == fleet.Gone {
				continue
			}
			there[w.Key] = true
			n := w.Needs
			n.GPUs = max(n.GPUs, len(w.GPUs))
			add(n, w.Key.Kind == kind)
		}
	} else if s, ok := t.Summary.Get(); ok {
		u.slots, u.gpus, u.kind = load(t), s.GPUs[0], s.Kinds[kind]
	}
	for _, f := range p.Inbound[t.Host.ID] {
		if !there[f.Key] {
			add(f.Needs, f.Key.Kind == kind)
		}
	}
	for _, n := range p.Promised[t.Host.ID] {
		add(n, false)
	}
	return u
}

// has reports whether a host has another of a group, or will.
func (p Placing) has(t fleet.HostView, group string) bool {
	if f, ok := t.Facts.Get(); ok {
		for _, w := range f.Workloads.Value {
			if w.Needs.Group == group && w.Phase != fleet.Gone && w.Key != p.Found.Key {
				return true
			}
		}
	}
	if s, ok := t.Summary.Get(); ok && slices.Contains(s.Groups, group) {
		return true
	}
	return slices.ContainsFunc(p.Inbound[t.Host.ID], func(f Found) bool { return f.Needs.Group == group && f.Key != p.Found.Key }) ||
		slices.ContainsFunc(p.Promised[t.Host.ID], func(n fleet.Needs) bool { return n.Group == group })
}

// racks are those in which another of the workload's group is.
func (p Placing) racks() map[string]bool {
	racks := map[string]bool{}
	if p.Found.Needs.Group == "" {
		return racks
	}
	for _, t := range p.Targets {
		if rack := t.Host.Labels["rack"]; rack != "" && t.Host.ID != p.Source.Host.ID && p.has(t, p.Found.Needs.Group) {
			racks[rack] = true
		}
	}
	return racks
}

func slots(n fleet.Needs) int { return max(n.Slots, 1) }

// offerOf is what a host says that it can take, as far as it has been read.
func offerOf(v fleet.HostView) fleet.Offer {
	if f, ok := v.Facts.Get(); ok && !f.Offer.IsZero() {
		return f.Offer
	}
	s, _ := v.Summary.Get()
	return s.Offer
}

// place asks for a target for an item.
func (d *decider) place(it Item) (fleet.HostID, fleet.Reason) {
	return Place(Placing{Found: it.Found, For: d.s.For, Source: d.v.Source, Avoid: it.Target, Targets: d.v.Targets,
		Inbound: d.inbound, Promised: d.v.Promised, Limit: d.p.MovesPerTarget})
}

// promise counts an item among what is on its way to a target.
func (d *decider) promise(target fleet.HostID, it Item) {
	if target != "" {
		d.inbound[target] = append(d.inbound[target], it.Found)
	}
}

// Promises is what a drain is bringing to other hosts, for those that place at
// the same time: from the intent on that chose the target. With a number, it is
// only what was chosen before that event of the journal.
func (s State) Promises(before uint64) map[fleet.HostID][]fleet.Needs {
	var m map[fleet.HostID][]fleet.Needs
	for _, k := range sortedKeys(s.Items) {
		it := s.Items[k]
		if before > 0 && it.Placed >= before || s.Over() && !it.Move.Underway() {
			continue
		}
		if it.FlippedAt.IsZero() && s.coming(it) {
			if m == nil {
				m = map[fleet.HostID][]fleet.Needs{}
			}
			m[it.Target] = append(m[it.Target], it.Needs)
		}
	}
	return m
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
