package engine_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/demo/sim"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/journal"
	"ebb/fleet"
)

// The world of these tests: hosts whose agents fence, remember acts and hold as
// real ones do, a plane that can be told and asked, a real journal, and faults
// that can be set on every way to them. Time is synctest's.

const (
	source = fleet.HostID("prod/h1")
	target = fleet.HostID("prod/h2")
	window = 10 * time.Second
)

var (
	ann      = drain.Actor{Name: "ann", Console: "console:1"}
	bob      = drain.Actor{Name: "bob", Console: "console:2"}
	errFault = errors.New("the link is down")
)

type world struct {
	t      *testing.T
	mu     sync.Mutex
	boxes  map[fleet.HostID]*box
	plane  *plane
	copies map[fleet.Key]*copied // of what a lever moves
	log    engine.Journal
	url    string // of a journal in a file; empty where it is in memory

	dead chan struct{} // closed when the driver that is to vanish has

	// faults
	away   map[string]time.Time // journal, plane, or a host's id: until when it does not answer
	broken map[int]string       // the n-th call: "fail", "hang", or "lose" for one whose answer is lost
	calls  int
	before func(call string)      // a test's own hand in a call
	landed func(drain.Step) error // a lever's step has come about: an error loses its answer
	deaf   bool                   // the call under way goes on although its context has ended
	unseen bool                   // the claims never agree
	skew   time.Duration          // of the journal's clock
}

func newWorld(t *testing.T) *world { return newWorldOn(t, false) }

// newWorldOn makes a world whose journal is in memory, or a real one in a file.
func newWorldOn(t *testing.T, file bool) *world {
	w := &world{t: t, copies: map[fleet.Key]*copied{}, boxes: map[fleet.HostID]*box{}, away: map[string]time.Time{}, broken: map[int]string{}}
	w.plane = &plane{w: w, flags: map[fleet.HostID]fleet.Flag{}, claims: map[fleet.Key]fleet.Claim{}}
	for _, id := range []fleet.HostID{source, target} {
		w.boxes[id] = newBox(w, id)
	}
	if file {
		w.url = "sqlite:" + filepath.Join(t.TempDir(), "journal.db")
	}
	w.log = w.open()
	return w
}

// open connects to the journal once more. In memory there is only one, which
// keeps the rules of the real one and is a hundred times faster.
func (w *world) open() engine.Journal {
	if w.url == "" {
		if w.log != nil {
			return w.log
		}
		return sim.NewLog(w.clock)
	}
	j, err := journal.Open(w.t.Context(), w.url, journal.WithClock(w.clock))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = j.Close() })
	return j
}

// engine makes one as another process would have it.
func (w *world) engine(who drain.Actor, more ...func(*engine.Config)) *engine.Engine {
	p := drain.DefaultPolicy()
	p.CacheWindow, p.Notice = window, 20*time.Second
	p.Defaults[fleet.Stuck] = fleet.Budget{Grace: 90 * time.Second}
	p.Defaults[fleet.Stateless] = fleet.Budget{Move: 10 * time.Minute, Grace: time.Minute}
	agents := &agents{w}
	cfg := engine.Config{
		Journal: &faulty{w.log, w}, Plane: func(fleet.HostID) (engine.Cordoner, error) { return w.plane, nil },
		Look: &looker{w}, Agents: agents, Policy: p, Actor: who, Holder: who.Console,
		Window: func(fleet.HostID) time.Duration { return window },
		Levers: map[drain.ActKind]engine.Lever{
			drain.ActSignal: &lever{w, "signal"}, drain.ActExec: &lever{w, "exec"},
			drain.ActFlip: &lever{w, "flip"}, drain.ActNotice: &lever{w, "notice"}, drain.ActQuiet: &lever{w, "quiet"},
		},
	}
	for _, m := range more {
		m(&cfg)
	}
	return engine.New(cfg)
}

// clock is the journal's.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew)
}

