package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

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
	p.MovesPerHost, p.MovesPerTarget = 4, 2
	p.Levers = map[string]drain.LeverSpec{"lev": {Name: "lev"}}
	p.Rules = append(p.Rules, fleet.ClassRule{Name: "parks", Match: fleet.RuleMatch{Label: "parks=yes"}, Class: fleet.Pausable, Lever: "lev", Park: true})
	for _, c := range []fleet.Class{fleet.Pausable, fleet.Durable} {
		p.Rules = append(p.Rules, fleet.ClassRule{Name: "moved", Match: fleet.RuleMatch{Label: "moved=" + string(c)}, Class: c, Lever: "lev"})
	}
	p.Rules = append(p.Rules, fleet.ClassRule{Name: "serves", Match: fleet.RuleMatch{Label: "serves=yes"}, Class: fleet.Stateless,
		Budget: p.Defaults[fleet.Stateless], Readiness: "unready",
		InFlight: &fleet.InFlight{URL: "http://127.0.0.1:1/metrics", Gauge: []string{"in_flight"}, Window: 6 * time.Second}})
	return p
}

// console is one process of ebb: it may drive several hosts, be frozen, crash, and
// come back.
type console struct {
	w      *World
	name   string
	gen    int // which life of it: what an earlier one left is nobody's
	key    ssh.Signer
	obs    *observe.Observer
	eng    *engine.Engine
	turns  map[fleet.HostID]*turn
	frozen time.Time
	busy   bool                       // in the middle of a call: another process can act then, this one can't
	may    bool                       // crash in the middle of a call: only where one goroutine calls
	at     fleet.HostID               // the host that is driven just now
	looked map[fleet.HostID]time.Time // the last facts of a source that were read whole
}

func newConsole(w *World, name string, key ssh.Signer) *console {
	c := &console{w: w, name: name, key: key, looked: map[fleet.HostID]time.Time{}}
	c.live()
	return c
}

// operates reports whether it is the operator's: it meets no faults on the way.
func (c *console) operates() bool { return c.name == "op" }

// live begins a new life of the process.
func (c *console) live() {
	c.gen++
	c.turns = map[fleet.HostID]*turn{}
	actor := drain.Actor{Name: c.name, Console: fmt.Sprintf("%s/%d", c.name, c.gen)}
	port := &planePort{c}
	agents := &agentsPort{c}
	trust := engine.Trust{Required: c.w.signed, Operators: []engine.Operator{{Name: "op", Key: c.w.opKey.PublicKey()}}}
	c.obs = observe.New(observe.Config{Planes: map[string]observe.Plane{"prod": port}, Window: map[string]time.Duration{"prod": window},
		Agent: func(_ context.Context, h fleet.Host) (observe.Agent, error) { return &lookPort{c, h.ID}, nil }})
	cfg := engine.Config{
		Journal: &journalPort{c}, Plane: func(fleet.HostID) (engine.Cordoner, error) { return port, nil },
		Look: &looker{c}, Agents: agents, Policy: c.w.policy, Actor: actor, Holder: actor.Console, Retry: 2 * time.Second,
		Window: func(fleet.HostID) time.Duration { return window }, NewID: c.w.newID, Trust: trust,
		Levers: map[drain.ActKind]engine.Lever{
			drain.ActSignal: levers.Signal{Agents: agents}, drain.ActExec: levers.Exec{Agents: agents}, drain.ActQuiet: levers.Quiet{Agents: agents},
			drain.ActFlip:   levers.Flip{Plane: func(fleet.HostID) (any, error) { return port, nil }},
			drain.ActNotice: noticePort{c}, drain.ActLever: leverPort{c}, drain.ActRest: restPort{leverPort{c}, port},
		},
	}
	if c.w.signed {
		cfg.Signer = c.key
	}
	cfg.Promised = c.promised
	c.eng = engine.New(cfg)
}

// promised is what the drains of other hosts bring where.
func (c *console) promised(ctx context.Context, except fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
	if len(c.w.sources) == 1 {
		return nil, nil
	}
	err := c.eng.Follow(ctx, c.w.sources)
	return c.eng.Promises(except), err
}

// crashed is what ends a process in the middle of a call.
type crashed struct{ c *console }

