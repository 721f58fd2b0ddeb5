package station

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/observe"
	"ebb/tui/feed"
)

// still is a host that is never reached: what a console does on its own is what
// is looked at here.
type still struct{}

func (still) Look(context.Context, fleet.HostID) (fleet.HostView, error) {
	return fleet.HostView{}, errors.New("away")
}
func (still) Targets(fleet.HostID) []fleet.HostView { return nil }

func testStation(t *testing.T) *Station {
	t.Helper()
	j := openJournal(t)
	s := &Station{Journal: j, Actor: drain.Actor{Name: "ann", Console: "c:1"}, Policy: drain.DefaultPolicy(), log: slog.New(slog.DiscardHandler),
		spool: testSpool(t), Observer: observe.New(observe.Config{})}
	s.Engine = engine.New(engine.Config{Journal: j, Look: still{}, Agents: nobody{}, Actor: s.Actor, Holder: "c:1", Retry: time.Millisecond,
		Plane: func(fleet.HostID) (engine.Cordoner, error) { return nil, errors.New("away") }})
	return s
}

func startDrain(t *testing.T, s *Station, host fleet.HostID) {
	t.Helper()
	if _, _, err := s.Engine.Start(t.Context(), host, engine.Request{Deadline: time.Hour}, drain.Plan{}); err != nil {
		t.Fatal(err)
	}
}

// Everything at once, from many screens: nothing races, and nothing is left
// when the console has ended.
func TestConsoleEnds(t *testing.T) {
	s := testStation(t)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	c := NewConsole(ctx, s, false)
	startDrain(t, s, "p/a")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				_, next := c.Latest()
				_ = c.Ask(ctx, "p/a", drain.AskRetry{})
				_, _ = c.Drain(ctx, "p/a", feed.Request{Deadline: time.Hour}, drain.Plan{})
				_, _ = c.Cordon(ctx, "p/a", "")
				_, _ = c.Undrain(ctx, "p/a")
				c.Focus("p/a")
				c.Stop()
				select {
				case <-next:
				case <-time.After(time.Second):
				}
			}
		})
	}
	wg.Wait()
	c.Stop()
	cancel()
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the console does not end")
	}
	goleak.VerifyNone(t, before)
}

// What another process appends is on the screen, and what was kept for the
// journal is given to it.
func TestConsoleFollowsTheJournal(t *testing.T) {
	s := testStation(t)
	if err := s.spool.keep(record(t, "p/a", "kept", "a hunch")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := NewConsole(ctx, s, false)
	defer func() { cancel(); c.Wait() }()
	startDrain(t, s, "p/a")
	for deadline := time.After(20 * time.Second); ; {
		f, next := c.Latest()
		kept := false
		for _, ev := range f.Events {
			kept = kept || ev.ID == "kept"
		}
		if f.Drains["p/a"].Phase == drain.Planned && kept && f.Journal.Status == fleet.OK {
			return
		}
		select {
		case <-next:
		case <-deadline:
			t.Fatalf("frame %+v", f)
		}
	}
}

func TestConsoleRefuses(t *testing.T) {
	s := testStation(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader := NewConsole(ctx, s, true)
	c := NewConsole(ctx, s, false)
	defer func() { cancel(); c.Wait(); reader.Wait() }()
	if _, err := reader.Cordon(ctx, "p/a", ""); !errors.Is(err, errReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if err := reader.Terminate(ctx, "p/a", "a"); !errors.Is(err, errReadOnly) {
		t.Errorf("read-only: %v", err)
	}
	if err := c.Terminate(ctx, "p/a", "b"); err == nil || !strings.Contains(err.Error(), "was typed") {
		t.Errorf("another name: %v", err)
	}
	if err := c.Terminate(ctx, "p/a", "a"); err == nil || !strings.Contains(err.Error(), "no proof yet") {
		t.Errorf("without a proof of its own: %v", err)
	}
}

// A drain that is asked for again while its stopped drive is still ending is driven
// all the same, once that has ended: what a lifted hold gives back must not be left
// to nobody.
func TestDriveBehindOneThatIsEnding(t *testing.T) {
	s := testStation(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := NewConsole(ctx, s, false)
	defer func() { cancel(); c.Wait() }()
	startDrain(t, s, "p/a")
	now := func() *underway {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.driving["p/a"]
	}
	c.drive("p/a")
	first := now()
	c.stopDriving("p/a")
	c.drive("p/a")
	second := now()
	if second == first {
		t.Fatal("nobody drives it once the first has ended")
	}
	c.drive("p/a")
	if now() != second {
		t.Error("it is driven twice")
	}
	select {
	case <-first.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the first drive does not end")
	}
	if now() != second || second.stopped {
		t.Error("the second drive ended with the first")
	}
}
