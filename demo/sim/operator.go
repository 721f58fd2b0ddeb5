package sim

import (
	"context"
	"errors"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// ask is an operator, at the worst moment.
func (w *World) ask(id fleet.HostID, p *proc) {
	w.words(id, p)
	r, ctx, e, s := w.rng, context.Background(), w.op.eng, w.watches[id].state
	say := func(b drain.Body) { _ = e.Ask(ctx, id, s.Drain, b) }
	now, _ := w.log.Now(ctx)
	minutes := func(most int) time.Duration { return time.Duration(1+r.IntN(most)) * time.Minute }
	if k, on := w.doubted(id); on != "" && r.IntN(2) == 0 {
		say(drain.AskTargetGone{Key: k, Target: on, Reason: "it is gone"})
		return
	}
	switch what := r.IntN(16); {
	case what == 0 && r.IntN(3) == 0:
		say(drain.AskStop{Reason: "stop"})
	case what == 1:
		say(drain.AskExtend{Until: now.Add(minutes(60))})
	case what < 5:
		say(drain.AskRetry{})
	case what == 5 && r.IntN(2) == 0:
		w.asked[id] = true
		_, _ = e.Uncordon(ctx, id, "a mistake", true)
	case what == 6 && r.IntN(3) == 0:
		w.asked[id] = true
		_, _ = e.Undrain(ctx, id, true)
	case what == 7:
		_, _ = e.Cordon(ctx, id, "again", false, nil)
	case what == 8:
		w.begin(id, minutes(60))
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
		w.accept(id, p.key)
	}
}

// begin asks for a drain, or for the one there is to go on.
func (w *World) begin(id fleet.HostID, deadline time.Duration) {
	req := engine.Request{Deadline: deadline, Reason: "kernel", For: w.purpose()}
	plan, err := w.op.eng.Plan(context.Background(), id, req)
	if err == nil {
		_, _, _ = w.op.eng.Start(context.Background(), id, req, plan)
	}
}

// accept makes an exception, past the gate's list: the worst that a person can do.
func (w *World) accept(id fleet.HostID, k fleet.Key) {
	h := w.hosts[id]
	if !h.answers() || h.agent.rec.seal != "" {
		return
	}
	next := h.agent.rec.clone()
	next.accepted = append(next.accepted, fleet.Accepted{Key: k, Reason: "known", Who: "op", At: h.Clock()})
	if h.agent.commit(next) == nil {
		_ = w.op.eng.Ask(context.Background(), id, w.watches[id].state.Drain, drain.RecAccepted{Key: k, Reason: "known"})
	}
}

// gate is what people do around the end of a drain, each from a console that
// meets faults: verify, accept, clean, terminate, and to find out what became of
// a terminate.
func (w *World) gate(id fleet.HostID, c *console) {
	r, ctx := w.rng, context.Background()
	if time.Now().Before(c.frozen) {
		return
	}
	switch what := r.IntN(9); {
	case what < 3:
		c.living(func() { w.verify(id, c) })
	case what == 3:
		c.living(func() {
			ver, _, _, err := c.eng.Check(ctx, id)
			if err != nil || len(ver.Issues) == 0 {
				return
			}
			k := ver.Issues[r.IntN(len(ver.Issues))].Key
			_ = c.eng.Accept(ctx, id, k, "known", k.String())
		})
	case what == 4:
		c.living(func() {
			v, err := c.obs.Look(ctx, id)
			if leaks := engine.Leaks(v); err == nil && len(leaks) > 0 {
				_, _ = c.eng.Clean(ctx, id, *leaks[r.IntN(len(leaks))].Resource, v.Facts.Value.Machine)
			}
		})
	case what < 8:
		c.living(func() { w.terminate(id, c) })
	default: // somebody went to see
		_ = w.op.eng.Settle(ctx, id, w.hosts[id].gone, "seen")
	}
}

// verify asks for a proof, and keeps it.
func (w *World) verify(id fleet.HostID, c *console) {
	ver, err := c.eng.Verify(context.Background(), id, c.name)
	if err == nil && ver.Proof != nil {
		w.proofs[id] = append(w.proofs[id], *ver.Proof)
	}
}

// terminate tries to end a host with any proof that somebody has: an old one,
// that of another host, one that has served already.
func (w *World) terminate(id fleet.HostID, c *console) {
	r := w.rng
	of := id
	if r.IntN(8) == 0 {
		of = w.somewhere()
	}
	all := w.proofs[of]
	if len(all) == 0 {
		return
	}
	p := all[len(all)-1]
	if r.IntN(4) == 0 {
		p = all[r.IntN(len(all))]
	}
	t := engine.Terminator{Type: []string{"command", "command", "release", "poweroff"}[r.IntN(4)], To: "somebody", Quiet: time.Millisecond,
		Argv: func(h fleet.Host) ([]string, error) { return []string{"end", h.Instance}, nil },
		Exec: func(_ context.Context, argv []string) error { return w.command(c, argv[1]) },
	}
	w.count("terminate asked")
	_ = c.eng.Terminate(context.Background(), id, p, t, func(_ context.Context, h fleet.HostID) bool { return w.hosts[h].gone })
}

// command is the provider's own: it knows machines by what can't be another's.
func (w *World) command(c *console, instance string) error {
	for _, id := range w.sources {
		h := w.hosts[id]
		if h.machine != instance {
			continue
		}
		switch n := w.draw("command"); {
		case w.faults && n%6 == 0:
			w.checkTerminated(h, "command that fails") // and may be asked for again
			return errors.New("the provider does not answer")
		case w.faults && n%6 == 1:
			w.checkTerminated(h, "command")
			h.end()
			if c.may {
				panic(crashed{c})
			}
			return nil
		}
		w.checkTerminated(h, "command")
		h.end()
		return nil
	}
	return errors.New("there is no such machine")
}

// succeed puts another machine where one is gone, and takes the name back into
// service.
func (w *World) succeed() {
	for _, id := range w.sources {
		h := w.hosts[id]
		if !h.gone || w.rng.IntN(2) == 0 {
			continue
		}
		w.count("a successor")
		w.replace(h)
		if w.watches[id].state.Terminated.IsZero() {
			_ = w.op.eng.Settle(context.Background(), id, true, "seen: it is gone")
		}
		w.asked[id] = true
		_, _ = w.op.eng.Uncordon(context.Background(), id, "a new machine", true)
	}
}
