package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ebb/fleet"
)

// gates plays the hosts: they admit by the table of their holds.
type gates struct {
	mu    sync.Mutex
	holds map[fleet.HostID]fleet.Holds
	down  map[fleet.HostID]bool
	open  map[string]string // ticket → how it was closed
	asked []fleet.HostID
}

func newGates() *gates {
	return &gates{holds: map[fleet.HostID]fleet.Holds{}, down: map[fleet.HostID]bool{}, open: map[string]string{}}
}

func (g *gates) Admit(_ context.Context, host fleet.HostID, op fleet.Op, key fleet.Key) (string, *Refusal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, host)
	if g.down[host] {
		return "", nil, errors.New("connection refused")
	}
	if a := fleet.Admit(g.holds[host], op, false); !a.Allowed {
		return "", &Refusal{Hold: a.Hold, Reason: a.Reason}, nil
	}
	id := fmt.Sprintf("%s %s", host, key)
	g.open[id] = ""
	return id, nil, nil
}

func (g *gates) Report(_ context.Context, _ fleet.HostID, ticket, closed string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was, ok := g.open[ticket]; !ok || was != "" {
		return fmt.Errorf("ticket %q is %q", ticket, was)
	}
	g.open[ticket] = closed
	return nil
}

func vm(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

// While its view is stale the scheduler goes on choosing a cordoned host, is
// refused, and chooses another; after the window it no longer asks.
func TestStaleScheduler(t *testing.T) {
	c := noon()
	url := "sqlite:" + filepath.Join(t.TempDir(), "p.db")
	p, ctx, g := open(t, url, c), t.Context(), newGates()
	console := open(t, url, c) // another process
	add(t, p, "demo/a", "demo/b")
	if err := p.Put(ctx, fleet.Claim{Key: vm("old"), Host: "demo/b"}); err != nil {
		t.Fatal(err)
	}
	s := &Scheduler{Plane: p, Hosts: g, Name: "sched"}
	start := c.t
	if h, err := s.Place(ctx, Work{Key: vm("1"), Class: fleet.Ephemeral, Owner: "ann", TTL: time.Hour, Labels: map[string]string{"x": "y"}}); err != nil || h != "demo/a" {
		t.Fatalf("placed on %s, %v; a is the emptiest", h, err)
	}
	claims, _ := p.Claims(ctx, []fleet.HostID{"demo/a"})
	if got := claims["demo/a"]; len(got) != 1 || got[0].Phase != fleet.Running || got[0].Owner != "ann" || !got[0].Expires.Equal(c.t.Add(time.Hour)) {
		t.Errorf("claim %+v", got)
	}
	if err := p.End(ctx, vm("1")); err != nil {
		t.Fatal(err)
	}

	c.t = c.t.Add(10 * time.Second)
	g.holds["demo/a"] = fleet.Holds{Cordon: &fleet.Hold{Kind: fleet.CordonHold, Who: "ann"}}
	if _, err := console.Set(ctx, "demo/a", fleet.Flag{Set: true, Who: "ann"}); err != nil {
		t.Fatal(err)
	}
	e, err := console.Eligible(ctx, "demo/a")
	if ok, known := e.Eligible.Get(); err != nil || !known || !ok || !e.Eligible.At.Equal(start) || !e.Flag.Set {
		t.Errorf("the scheduler has not noticed yet, and that can be read: %+v, %v", e, err)
	}
	// Both have one placement now; a comes first, refuses, and b takes it.
	if h, err := s.Place(ctx, Work{Key: vm("2")}); err != nil || h != "demo/b" {
		t.Errorf("placed on %s, %v", h, err)
	}
	refused, err := console.Refused(ctx)
	want := Refused{At: c.t, Host: "demo/a", Key: vm("2"), Who: "sched", Why: "the host is cordoned"}
	if err != nil || len(refused) != 1 || refused[0] != want {
		t.Errorf("refused %+v, want %+v, %v", refused, want, err)
	}

	c.t = start.Add(DefaultCache)
	g.asked = nil
	if h, err := s.Place(ctx, Work{Key: vm("3")}); err != nil || h != "demo/b" || len(g.asked) != 1 {
		t.Errorf("placed on %s after asking %v, %v", h, g.asked, err)
	}
	e, err = console.Eligible(ctx, "demo/a")
	if ok, known := e.Eligible.Get(); err != nil || !known || ok || !e.Eligible.At.Equal(c.t) {
		t.Errorf("the scheduler knows now: %+v, %v", e, err)
	}
	add(t, p, "demo/new")
	if e, err := console.Eligible(ctx, "demo/new"); err != nil || e.Eligible.Status != fleet.Failed {
		t.Errorf("a host that the scheduler has not seen: %+v, %v", e, err)
	}
	for ticket, closed := range g.open {
		if closed != "done" {
			t.Errorf("ticket %s is %q", ticket, closed)
		}
	}
}

func TestNoRoom(t *testing.T) {
	p, ctx, g := open(t, "sqlite::memory:", noon()), t.Context(), newGates()
	s := &Scheduler{Plane: p, Hosts: g}
	var none *NoRoomError
	if _, err := s.Place(ctx, Work{Key: vm("1")}); !errors.As(err, &none) || len(none.Tried) != 0 {
		t.Errorf("no hosts at all: %v", err)
	}
	add(t, p, "demo/a", "demo/b")
	if err := s.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	g.holds["demo/a"] = fleet.Holds{Drain: &fleet.Hold{Kind: fleet.DrainHold}}
	g.down["demo/b"] = true
	_, err := s.Place(ctx, Work{Key: vm("1")})
	if !errors.As(err, &none) || len(none.Tried) != 2 || none.Tried[1].Why != "connection refused" {
		t.Errorf("got %v", err)
	}
	if claims, _ := p.Claims(ctx, nil); len(claims) != 0 {
		t.Errorf("claims of what was not placed: %+v", claims)
	}
}

// What can't be started is neither claimed as running nor left as an open ticket.
func TestStartFails(t *testing.T) {
	p, g := open(t, "sqlite::memory:", noon()), newGates()
	add(t, p, "demo/a")
	s := &Scheduler{Plane: p, Hosts: g}
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("no such image")
	h, err := s.Place(ctx, Work{Key: vm("1"), Start: func(ctx context.Context, host fleet.HostID) error {
		claims, _ := p.Claims(ctx, nil)
		if c := claims[host]; len(c) != 1 || c[0].Status != "starting" || g.open["demo/a vm/1"] != "" {
			t.Errorf("while it starts: %+v, %v", c, g.open)
		}
		cancel() // the caller gives up as well
		return broken
	}})
	if h != "demo/a" || !errors.Is(err, broken) {
		t.Errorf("got %s, %v", h, err)
	}
	claims, _ := p.Claims(t.Context(), nil)
	if c := claims["demo/a"]; len(c) != 1 || c[0].Phase != fleet.Gone || g.open["demo/a vm/1"] != "failed" {
		t.Errorf("claims %+v, tickets %v", c, g.open)
	}
}

func TestPlaceFromManyGoroutines(t *testing.T) {
	p, g := open(t, "sqlite:"+filepath.Join(t.TempDir(), "p.db"), noon()), newGates()
	add(t, p, "demo/a", "demo/b", "demo/c")
	s := &Scheduler{Plane: p, Hosts: g}
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if _, err := s.Place(t.Context(), Work{Key: vm(fmt.Sprint(i))}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	claims, err := p.Claims(t.Context(), nil)
	if n := len(claims["demo/a"]) + len(claims["demo/b"]) + len(claims["demo/c"]); err != nil || n != 30 {
		t.Errorf("%d claims, %v", n, err)
	}
}

// Run keeps the view no older than Cache, and stops with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open(t.Context(), Config{Name: "demo", URL: "sqlite::memory:"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		add(t, p, "demo/a")
		s := &Scheduler{Plane: p, Hosts: newGates(), Cache: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, func(err error) { t.Error(err) }) }()
		synctest.Wait()
		first, _ := p.Eligible(ctx, "demo/a")
		time.Sleep(time.Minute + time.Second) // the bubble's clock
		synctest.Wait()
		second, _ := p.Eligible(ctx, "demo/a")
		if d := second.Eligible.At.Sub(first.Eligible.At); d != time.Minute {
			t.Errorf("refreshed after %v", d)
		}
		cancel()
		<-done
	})
}
