package probes

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"ebb/fleet"
)

// world is everything that was read, while it is joined.
type world struct {
	table     *table
	manifests []manifest
	netns     []nsEntry // empty where the namespaces could not be read
	rules     []fleet.WorkloadRule
	system    systemRules
	keep      []fleet.KeepRule
	units     bool // the preset "systemd"

	workloads map[fleet.Key]*work
	mains     map[*proc]*work
	owners    map[fleet.Key]*work // by what they own
}

// work is a workload with its processes.
type work struct {
	fleet.Workload
	main *proc
	runs []*proc
}

// attribute finds the workloads and gives every process its owner, or else the
// reason for which it is the host's own. An error means that the workloads are
// not to be relied on; what processes are is still told as far as it is known.
func (w *world) attribute() error {
	w.workloads = make(map[fleet.Key]*work)
	w.mains = make(map[*proc]*work)
	w.fromManifests()
	err := checkRules(w.rules)
	if err == nil {
		err = w.fromRules()
	}
	if w.units {
		w.fromUnits()
	}
	w.index()
	w.members()
	for _, p := range w.table.procs {
		if p.Owner.IsZero() {
			p.System = w.system.why(p, w.table)
		}
	}
	w.applyKeep()
	return err
}

func (w *world) fromManifests() {
	for _, m := range w.manifests {
		k := &work{Workload: fleet.Workload{
			Key: m.key(), Rule: PresetManifest, Phase: fleet.Gone, Declared: true, Class: m.Class, Owner: m.Owner, Grace: m.grace,
			Expires: m.Expires, Owns: owned(m.Owns, m.ID), GPUs: slices.Clone(m.GPUs), Labels: m.Labels,
			Start: m.Start, Health: m.Health, Stop: m.Stop, Needs: m.Needs,
		}}
		if m.rests {
			k.Phase = fleet.AtRest
		}
		w.workloads[k.Key] = k
		if p := m.process(w.table); p != nil && w.system.fixed(p) == "" {
			w.lead(k, p)
		}
	}
}

// fromRules gives every process that a rule fits to its workload. Where two
// have the same id, both run: the older one is the main process.
func (w *world) fromRules() error {
	var failed error
	for _, p := range w.table.procs {
		if p.zombie() || w.system.fixed(p) != "" || w.mains[p] != nil {
			continue
		}
		rule, id, err := recognise(w.rules, p)
		if err != nil {
			failed = errors.Join(failed, err)
		}
		if rule == nil {
			continue
		}
		key := fleet.Key{Kind: rule.Kind, ID: id}
		k := w.workloads[key]
		if k == nil {
			k = &work{Workload: fleet.Workload{Key: key, Rule: ruleName(rule)}}
			w.workloads[key] = k
		}
		k.fill(rule)
		w.lead(k, p)
	}
	return failed
}

func ruleName(r *fleet.WorkloadRule) string { return cmp.Or(r.Name, r.Kind) }

// fill adds what a rule says to what its owner's manifest has not said.
func (k *work) fill(r *fleet.WorkloadRule) {
	k.Class = cmp.Or(k.Class, r.Class)
	k.Owner, k.Grace = cmp.Or(k.Owner, r.Owner), max(k.Grace, r.Grace)
	k.Start, k.Health, k.Stop = cmp.Or(k.Start, r.Start), cmp.Or(k.Health, r.Health), cmp.Or(k.Stop, r.Stop)
	if k.Needs.IsZero() {
		k.Needs = r.Needs
	}
	if k.Labels == nil {
		k.Labels = maps.Clone(r.Labels)
	}
	k.Owns = append(k.Owns, owned(r.Owns, k.Key.ID)...)
	slices.SortFunc(k.Owns, fleet.Key.Compare)
	k.Owns = slices.Compact(k.Owns)
}

// lead makes a process one of a workload's main processes.
func (w *world) lead(k *work, p *proc) {
	w.mains[p] = k
	k.Phase = fleet.Running
	if k.main == nil || k.Rule != PresetManifest && p.start < k.main.start {
		k.main = p
	}
}

