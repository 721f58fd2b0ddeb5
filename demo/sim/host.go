package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/probes/wire"
)

// proc is one workload as it really is, or one process that nothing explains.
type proc struct {
	key       fleet.Key
	run       fleet.Run
	born      time.Time
	class     fleet.Class
	owner     string
	expires   time.Time
	grace     time.Duration // its owner's
	stubborn  bool          // ignores TERM
	immortal  bool          // ignores KILL too, as a process in D state does
	overstays bool          // ignores its TTL
	declared  bool          // has a manifest
	unclaimed bool
	stray     bool // recognised by no rule
	rests     bool
	lever     bool
	mode      int // what a snapshot does to it: see site
	start     string
	health    string
	dies      time.Time // it has heard TERM
	copy      bool      // a replacement, on a target
	netns     string    // identity of what it owns
	serves    bool      // answers requests
	unready   bool      // and takes none any more
	requests  []time.Time
}

// busy is how many requests it has in flight.
func (p *proc) busy() int {
	n := 0
	for _, end := range p.requests {
		if end.After(time.Now()) {
			n++
		}
	}
	return n
}

// death is how an incarnation really ended.
type death struct {
	run   fleet.Run
	at    time.Time
	cause string // crash, reboot, owner, ttl, term, kill, lever
}

// thing is a network namespace: what may be left of a workload.
type thing struct {
	identity string
	owner    fleet.Key
	user     fleet.Run // the process in it; none where it is a leak
}

// host is a machine with its agent, its disk and its clock.
type host struct {
	w       *World
	id      fleet.HostID
	machine string
	gen     int // which machine of this name
	boot    string
	boots   int
	bootAt  time.Time
	skew    time.Duration
	off     time.Time // until when it does not answer
	gone    bool      // for good
	back    time.Time // when an agent that ended is started again
	full    time.Time // until when its disk takes no write
	agent   *agent
	procs   map[fleet.Key]*proc
	things  map[string]thing
	probe   string
	pids    int
	slots   int // how many workloads it takes; 0 is any number
	excess  int // what has come in spite of that, and was no decision

	// What it has really gone through.
	heard   map[string]uint64 // the highest epoch that it confirmed, by drain
	effects map[string]int    // by act and run
	lastAct time.Time
	signals []signalled
	deaths  map[fleet.Key][]death
	lying   map[fleet.Key]bool // replacements that say that they answer, and do not
	ended   int                // how often a terminator ran for it
}

// signalled is a signal as a process felt it.
type signalled struct {
	at     time.Time
	run    fleet.Run
	key    fleet.Key
	signal string
	act    string
}

// keyOf makes a key that is always the same.
func keyOf(name string) ssh.Signer {
	seed := sha256.Sum256([]byte(name))
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		panic(err)
	}
	return s
}

func newHost(w *World, id fleet.HostID, gen int) *host {
	h := &host{w: w, id: id, gen: gen, machine: fmt.Sprintf("m%d-%s", gen, id.Name()), bootAt: time.Now().Add(-100 * time.Hour), procs: map[fleet.Key]*proc{},
		things: map[string]thing{}, heard: map[string]uint64{}, effects: map[string]int{}, deaths: map[fleet.Key][]death{}, lying: map[fleet.Key]bool{}}
	h.boot = h.bootID()
	h.agent = newAgent(h, h.machine)
	return h
}

func (h *host) bootID() string { return fmt.Sprintf("b%d-%s", h.boots, h.machine) }

// Clock is the wall clock; Boottime goes on whatever is done to that.
func (h *host) Clock() time.Time { return time.Now().Add(h.skew) }

// Boottime implements machine.
func (h *host) Boottime() time.Duration { return time.Since(h.bootAt) }

// Boot implements machine.
func (h *host) Boot() string { return h.boot }

// Signer implements machine.
func (h *host) Signer() ssh.Signer { return keyOf(h.machine) }

// Disk draws how a write goes.
func (h *host) Disk() string {
	if !h.w.faults {
		return ""
	}
	if time.Now().Before(h.full) {
		h.w.count("disk fail")
		return "fail"
	}
	switch n := h.w.draw("disk "+string(h.id)) % 1000; {
	case n < 8:
		h.w.count("disk fail")
		return "fail"
	case n < 12:
		h.w.count("disk torn")
		h.back = time.Now().Add(time.Duration(n) * time.Second)
		return "torn"
	}
	return ""
}

// Dies draws whether the agent ends at a point of an act.
func (h *host) Dies(point string) bool {
	n := h.w.draw("dies " + point + string(h.id))
	if !h.w.faults || n%100 > 0 {
		return false
	}
	h.w.count("agent dies at " + point)
	h.back = time.Now().Add(time.Duration(1+n/100%40) * time.Second)
	return true
}

// Owner implements machine.
func (h *host) Owner(run fleet.Run) (fleet.Key, time.Duration, bool) {
	for _, p := range h.procs {
		if p.run == run && !p.rests {
			return p.key, p.grace, true
		}
	}
	return fleet.Key{}, 0, false
}

