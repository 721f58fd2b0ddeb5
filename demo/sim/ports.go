package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

var errFault = errors.New("the link is down")

// call passes a call of a console through, unless a fault is drawn on its way:
// it fails, its answer is lost, or the process that makes it ends before or after.
// Before it is made, something else may happen: an operator asks, another process
// acts.
func call[T any](c *console, way, name string, fn func() (T, error)) (T, error) {
	var none T
	w := c.w
	if w.isCut(c.name, way) {
		return none, fmt.Errorf("%s %s: %w", way, name, errFault)
	}
	if !w.faults || c.operates() {
		return fn()
	}
	n := w.draw(c.name + " " + way + " " + name)
	if w.calm && n%7 > 0 {
		n = 1999
	} else if w.calm {
		n /= 7
	}
	alone := c.may && !w.isTarget(way) && (c.at == "" || w.hosts[fleet.HostID(way)] == nil || way == string(c.at))
	switch {
	case n%2000 < 24:
		w.count("call failed")
		return none, fmt.Errorf("%s %s: %w", way, name, errFault)
	case n%2000 < 44:
		w.count("answer lost")
		_, _ = fn()
		return none, fmt.Errorf("%s %s: %w (its answer)", way, name, errFault)
	case n%2000 == 44 && alone:
		panic(crashed{c})
	case n%2000 == 45 && alone:
		_, _ = fn()
		panic(crashed{c})
	case n%2000 < 52 && alone && !w.nested:
		w.between(c)
	}
	return fn()
}

// between lets something happen in the middle of what a console does.
func (w *World) between(c *console) {
	gen := c.gen
	w.count("in between")
	w.nested = true
	w.meddle()
	w.nested = false
	if c.gen != gen {
		panic(crashed{c}) // it was that process's end
	}
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
			if p.c.w.hosts[id].dropped {
				continue
			}
			f := p.c.w.plane.flags[id]
			out = append(out, fleet.Host{ID: id, Address: id.Name(), Instance: p.c.w.hosts[id].machine,
				Draining: f.Set, DrainWhy: f.Why, DrainWho: f.Who, DrainAt: f.At})
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
		p.c.w.hosts[from].lastAct = time.Now()
		return 0, nil
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

// restPort parks by a lever, and tells the plane.
type restPort struct {
	leverPort
	plane *planePort
}

func (p restPort) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if j.Act.Lever != "" {
		if a, err := p.leverPort.Do(ctx, j); err != nil || a.Result != drain.Done {
			return a, err
		}
	}
	phase := fleet.AtRest
	if j.Act.Step == drain.StepWake || j.Act.Op == drain.OpUndo {
		phase = fleet.Running
	}
	return call(p.c, "plane", "rest", func() (drain.Answer, error) {
		p.c.w.plane.rest(j.Act.Key, j.Source.ID, phase)
		return drain.Answer{Result: drain.Done}, nil
	})
}

// Status says that nothing is known, as that of the real one.
func (p restPort) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}