// living runs what a console does, and ends its life where that crashes.
func (c *console) living(fn func()) {
	if c.busy {
		return
	}
	defer func() {
		c.may, c.busy = false, false
		if p := recover(); p != nil {
			x, ours := p.(crashed)
			if !ours || x.c != c {
				panic(p)
			}
			c.w.count("crash in a call")
			c.live()
		}
	}()
	c.may, c.busy = true, true
	fn()
}

// livingAt is living at a host that is driven. What is said to others is said to
// all of them at once, and no process ends in the middle of that.
func (c *console) livingAt(id fleet.HostID, fn func()) {
	c.living(func() {
		c.at = id
		defer func() { c.at = "" }()
		fn()
	})
}

// turn is one host that a console drives, or would.
type turn struct {
	c     *console
	id    fleet.HostID
	step  *engine.Stepper
	open  bool
	pass  time.Time // when the next pass is due
	renew time.Time
	retry time.Time // when a lapsed turn is taken anew
}

// drive takes a host's drain up, where this console does not drive it already.
func (c *console) drive(id fleet.HostID) {
	if c.turns[id] != nil || c.busy || time.Now().Before(c.frozen) {
		return
	}
	c.livingAt(id, func() {
		s, err := c.eng.Step(context.Background(), id, nil)
		if err != nil {
			return
		}
		t := &turn{c: c, id: id, step: s, retry: time.Now()}
		c.turns[id] = t
		t.begin()
	})
}

// stop forgets a turn.
func (t *turn) stop() {
	if t.c.turns[t.id] == t {
		delete(t.c.turns, t.id)
	}
}

// begin opens the turn, or tries to.
func (t *turn) begin() {
	begun, over, err := t.step.Open(context.Background())
	switch {
	case err == nil && !over:
		t.open, t.pass, t.renew = true, time.Now(), time.Now().Add(drain.LeaseRenew)
		t.c.dispatch(t, begun)
	case err != nil && engine.Lapsed(err):
		t.retry = time.Now().Add(time.Second)
	default:
		t.stop()
	}
}

// leave ends it; where only the lease has lapsed it is taken anew.
func (t *turn) leave(err error) {
	t.open = false
	t.step.Leave(err)
	if err != nil && engine.Lapsed(err) {
		t.retry = time.Now().Add(time.Second)
		return
	}
	t.stop()
}

// due is when something has to be done next.
func (t *turn) due() time.Time {
	var at time.Time
	switch {
	case !t.open:
		at = t.retry
	case t.renew.Before(t.pass):
		at = t.renew
	default:
		at = t.pass
	}
	if at.Before(t.c.frozen) {
		at = t.c.frozen
	}
	return at
}

// work does what is due.
func (t *turn) work() {
	now := time.Now()
	if now.Before(t.due()) {
		return
	}
	t.c.livingAt(t.id, func() {
		if !t.open {
			t.begin()
			return
		}
		if !now.Before(t.renew) {
			t.renew = now.Add(drain.LeaseRenew)
			if err := t.step.Renew(context.Background()); err != nil {
				if errors.Is(err, drain.ErrLeaseLost) {
					t.leave(err)
					return
				}
				t.renew = now.Add(time.Second)
			}
		}
		if now.Before(t.pass) {
			return
		}
		begun, wake, over, err := t.step.Pass(context.Background())
		t.pass = time.Now().Add(5 * time.Second)
		if !wake.IsZero() {
			// The wake is a time of the journal's clock.
			at := time.Now().Add(max(wake.Sub(t.c.w.log.clock()), 100*time.Millisecond))
			if at.Before(t.pass) {
				t.pass = at
			}
		}
		t.c.dispatch(t, begun)
		t.agree()
		if err != nil || over {
			t.leave(err)
		}
	})
}

// agree compares what the driver has folded with what operators and drivers
// wrote: nobody else's word counts.
func (t *turn) agree() {
	got, want := t.step.State(), t.c.w.watches[t.id].state
	if got.Num != want.Num {
		return
	}
	same := got.Drain == want.Drain && got.Phase == want.Phase && got.Deadline.Equal(want.Deadline) && len(got.MayDie) == len(want.MayDie) && len(got.Items) == len(want.Items)
	t.c.w.must(NoStranger, same, "the driver of %s goes by something that no operator asked for: %s %s %v, not %s %s %v", t.id, got.Drain, got.Phase, got.Deadline, want.Drain, want.Phase, want.Deadline)
}

