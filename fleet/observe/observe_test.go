package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ebb/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("away")

// fakes is a plane and its hosts.
type fakes struct {
	mu      sync.Mutex
	hosts   []fleet.Host
	claims  map[fleet.HostID][]fleet.Claim
	away    bool
	calls   []string
	facts   map[fleet.HostID]fleet.Facts
	deaf    map[fleet.HostID]bool
	dead    map[fleet.HostID]bool
	asked   map[fleet.HostID]int
	watched map[fleet.HostID]int
	changed chan struct{}
	ahead   time.Duration
	clocked bool
}

func newFakes(names ...string) *fakes {
	f := &fakes{claims: map[fleet.HostID][]fleet.Claim{}, facts: map[fleet.HostID]fleet.Facts{}, deaf: map[fleet.HostID]bool{},
		dead: map[fleet.HostID]bool{}, asked: map[fleet.HostID]int{}, watched: map[fleet.HostID]int{}, changed: make(chan struct{})}
	for _, n := range names {
		id := fleet.NewHostID("p", n)
		f.hosts = append(f.hosts, fleet.Host{ID: id})
		f.facts[id] = fleet.Facts{Generation: 1, Machine: "m-" + n, Boot: "b", Processes: fleet.Read([]fleet.Process(nil), "t", time.Now(), 0),
			Workloads: fleet.Read([]fleet.Workload(nil), "t", time.Now(), 0)}
	}
	return f
}

func (f *fakes) do(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// host changes the facts of a host and tells those who watch.
func (f *fakes) host(name string, change func(*fleet.Facts)) {
	f.do(func() {
		id := fleet.NewHostID("p", name)
		facts := f.facts[id]
		facts.Generation++
		change(&facts)
		f.facts[id] = facts
		close(f.changed)
		f.changed = make(chan struct{})
	})
}

func (f *fakes) Hosts(context.Context) ([]fleet.Host, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "hosts")
	if f.away {
		return nil, errAway
	}
	return append([]fleet.Host(nil), f.hosts...), nil
}

func (f *fakes) Claims(context.Context, []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "claims")
	if f.away {
		return nil, errAway
	}
	out := map[fleet.HostID][]fleet.Claim{}
	for h, c := range f.claims {
		out[h] = append([]fleet.Claim(nil), c...)
	}
	return out, nil
}

// clock is a plane whose clock can be read.
type clock struct{ *fakes }

func (c clock) Now(context.Context) (time.Time, error) { return time.Now().Add(c.ahead), nil }

type fakeAgent struct {
	*fakes
	id fleet.HostID
}

func (a fakeAgent) ready(ctx context.Context) error {
	a.mu.Lock()
	dead, deaf := a.dead[a.id], a.deaf[a.id]
	a.asked[a.id]++
	a.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	if dead {
		return errAway
	}
	return nil
}

func (a fakeAgent) now() fleet.Facts {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.facts[a.id]
	f.At = time.Now()
	return f
}

func (a fakeAgent) Summary(ctx context.Context) (fleet.Summary, error) {
	if err := a.ready(ctx); err != nil {
		return fleet.Summary{}, err
	}
	f := a.now()
	return fleet.Summary{Generation: f.Generation, At: f.At, Machine: f.Machine, Holds: f.Holds}, nil
}

func (a fakeAgent) Facts(ctx context.Context, _ bool) (fleet.Facts, error) {
	a.do(func() { a.calls = append(a.calls, "facts") })
	if err := a.ready(ctx); err != nil {
		return fleet.Facts{}, err
	}
	return a.now(), nil
}

// Watch tells changes, and every five seconds that there are none.
func (a fakeAgent) Watch(ctx context.Context, fn func(fleet.Facts) error) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	a.do(func() { a.watched[a.id]++ })
	defer a.do(func() { a.watched[a.id]-- })
	for {
		a.mu.Lock()
		next := a.changed
		a.mu.Unlock()
		if err := fn(a.now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		case <-time.After(5 * time.Second):
		}
		if a.gone() {
			return errAway
		}
	}
}

func (a fakeAgent) gone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dead[a.id]
}

