package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/levers"
	"ebb/fleet"
	"ebb/fleet/observe"
)

// window is the scheduler's cache window with its margin.
const window = cache + 5*time.Second

// policy is what every console of a history drives by.
func policy() drain.Policy {
	p := drain.DefaultPolicy()
	p.CacheWindow, p.Notice = window, 20*time.Second
	p.Defaults[fleet.Stuck] = fleet.Budget{Grace: 90 * time.Second}
	p.Defaults[fleet.Stateless] = fleet.Budget{Move: 10 * time.Minute, Grace: time.Minute}
	p.Levers = map[string]drain.LeverSpec{"lev": {Name: "lev"}}
	for _, c := range []fleet.Class{fleet.Pausable, fleet.Durable} {
		p.Rules = append(p.Rules, fleet.ClassRule{Name: "moved", Match: fleet.RuleMatch{Label: "moved=" + string(c)}, Class: c, Lever: "lev"})
	}
	return p
}

// console is one process of ebb: it may drive, be frozen, crash, and come back.
type console struct {
	w      *World
	name   string
	gen    int // which life of it: what an earlier one left is nobody's
	obs    *observe.Observer
	eng    *engine.Engine
	step   *engine.Stepper
	open   bool
	pass   time.Time // when the next pass is due
	renew  time.Time
	retry  time.Time // when a lapsed turn is taken anew
	frozen time.Time
	may    bool      // crash in the middle of a call: only where one goroutine calls
	looked time.Time // the last facts of the source that were read whole
	kind   string    // an operator's console meets no faults on the way to the journal
}

func newConsole(w *World, name string) *console {
	c := &console{w: w, name: name}
	c.live()
	return c
}

// live begins a new life of the process.
func (c *console) live() {
	c.gen++
	c.step, c.open = nil, false
	actor := drain.Actor{Name: c.name, Console: fmt.Sprintf("%s/%d", c.name, c.gen)}
	port := &planePort{c}
	agents := &agentsPort{c}
	c.obs = observe.New(observe.Config{Planes: map[string]observe.Plane{"prod": port}, Window: map[string]time.Duration{"prod": window},
		Agent: func(_ context.Context, h fleet.Host) (observe.Agent, error) { return &lookPort{c, h.ID}, nil }})
	c.eng = engine.New(engine.Config{
		Journal: &journalPort{c}, Plane: func(fleet.HostID) (engine.Cordoner, error) { return port, nil },
		Look: &looker{c}, Agents: agents, Policy: c.w.policy, Actor: actor, Holder: actor.Console, Retry: 2 * time.Second,
		Window: func(fleet.HostID) time.Duration { return window },
		Levers: map[drain.ActKind]engine.Lever{
			drain.ActSignal: levers.Signal{Agents: agents}, drain.ActExec: levers.Exec{Agents: agents},
			drain.ActFlip:   levers.Flip{Plane: func(fleet.HostID) (any, error) { return port, nil }},
			drain.ActNotice: noticePort{c}, drain.ActLever: leverPort{c},
		},
	})
}

// crashed is what ends a process in the middle of a call.
type crashed struct{ c *console }

// living runs what a console does, and ends its life where that crashes.
func (c *console) living(fn func()) {
	defer func() {
		c.may = false
		if p := recover(); p != nil {
			x, ours := p.(crashed)
			if !ours || x.c != c {
				panic(p)
			}
			c.w.tally["crash in a call"]++
			c.live()
		}
	}()
	c.may = true
	fn()
}

// drive takes the host's drain up.
func (c *console) drive() {
	c.living(func() {
		s, err := c.eng.Step(context.Background(), source, nil)
		if err != nil {
			return
		}
		c.step, c.retry = s, time.Now()
		c.turn()
	})
}

// turn opens one, or tries to.
func (c *console) turn() {
	begun, over, err := c.step.Open(context.Background())
	switch {
	case err == nil && !over:
		c.open, c.pass, c.renew = true, time.Now(), time.Now().Add(drain.LeaseRenew)
		c.dispatch(begun)
	case err != nil && engine.Lapsed(err):
		c.retry = time.Now().Add(time.Second)
	default:
		c.step = nil
	}
}

// leave ends the turn; where only the lease has lapsed it is taken anew.
func (c *console) leave(err error) {
	c.open = false
	c.step.Leave(err)
	if err != nil && engine.Lapsed(err) {
		c.retry = time.Now().Add(time.Second)
		return
	}
	c.step = nil
}

// due is when the console has to do something next.
func (c *console) due() time.Time {
	var at time.Time
	switch {
	case c.step == nil:
		return at
	case !c.open:
		at = c.retry
	case c.renew.Before(c.pass):
		at = c.renew
	default:
		at = c.pass
	}
	if at.Before(c.frozen) {
		at = c.frozen
	}
	return at
}

