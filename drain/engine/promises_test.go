package engine_test

import (
	"context"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// What a drain brings to a target is promised from the intent on, and to whoever
// asks: in the process that drives, and in one that only reads.
func TestRoomIsPromisedFromTheIntentOn(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		e, other := w.engine(ann), w.engine(bob)
		start(t, e, 30*time.Minute)
		seen := false
		sink := func(ev drain.Event) {
			body, _ := ev.Decode()
			if in, is := body.(drain.DriveIntent); !is || in.Act.Step != drain.StepStart {
				return
			}
			seen = true
			if err := other.Follow(t.Context(), []fleet.HostID{source}); err != nil {
				t.Error(err)
			}
			if n := len(other.Promises("prod/h9")[target]); n != 1 {
				t.Errorf("a process that reads knows of %d", n)
			}
			if n := len(other.Promises(source)[target]); n != 0 {
				t.Errorf("its own counts as another's: %d", n)
			}
		}
		if s, err := e.Drive(t.Context(), source, sink); err != nil || s.Phase != drain.Empty || !seen {
			t.Fatalf("%v, phase %s, begun %v", err, s.Phase, seen)
		}
		if n := len(e.Promises("prod/h9")); n != 0 {
			t.Errorf("its driver still promises to %d hosts what has arrived", n)
		}
		if err := other.Follow(t.Context(), nil); err != nil { // what is known to promise is read in any case
			t.Error(err)
		}
		if n := len(other.Promises("prod/h9")); n != 0 {
			t.Errorf("%d hosts are still promised what has arrived", n)
		}
	})
}

// Where it can't be read what others have promised, nothing is placed; and what
// counts is what they promise in the moment of placing.
func TestNothingIsPlacedBlindly(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		until := time.Now().Add(5 * time.Minute)
		e := w.engine(ann, func(c *engine.Config) {
			c.Promised = func(context.Context, fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
				if time.Now().Before(until) {
					return nil, errFault
				}
				return nil, nil
			}
		})
		start(t, e, 30*time.Minute)
		var began time.Time
		s, err := e.Drive(t.Context(), source, func(ev drain.Event) {
			body, _ := ev.Decode()
			if in, is := body.(drain.DriveIntent); is && in.Act.Step == drain.StepStart && began.IsZero() {
				began = time.Now()
			}
		})
		if err != nil || s.Phase != drain.Empty || began.Before(until) {
			t.Fatalf("%v, phase %s, begun %v before it could be read", err, s.Phase, until.Sub(began))
		}
	})
}

// A host that was sealed for a terminate that did not come about is looked after
// all the same: what comes to it is named at the deadline.
func TestSealedHostIsNamedAtTheDeadline(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		e := w.engine(ann)
		start(t, e, 20*time.Minute)
		if s := drive(t, e); s.Phase != drain.Empty {
			t.Fatalf("phase %s", s.Phase)
		}
		b := w.boxes[source]
		b.mu.Lock()
		b.sealed = "it"
		b.mu.Unlock()
		w.add("late", fleet.Durable)
		s, err := w.engine(bob).Drive(t.Context(), source, nil)
		if err != nil || s.Phase != drain.DeadlineReached || len(s.Left) == 0 || s.Left[0].Key != vm("late") {
			t.Fatalf("%v, phase %s, left %+v", err, s.Phase, s.Left)
		}
	})
}
