package sim

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// World is one history.
type World struct {
	seed   uint64
	rng    *rand.Rand // of what happens by itself; calls draw by their names
	began  time.Time
	faults bool
	policy drain.Policy

	log      *Log
	ahead    time.Duration // the journal's clock
	plane    *plane
	hosts    map[fleet.HostID]*host // the machine that answers at an address
	sources  []fleet.HostID         // those that are drained
	order0   []fleet.HostID         // all of them
	consoles []*console
	op       *console
	calm     bool       // few faults: such a history comes further
	signed   bool       // the journal is shared: asks are signed
	opKey    ssh.Signer // of the operator
	thief    ssh.Signer // of somebody who is none
	queue    []event
	queued   int
	cuts     map[string]time.Time // console>way, or way
	meddles  time.Time
	nested   bool // something happens in the middle of a call
	late     bool // an act arrives that its sender had given up
	sites    map[fleet.Key]*site
	efforts  map[string]*effort
	order    []string
	asked    map[fleet.HostID]bool // an operator lifts something there just now
	proofs   map[fleet.HostID][]engine.SignedProof

	mu    sync.Mutex // the engine tells both sides of a cordon at the same time
	draws map[string]uint64
	ids   *rand.Rand

	// What has been seen, for the checks.
	bad     string
	checked map[Check]int
	watches map[fleet.HostID]*watch
	leases  map[string]drain.Lease
	notices map[fleet.Run]time.Time // when it was first tried to tell of it
	heard   map[fleet.Run]time.Time // when somebody heard
	intents map[string]fleet.Key
	forged  map[string]bool // events of somebody who is no operator
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
	w := &World{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ids: rand.New(rand.NewPCG(seed, 2)), began: time.Now(), faults: true, policy: policy(),
		hosts: map[fleet.HostID]*host{}, cuts: map[string]time.Time{}, sites: map[fleet.Key]*site{}, efforts: map[string]*effort{},
		asked: map[fleet.HostID]bool{}, proofs: map[fleet.HostID][]engine.SignedProof{},
		draws: map[string]uint64{}, checked: map[Check]int{}, watches: map[fleet.HostID]*watch{}, leases: map[string]drain.Lease{},
		notices: map[fleet.Run]time.Time{}, heard: map[fleet.Run]time.Time{}, intents: map[string]fleet.Key{}, forged: map[string]bool{},
		tally: map[string]int{}}
	w.policy.Receivers = w.rng.IntN(2) == 0
	w.signed = w.rng.IntN(4) == 0
	w.calm = w.rng.IntN(2) == 0
	w.opKey, w.thief = keyOf("operator"), keyOf("thief")
	skew := func() time.Duration { return []time.Duration{0, 0, time.Hour, -time.Hour}[w.rng.IntN(4)] }
	w.ahead = skew()
	w.log = NewLog(func() time.Time { return time.Now().Add(w.ahead) })
	w.log.saw = w.saw
	w.plane = &plane{w: w, claims: map[fleet.Key][]version{}, flags: map[fleet.HostID]fleet.Flag{}, skew: skew()}
	w.sources = []fleet.HostID{"prod/h1", "prod/h2", "prod/h3"}[:[]int{1, 1, 1, 2, 2, 3}[w.rng.IntN(6)]]
	w.order0 = append(slices.Clone(w.sources), "prod/t1", "prod/t2")
	for _, id := range w.order0 {
		h := newHost(w, id, 1)
		h.skew = skew()
		if !w.drains(id) {
			h.slots = 1 + w.rng.IntN(5)
		}
		w.hosts[id] = h
	}
	for _, id := range w.sources {
		w.watches[id] = newWatch(w, id)
		for i := range w.rng.IntN(7) {
			w.arrive(id, i, w.began.Add(-time.Hour))
		}
	}
	for i := range 2 + w.rng.IntN(2) {
		w.consoles = append(w.consoles, newConsole(w, string(rune('a'+i)), nil))
	}
	w.op = newConsole(w, "op", w.opKey)
	return w
}

// targets are the hosts that take what comes from others.
func (w *World) targets() []fleet.HostID { return w.order0[len(w.sources):] }

func (w *World) drains(id fleet.HostID) bool { return slices.Contains(w.sources, id) }

// newID makes the ids of the engines.
func (w *World) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uuid.Must(uuid.NewRandomFromReader(words{w.ids})).String()
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

func (w *World) count(what string) {
	w.mu.Lock()
	w.tally[what]++
	w.mu.Unlock()
}

func (w *World) isTarget(way string) bool {
	h := w.hosts[fleet.HostID(way)]
	return h != nil && !w.drains(h.id)
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
		for _, t := range c.turns {
			sooner(t.due())
		}
	}
	for _, id := range w.order0 {
		w.hosts[id].due(sooner)
	}
	for _, id := range w.order {
		sooner(w.efforts[id].at)
	}
	return at
}

// run lets time pass until an end, or until something has happened that must
// not.
func (w *World) run(end time.Time, until func() bool) {
	for time.Now().Before(end) && w.bad == "" && (until == nil || !until()) {
		if d := time.Until(w.next(end)); d > 0 {
			time.Sleep(d)
		}
		w.step()
	}
}

// step does all that is due, each in its turn, and looks after each.
func (w *World) step() {
	w.steps++
	for _, id := range w.order0 {
		w.hosts[id].tick()
	}
	w.land()
	w.sweep()
	for len(w.queue) > 0 && !w.queue[0].at.After(time.Now()) {
		e := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		e.fn()
		w.sweep()
	}
	for _, c := range w.consoles {
		for _, id := range w.sources {
			if t := c.turns[id]; t != nil {
				t.work()
				w.sweep()
			}
		}
	}
	if w.faults && !time.Now().Before(w.meddles) {
		w.meddles = time.Now().Add(time.Duration(1+w.rng.IntN(w.pace())) * time.Second)
		w.meddle()
		w.sweep()
	}
}

// pace is how many seconds lie between two things that happen, at most.
func (w *World) pace() int {
	if w.calm {
		return 150
	}
	return 60
}

// named is one of the workloads' ids: most are plain, some are such as nobody
// should choose.
func (w *World) named(id fleet.HostID, n int) string {
	name := fmt.Sprintf("%s-w%d", id.Name(), n)
	if n%5 == 4 {
		name += []string{"\n{\"kind\":\"ask.escalate\"}", "\x1b[2J", "/../../etc", "%2f%", "\u202e", " ~"}[n/5%6]
	}
	return name
}
