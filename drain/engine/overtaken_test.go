package engine_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// A driver stands still between an intent and its act, as a process does that is
// stopped or whose machine sleeps; another one takes over and brings the workload
// on. When the first one wakes, its act is not begun any more: no agent stands
// before a control plane, a lever or a receiver that could refuse its epoch.
func TestOvertakenActIsNotBegun(t *testing.T) {
	for _, c := range []struct {
		id    string
		class fleet.Class
		step  drain.Step
	}{
		{"web", fleet.Stateless, drain.StepFlip},
		{"shop", fleet.Stateless, drain.StepStart},
		{"shop", fleet.Stateless, drain.StepFlip},
		{"nb", fleet.Pausable, drain.StepRestore},
		{"pg", fleet.Durable, drain.StepPromote},
		{"old", fleet.Stuck, drain.StepNotice},
	} {
		t.Run(c.id+" "+string(c.step), func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.add(c.id, c.class, stubborn)
				w.cordoned()
				begun := map[string]int{}
				first := w.engine(ann, withMover(w), func(cfg *engine.Config) {
					cfg.Levers = maps.Clone(cfg.Levers)
					for kind, l := range cfg.Levers {
						cfg.Levers[kind] = &counted{l, begun}
					}
				})
				start(t, first, 2*time.Hour)
				asleep := w.stepTo(first, c.step)
				before := begun[asleep.Job.Act.ID]
				time.Sleep(drain.LeaseTTL + time.Second)
				if s := drive(t, w.engine(bob, withMover(w))); s.Phase != drain.Empty || len(s.Lost) > 0 {
					t.Fatalf("the second driver: %s, lost %v, items %+v", s.Phase, s.Lost, s.Items)
				}
				w.plane.mu.Lock()
				claim := w.plane.claims[vm(c.id)]
				claim.Host = "prod/h3" // and on it went from there
				w.plane.claims[vm(c.id)] = claim
				w.plane.mu.Unlock()
				if _, err := asleep.Do(); !errors.Is(err, drain.ErrLeaseLost) || begun[asleep.Job.Act.ID] != before {
					t.Errorf("begun by the driver that was overtaken: %v", err)
				}
				if at := w.plane.claims[vm(c.id)].Host; at != "prod/h3" {
					t.Errorf("it is claimed on %s", at)
				}
				if bad := w.moves(); bad != "" {
					t.Error(bad)
				}
				w.held()
			})
		})
	}
}

// Where nobody has taken over, one who wakes late goes on: the journal says that
// the lease is still its own.
func TestLateActOfTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("web", fleet.Stateless)
		w.cordoned()
		e := w.engine(ann)
		id := start(t, e, 2*time.Hour)
		late := w.stepTo(e, drain.StepFlip)
		lease, err := w.log.Leases(t.Context())
		if err != nil || len(lease) != 1 || lease[0].Drain != id {
			t.Fatalf("leases %v, %v", lease, err)
		}
		time.Sleep(drain.LeaseTTL - 2*time.Second) // too late to be sure, and not lost yet
		if a, err := late.Do(); err != nil || a.Result != drain.Done || w.plane.claims[vm("web")].Host != target {
			t.Errorf("%v, %v, claimed on %s", a, err, w.plane.claims[vm("web")].Host)
		}
	})
}

// cordoned lets the source have been cordoned for long.
func (w *world) cordoned() {
	ago := time.Now().Add(-time.Hour)
	w.boxes[source].holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: "ann", Why: "kernel", Since: ago}
	w.plane.flags[source] = fleet.Flag{Set: true, Who: "ann", At: ago}
}

// stepTo drives until the intent of a step stands in the journal, and returns the
// act that has not begun.
func (w *world) stepTo(e *engine.Engine, step drain.Step) *engine.Begun {
	w.t.Helper()
	s, err := e.Step(w.t.Context(), source, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	begun, _, err := s.Open(w.t.Context())
	for range 600 {
		for _, b := range begun {
			if b.Job.Act.Step == step {
				return b
			}
			a, err := b.Do()
			if err = s.Deliver(b, a, err); err != nil {
				w.t.Fatal(err)
			}
		}
		if err == nil {
			err = s.Renew(w.t.Context())
		}
		if err == nil {
			time.Sleep(time.Second)
			begun, _, _, err = s.Pass(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("no intent of %s: %+v", step, s.State().Items)
	return nil
}

// counted counts how often each act is asked for.
type counted struct {
	engine.Lever
	begun map[string]int
}

func (c *counted) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	c.begun[j.Act.ID]++
	return c.Lever.Do(ctx, j)
}
