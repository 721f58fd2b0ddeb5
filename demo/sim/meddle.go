package sim

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/probes/wire"
)

// arrive starts a workload of any kind on the source.
func (w *World) arrive(i int, born time.Time) *proc {
	r := w.rng
	class := fleet.Classes[r.IntN(len(fleet.Classes))]
	h := w.hosts[source]
	p := h.add(fmt.Sprintf("w%d", i), class, func(p *proc) {
		p.born = born
		p.stubborn, p.overstays, p.declared = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(3) == 0
		p.immortal = r.IntN(20) == 0
		p.lever, p.mode = r.IntN(4) > 0, r.IntN(3)
		if class == fleet.Stateless {
			p.start, p.health = "start", "health"
		}
		switch r.IntN(12) {
		case 0:
			p.unclaimed = true
		case 1:
			p.stray, p.lever = true, false
		case 2:
			p.health = ""
		case 3:
			p.grace = 4 * time.Minute
		}
		if r.IntN(2) == 0 {
			p.expires = time.Now().Add(time.Duration(1+r.IntN(90)) * time.Minute)
		}
	})
	w.plane.claim(source, p)
	return p
}

// pick draws one of the workloads of the source.
func (w *World) pick() *proc {
	h := w.hosts[source]
	if keys := h.keys(); len(keys) > 0 {
		return h.procs[keys[w.rng.IntN(len(keys))]]
	}
	return nil
}

// meddle does one thing to the world, to what is seen of it, or to the drain.
func (w *World) meddle() {
	r, h := w.rng, w.hosts[source]
	span := func(most int) time.Time { return time.Now().Add(time.Duration(1+r.IntN(most)) * time.Second) }
	c := w.consoles[r.IntN(len(w.consoles))]
	if c.step == nil && r.IntN(2) == 0 {
		c.drive()
		return
	}
	ways := []string{"journal", "plane", string(source), "prod/t1"}
	switch what := r.IntN(40); {
	case what < 4:
		c.drive0()
	case what == 4:
		w.cuts[c.name+">"+ways[r.IntN(4)]] = span([]int{5, 20, 60, 900}[r.IntN(4)])
	case what == 5:
		w.cuts[ways[r.IntN(4)]] = span(60)
	case what == 6:
		c.frozen = span([]int{10, 30, 120}[r.IntN(3)])
	case what == 7:
		c.live() // SIGKILL
	case what == 8:
		w.plane.flap = span(120)
	case what == 9:
		h.probe = []string{"", "", "processes", "workloads", "netns"}[r.IntN(5)]
	case what == 10:
		h.agent.up, h.back = false, span(60)
	case what == 11 && r.IntN(4) == 0:
		h.reboot(time.Duration(1+r.IntN(180)) * time.Second)
	case what == 12:
		h.skew = []time.Duration{0, time.Hour, -time.Hour}[r.IntN(3)]
	case what < 17:
		w.create()
	case what < 24:
		w.happen(w.pick())
	default:
		w.ask(w.pick())
	}
	if h.probe != "" && r.IntN(4) == 0 {
		h.probe = ""
	}
}

// drive0 takes the drain up where this console does not drive it already.
func (c *console) drive0() {
	if c.step == nil {
		c.drive()
	}
}

// create is somebody who starts work on the source: sent by the scheduler's view,
// or by hand, let in by the agent or past it.
func (w *World) create() {
	r, h := w.rng, w.hosts[source]
	n := 100 + w.steps
	if !w.plane.eligible(source) && r.IntN(3) > 0 || !h.answers() {
		return
	}
	if r.IntN(6) == 0 { // it does not ask
		w.arrive(n, time.Now())
		return
	}
	t, err := h.agent.admit(wire.AdmissionRequest{Op: fleet.OpClaim, Key: wk(fmt.Sprintf("w%d", n)), Who: "creator"})
	if err != nil {
		return
	}
	how, after, silent := r.IntN(4) > 0, time.Duration(1+r.IntN(240))*time.Second, r.IntN(10) == 0
	boot := h.boot
	w.after(after, func() {
		report := "failed"
		if how && h.boot == boot {
			w.arrive(n, time.Now())
			report = "done"
		}
		if !silent {
			w.report(h, t.ID, report)
		}
	})
}

