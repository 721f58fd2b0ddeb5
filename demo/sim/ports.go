package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/probes/wire"
)

var errFault = errors.New("the link is down")

// call passes a call of a console through, unless a fault is drawn on its way:
// it fails, its answer is lost, or the process that makes it ends before or after.
func call[T any](c *console, way, name string, fn func() (T, error)) (T, error) {
	var none T
	w := c.w
	if w.isCut(c.name, way) {
		return none, fmt.Errorf("%s %s: %w", way, name, errFault)
	}
	n := w.draw(c.name + " " + way + " " + name)
	if !w.faults || c.kind == "operator" {
		return fn()
	}
	switch {
	case n%1000 < 12:
		return none, fmt.Errorf("%s %s: %w", way, name, errFault)
	case n%1000 < 22:
		_, _ = fn()
		return none, fmt.Errorf("%s %s: %w (its answer)", way, name, errFault)
	case n%1000 == 22 && c.may && !w.isTarget(way):
		panic(crashed{c})
	case n%1000 == 23 && c.may && !w.isTarget(way):
		_, _ = fn()
		panic(crashed{c})
	}
	return fn()
}

// journalPort is the journal as a console reaches it.
type journalPort struct{ c *console }

func (p *journalPort) Name() string { return "sim" }

func (p *journalPort) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	return call(p.c, "journal", "append "+string(b.Events[0].Kind), func() ([]drain.Event, error) { return p.c.w.log.Append(ctx, b) })
}

func (p *journalPort) Stream(ctx context.Context, s string, after uint64, limit int) ([]drain.Event, error) {
	return call(p.c, "journal", "stream", func() ([]drain.Event, error) { return p.c.w.log.Stream(ctx, s, after, limit) })
}

func (p *journalPort) Acquire(ctx context.Context, id, holder string, least uint64) (drain.Lease, error) {
	return call(p.c, "journal", "acquire", func() (drain.Lease, error) {
		l, err := p.c.w.log.Acquire(ctx, id, holder, least)
		p.c.w.granted(l, err)
		return l, err
	})
}

func (p *journalPort) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	return call(p.c, "journal", "renew", func() (drain.Lease, error) {
		l, err := p.c.w.log.Renew(ctx, l)
		p.c.w.granted(l, err)
		return l, err
	})
}

func (p *journalPort) Release(ctx context.Context, l drain.Lease) error {
	_, err := call(p.c, "journal", "release", func() (int, error) { return 0, p.c.w.log.Release(ctx, l) })
	return err
}

func (p *journalPort) Leases(ctx context.Context) ([]drain.Lease, error) {
	return call(p.c, "journal", "leases", func() ([]drain.Lease, error) { return p.c.w.log.Leases(ctx) })
}

func (p *journalPort) Now(ctx context.Context) (time.Time, error) {
	return call(p.c, "journal", "now", func() (time.Time, error) { return p.c.w.log.Now(ctx) })
}

// planePort is the control plane as a console reaches it.
type planePort struct{ c *console }

func (p *planePort) Hosts(context.Context) ([]fleet.Host, error) {
	return call(p.c, "plane", "hosts", func() ([]fleet.Host, error) {
		var out []fleet.Host
		for _, id := range p.c.w.order0 {
			f := p.c.w.plane.flags[id]
			out = append(out, fleet.Host{ID: id, Address: id.Name(), Draining: f.Set, DrainWhy: f.Why, DrainWho: f.Who, DrainAt: f.At})
		}
		return out, nil
	})
}

func (p *planePort) Claims(_ context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	return call(p.c, "plane", "claims", func() (map[fleet.HostID][]fleet.Claim, error) {
		out := map[fleet.HostID][]fleet.Claim{}
		for _, h := range hosts {
			out[h] = p.c.w.plane.of(h)
		}
		return out, nil
	})
}

// Now makes the plane's clock readable.
func (p *planePort) Now(context.Context) (time.Time, error) {
	return call(p.c, "plane", "now", func() (time.Time, error) { return time.Now().Add(p.c.w.plane.skew), nil })
}

func (p *planePort) Set(_ context.Context, h fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	return call(p.c, "plane", "set", func() (fleet.Flag, error) {
		if have := p.c.w.plane.flags[h]; have.Set {
			return have, nil
		}
		f.At = time.Now().Add(p.c.w.plane.skew)
		p.c.w.plane.flags[h] = f
		return f, nil
	})
}

func (p *planePort) Lift(_ context.Context, h fleet.HostID, _ bool) error {
	_, err := call(p.c, "plane", "lift", func() (int, error) {
		delete(p.c.w.plane.flags, h)
		return 0, nil
	})
	return err
}

