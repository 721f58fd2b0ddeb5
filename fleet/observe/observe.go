// Package observe keeps looking at a fleet, within bounds, and publishes what it
// saw as immutable snapshots with their age.
//
// Control planes are polled for hosts and claims. Every host is watched by its
// agent's summary, a few hundred bytes; full facts are followed only for the
// hosts that somebody looks at (Focus). Look reads one host anew, claims before
// and after the facts, for whoever is about to act on it.
//
// A host that can't be reached keeps its last values with their old times and is
// marked unreachable: silence is never shown as emptiness.
package observe

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/fleet"
)

// Plane is a control plane as far as observing needs it.
type Plane interface {
	Hosts(ctx context.Context) ([]fleet.Host, error)
	Claims(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error)
}

// Eligibler is a plane that can show what its scheduler believes.
type Eligibler interface {
	Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error)
}

// Finder is a plane that can look one host up without listing all of them, which
// is what whoever acts on many hosts would otherwise make it do all the time.
type Finder interface {
	Host(ctx context.Context, id fleet.HostID) (h fleet.Host, listed bool, err error)
}

// SelfClaimer is a plane without claims of its own: the host's word is taken.
type SelfClaimer interface{ SelfClaims() bool }

// Agent is a host's agent as far as observing needs it.
type Agent interface {
	Summary(ctx context.Context) (fleet.Summary, error)
	Facts(ctx context.Context, fresh bool) (fleet.Facts, error)
	Watch(ctx context.Context, fn func(fleet.Facts) error) error
}

// Config says what to observe and how often.
type Config struct {
	Planes map[string]Plane // by plane name
	// Agent opens (or reuses) a channel to a host's agent.
	Agent    func(ctx context.Context, h fleet.Host) (Agent, error)
	Interval time.Duration            // between two summaries of a host, and two polls of a plane; default 3s
	Parallel int                      // hosts asked at the same time; default 64
	Window   map[string]time.Duration // scheduler cache window of each plane, with its margin
	Log      *slog.Logger
}

// Observer observes a fleet. Its zero value is not usable; see New.
type Observer struct {
	cfg Config

	mu      sync.Mutex
	hosts   map[fleet.HostID]*entry
	planes  map[string]*planeEntry
	focus   map[fleet.HostID]bool
	flags   map[fleet.HostID]sighting
	asking  map[fleet.HostID]*asking
	seq     uint64
	latest  fleet.Snapshot
	changed chan struct{} // closed and replaced at each publication
	dirty   chan struct{}
	listed  chan struct{} // hosts have become known
	refocus chan struct{}
}

// entry is what is known of one host.
type entry struct {
	view   fleet.HostView
	before fleet.Reading[[]fleet.Claim] // the claims as read before the facts
	first  time.Time                    // since when a watch has shown these very facts; zero where they were read
	clock  planeClock
}

type planeEntry struct {
	status fleet.ProbeStatus
	clock  planeClock
}

// New makes an observer; nothing is read before Run.
func New(cfg Config) *Observer {
	if cfg.Interval <= 0 {
		cfg.Interval = 3 * time.Second
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 64
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Observer{
		cfg:     cfg,
		hosts:   map[fleet.HostID]*entry{},
		planes:  map[string]*planeEntry{},
		focus:   map[fleet.HostID]bool{},
		flags:   map[fleet.HostID]sighting{},
		asking:  map[fleet.HostID]*asking{},
		changed: make(chan struct{}),
		dirty:   make(chan struct{}, 1),
		listed:  make(chan struct{}, 1),
		refocus: make(chan struct{}, 1),
	}
}

// Latest returns the newest snapshot and a channel that is closed when there is
// a newer one.
func (o *Observer) Latest() (fleet.Snapshot, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest, o.changed
}

// Focus names the hosts whose full facts are wanted; the others are watched by
// their summaries.
func (o *Observer) Focus(hosts ...fleet.HostID) {
	o.mu.Lock()
	want := make(map[fleet.HostID]bool, len(hosts))
	for _, h := range hosts {
		want[h] = true
	}
	same := maps.Equal(want, o.focus)
	o.focus = want
	o.mu.Unlock()
	if !same {
		poke(o.refocus)
	}
}

// Run observes until the context ends.
func (o *Observer) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for name, plane := range o.cfg.Planes {
		g.Go(func() error { return o.pollPlane(ctx, name, plane) })
	}
	g.Go(func() error { return o.pollHosts(ctx) })
	g.Go(func() error { return o.follow(ctx) })
	g.Go(func() error { return o.publish(ctx) })
	return g.Wait()
}

// publish hands out a new snapshot when something has changed, ten times a
// second at the most, and in a twentieth of the time: fleets may be large.
func (o *Observer) publish(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.dirty:
		}
		start := time.Now()
		o.mu.Lock()
		o.seq++
		snap := fleet.Snapshot{Seq: o.seq, At: start, Hosts: make([]fleet.HostView, 0, len(o.hosts))}
		for _, id := range slices.Sorted(maps.Keys(o.hosts)) {
			snap.Hosts = append(snap.Hosts, o.hosts[id].view)
		}
		for _, name := range slices.Sorted(maps.Keys(o.planes)) {
			snap.Planes = append(snap.Planes, o.planes[name].status)
		}
		o.latest = snap
		close(o.changed)
		o.changed = make(chan struct{})
		o.mu.Unlock()
		if !pause(ctx, max(100*time.Millisecond, 20*time.Since(start))) {
			return nil
		}
	}
}

// update changes what is known of one host, if it is still listed.
func (o *Observer) update(id fleet.HostID, change func(*entry)) {
	o.mu.Lock()
	e, ok := o.hosts[id]
	if ok {
		change(e)
	}
	o.mu.Unlock()
	if ok {
		poke(o.dirty)
	}
}

// poke leaves word in a channel of size one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits, and reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
