package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	"ebb/drain"
)

// Options say what is played.
type Options struct {
	Seed uint64
	// Live stops the faults at some time: then the drain must end.
	Live bool
}

// Result is one history.
type Result struct {
	Bad   string // what happened that must never happen; empty where nothing did
	Phase drain.Phase
	Steps int
	Tally map[string]int // how often what happened
	log   *Log
}

// Export writes its journal, one event a line.
func (r Result) Export(w io.Writer) error { return r.log.Export(w) }

// Play plays one history. It must be called where time is virtual, and not twice
// at the same time in one process: the ids that the engine makes are of the seed.
func Play(o Options) Result {
	w := newWorld(o.Seed)
	w.meddles = time.Now().Add(time.Duration(1+w.rng.IntN(120)) * time.Second)
	w.begin(time.Duration(3+w.rng.IntN(58)) * time.Minute)
	w.consoles[0].drive()
	w.run(w.began.Add(time.Duration(5+w.rng.IntN(70))*time.Minute), nil)
	if o.Live && w.bad == "" {
		w.settle()
	}
	return Result{Bad: w.bad, Phase: w.state.Phase, Steps: w.steps, Tally: w.tally, log: w.log}
}

// settle ends all faults. Somebody is there who lets the drain go on whenever it
// waits for a person. It must end within its deadline and what that takes.
func (w *World) settle() {
	w.faults = false
	clear(w.cuts)
	w.plane.flap = time.Time{}
	for _, id := range w.order0 {
		w.hosts[id].probe, w.hosts[id].off = "", time.Now()
	}
	for _, c := range w.consoles {
		c.live()
		c.frozen = time.Time{}
	}
	w.run(time.Now().Add(drain.LeaseTTL+time.Minute), nil) // agents come back, leases run out
	if w.state.Drain == "" || w.state.Undone || w.state.Phase == drain.Stopped {
		w.begin(20 * time.Minute)
	}
	if w.state.Drain == "" || w.state.Undone || w.state.Phase == drain.Stopped {
		// Another drain's hold, or a plan that is refused: nothing to end.
		return
	}
	w.consoles[0].drive()
	end := w.state.Deadline
	if now := w.log.clock(); end.Before(now) {
		end = now
	}
	bound := end.Sub(w.log.clock()) + 10*time.Minute
	var tick func() // somebody looks after it, also while nothing else happens
	tick = func() { w.after(10*time.Second, tick) }
	tick()
	patience, tried := time.Now(), time.Now()
	w.run(time.Now().Add(bound), func() bool {
		s := w.state
		if s.Person && time.Since(patience) > 20*time.Second {
			patience = time.Now()
			_ = w.op.eng.Ask(context.Background(), source, s.Drain, drain.AskRetry{})
		}
		if c := w.consoles[0]; c.step == nil && !s.Phase.Ended() && time.Since(tried) > drain.LeaseTTL {
			tried = time.Now()
			c.drive()
		}
		return w.consoles[0].step == nil && w.state.Phase.Ended()
	})
	s := w.state
	w.must(s.Phase.Ended(), "the drain has not ended: phase %s, deadline %v, now %v, waiting for %v, person %v, open %v\n%s", s.Phase, s.Deadline, w.log.clock(), s.Waiting, s.Person, s.Open, w.items())
	if s.Phase == drain.DeadlineReached && w.escalated() || s.Unsettled() && w.needsPerson() {
		return // what no signal ends is waited for, and so is a person
	}
	w.must(len(s.Open) == 0, "the drain has ended with open acts: %v", s.Open)
	w.must(w.consoles[0].step == nil, "the drain has ended (%s) and is still driven\n%s", s.Phase, w.items())
}

func (w *World) items() string {
	out := ""
	for k, it := range w.state.Items {
		if it.Open() {
			out += fmt.Sprintf("  %s %s %s %v\n", k, it.Class, it.Step, it.Reason)
		}
	}
	return out
}

func (w *World) escalated() bool {
	for _, it := range w.state.Items {
		if it.Open() && it.Escalated != "" {
			return true
		}
	}
	return false
}

// needsPerson reports whether what is unsettled can't be settled until somebody
// says so: the host was rebooted, or a hold is gone.
func (w *World) needsPerson() bool {
	return w.state.Boot != w.hosts[source].boot || !w.hosts[source].durable().Both() || drain.NeedsPerson(w.state.Waiting.Code)
}