// Signal lets a process feel a signal.
func (h *host) Signal(r wire.ActRequest, run fleet.Run) {
	h.w.checkSignal(h, r, run)
	h.lastAct = time.Now()
	h.w.count(r.Signal)
	for k, p := range h.procs {
		if p.run != run {
			continue
		}
		h.signals = append(h.signals, signalled{time.Now(), run, p.key, r.Signal, r.ID})
		switch {
		case r.Signal == "KILL" && !p.immortal:
			h.die(k, "kill")
		case r.Signal == "TERM" && !p.stubborn && p.dies.IsZero():
			p.dies = time.Now().Add(time.Duration(1+h.w.draw("term")%8) * time.Second)
		}
	}
}

// Exec runs a command for a workload: its start here, whether it answers, or that
// it takes no requests any more.
func (h *host) Exec(r wire.ActRequest) error {
	h.w.checkActed(h, r, r.ID)
	h.lastAct = time.Now()
	h.w.count("exec " + r.Command)
	switch r.Command {
	case "start":
		if h.procs[r.Key] == nil {
			p := h.add(r.Key, fleet.Stateless, func(p *proc) { p.copy = true })
			h.lying[p.key] = h.w.faults && h.w.draw("lies")%6 == 0
			h.w.checkRoom(h)
		}
	case "health":
		if h.procs[r.Key] == nil || h.w.faults && h.w.draw("health")%4 == 0 {
			return errors.New("it does not answer")
		}
	case "unready":
		p := h.procs[r.Key]
		if p == nil || h.w.faults && h.w.draw("unready")%6 == 0 {
			return errors.New("it does not say so")
		}
		p.unready = true
	}
	return nil
}

// Gauge reads how many requests a workload has in flight.
func (h *host) Gauge(k fleet.Key) (int, error) {
	p := h.procs[k]
	if p == nil || h.w.faults && h.w.draw("gauge")%12 == 0 {
		return 0, errors.New("unreachable")
	}
	return p.busy(), nil
}

// After implements machine.
func (h *host) After(d time.Duration, fn func()) {
	boot := h.boot
	h.w.after(d, func() {
		if h.boot == boot && !h.gone {
			fn()
		}
	})
}

// Remove takes a thing away.
func (h *host) Remove(r wire.ActRequest) {
	h.w.checkClean(h, r)
	h.lastAct = time.Now()
	h.w.count("cleaned")
	delete(h.things, r.Key.ID)
}

// Poweroff ends the machine.
func (h *host) Poweroff() {
	h.w.checkTerminated(h, "poweroff")
	h.end()
}

// end is the end of the machine; another may come under its name.
func (h *host) end() {
	for _, k := range h.keys() {
		if !h.procs[k].rests {
			h.die(k, "reboot")
		}
	}
	h.gone, h.agent.up = true, false
	h.ended++
	h.w.count("machine gone")
}

