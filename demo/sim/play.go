package sim

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Options say what is played.
type Options struct {
	Seed uint64
	// Live stops the faults at some time: then every drain must end.
	Live bool
}

// Result is one history.
type Result struct {
	Bad     string // what happened that must never happen; empty where nothing did
	Phases  []drain.Phase
	Steps   int
	Tally   map[string]int // how often what happened
	Checked map[Check]int  // how often what was looked at
	log     *Log
}

// Export writes its journal, one event a line.
func (r Result) Export(w io.Writer) error { return r.log.Export(w) }

// Play plays one history. It must be called where time is virtual.
func Play(o Options) Result {
	w := newWorld(o.Seed)
	w.meddles = time.Now().Add(time.Duration(1+w.rng.IntN(120)) * time.Second)
	for i, id := range w.sources {
		w.after(time.Duration(i*w.rng.IntN(300))*time.Second, func() {
			w.begin(id, time.Duration(3+w.rng.IntN(42))*time.Minute)
			w.consoles[i%len(w.consoles)].drive(id)
		})
	}
	var later func()
	later = func() { w.succeed(); w.after(5*time.Minute, later) }
	w.after(5*time.Minute, later)
	w.run(w.began.Add(time.Duration(5+w.rng.IntN(45))*time.Minute), nil)
	if o.Live && w.bad == "" {
		w.settle()
	}
	r := Result{Bad: w.bad, Steps: w.steps, Tally: w.tally, Checked: w.checked, log: w.log}
	for _, id := range w.sources {
		r.Phases = append(r.Phases, w.watches[id].state.Phase)
	}
	return r
}

// settle ends all faults. Somebody is there who lets a drain go on whenever it
// waits for a person. Each must end within its deadline and what that takes.
func (w *World) settle() {
	w.faults = false
	clear(w.cuts)
	w.plane.flap = time.Time{}
	for _, id := range w.order0 {
		h := w.hosts[id]
		h.probe, h.off, h.full = "", time.Now(), time.Time{}
	}
	for _, c := range w.consoles {
		c.live()
		c.frozen = time.Time{}
	}
	w.run(time.Now().Add(drain.LeaseTTL+time.Minute), nil) // agents come back, leases run out
	var ends []*watch
	bound := 10 * time.Minute
	for _, id := range w.sources {
		x := w.watches[id]
		if x.idle() {
			w.begin(id, 20*time.Minute)
		}
		if x.idle() {
			// Another drain's hold, a machine that is gone, a plan that is refused:
			// nothing to end.
			continue
		}
		ends = append(ends, x)
		w.consoles[0].drive(id)
		bound = max(bound, x.state.Deadline.Sub(w.log.clock())+10*time.Minute)
	}
	var tick func() // somebody looks after it, also while nothing else happens
	tick = func() { w.after(10*time.Second, tick) }
	tick()
	patience, tried := map[fleet.HostID]time.Time{}, map[fleet.HostID]time.Time{}
	w.run(time.Now().Add(bound), func() bool {
		all := true
		for _, x := range ends {
			all = x.attend(patience, tried) && all
		}
		return all
	})
	for _, x := range ends {
		x.ended()
		switch x.state.Phase {
		case drain.Empty:
			w.finish(x)
		case drain.Parked, drain.DeadlineReached:
			w.bringBack(x)
		}
	}
}

// finish ends a host that is empty, now that nothing goes wrong: once, although
// two ask for it.
func (w *World) finish(x *watch) {
	h := x.host()
	w.verify(x.id, w.consoles[0])
	if all := w.proofs[x.id]; h.gone || len(all) == 0 || h.agent.rec.seal != "" {
		return // somebody has been there, or the host has its own reasons
	}
	before := h.ended
	for range 2 {
		w.terminate(x.id, w.consoles[w.rng.IntN(len(w.consoles))])
	}
	if h.ended > before {
		w.count("finished")
	}
}

// idle reports whether there is no drain to go on with.
func (x *watch) idle() bool {
	s := x.state
	return s.Drain == "" || s.Over() || s.Phase == drain.Stopped
}

// attend is the person who looks after a drain; it reports whether that is over.
func (x *watch) attend(patience, tried map[fleet.HostID]time.Time) bool {
	w, s := x.w, x.state
	if s.Person && time.Since(patience[x.id]) > 20*time.Second {
		patience[x.id] = time.Now()
		_ = w.op.eng.Ask(context.Background(), x.id, s.Drain, drain.AskRetry{})
	}
	if k, on := w.doubted(x.id); on != "" {
		_ = w.op.eng.Ask(context.Background(), x.id, s.Drain, drain.AskTargetGone{Key: k, Target: on, Reason: "it is gone"})
	}
	c := w.consoles[0]
	if c.turns[x.id] == nil && !s.Phase.Ended() && time.Since(tried[x.id]) > drain.LeaseTTL {
		tried[x.id] = time.Now()
		c.drive(x.id)
	}
	return c.turns[x.id] == nil && x.state.Phase.Ended()
}

// ended is what must hold of a drain when its time is over.
func (x *watch) ended() {
	w, s := x.w, x.state
	h := x.host()
	other := h.durable().Drain
	if h.gone || x.another() || other != nil && other.Drain != s.Drain {
		// Nobody drives a host that is gone; another machine of its name is nobody's
		// to empty, and neither is a host that another drain holds.
		return
	}
	w.must(ItEnds, s.Phase.Ended(), "the drain of %s has not ended: phase %s, deadline %v, now %v, waiting for %v, person %v, open %v\n%s",
		x.id, s.Phase, s.Deadline, w.log.clock(), s.Waiting, s.Person, s.Open, x.items())
	if s.Phase == drain.DeadlineReached && x.escalated() || s.Unsettled() && x.needsPerson() {
		return // what no signal ends is waited for, and so is a person
	}
	w.must(ItEnds, len(s.Open) == 0, "the drain of %s has ended with open acts: %v", x.id, s.Open)
	w.must(ItEnds, w.consoles[0].turns[x.id] == nil, "the drain of %s has ended (%s) and is still driven\n%s", x.id, s.Phase, x.items())
}

// another reports whether another machine answers under the host's name than the
// one that was drained.
func (x *watch) another() bool {
	machine := cmp.Or(x.state.Machine, x.state.Bound)
	return machine != "" && machine != x.host().machine
}

func (x *watch) items() string {
	out := ""
	for k, it := range x.state.Items {
		if it.Open() {
			out += fmt.Sprintf("  %s %s %s %v\n", k, it.Class, it.Step, it.Reason)
		}
	}
	return out
}

func (x *watch) escalated() bool {
	for _, it := range x.state.Items {
		if it.Open() && it.Escalated != "" {
			return true
		}
	}
	return false
}

// needsPerson reports whether what is unsettled can't be settled until somebody
// says so: the host was rebooted, or sealed, or a hold is gone.
func (x *watch) needsPerson() bool {
	h := x.host()
	return x.state.Boot != h.boot || h.agent.rec.seal != "" || !h.durable().Both() || drain.NeedsPerson(x.state.Waiting.Code)
}
