package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// mover is a lever of the world that keeps to the contract: an act that has been
// carried out answers the same again, a step that was done is done, an older epoch
// is refused, and undo ends when nothing of the step is left. What it does is what
// the world has of a workload: see moved.
type mover struct {
	w *world
	// flips moves the claim too, once the lever has moved the traffic.
	flips engine.Lever
}

// copied is the truth about a workload that a lever moves.
type copied struct {
	stands map[drain.Step]bool
	at     fleet.HostID // of the copy on a target
	epoch  uint64
	wrong  []string
}

// withMover gives an engine the mover: notebooks are pausable, databases durable,
// and a shop is started elsewhere.
func withMover(w *world) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Levers = maps.Clone(c.Levers)
		m := &mover{w: w, flips: c.Levers[drain.ActFlip]}
		c.Levers[drain.ActLever], c.Levers[drain.ActFlip] = m, m
		c.Policy.Levers = map[string]drain.LeverSpec{"mover": {Name: "mover"}}
		c.Policy.Rules = slices.Clone(c.Policy.Rules)
		rule := func(id string, class fleet.Class) fleet.ClassRule {
			return fleet.ClassRule{Name: id, Match: fleet.RuleMatch{ID: id}, Class: class, Lever: "mover"}
		}
		c.Policy.Rules = append(slices.Clone(c.Policy.Rules), rule("nb*", fleet.Pausable), rule("pg*", fleet.Durable), rule("shop*", fleet.Stateless))
	}
}

func (m *mover) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	a := j.Act
	if a.Lever == "" {
		return m.flips.Do(ctx, j)
	}
	if a.Op == drain.OpStatus {
		return m.status(ctx, a.Of)
	}
	got, err := through(ctx, m.w, "lever", string(a.Op)+" "+a.ID, func() (drain.Answer, error) { return m.w.move(j), nil })
	if err == nil && got.Result == drain.Done && a.Kind == drain.ActFlip {
		return m.flips.Do(ctx, j)
	}
	return got, err
}

func (m *mover) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	if j.Act.Kind == drain.ActFlip || j.Act.Op != drain.OpDo {
		return drain.Answer{}, false, nil // it may be repeated
	}
	a, err := m.status(ctx, j.Act.ID)
	return a, true, err
}

func (m *mover) status(ctx context.Context, id string) (drain.Answer, error) {
	return through(ctx, m.w, "lever", "status "+id, func() (drain.Answer, error) {
		b := m.w.boxes[source]
		b.mu.Lock()
		defer b.mu.Unlock()
		if got, ok := b.acts[id]; ok {
			return got, nil
		}
		return drain.Answer{Result: drain.FailedAct, Detail: "it never began"}, nil
	})
}

// move carries one act out.
func (w *world) move(j drain.Job) drain.Answer {
	b, a := w.boxes[source], j.Act
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, ok := b.acts[a.ID]; ok {
		return got
	}
	c := w.copies[a.Key]
	if c == nil {
		c = &copied{stands: map[drain.Step]bool{}}
		w.copies[a.Key] = c
	}
	if j.Epoch < c.epoch {
		return drain.Answer{Result: drain.Refused, Detail: fmt.Sprintf("epoch %d after %d", j.Epoch, c.epoch)}
	}
	c.epoch = j.Epoch
	b.ran[a.ID]++
	if c.stands[a.Step] = a.Op == drain.OpDo; c.stands[a.Step] && a.Target != "" {
		c.at = a.Target
	}
	switch {
	case a.Op == drain.OpDo && (a.Step == drain.StepRemove || a.Step == drain.StepStop) && b.procs[a.Key] != nil:
		b.leave(a.Key)
	case a.Step == drain.StepStart:
		w.boxes[a.Target].replace(a.Key, a.Op == drain.OpDo)
	}
	c.check(string(a.Op)+" "+string(a.Step), b.procs[a.Key] != nil)
	b.acts[a.ID] = drain.Answer{Result: drain.Done}
	return b.acts[a.ID]
}

// replace starts a replacement, unless it is there, or ends it.
func (b *box) replace(k fleet.Key, up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.replicas[k] = 0; up {
		b.replicas[k] = 1
	}
}

// here and there say where a copy could run, or take writes.
func (c *copied) here(present bool) bool {
	return present && !c.stands[drain.StepSnapshot] && !c.stands[drain.StepFence]
}

func (c *copied) there() bool {
	return c.stands[drain.StepRestore] || c.stands[drain.StepPromote] || c.stands[drain.StepStart]
}

// check looks for two runnable copies, and for none of which anything could come.
func (c *copied) check(after string, present bool) {
	if c.here(present) && c.there() && !c.stands[drain.StepStart] { // of a stateless one two may run
		c.wrong = append(c.wrong, "two after "+after)
	}
	if !present && !c.there() {
		c.wrong = append(c.wrong, "none after "+after)
	}
}

// moves says what was wrong with the moves of the world, if anything.
func (w *world) moves() string {
	b := w.boxes[source]
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(w.copies), fleet.Key.Compare) {
		if c := w.copies[k]; len(c.wrong) > 0 {
			return fmt.Sprintf("copies of %s: %v", k, c.wrong)
		}
	}
	return ""
}