func (p *planePort) Eligible(_ context.Context, h fleet.HostID) (fleet.Eligibility, error) {
	return call(p.c, "plane", "eligible", func() (fleet.Eligibility, error) {
		return fleet.Eligibility{Flag: p.c.w.plane.flags[h], Eligible: fleet.Read(p.c.w.plane.eligible(h), "scheduler", time.Now(), 0)}, nil
	})
}

func (p *planePort) Move(_ context.Context, k fleet.Key, from, to fleet.HostID) error {
	_, err := call(p.c, "plane", "move", func() (int, error) {
		p.c.w.plane.move(k, from, to)
		p.c.w.site(k).repoint = true
		p.c.w.hosts[source].lastAct = time.Now()
		return 0, nil
	})
	return err
}

// reach calls an agent.
func reach[T any](c *console, id fleet.HostID, name string, fn func(*host) (T, error)) (T, error) {
	h := c.w.hosts[id]
	return call(c, string(id), name, func() (T, error) {
		var none T
		if !h.answers() {
			return none, errFault
		}
		return fn(h)
	})
}

// decided turns an agent's refusals into what the engine tells apart, as the
// console's end of the wire does.
func decided(err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	switch {
	case r.code == wire.CodeOtherDrain && r.hold != nil:
		return &engine.HoldTaken{Hold: *r.hold}
	case r.code == wire.CodeStaleEpoch:
		return fmt.Errorf("%w: %s", drain.ErrLeaseLost, r.code)
	case r.code == wire.CodeNotRecorded:
		return err
	}
	return &final{r}
}

type final struct{ *refusal }

func (*final) Final() bool { return true }

// lookPort is an agent as the observer needs it.
type lookPort struct {
	c  *console
	id fleet.HostID
}

func (p *lookPort) Summary(context.Context) (fleet.Summary, error) {
	return fleet.Summary{}, errFault
}

func (p *lookPort) Watch(context.Context, func(fleet.Facts) error) error { return errFault }

func (p *lookPort) Facts(context.Context, bool) (fleet.Facts, error) {
	f, err := reach(p.c, p.id, "facts", func(h *host) (fleet.Facts, error) { return h.facts(), nil })
	if err == nil && p.id == source && p.c.w.hosts[source].probe == "" {
		p.c.looked = time.Now()
	}
	return f, err
}

// agentsPort opens channels to agents, and carries acts to them.
type agentsPort struct{ c *console }

func (p *agentsPort) Agent(_ context.Context, id fleet.HostID, role engine.Role) (engine.Agent, error) {
	_, err := reach(p.c, id, "open "+string(role), func(*host) (int, error) { return 0, nil })
	return &agentPort{engine.Agent(nil), p.c, id}, err
}

// Act sends an act. A request may come later than its sender believes, or twice.
func (p *agentsPort) Act(_ context.Context, id fleet.HostID, m string, j drain.Job) (drain.Answer, error) {
	w, h := p.c.w, p.c.w.hosts[id]
	if m == "" {
		m = h.machine
	}
	r := wire.ActRequest{ID: j.Act.ID, Drain: j.Drain, Epoch: j.Epoch, Machine: m, Key: j.Act.Key}
	switch j.Act.Kind {
	case drain.ActSignal:
		r.Kind, r.Runs, r.Signal, r.Grace, r.Recorded, r.Named = wire.ActSignal, j.Act.Runs, j.Act.Signal, j.Act.Grace, j.Act.Record, j.Act.Named
	default:
		r.Kind, r.Command = wire.ActExec, j.Act.Exec
	}
	n := w.draw("net " + p.c.name + string(id))
	if w.faults && n%100 < 4 {
		w.after(time.Duration(1+n/100%400)*time.Second, func() {
			if h.answers() {
				_, _ = h.begin(r)
			}
		})
		if n%100 < 2 {
			return drain.Answer{}, errFault // it is on its way, and nobody knows
		}
	}
	reply, err := reach(p.c, id, "act", func(h *host) (wire.ActReply, error) { return h.begin(r) })
	var no *refusal
	if errors.As(err, &no) {
		switch no.code {
		case wire.CodeStaleEpoch, wire.CodeNotRecorded:
			return drain.Answer{}, decided(err)
		}
		return drain.Answer{Result: drain.Refused, Reason: fleet.Reason{Code: no.code}, Detail: no.code}, nil
	}
	if err != nil {
		return drain.Answer{}, err
	}
	return answerOf(reply), nil
}

func answerOf(r wire.ActReply) drain.Answer {
	a := drain.Answer{Result: drain.Done, Reason: r.Reason, Detail: r.Detail}
	switch {
	case r.State == wire.ActInterrupted:
		a.Result = drain.Interrupted
	case !r.OK && r.Reason.Code == wire.CodeTooEarly:
		a.Result = drain.Refused
	case !r.OK:
		a.Result = drain.FailedAct
	}
	return a
}