// report closes a ticket, again and again until the agent takes it.
func (w *World) report(h *host, id, how string) {
	if h.answers() && h.agent.settle(id, how) == nil {
		return
	}
	w.after(10*time.Second, func() { w.report(h, id, how) })
}

// happen is what a workload does by itself, or its owner with it.
func (w *World) happen(p *proc) {
	r, h := w.rng, w.hosts[source]
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
			h.die(p.key, "crash")
			h.respawn(p)
		}
	case 3:
		if dec := fleet.Admit(h.agent.rec.holds, fleet.OpRenew, false); dec.Allowed && !p.stray {
			p.expires = time.Now().Add(time.Duration(1+r.IntN(90)) * time.Minute)
			w.plane.claim(source, p)
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
			p.class = fleet.Classes[r.IntN(len(fleet.Classes))]
			w.plane.claim(source, p)
		}
	}
}

// ask is an operator, at the worst moment.
func (w *World) ask(p *proc) {
	r, ctx, e, s := w.rng, context.Background(), w.op.eng, w.state
	say := func(b drain.Body) { _ = e.Ask(ctx, source, s.Drain, b) }
	now, _ := w.log.Now(ctx)
	minutes := func(most int) time.Duration { return time.Duration(1+r.IntN(most)) * time.Minute }
	switch what := r.IntN(16); {
	case what == 0 && r.IntN(3) == 0:
		say(drain.AskStop{Reason: "stop"})
	case what == 1:
		say(drain.AskExtend{Until: now.Add(minutes(60))})
	case what < 5:
		say(drain.AskRetry{})
	case what == 5:
		w.asking = true
		_, _ = e.Uncordon(ctx, source, "a mistake", true)
	case what == 6 && r.IntN(3) == 0:
		w.asking = true
		_, _ = e.Undrain(ctx, source, true)
	case what == 7:
		_, _ = e.Cordon(ctx, source, "again", false, nil)
	case what == 8:
		w.begin(minutes(60))
	case p == nil:
	case what == 9:
		say(drain.AskHold{Key: p.key, Reason: "leave it"})
	case what == 10:
		say(drain.AskKeep{Key: p.key})
	case what == 11:
		say(drain.AskRetry{Key: p.key})
	case what == 12:
		say(drain.AskEscalate{Key: p.key, Run: p.run})
	case what == 13:
		say(drain.AskClass{Key: p.key, Class: fleet.Classes[r.IntN(len(fleet.Classes))]})
	case what == 14:
		say(drain.AskMoreTime{Key: p.key, By: minutes(20)})
	case what == 15:
		w.accept(p.key)
	}
}

// begin asks for a drain, or for the one there is to go on.
func (w *World) begin(deadline time.Duration) {
	req := engine.Request{Deadline: deadline, Reason: "kernel"}
	plan, err := w.op.eng.Plan(context.Background(), source, req)
	if err == nil {
		_, _, _ = w.op.eng.Start(context.Background(), source, req, plan)
	}
}

// accept makes an exception, past the gate's list: the worst that a person can do.
func (w *World) accept(k fleet.Key) {
	h := w.hosts[source]
	if !h.answers() {
		return
	}
	next := h.agent.rec.clone()
	next.accepted = append(next.accepted, fleet.Accepted{Key: k, Reason: "known", Who: "op", At: h.Clock()})
	if h.agent.commit(next) == nil {
		_ = w.op.eng.Ask(context.Background(), source, w.state.Drain, drain.RecAccepted{Key: k, Reason: "known"})
	}
}