// call passes a call through, unless a fault is set on its way.
func (w *world) call(ctx context.Context, way, name string, fn func() error) error {
	w.mu.Lock()
	w.calls++
	n := w.calls
	mode := w.broken[n]
	hand := w.before
	w.mu.Unlock()
	if hand != nil {
		hand(way + " " + name)
	}
	w.mu.Lock()
	until, deaf := w.away[way], w.deaf
	w.deaf = false
	w.mu.Unlock()
	if ctx.Err() != nil && !deaf {
		return ctx.Err()
	}
	if time.Now().Before(until) {
		return fmt.Errorf("%s %s: %w", way, name, errFault)
	}
	switch mode {
	case "fail":
		return fmt.Errorf("%s %s: %w (call %d)", way, name, errFault, n)
	case "hang": // a frozen peer, which the link itself notices after a while
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Minute):
			return fmt.Errorf("%s %s: %w (call %d hung)", way, name, errFault, n)
		}
	case "lose":
		_ = fn()
		return fmt.Errorf("%s %s: %w (answer of call %d)", way, name, errFault, n)
	}
	return fn()
}

// cut takes something away for a while.
func (w *world) cut(way string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away[way] = time.Now().Add(d)
}

func (w *world) hand(fn func(call string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = fn
}

// box is a host with its agent.
type box struct {
	w             *world
	id            fleet.HostID
	machine, boot string
	signer        ssh.Signer

	mu       sync.Mutex
	gen      uint64
	holds    fleet.Holds
	epochs   map[string]uint64
	procs    map[fleet.Key]*proc
	disk     map[fleet.Key]*proc // what is parked here
	leaks    []fleet.Resource
	acts     map[string]drain.Answer
	ran      map[string]int
	ranIn    []uint64 // epochs of the acts, in order
	lifted   []string
	rebound  []string
	accepted []fleet.Accepted
	sealed   string
	off      bool
	skew     time.Duration // of its clock
	probe    string        // error of the directory probe
	replicas map[fleet.Key]int
	slots    int           // how much it takes; 0 says nothing
	refuse   []fleet.Issue // against a proof or a seal
	// dies says how the agent dies in the middle of an act: before it has taken
	// effect, after it, or "" for not at all.
	dies func(drain.Act) string
}

type proc struct {
	run      fleet.Run
	class    fleet.Class
	owner    string
	expires  time.Time
	stubborn bool
	started  time.Time
}

func newBox(w *world, id fleet.HostID) *box {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, id)
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		w.t.Fatal(err)
	}
	return &box{w: w, id: id, machine: "m-" + id.Name(), boot: "b-" + id.Name(), signer: signer, epochs: map[string]uint64{},
		procs: map[fleet.Key]*proc{}, disk: map[fleet.Key]*proc{}, acts: map[string]drain.Answer{}, ran: map[string]int{}, replicas: map[fleet.Key]int{}}
}

func vm(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

// add starts a workload that the plane claims.
func (w *world) add(id string, class fleet.Class, change ...func(*proc)) {
	w.addOn(source, id, class, change...)
}

func (w *world) addOn(host fleet.HostID, id string, class fleet.Class, change ...func(*proc)) {
	b := w.boxes[host]
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.procs) + 100
	p := &proc{run: fleet.Run{Boot: b.boot, PID: n, Start: uint64(n)}, class: class, owner: "team-" + id, started: b.clock().Add(-time.Hour)}
	for _, c := range change {
		c(p)
	}
	b.procs[vm(id)] = p
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	w.plane.claims[vm(id)] = fleet.Claim{Key: vm(id), Host: host, Phase: fleet.Running, Class: class, Owner: p.owner, Expires: p.expires}
}

func stubborn(p *proc) { p.stubborn = true }

func expiresIn(d time.Duration) func(*proc) {
	return func(p *proc) { p.expires = time.Now().Add(d) }
}

// reap lets what has expired go, and its claim with it.
func (b *box) reap() {
	for k, p := range b.procs {
		if !p.expires.IsZero() && !time.Now().Before(p.expires) {
			b.leave(k)
		}
	}
}

// clock is the host's.
func (b *box) clock() time.Time { return time.Now().Add(b.skew) }

