package sim

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"ebb/drain"
	"ebb/fleet"
)

const source = fleet.HostID("prod/h1")

// World is one history.
type World struct {
	seed   uint64
	rng    *rand.Rand // of what happens by itself; calls draw by their names
	began  time.Time
	faults bool
	policy drain.Policy

	log      *Log
	plane    *plane
	hosts    map[fleet.HostID]*host
	order0   []fleet.HostID
	consoles []*console
	op       *console
	queue    []event
	queued   int
	cuts     map[string]time.Time // console>way, or way
	meddles  time.Time
	sites    map[fleet.Key]*site
	efforts  map[string]*effort
	order    []string
	asking   bool // an operator lifts something just now

	mu    sync.Mutex // the engine tells both sides of a cordon at the same time
	draws map[string]uint64

	// What has been seen, for the checks.
	bad     string
	state   drain.State
	leases  map[string]drain.Lease
	notices map[fleet.Run]time.Time // when it was first tried to tell of it
	heard   map[fleet.Run]time.Time // when somebody heard
	named   map[fleet.Run]bool
	mayDie  map[fleet.Key]bool
	records map[string]drain.DriveRecord
	intents map[string]int
	holds   fleet.Holds
	flag    bool
	proved  bool
	steps   int
	tally   map[string]int // what happened, so that it is seen that it does
}

// event is something that happens at a time.
type event struct {
	at time.Time
	n  int
	fn func()
}

// words is the source of the ids that the engine makes.
type words struct{ r *rand.Rand }

func (w words) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.r.Uint32())
	}
	return len(p), nil
}

func newWorld(seed uint64) *World {
	w := &World{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), faults: true, policy: policy(), hosts: map[fleet.HostID]*host{},
		order0: []fleet.HostID{source, "prod/t1", "prod/t2"}, cuts: map[string]time.Time{}, sites: map[fleet.Key]*site{}, efforts: map[string]*effort{},
		draws: map[string]uint64{}, leases: map[string]drain.Lease{}, notices: map[fleet.Run]time.Time{}, heard: map[fleet.Run]time.Time{}, named: map[fleet.Run]bool{},
		mayDie: map[fleet.Key]bool{}, records: map[string]drain.DriveRecord{}, intents: map[string]int{},
		tally: map[string]int{}}
	w.policy.Receivers = w.rng.IntN(2) == 0
	uuid.SetRand(words{rand.New(rand.NewPCG(seed, 2))})
	skew := func() time.Duration { return []time.Duration{0, 0, time.Hour, -time.Hour}[w.rng.IntN(4)] }
	ahead := skew()
	w.log = NewLog(func() time.Time { return time.Now().Add(ahead) })
	w.log.saw = w.saw
	w.plane = &plane{w: w, claims: map[fleet.Key][]version{}, flags: map[fleet.HostID]fleet.Flag{}, skew: skew()}
	for _, id := range w.order0 {
		h := newHost(w, id)
		h.skew = skew()
		w.hosts[id] = h
	}
	for i := range w.rng.IntN(7) {
		w.arrive(i, w.began.Add(-time.Hour))
	}
	w.consoles = []*console{newConsole(w, "a"), newConsole(w, "b")}
	w.op = newConsole(w, "op")
	w.op.kind = "operator"
	return w
}

// draw is a number for one call: of the seed, its name, and how often it was
// drawn before. Calls of two goroutines do not disturb each other.
func (w *World) draw(name string) int {
	w.mu.Lock()
	n := w.draws[name]
	w.draws[name]++
	w.mu.Unlock()
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], w.seed)
	binary.LittleEndian.PutUint64(b[8:], n)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	return int(x >> 2)
}

func (w *World) isTarget(way string) bool {
	return way != string(source) && w.hosts[fleet.HostID(way)] != nil
}

func (w *World) isCut(console, way string) bool {
	now := time.Now()
	return now.Before(w.cuts[console+">"+way]) || console != "op" && now.Before(w.cuts[way])
}

// after puts something into the queue.
func (w *World) after(d time.Duration, fn func()) {
	w.queued++
	e := event{time.Now().Add(d), w.queued, fn}
	i, _ := slices.BinarySearchFunc(w.queue, e, func(a, b event) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.n - b.n
	})
	w.queue = slices.Insert(w.queue, i, e)
}

// next is the time of what happens next.
func (w *World) next(end time.Time) time.Time {
	at := end
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if len(w.queue) > 0 {
		sooner(w.queue[0].at)
	}
	if w.faults {
		sooner(w.meddles)
	}
	for _, c := range w.consoles {
		sooner(c.due())
	}
	for _, id := range w.order0 {
		h := w.hosts[id]
		if !h.agent.up {
			sooner(h.back)
		}
		for _, p := range h.procs {
			if !p.rests && !p.dies.IsZero() {
				sooner(p.dies)
			}
			if !p.rests && !p.expires.IsZero() && !p.overstays {
				sooner(p.expires)
			}
		}
	}
	for _, id := range w.order {
		sooner(w.efforts[id].at)
	}
	return at
}

// run lets time pass until an end, or until something has happened that must
// not.
func (w *World) run(end time.Time, until func() bool) {
	for time.Now().Before(end) && w.bad == "" && !(until != nil && until()) {
		if d := time.Until(w.next(end)); d > 0 {
			time.Sleep(d)
		}
		w.step()
	}
}

// step does all that is due, each in its turn.
func (w *World) step() {
	w.steps++
	for _, id := range w.order0 {
		w.hosts[id].tick()
	}
	w.land()
	w.checkHolds(false)
	for len(w.queue) > 0 && !w.queue[0].at.After(time.Now()) {
		e := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		e.fn()
		w.checkHolds(false)
	}
	for _, c := range w.consoles {
		c.work()
		w.checkHolds(false)
	}
	if w.faults && !time.Now().Before(w.meddles) {
		w.meddles = time.Now().Add(time.Duration(1+w.rng.IntN(60)) * time.Second)
		w.asking = false
		w.meddle()
		w.checkHolds(w.asking)
	}
}