func wk(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

func (h *host) nextRun() fleet.Run {
	h.pids++
	return fleet.Run{Boot: h.boot, PID: 1000 + h.pids, Start: uint64(10000*(h.boots+1) + h.pids)}
}

// add starts a workload.
func (h *host) add(key fleet.Key, class fleet.Class, change ...func(*proc)) *proc {
	p := &proc{key: key, class: class, owner: "team-" + h.id.Name(), born: time.Now(), run: h.nextRun()}
	for _, c := range change {
		c(p)
	}
	if p.stray {
		p.key = fleet.Process{Run: p.run}.Key()
	}
	h.procs[p.key] = p
	h.own(p)
	return p
}

// own gives a workload its namespace; an old one of that name is replaced.
func (h *host) own(p *proc) {
	if p.netns != "" {
		h.things["ns-"+p.key.ID] = thing{identity: fmt.Sprintf("%s.%d", p.netns, p.run.PID), owner: p.key, user: p.run}
	}
}

// die ends an incarnation; what planes hear of it comes later, or never.
func (h *host) die(k fleet.Key, cause string) {
	p := h.procs[k]
	delete(h.procs, k)
	if t, ok := h.things["ns-"+k.ID]; ok && t.user == p.run {
		if t.user = (fleet.Run{}); cause == "reboot" || h.w.draw("leak")%3 > 0 {
			delete(h.things, "ns-"+k.ID)
		} else {
			h.things["ns-"+k.ID] = t
			h.w.count("leak")
		}
	}
	h.w.count("ended by " + cause)
	h.deaths[k] = append(h.deaths[k], death{p.run, time.Now(), cause})
	if p.copy {
		return
	}
	switch cause {
	case "ttl", "term", "kill", "owner":
		h.w.plane.end(k, h.id, time.Duration(h.w.draw("lag")%15)*time.Second)
	}
}

// respawn starts the same workload again, as a supervisor does.
func (h *host) respawn(p *proc) {
	n := *p
	n.run = h.nextRun()
	n.born, n.dies, n.rests, n.unready, n.requests = time.Now(), time.Time{}, false, false, nil
	h.procs[n.key] = &n
	h.own(&n)
	h.serve(&n)
}

// serve lets requests come to a workload for as long as it is ready and its
// traffic has not gone elsewhere.
func (h *host) serve(p *proc) {
	if !p.serves {
		return
	}
	h.After(time.Duration(5+h.w.draw("request")%60)*time.Second, func() {
		if h.procs[p.key] != p || p.rests {
			return
		}
		if c, ok := h.w.plane.at(p.key); !p.unready && (!ok || c.Host == h.id) {
			p.requests = slices.DeleteFunc(p.requests, func(t time.Time) bool { return t.Before(time.Now()) })
			p.requests = append(p.requests, time.Now().Add(time.Duration(1+h.w.draw("answer")%90)*time.Second))
			h.w.count("request")
		}
		h.serve(p)
	})
}

// reboot ends everything here but what is on the disk.
func (h *host) reboot(away time.Duration) {
	for _, k := range h.keys() {
		if h.procs[k].rests {
			continue
		}
		h.die(k, "reboot")
	}
	h.boots++
	h.boot, h.bootAt = h.bootID(), time.Now()
	h.off, h.agent.up, h.back = time.Now().Add(away), false, time.Now().Add(away)
}

// due tells when something happens here next.
func (h *host) due(sooner func(time.Time)) {
	if h.gone {
		return
	}
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

// tick lets happen here what is due.
func (h *host) tick() {
	if h.gone {
		return
	}
	now := time.Now()
	if !h.agent.up && !now.Before(h.back) {
		h.agent.start()
	}
	for _, k := range h.keys() {
		p := h.procs[k]
		switch {
		case p.rests:
		case !p.dies.IsZero() && !now.Before(p.dies):
			h.die(k, "term")
		case !p.expires.IsZero() && !p.overstays && !now.Before(p.expires):
			h.die(k, "ttl")
		}
	}
	if h.agent.up {
		h.agent.observeIdle()
	}
}

func (h *host) keys() []fleet.Key {
	return slices.SortedFunc(maps.Keys(h.procs), fleet.Key.Compare)
}

// durable are the holds that the host would come up with.
func (h *host) durable() fleet.Holds {
	if h.agent.up {
		return h.agent.rec.holds
	}
	best := h.agent.slots[0]
	if b := h.agent.slots[1]; b.ok && (!best.ok || b.seq > best.seq) {
		best = b
	}
	return best.rec.holds
}

// Look reads the host: what its agent's probes see.
func (h *host) Look() fleet.Facts {
	at := h.Clock()
	f := fleet.Facts{Generation: uint64(time.Since(h.w.began)), At: at, Loops: fleet.Read([]fleet.Resource{}, "sim", at, 0),
		Dirs: fleet.Read([]fleet.Resource{}, "sim", at, 0), GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("sim", at, "none"), Offer: fleet.Offer{Slots: h.slots}}
	procs, works, netns := []fleet.Process{}, []fleet.Workload{}, []fleet.Resource{}
	for _, k := range h.keys() {
		p := h.procs[k]
		pr := fleet.Process{Run: p.run, Comm: "work", State: "S", Started: p.born.Add(h.skew)}
		if p.stray {
			procs = append(procs, pr)
			continue
		}
		wl := fleet.Workload{Key: k, Rule: "sim", Phase: fleet.Running, Run: p.run, Runs: []fleet.Run{p.run}, Declared: p.declared, Class: p.class, Owner: p.owner,
			Expires: p.expires, Grace: p.grace, Started: p.born.Add(h.skew), Start: p.start, Health: p.health}
		switch {
		case p.lever:
			wl.Labels = map[string]string{"moved": string(p.class)}
		case p.serves:
			wl.Labels = map[string]string{"serves": "yes"}
		}
		if p.rests {
			wl.Phase, wl.Run, wl.Runs = fleet.AtRest, fleet.Run{}, nil
		} else {
			pr.Owner = k
			procs = append(procs, pr)
		}
		works = append(works, wl)
	}
	for _, name := range slices.Sorted(maps.Keys(h.things)) {
		t := h.things[name]
		r := fleet.Resource{Key: fleet.Key{Kind: "netns", ID: name}, Identity: t.identity, Owner: t.owner}
		if !t.user.IsZero() {
			r.Users = []fleet.Run{t.user}
		}
		netns = append(netns, r)
	}
	f.Processes, f.Workloads, f.Netns = fleet.Read(procs, "sim", at, 0), fleet.Read(works, "sim", at, 0), fleet.Read(netns, "sim", at, 0)
	bad := errors.New("the probe broke")
	switch h.probe {
	case "processes":
		f.Processes = fleet.ReadFailed[[]fleet.Process]("sim", at, 0, bad)
	case "workloads":
		f.Workloads = fleet.ReadFailed[[]fleet.Workload]("sim", at, 0, bad)
	case "netns":
		f.Netns = fleet.ReadFailed[[]fleet.Resource]("sim", at, 0, bad)
	}
	return f
}

// answers reports whether a call reaches the agent.
func (h *host) answers() bool { return !h.gone && h.agent.up && !time.Now().Before(h.off) }