func (b *box) leave(k fleet.Key) {
	delete(b.procs, k)
	b.gen++
	b.w.plane.gone(b.id, k)
}

func (b *box) facts() fleet.Facts {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reap()
	now := b.clock()
	f := fleet.Facts{Offer: fleet.Offer{Slots: b.slots}, Generation: b.gen, At: now, Machine: b.machine, Boot: b.boot, Holds: b.holds, Sealed: b.sealed, Accepted: slices.Clone(b.accepted)}
	var procs []fleet.Process
	var works []fleet.Workload
	for k, p := range b.procs {
		procs = append(procs, fleet.Process{Run: p.run, Comm: k.ID, State: "S", Started: p.started, Owner: k})
		works = append(works, fleet.Workload{Key: k, Rule: "test", Phase: fleet.Running, Run: p.run, Runs: []fleet.Run{p.run}, Class: p.class,
			Owner: p.owner, Expires: p.expires, Started: p.started, Start: "start", Health: "health"})
	}
	for k, p := range b.disk {
		works = append(works, fleet.Workload{Key: k, Rule: "test", Phase: fleet.AtRest, Class: p.class, Owner: p.owner})
	}
	for k, n := range b.replicas {
		if n > 0 {
			works = append(works, fleet.Workload{Key: k, Rule: "test", Phase: fleet.Running})
		}
	}
	f.Processes = fleet.Read(procs, "test", now, 0)
	f.Workloads = fleet.Read(works, "test", now, 0)
	f.Netns = fleet.Read([]fleet.Resource(nil), "test", now, 0)
	f.Loops = fleet.Read([]fleet.Resource(nil), "test", now, 0)
	f.Dirs = fleet.Read(slices.Clone(b.leaks), "test", now, 0)
	if b.probe != "" {
		f.Dirs = fleet.ReadFailed[[]fleet.Resource]("test", now, 0, errors.New(b.probe))
	}
	f.GPUs = fleet.ReadNotApplicable[[]fleet.GPU]("test", now, "none")
	return f
}

// act is what an agent does with an act: it fences, and carries each id out once.
// acted lists the acts that have run here.
func (b *box) acted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.ran))
}

func (b *box) act(j drain.Job) (drain.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if top := b.epochs[j.Drain]; j.Epoch < top {
		return drain.Answer{}, fmt.Errorf("%w: epoch %d after %d", drain.ErrLeaseLost, j.Epoch, top)
	}
	if had, ok := b.acts[j.Act.ID]; ok {
		return had, nil
	}
	b.epochs[j.Drain] = j.Epoch
	b.ran[j.Act.ID]++
	b.ranIn = append(b.ranIn, j.Epoch)
	answer := drain.Answer{Result: drain.Done}
	death := ""
	if b.dies != nil {
		death = b.dies(j.Act)
	}
	if death != "" {
		answer = drain.Answer{Result: drain.Interrupted, Detail: "the agent died"}
	}
	switch {
	case death == "before":
	case j.Act.Signal != "":
		p := b.procs[j.Act.Key]
		if p == nil || !slices.Contains(j.Act.Runs, p.run) {
			answer = drain.Answer{Result: drain.Refused, Detail: "not the one identified"}
		} else if j.Act.Signal == "KILL" || !p.stubborn {
			b.leave(j.Act.Key)
		}
	case j.Act.Step == drain.StepStart:
		b.replicas[j.Act.Key]++
	}
	b.acts[j.Act.ID] = answer
	return answer, nil
}

// plane is the control plane.
type plane struct {
	w      *world
	mu     sync.Mutex
	flags  map[fleet.HostID]fleet.Flag
	claims map[fleet.Key]fleet.Claim
	stale  bool // the scheduler still offers the host
	blind  bool // its view can't be read
	lifts  int
	skew   time.Duration // of its clock
}

// clock is the control plane's.
func (p *plane) clock() time.Time { return time.Now().Add(p.skew) }

func (p *plane) gone(host fleet.HostID, k fleet.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.claims[k]
	c.Phase, c.Changed = fleet.Gone, p.clock()
	if c.Host == host {
		p.claims[k] = c
	}
}