// fromUnits makes a workload of each systemd unit that is not the host's own
// and whose main process nothing else has recognised. The main process is the
// lowest pid that was started from outside the unit.
func (w *world) fromUnits() {
	headed := make(map[string]bool) // by a workload that something else recognised
	for p := range w.mains {
		if w.top(p) {
			headed[p.unitPath] = true
		}
	}
	for _, p := range w.table.procs {
		switch {
		case p.unit == "" || p.zombie() || w.system.fixed(p) != "" || w.system.agent(p):
			continue
		case w.system.unit(p.unit) || matchUnit(gateUnits, p.unit):
			continue
		case headed[p.unitPath] || w.ancestor(p) != nil || !w.top(p):
			continue
		}
		key := fleet.Key{Kind: "unit", ID: p.unit}
		if w.workloads[key] == nil {
			k := &work{Workload: fleet.Workload{Key: key, Rule: PresetSystemd}}
			w.workloads[key] = k
			w.lead(k, p)
		}
	}
}

// top reports whether a process's parent is outside its unit.
func (w *world) top(p *proc) bool {
	parent := w.table.byPID[p.ppid]
	return parent == nil || !within(parent.cgroup, p.unitPath)
}

// ancestor finds the workload of the nearest main process above p, p included.
func (w *world) ancestor(p *proc) *work {
	for hops := 0; p != nil && p.pid != 1 && hops < maxHops; hops++ {
		if k := w.mains[p]; k != nil {
			return k
		}
		p = w.table.byPID[p.ppid]
	}
	return nil
}

// members gives the other processes to workloads: descendants first, since
// those are certain; then what shares the unit that a main process heads, its
// session, or a network namespace that it owns.
func (w *world) members() {
	units, sessions, spaces := w.heads()
	for _, p := range w.table.procs {
		if w.system.fixed(p) != "" {
			continue
		}
		k := w.ancestor(p)
		if k == nil && p.unit != "" {
			k = units[p.unitPath]
		}
		if k == nil {
			k = sessions[p.session]
		}
		if k == nil && p.netns != 0 {
			k = spaces[p.netns]
		}
		if k != nil {
			p.Owner = k.Key
			k.runs = append(k.runs, p)
		}
	}
}

// heads lists what makes a process a member without being a descendant. A unit
// counts only for the one workload whose main process heads it: a daemon that
// starts virtual machines inside its own unit does not belong to one of them.
func (w *world) heads() (units map[string]*work, sessions map[int]*work, spaces map[uint64]*work) {
	units, sessions, spaces = make(map[string]*work), make(map[int]*work), make(map[uint64]*work)
	for _, p := range w.table.procs {
		k := w.mains[p]
		if k == nil {
			continue
		}
		if p.session == p.pid {
			sessions[p.pid] = k
		}
		if p.unit != "" && !w.system.unit(p.unit) && !matchUnit(gateUnits, p.unit) && w.top(p) {
			if other, taken := units[p.unitPath]; taken && other != k {
				k = nil // shared: nobody's
			}
			units[p.unitPath] = k
		}
	}
	for _, n := range w.netns {
		key := fleet.Key{Kind: "netns", ID: n.name}
		if n.inode == 0 || w.table.host[n.inode] {
			continue
		}
		if k := w.owners[key]; k != nil && k.Phase == fleet.Running {
			spaces[n.inode] = k
		}
	}
	return units, sessions, spaces
}

// index notes who owns what, by name. Of two that name the same thing, one that
// runs counts first.
func (w *world) index() {
	w.owners = make(map[fleet.Key]*work)
	for _, k := range w.sorted() {
		for _, key := range k.Owns {
			if old := w.owners[key]; old == nil || old.Phase != fleet.Running && k.Phase == fleet.Running {
				w.owners[key] = k
			}
		}
	}
}

// ownerKey is whose a resource is: a workload's that is there, else whose it
// would be by the rules.
func (w *world) ownerKey(key fleet.Key) fleet.Key {
	if k := w.owners[key]; k != nil {
		return k.Key
	}
	return ownerByTemplate(w.rules, key.Kind, key.ID)
}

func (w *world) sorted() []*work {
	return slices.SortedFunc(maps.Values(w.workloads), func(a, b *work) int { return a.Key.Compare(b.Key) })
}