// observing runs an observer in virtual time.
func observing(t *testing.T, f *fakes, fn func(*testing.T, *Observer)) {
	synctest.Test(t, func(t *testing.T) {
		f.changed = make(chan struct{}) // of this bubble
		var plane Plane = f
		if f.clocked {
			plane = clock{f}
		}
		o := New(Config{Planes: map[string]Plane{"p": plane}, Window: map[string]time.Duration{"p": 35 * time.Second},
			Agent: func(_ context.Context, h fleet.Host) (Agent, error) { return fakeAgent{f, h.ID}, nil }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = o.Run(ctx) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Second)
		fn(t, o)
	})
}

func (o *Observer) see(t *testing.T, name string) fleet.HostView {
	t.Helper()
	snap, _ := o.Latest()
	v, ok := snap.Host(fleet.NewHostID("p", name))
	if !ok {
		t.Fatalf("%s is not in the snapshot", name)
	}
	return v
}

func TestPublishes(t *testing.T) {
	f := newFakes("a", "b")
	observing(t, f, func(t *testing.T, o *Observer) {
		old, next := o.Latest()
		f.host("a", func(x *fleet.Facts) { x.Holds.Cordon = &fleet.Hold{Who: "ann"} })
		select {
		case <-next:
			t.Error("a new snapshot before anything was read")
		default:
		}
		<-next
		time.Sleep(4 * time.Second)
		snap, _ := o.Latest()
		if h, _, _ := snap.Hosts[0].Holds(); h.Cordon == nil || snap.Seq <= old.Seq {
			t.Errorf("holds %+v, seq %d after %d", h, snap.Seq, old.Seq)
		}
		if h, _, _ := old.Hosts[0].Holds(); h.Cordon != nil {
			t.Error("an old snapshot has changed")
		}
	})
}

func TestPublishesTenTimesASecondAtTheMost(t *testing.T) {
	f := newFakes("a")
	observing(t, f, func(t *testing.T, o *Observer) {
		o.Focus("p/a")
		time.Sleep(time.Second)
		before, _ := o.Latest()
		for range 500 {
			f.host("a", func(*fleet.Facts) {})
			time.Sleep(4 * time.Millisecond)
		}
		after, _ := o.Latest()
		if n := after.Seq - before.Seq; n < 10 || n > 22 {
			t.Errorf("%d snapshots in two seconds", n)
		}
	})
}

// A silent host keeps its values with their age, and makes no other host wait.
func TestUnreachable(t *testing.T) {
	names := []string{"ok"}
	for i := range 60 {
		names = append(names, fmt.Sprintf("dead%d", i))
	}
	f := newFakes(names...)
	observing(t, f, func(t *testing.T, o *Observer) {
		time.Sleep(5 * time.Second)
		for _, n := range names[1:] {
			f.do(func() { f.deaf[fleet.NewHostID("p", n)] = true })
		}
		was := o.see(t, "dead0")
		time.Sleep(2 * time.Minute)
		v := o.see(t, "dead0")
		if v.Unreachable.IsZero() || v.Problem == "" || v.Summary.Status != fleet.OK || v.Summary.Value.Machine != "m-dead0" || time.Since(v.Summary.At) < 100*time.Second {
			t.Errorf("%+v, was %+v", v, was)
		}
		if age := time.Since(o.see(t, "ok").Summary.At); age > 10*time.Second {
			t.Errorf("the one that answers was asked %v ago", age)
		}
		for _, n := range names[1:] {
			f.do(func() { delete(f.deaf, fleet.NewHostID("p", n)) })
		}
		time.Sleep(time.Minute)
		if v := o.see(t, "dead0"); !v.Unreachable.IsZero() || v.Problem != "" {
			t.Errorf("back, and %+v", v)
		}
	})
}

func TestPlaneFailsAndHostVanishes(t *testing.T) {
	f := newFakes("a", "b")
	observing(t, f, func(t *testing.T, o *Observer) {
		o.Focus("p/a", "p/b")
		time.Sleep(5 * time.Second)
		f.do(func() { f.away = true })
		time.Sleep(5 * time.Second)
		snap, _ := o.Latest()
		if v := o.see(t, "a"); v.Claims.Status != fleet.Failed || v.Claims.Error != "away" || v.Stable {
			t.Errorf("claims %+v, stable %v", v.Claims, v.Stable)
		}
		if p := snap.Planes[0]; p.Status != fleet.Failed || time.Since(p.At) < 4*time.Second {
			t.Errorf("plane %+v", p)
		}
		f.do(func() { f.away, f.hosts = false, f.hosts[:1] })
		time.Sleep(10 * time.Second)
		if snap, _ = o.Latest(); len(snap.Hosts) != 1 {
			t.Errorf("%d hosts", len(snap.Hosts))
		}
		f.do(func() {
			if f.watched["p/a"] != 1 || f.watched["p/b"] != 0 {
				t.Errorf("watches %v", f.watched)
			}
		})
	})
}

func TestFocus(t *testing.T) {
	f := newFakes("a", "b")
	observing(t, f, func(t *testing.T, o *Observer) {
		o.Focus("p/a")
		time.Sleep(time.Second)
		f.do(func() {
			if f.watched["p/a"] != 1 || f.watched["p/b"] != 0 {
				t.Errorf("watches %v", f.watched)
			}
		})
		f.do(func() { f.dead["p/a"] = true })
		time.Sleep(20 * time.Second)
		if v := o.see(t, "a"); v.Unreachable.IsZero() || v.Facts.Status != fleet.OK {
			t.Errorf("unreachable %v, facts %s", v.Unreachable, v.Facts.Status)
		}
		f.do(func() { f.dead["p/a"] = false })
		time.Sleep(30 * time.Second)
		if v := o.see(t, "a"); !v.Unreachable.IsZero() {
			t.Error("still unreachable")
		}
		o.Focus("p/b")
		time.Sleep(5 * time.Second)
		f.do(func() {
			if f.watched["p/a"] != 0 || f.watched["p/b"] != 1 {
				t.Errorf("watches %v", f.watched)
			}
		})
	})
}
