package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// verbs are all that act on a host.
var verbs = map[string]func(context.Context, *engine.Engine, *world) error{
	"cordon": func(ctx context.Context, e *engine.Engine, _ *world) error {
		_, err := e.Cordon(ctx, source, "", false, nil)
		return err
	},
	"uncordon": func(ctx context.Context, e *engine.Engine, _ *world) error {
		_, err := e.Uncordon(ctx, source, "", true)
		return err
	},
	"undrain": func(ctx context.Context, e *engine.Engine, _ *world) error {
		_, err := e.Undrain(ctx, source, true)
		return err
	},
	"drain": func(ctx context.Context, e *engine.Engine, _ *world) error {
		_, _, err := e.Start(ctx, source, engine.Request{Deadline: time.Hour}, drain.Plan{})
		return err
	},
	"clean": func(ctx context.Context, e *engine.Engine, w *world) error {
		_, err := e.Clean(ctx, source, fleet.Resource{Key: vm("x")}, w.boxes[source].machine)
		return err
	},
	"verify": func(ctx context.Context, e *engine.Engine, _ *world) error {
		_, err := e.Verify(ctx, source, "c")
		return err
	},
	"accept": func(ctx context.Context, e *engine.Engine, _ *world) error {
		return e.Accept(ctx, source, vm("x"), "", vm("x").String())
	},
	"terminate": func(ctx context.Context, e *engine.Engine, _ *world) error {
		return e.Terminate(ctx, source, engine.SignedProof{}, engine.Terminator{Type: "release", To: "ann"}, nil)
	},
}

// Whatever is done to a host first binds it to the machine that answers.
func TestFirstActBinds(t *testing.T) {
	for name, do := range verbs {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				e := w.engine(ann)
				_ = do(t.Context(), e, w) // some of them have nothing to do here
				if s, err := w.state(); err != nil || s.Bound != "m-h1" {
					t.Errorf("%v, bound to %q", err, s.Bound)
				}
			})
		})
	}
}

// Another machine answers at a host's address: every verb refuses, names both and
// says what to do, and touches nothing. A person binds the host anew.
func TestOtherMachineIsRefused(t *testing.T) {
	for name, do := range verbs {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				e := w.engine(ann)
				if _, err := e.Cordon(t.Context(), source, "", false, nil); err != nil {
					t.Fatal(err)
				}
				b := w.boxes[source]
				b.mu.Lock()
				b.machine = "m-new"
				b.holds = fleet.Holds{}
				b.leaks = []fleet.Resource{{Key: vm("x")}}
				b.mu.Unlock()
				before := w.events()
				err := do(t.Context(), e, w)
				var refused *engine.Refused
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), "m-new, not m-h1") || !strings.Contains(refused.Hint(), "ebb agent rebind h1") {
					t.Fatalf("%s: %v", name, err)
				}
				if b.holds.Any() || len(b.lifted) > 0 || len(b.leaks) != 1 || len(b.accepted) > 0 || b.off || b.sealed != "" {
					t.Errorf("it was touched: %+v", b.holds)
				}
				for _, ev := range w.events()[len(before):] {
					if ev.Kind == "ask.start" || ev.Kind == "rec.bound" {
						t.Errorf("journaled: %s", ev.Kind)
					}
				}
				if _, _, err := e.Rebind(t.Context(), source, "h2", ""); !errors.As(err, &refused) {
					t.Errorf("another name typed: %v", err)
				}
				was, now, err := e.Rebind(t.Context(), source, "h1", "reimaged")
				if err != nil || was != "m-h1" || now != "m-new" {
					t.Fatalf("rebind: %v, %s, %s", err, was, now)
				}
				if want := []string{"prod/h1 m-h1 m-new ann reimaged"}; !slices.Equal(b.rebound, want) {
					t.Errorf("the host was told %q", b.rebound)
				}
				if err = do(t.Context(), e, w); err != nil && strings.Contains(err.Error(), "another machine") {
					t.Errorf("after the rebind: %v", err)
				}
			})
		})
	}
}

// A host that is reimaged in mid-drain: its drain stays one of the machine before,
// until that is undrained.
func TestReimagedInMidDrain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		first := start(t, e, 5*time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		d.stop()
		_, _ = d.end()
		b := w.boxes[source]
		b.mu.Lock()
		b.machine, b.boot, b.holds, b.epochs = "m-new", "b-new", fleet.Holds{}, map[string]uint64{}
		b.mu.Unlock()
		var refused *engine.Refused
		if _, err := e.Drive(t.Context(), source, nil); !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "rebind") {
			t.Fatalf("drive: %v", err)
		}
		if _, _, err := e.Rebind(t.Context(), source, "h1", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Drive(t.Context(), source, nil); !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "undrain") {
			t.Fatalf("drive after the rebind: %v", err)
		}
		if _, err := e.Undrain(t.Context(), source, false); err != nil {
			t.Fatal(err)
		}
		if next := start(t, e, 10*time.Minute); next == first {
			t.Error("the old machine's drain is taken up again")
		}
		if s := drive(t, e); s.Phase != drain.DeadlineReached || s.Machine != "m-new" {
			t.Errorf("phase %s of machine %s", s.Phase, s.Machine)
		}
	})
}