// dispatch has acts carried out a little later, and their answers come back later
// still: in between anything may happen.
func (c *console) dispatch(t *turn, begun []*engine.Begun) {
	gen := c.gen
	for _, b := range begun {
		n := c.w.draw("dispatch " + c.name)
		delay := time.Duration(1+n%300) * time.Millisecond
		if c.w.faults && n%40 == 0 {
			delay += time.Duration(n/40%40) * time.Second
		}
		c.w.after(delay, func() { c.carryOut(t, gen, b) })
	}
}

func (c *console) carryOut(t *turn, gen int, b *engine.Begun) {
	if c.gen != gen {
		return // its process has ended
	}
	if now := time.Now(); now.Before(c.frozen) {
		c.w.after(c.frozen.Sub(now), func() { c.carryOut(t, gen, b) })
		return
	}
	if b.Job.Act.Kind == drain.ActCordon && !b.Asks {
		c.cordon(t, gen, b)
		return
	}
	c.living(func() {
		answer, err := b.Do()
		if errors.Is(err, errStill) { // the agent is at it: ask again
			c.w.after(2*time.Second, func() { c.follow(t, gen, b) })
			return
		}
		c.answer(t, gen, b, answer, err)
	})
}

// follow asks an agent what became of an act that takes its time, as a console
// does that holds the line.
func (c *console) follow(t *turn, gen int, b *engine.Begun) {
	if c.gen != gen {
		return
	}
	answer, known, err := (&agentsPort{c}).Outcome(context.Background(), t.id, b.Job.Act.ID)
	switch {
	case errors.Is(err, errStill):
		c.w.after(2*time.Second, func() { c.follow(t, gen, b) })
	case err == nil && !known:
		c.answer(t, gen, b, answer, errFault)
	default:
		c.answer(t, gen, b, answer, err)
	}
}

func (c *console) answer(t *turn, gen int, b *engine.Begun, answer drain.Answer, err error) {
	n := c.w.draw("answer " + c.name)
	delay := time.Duration(1+n%200) * time.Millisecond
	if c.w.faults && n%50 == 0 {
		delay += time.Duration(n/50%30) * time.Second
	}
	c.w.after(delay, func() { c.deliver(t, gen, b, answer, err) })
}

func (c *console) deliver(t *turn, gen int, b *engine.Begun, answer drain.Answer, err error) {
	if c.gen != gen || c.turns[t.id] != t {
		return
	}
	if now := time.Now(); now.Before(c.frozen) {
		c.w.after(c.frozen.Sub(now), func() { c.deliver(t, gen, b, answer, err) })
		return
	}
	c.living(func() {
		if err := t.step.Deliver(b, answer, err); err != nil && t.open {
			t.leave(err)
		}
		t.pass = time.Now()
	})
}

// cordon tells both sides with the engine's own verb, and then looks again and
// again until it has taken, as the engine does, but without keeping everybody
// else waiting.
func (c *console) cordon(t *turn, gen int, b *engine.Begun) {
	report, err := c.eng.Cordon(context.Background(), t.id, b.Job.Reason, false, nil)
	if err != nil {
		c.answer(t, gen, b, drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(report.State), "detail", err.Error())}, nil)
		return
	}
	c.prove(t, gen, b, time.Now().Add(window+time.Minute))
}

func (c *console) prove(t *turn, gen int, b *engine.Begun, until time.Time) {
	if c.gen != gen {
		return
	}
	v, err := c.obs.Look(context.Background(), t.id)
	holds, _, _ := v.Holds()
	switch {
	case err == nil && v.Cordon == fleet.Cordoned && holds.Cordon != nil:
		c.answer(t, gen, b, drain.Answer{Result: drain.Done}, nil)
	case time.Now().After(until):
		c.answer(t, gen, b, drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(v.Cordon))}, nil)
	default:
		c.w.after(5*time.Second, func() { c.prove(t, gen, b, until) })
	}
}

// looker reads the world by the real observer.
type looker struct{ c *console }

func (l *looker) Look(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	return l.c.obs.Look(ctx, id)
}

func (l *looker) Targets(id fleet.HostID) []fleet.HostView {
	out := []fleet.HostView{{Host: fleet.Host{ID: id}}} // it is among them, and no target
	for _, t := range l.c.w.targets() {
		if v, err := l.c.obs.Look(context.Background(), t); err == nil {
			out = append(out, v)
		}
	}
	return out
}
