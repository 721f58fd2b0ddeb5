package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// meeting is a journal at which the first starts of two drains arrive at the same
// time: each has chosen its target when neither intent is written.
type meeting struct {
	engine.Journal
	mu   sync.Mutex
	here map[string]bool
	both chan struct{}
}

func (m *meeting) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	if ev := b.Events[0]; ev.Kind == (drain.DriveIntent{}).Kind() && strings.Contains(string(ev.Body), "/start/") {
		m.mu.Lock()
		m.here[b.Stream] = true
		if len(m.here) == 2 && m.both != nil {
			close(m.both)
			m.both = nil
		}
		wait := m.both
		m.mu.Unlock()
		if wait != nil {
			<-wait
		}
	}
	return m.Journal.Append(ctx, b)
}

// promised folds the streams of some hosts, as a station does.
func (w *world) promised(hosts ...fleet.HostID) func(context.Context, fleet.HostID, uint64) (map[fleet.HostID][]fleet.Needs, error) {
	return func(ctx context.Context, except fleet.HostID, before uint64) (map[fleet.HostID][]fleet.Needs, error) {
		sum := map[fleet.HostID][]fleet.Needs{}
		for _, h := range hosts {
			events, err := w.log.Stream(ctx, string(h), 0, 0)
			if err != nil {
				return nil, err
			}
			s, _ := drain.Fold(drain.State{}, events)
			for target, needs := range s.Promises(before) {
				if h != except {
					sum[target] = append(sum[target], needs...)
				}
			}
		}
		return sum, nil
	}
}

// Two drains that decide in the same moment, and one free place: one of them has
// it, and the other waits until there is another.
func TestTwoDrainsAndOnePlace(t *testing.T) {
	const second = fleet.HostID("prod/h3")
	play(t, func(t *testing.T, w *world) {
		w.boxes[second] = newBox(w, second)
		w.boxes[second].slots, w.boxes[source].slots = -1, -1
		w.boxes[target].slots = 1
		w.add("web", fleet.Stateless)
		w.addOn(second, "api", fleet.Stateless)
		meet := &meeting{Journal: &faulty{w.log, w}, here: map[string]bool{}, both: make(chan struct{})}
		drains := map[fleet.HostID]*driving{}
		for h, who := range map[fleet.HostID]drain.Actor{source: ann, second: bob} {
			e := w.engine(who, func(c *engine.Config) {
				c.Journal, c.PromisedBefore = meet, w.promised(source, second)
				c.Promised = func(ctx context.Context, except fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
					return c.PromisedBefore(ctx, except, 0)
				}
			})
			startOn(t, e, h, 2*time.Hour)
			drains[h] = besideOn(t, e, h, nil)
		}
		time.Sleep(10 * time.Minute)
		if n := copies(w); n != 1 || started(w) != 1 {
			t.Fatalf("%d copies, %d starts for one place", n, started(w))
		}
		withdrawn, waits := 0, 0
		for _, h := range []fleet.HostID{source, second} {
			events, err := w.log.Stream(t.Context(), string(h), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				if b, err := ev.Decode(); err == nil {
					if out, ok := b.(drain.DriveOutcome); ok && out.Result == drain.Withdrawn {
						withdrawn++
					}
				}
			}
			s, _ := drain.Fold(drain.State{}, events)
			for _, it := range s.Items {
				if it.Reason.Code == drain.WaitNoRoom && it.Open() {
					waits++
				}
			}
		}
		if withdrawn != 1 || waits != 1 {
			t.Errorf("%d withdrawn, %d wait for room", withdrawn, waits)
		}
		w.boxes[target].mu.Lock()
		w.boxes[target].slots = 2
		w.boxes[target].mu.Unlock()
		for h, d := range drains {
			if s, err := d.end(); err != nil || s.Phase != drain.Empty {
				t.Errorf("%s: %v, phase %s, items %+v", h, err, s.Phase, s.Items)
			}
		}
		if n := copies(w); n != 2 {
			t.Errorf("%d copies in the end", n)
		}
	})
}