// begin is an act as it arrives at the host.
func (h *host) begin(r wire.ActRequest) (wire.ActReply, error) {
	reply, err := h.agent.begin(r)
	if err == nil {
		h.heard[r.Drain] = max(h.heard[r.Drain], h.agent.rec.epochs[r.Drain])
	}
	return reply, err
}

func (p *agentsPort) Outcome(_ context.Context, id fleet.HostID, act string) (drain.Answer, bool, error) {
	reply, err := reach(p.c, id, "outcome", func(h *host) (wire.ActReply, error) { return h.agent.follow(act) })
	var no *refusal
	if errors.As(err, &no) {
		return drain.Answer{}, false, nil
	}
	if err != nil {
		return drain.Answer{}, false, err
	}
	return answerOf(reply), true, nil
}

func (p *agentsPort) Announce(ctx context.Context, id fleet.HostID, drainID string, epoch uint64) error {
	_, err := (&agentPort{nil, p.c, id}).Announce(ctx, drainID, epoch)
	return err
}

// agentPort is an agent as the engine needs it. What no history asks for is not
// there.
type agentPort struct {
	engine.Agent
	c  *console
	id fleet.HostID
}

func (p *agentPort) HostKey() ssh.PublicKey { return nil }

func (p *agentPort) Facts(context.Context, bool) (fleet.Facts, error) {
	return reach(p.c, p.id, "facts", func(h *host) (fleet.Facts, error) { return h.facts(), nil })
}

func (p *agentPort) SetHold(_ context.Context, x fleet.Hold, m string) (engine.HoldAnswer, error) {
	return reach(p.c, p.id, "hold "+string(x.Kind), func(h *host) (engine.HoldAnswer, error) {
		var err error
		if x.Kind == fleet.CordonHold {
			err = h.agent.cordon(wire.CordonRequest{Who: x.Who, Why: x.Why, Machine: m})
		} else {
			err = h.agent.drain(wire.DrainRequest{Who: x.Who, Why: x.Why, Drain: x.Drain, Journal: x.Journal, Epoch: x.Epoch, Deadline: x.Deadline,
				Evacuate: x.Evacuate, For: x.For, Machine: m})
			if err == nil {
				h.heard[x.Drain] = max(h.heard[x.Drain], x.Epoch)
			}
		}
		return engine.HoldAnswer{Holds: h.agent.rec.holds, Machine: h.machine, Boot: h.boot, At: h.Clock()}, decided(err)
	})
}

func (p *agentPort) LiftHold(_ context.Context, l engine.Lift) (engine.HoldAnswer, error) {
	return reach(p.c, p.id, "lift", func(h *host) (engine.HoldAnswer, error) {
		r := wire.LiftRequest{Who: l.Who, Why: l.Why, Drain: l.Drain, Epoch: l.Epoch, Theirs: l.Theirs, Machine: l.Machine}
		var err error
		if l.Kind == fleet.CordonHold {
			err = h.agent.uncordon(r)
		} else {
			err = h.agent.undrain(r)
		}
		return engine.HoldAnswer{Holds: h.agent.rec.holds, Machine: h.machine, Boot: h.boot, At: h.Clock()}, decided(err)
	})
}

func (p *agentPort) Announce(_ context.Context, id string, epoch uint64) (uint64, error) {
	return reach(p.c, p.id, "announce", func(h *host) (uint64, error) {
		top, err := h.agent.announce(wire.EpochRequest{Drain: id, Epoch: epoch})
		if err == nil {
			h.heard[id] = max(h.heard[id], epoch)
		}
		return top, decided(err)
	})
}

func (p *agentPort) Accept(_ context.Context, k fleet.Key, reason, who, _, _ string) error {
	_, err := reach(p.c, p.id, "accept", func(h *host) (int, error) {
		next := h.agent.rec.clone()
		next.accepted = append(next.accepted, fleet.Accepted{Key: k, Reason: reason, Who: who, At: h.Clock()})
		return 0, h.agent.commit(next)
	})
	return err
}

// noticePort tells owners.
type noticePort struct{ c *console }

func (p noticePort) Do(_ context.Context, j drain.Job) (drain.Answer, error) {
	p.c.w.told(j.Act.Runs, p.c.w.notices)
	return call(p.c, "notice", "send", func() (drain.Answer, error) {
		p.c.w.told(j.Act.Runs, p.c.w.heard)
		return drain.Answer{Result: drain.Done}, nil
	})
}

func (noticePort) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}

// leverPort runs a lever.
type leverPort struct{ c *console }

func (p leverPort) Do(_ context.Context, j drain.Job) (drain.Answer, error) {
	return call(p.c, "lever", string(j.Act.Op), func() (drain.Answer, error) { return p.c.w.lever(j), nil })
}

func (p leverPort) Status(_ context.Context, j drain.Job) (drain.Answer, bool, error) {
	a, known := p.c.w.leverStatus(j.Act.ID)
	return a, known, nil
}