// work does what is due.
func (c *console) work() {
	now := time.Now()
	if c.step == nil || now.Before(c.due()) {
		return
	}
	c.living(func() {
		if !c.open {
			c.turn()
			return
		}
		if !now.Before(c.renew) {
			c.renew = now.Add(drain.LeaseRenew)
			if err := c.step.Renew(context.Background()); err != nil {
				if errors.Is(err, drain.ErrLeaseLost) {
					c.leave(err)
					return
				}
				c.renew = now.Add(time.Second)
			}
		}
		if now.Before(c.pass) {
			return
		}
		begun, wake, over, err := c.step.Pass(context.Background())
		c.pass = time.Now().Add(5 * time.Second)
		if !wake.IsZero() {
			// The wake is a time of the journal's clock.
			at := time.Now().Add(max(wake.Sub(c.w.log.clock()), 100*time.Millisecond))
			if at.Before(c.pass) {
				c.pass = at
			}
		}
		c.dispatch(begun)
		if err != nil || over {
			c.leave(err)
		}
	})
}

// dispatch has acts carried out a little later, and their answers come back later
// still: in between anything may happen.
func (c *console) dispatch(begun []*engine.Begun) {
	gen := c.gen
	for _, b := range begun {
		n := c.w.draw("dispatch " + c.name)
		delay := time.Duration(1+n%300) * time.Millisecond
		if c.w.faults && n%40 == 0 {
			delay += time.Duration(n/40%40) * time.Second
		}
		c.w.after(delay, func() { c.carryOut(gen, b) })
	}
}

func (c *console) carryOut(gen int, b *engine.Begun) {
	if c.gen != gen {
		return // its process has ended
	}
	if now := time.Now(); now.Before(c.frozen) {
		c.w.after(c.frozen.Sub(now), func() { c.carryOut(gen, b) })
		return
	}
	if b.Job.Act.Kind == drain.ActCordon && !b.Asks {
		c.cordon(gen, b)
		return
	}
	c.living(func() {
		answer, err := b.Do()
		c.answer(gen, b, answer, err)
	})
}

func (c *console) answer(gen int, b *engine.Begun, answer drain.Answer, err error) {
	n := c.w.draw("answer " + c.name)
	delay := time.Duration(1+n%200) * time.Millisecond
	if c.w.faults && n%50 == 0 {
		delay += time.Duration(n/50%30) * time.Second
	}
	c.w.after(delay, func() { c.deliver(gen, b, answer, err) })
}

func (c *console) deliver(gen int, b *engine.Begun, answer drain.Answer, err error) {
	if c.gen != gen || c.step == nil {
		return
	}
	if now := time.Now(); now.Before(c.frozen) {
		c.w.after(c.frozen.Sub(now), func() { c.deliver(gen, b, answer, err) })
		return
	}
	c.living(func() {
		if err := c.step.Deliver(b, answer, err); err != nil && c.open {
			c.leave(err)
		}
		c.pass = time.Now()
	})
}

// cordon tells both sides with the engine's own verb, and then looks again and
// again until it has taken, as the engine does, but without keeping everybody
// else waiting.
func (c *console) cordon(gen int, b *engine.Begun) {
	report, err := c.eng.Cordon(context.Background(), source, b.Job.Reason, false, nil)
	if err != nil {
		c.answer(gen, b, drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(report.State), "detail", err.Error())}, nil)
		return
	}
	c.prove(gen, b, time.Now().Add(window+time.Minute))
}

func (c *console) prove(gen int, b *engine.Begun, until time.Time) {
	if c.gen != gen {
		return
	}
	v, err := c.obs.Look(context.Background(), source)
	holds, _, _ := v.Holds()
	switch {
	case err == nil && v.Cordon == fleet.Cordoned && holds.Cordon != nil:
		c.answer(gen, b, drain.Answer{Result: drain.Done}, nil)
	case time.Now().After(until):
		c.answer(gen, b, drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(v.Cordon))}, nil)
	default:
		c.w.after(5*time.Second, func() { c.prove(gen, b, until) })
	}
}

// looker reads the world by the real observer.
type looker struct{ c *console }

func (l *looker) Look(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	return l.c.obs.Look(ctx, id)
}

func (l *looker) Targets(id fleet.HostID) []fleet.HostView {
	var out []fleet.HostView
	for _, t := range l.c.w.order0 {
		if t == id {
			continue
		}
		if v, err := l.c.obs.Look(context.Background(), t); err == nil {
			out = append(out, v)
		}
	}
	return out
}
