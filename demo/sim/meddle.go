package sim

import (
	"maps"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/probes/wire"
)

// arrive starts a workload of any kind on a host.
func (w *World) arrive(id fleet.HostID, i int, born time.Time) *proc {
	r := w.rng
	class := fleet.Classes[r.IntN(len(fleet.Classes))]
	h := w.hosts[id]
	p := h.add(wk(w.named(id, i)), class, func(p *proc) {
		p.born = born
		p.stubborn, p.overstays, p.declared = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0
		p.immortal = r.IntN(20) == 0
		p.lever, p.mode = r.IntN(4) > 0, r.IntN(3)
		if class == fleet.Stateless {
			p.start, p.health = "start", "health"
			p.serves = r.IntN(2) == 0
			p.lever = p.lever && !p.serves
		}
		if r.IntN(3) == 0 {
			p.netns = "n" + h.machine
		}
		switch r.IntN(12) {
		case 0:
			p.unclaimed = true
		case 1:
			p.stray, p.lever, p.serves, p.netns = true, false, false, ""
		case 2:
			p.health = ""
		case 3:
			p.grace = 4 * time.Minute
		}
		if r.IntN(2) == 0 {
			p.expires = time.Now().Add(time.Duration(1+r.IntN(90)) * time.Minute)
		}
	})
	p.park = w.parks(p)
	w.site(p.key).home = id
	w.plane.claim(id, p)
	h.serve(p)
	return p
}

// somewhere draws one of the hosts that are drained.
func (w *World) somewhere() fleet.HostID { return w.sources[w.rng.IntN(len(w.sources))] }

// pick draws one of the workloads of a host.
func (w *World) pick(id fleet.HostID) *proc {
	h := w.hosts[id]
	if keys := h.keys(); len(keys) > 0 {
		return h.procs[keys[w.rng.IntN(len(keys))]]
	}
	return nil
}

// meddle does one thing to the world, to what is seen of it, or to a drain.
func (w *World) meddle() {
	r, id := w.rng, w.somewhere()
	h := w.hosts[id]
	c := w.consoles[r.IntN(len(w.consoles))]
	if c.turns[id] == nil && r.IntN(2) == 0 && w.free(id) {
		c.drive(id)
		return
	}
	if ph := w.watches[id].state.Phase; (ph == drain.Empty || h.agent.rec.seal != "") && r.IntN(2) == 0 {
		w.gate(id, c)
		return
	}
	switch what := r.IntN(49); {
	case what < 4:
		if w.free(id) {
			c.drive(id)
		}
	case what < 14:
		w.fault(what-4, c, h)
	case what < 19:
		w.create(id)
	case what < 26:
		w.happen(id, w.pick(id))
	case what < 29:
		w.gate(id, c)
	case what < 33 && w.signed:
		w.count("intruded")
		w.intrude(id)
	default:
		w.ask(id, w.pick(id))
	}
	if h.probe != "" && r.IntN(4) == 0 {
		h.probe = ""
	}
}

// free reports whether nobody has the lease of a host's drain. Now and then it is
// tried all the same.
func (w *World) free(id fleet.HostID) bool {
	l := w.leases[w.watches[id].state.Drain]
	return !l.Until.After(w.log.clock()) || w.rng.IntN(6) == 0
}

// fault is one of what machines and links do.
func (w *World) fault(what int, c *console, h *host) {
	r := w.rng
	span := func(most int) time.Time { return time.Now().Add(time.Duration(1+r.IntN(most)) * time.Second) }
	ways := []string{"journal", "plane", string(h.id), "prod/t1"}
	did := func(what string) { w.count("fault " + what) }
	switch what {
	case 0:
		did("cut of one")
		w.cuts[c.name+">"+ways[r.IntN(4)]] = span([]int{5, 20, 60, 900}[r.IntN(4)])
	case 1:
		did("cut of all")
		w.cuts[ways[r.IntN(4)]] = span(60)
	case 2:
		did("frozen console")
		c.frozen = span([]int{10, 30, 120}[r.IntN(3)])
	case 3:
		did("console killed")
		c.live()
	case 4:
		did("flapping plane")
		w.plane.flap = span(120)
	case 5:
		did("probe")
		h.probe, h.broke = []string{"", "", "processes", "workloads", "netns"}[r.IntN(5)], time.Now()
	case 6:
		if r.IntN(3) == 0 {
			did("full disk")
			h.full = span(90)
			return
		}
		did("agent ended")
		h.agent.up, h.back = false, span(60)
	case 7:
		switch n := r.IntN(24); {
		case h.gone:
		case n < 6:
			did("reboot")
			h.reboot(time.Duration(1+r.IntN(180)) * time.Second)
		case n == 6:
			did("another machine")
			w.replace(h)
		}
	case 8:
		did("clock")
		if r.IntN(4) == 0 {
			w.ahead += []time.Duration{time.Hour, -time.Hour, 10 * time.Minute, -10 * time.Second}[r.IntN(4)]
			return
		}
		h.skew = []time.Duration{0, time.Hour, -time.Hour}[r.IntN(3)]
	case 9:
		if r.IntN(3) == 0 {
			w.vanish(w.hosts[w.targets()[r.IntN(2)]])
		}
	}
}

// vanish ends a target for good, with all that was begun on it; its plane lists
// it no more. Another machine of its name may come later.
func (w *World) vanish(h *host) {
	if h.gone {
		return
	}
	w.count("fault a target gone")
	for _, s := range w.sites {
		if s.up && s.at == h.id {
			s.up = false
		}
	}
	h.end()
	h.dropped = true
	if w.rng.IntN(2) == 0 {
		w.after(time.Duration(1+w.rng.IntN(20))*time.Minute, func() { w.replace(h) })
	}
}

// doubted is a workload whose replacement may run on a target that is gone.
func (w *World) doubted(id fleet.HostID) (fleet.Key, fleet.HostID) {
	s := w.watches[id].state
	for _, k := range slices.SortedFunc(maps.Keys(s.Items), fleet.Key.Compare) {
		if on, doubt := s.InDoubt(k); doubt && w.hosts[on].dropped {
			return k, on
		}
	}
	return fleet.Key{}, ""
}

// replace has another machine answer at a host's address.
func (w *World) replace(h *host) {
	n := newHost(w, h.id, h.gen+1)
	n.skew, n.slots = h.skew, h.slots
	w.hosts[h.id] = n
}

// create is somebody who starts work on a host: sent by the scheduler's view, or
// by hand, let in by the agent or past it.
func (w *World) create(id fleet.HostID) {
	r, h := w.rng, w.hosts[id]
	n := 100 + w.steps
	if !w.plane.eligible(id) && r.IntN(3) > 0 || !h.answers() {
		return
	}
	if r.IntN(6) == 0 { // it does not ask
		w.count("came unasked")
		w.arrive(id, n, time.Now())
		return
	}
	t, err := h.agent.admit(wire.AdmissionRequest{Op: fleet.OpClaim, Key: wk(w.named(id, n)), Who: "creator"})
	if err != nil {
		w.count("not admitted")
		return
	}
	w.count("admitted")
	how, after, silent := r.IntN(4) > 0, time.Duration(1+r.IntN(240))*time.Second, r.IntN(10) == 0
	boot := h.boot
	w.after(after, func() {
		report := "failed"
		if how && h.boot == boot && !h.gone && w.hosts[id] == h {
			w.arrive(id, n, time.Now())
			report = "done"
		}
		if !silent {
			w.report(h, t.ID, report)
		}
	})
}

// report closes a ticket, again and again until the agent takes it.
func (w *World) report(h *host, id, how string) {
	if h.gone || w.hosts[h.id] != h || h.answers() && h.agent.settle(id, how) == nil {
		return
	}
	w.after(10*time.Second, func() { w.report(h, id, how) })
}

// happen is what a workload does by itself, or its owner with it.
func (w *World) happen(id fleet.HostID, p *proc) {
	r, h := w.rng, w.hosts[id]
	if p == nil {
		return
	}
	switch r.IntN(7) {
	case 0:
		if !p.rests {
			h.die(p.key, "crash")
		}
	case 1:
		w.site(p.key).ended = true
		h.die(p.key, "owner")
	case 2: // it comes back under the same key
		if !p.rests && !p.stray && !w.site(p.key).paused {
			w.count("came back")
			h.die(p.key, "crash")
			h.respawn(p)
		}
	case 3:
		if dec := fleet.Admit(h.agent.rec.holds, fleet.OpRenew, false); dec.Allowed && !p.stray {
			w.count("renewed")
			p.expires = time.Now().Add(time.Duration(1+r.IntN(90)) * time.Minute)
			w.plane.claim(id, p)
		}
	case 4:
		p.declared = !p.declared
		if !p.declared { // its owner forgot the manifest: it says that it has ended
			w.site(p.key).ended = true
		}
	case 5:
		p.stubborn = !p.stubborn
	case 6:
		if !p.stray && !p.lever {
			w.count("another class")
			p.class = fleet.Classes[r.IntN(len(fleet.Classes))]
			w.plane.claim(id, p)
		}
	}
}
