package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
}

// death is how an incarnation really ended.
type death struct {
	run   fleet.Run
	at    time.Time
	cause string // crash, reboot, owner, ttl, term, kill, lever
}

// host is a machine with its agent, its disk and its clock.
type host struct {
	w       *World
	id      fleet.HostID
	machine string
	boot    string
	boots   int
	bootAt  time.Time
	skew    time.Duration
	off     time.Time // until when it does not answer
	back    time.Time // when an agent that ended is started again
	agent   *agent
	procs   map[fleet.Key]*proc
	probe   string
	pids    int

	// What it has really gone through.
	heard   map[string]uint64 // the highest epoch that it confirmed, by drain
	effects map[string]int    // by act and run
	lastAct time.Time
	signals []signalled
	deaths  map[fleet.Key][]death
	lying   map[fleet.Key]bool // replacements that say that they answer, and do not
}

// signalled is a signal as a process felt it.
type signalled struct {
	at     time.Time
	run    fleet.Run
	key    fleet.Key
	signal string
	act    string
}

func newHost(w *World, id fleet.HostID) *host {
	h := &host{w: w, id: id, machine: "m-" + id.Name(), bootAt: time.Now().Add(-100 * time.Hour), procs: map[fleet.Key]*proc{},
		heard: map[string]uint64{}, effects: map[string]int{}, deaths: map[fleet.Key][]death{}, lying: map[fleet.Key]bool{}}
	h.boot = fmt.Sprintf("b%d-%s", h.boots, id.Name())
	h.agent = newAgent(h, h.machine)
	return h
}

// Clock is the wall clock; Boottime goes on whatever is done to that.
func (h *host) Clock() time.Time { return time.Now().Add(h.skew) }

// Boottime implements machine.
func (h *host) Boottime() time.Duration { return time.Since(h.bootAt) }

// Boot implements machine.
func (h *host) Boot() string { return h.boot }

// Disk draws how a write goes.
func (h *host) Disk() string {
	if !h.w.faults {
		return ""
	}
	switch n := h.w.draw("disk "+string(h.id)) % 1000; {
	case n < 8:
		return "fail"
	case n < 12:
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
	h.w.tally[r.Signal]++
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

// Exec runs a command for a workload: its start here, or whether it answers.
func (h *host) Exec(r wire.ActRequest) error {
	h.w.checkActed(h, r, r.ID)
	h.lastAct = time.Now()
	switch r.Command {
	case "start":
		if h.procs[r.Key] == nil {
			p := h.add(r.Key.ID, fleet.Stateless, func(p *proc) { p.copy = true })
			h.lying[p.key] = h.w.faults && h.w.draw("lies")%6 == 0
		}
	case "health":
		if h.procs[r.Key] == nil || h.w.faults && h.w.draw("health")%4 == 0 {
			return errors.New("it does not answer")
		}
	}
	return nil
}

func wk(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }

// add starts a workload.
func (h *host) add(id string, class fleet.Class, change ...func(*proc)) *proc {
	h.pids++
	p := &proc{key: wk(id), class: class, owner: "team-" + id, born: time.Now(),
		run: fleet.Run{Boot: h.boot, PID: 1000 + h.pids, Start: uint64(10000*(h.boots+1) + h.pids)}}
	for _, c := range change {
		c(p)
	}
	if p.stray {
		p.key = fleet.Process{Run: p.run}.Key()
	}
	h.procs[p.key] = p
	return p
}

// die ends an incarnation; what planes hear of it comes later, or never.
func (h *host) die(k fleet.Key, cause string) {
	p := h.procs[k]
	delete(h.procs, k)
	h.w.tally["ended by "+cause]++
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
	h.pids++
	n.run = fleet.Run{Boot: h.boot, PID: 1000 + h.pids, Start: uint64(10000*(h.boots+1) + h.pids)}
	n.born, n.dies, n.rests = time.Now(), time.Time{}, false
	h.procs[n.key] = &n
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
	h.boot, h.bootAt = fmt.Sprintf("b%d-%s", h.boots, h.id.Name()), time.Now()
	h.off, h.agent.up, h.back = time.Now().Add(away), false, time.Now().Add(away)
}

// tick lets happen here what is due.
func (h *host) tick() {
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

// facts are what the agent shows.
func (h *host) facts() fleet.Facts {
	at := h.Clock()
	a := h.agent
	f := fleet.Facts{Generation: uint64(time.Since(h.w.began)), At: at, Machine: h.machine, Boot: h.boot, Holds: a.rec.holds, Sealed: a.rec.sealed,
		Accepted: slices.Clone(a.rec.accepted), Tickets: a.open(), Netns: fleet.Read([]fleet.Resource{}, "sim", at, 0), Loops: fleet.Read([]fleet.Resource{}, "sim", at, 0),
		Dirs: fleet.Read([]fleet.Resource{}, "sim", at, 0), GPUs: fleet.ReadNotApplicable[[]fleet.GPU]("sim", at, "none")}
	procs, works := []fleet.Process{}, []fleet.Workload{}
	for _, k := range h.keys() {
		p := h.procs[k]
		pr := fleet.Process{Run: p.run, Comm: "work", State: "S", Started: p.born.Add(h.skew)}
		if p.stray {
			procs = append(procs, pr)
			continue
		}
		wl := fleet.Workload{Key: k, Rule: "sim", Phase: fleet.Running, Run: p.run, Runs: []fleet.Run{p.run}, Declared: p.declared, Class: p.class, Owner: p.owner,
			Expires: p.expires, Grace: p.grace, Started: p.born.Add(h.skew), Start: p.start, Health: p.health}
		if p.lever {
			wl.Labels = map[string]string{"moved": string(p.class)}
		}
		if p.rests {
			wl.Phase, wl.Run, wl.Runs = fleet.AtRest, fleet.Run{}, nil
		} else {
			pr.Owner = k
			procs = append(procs, pr)
		}
		works = append(works, wl)
	}
	f.Processes, f.Workloads = fleet.Read(procs, "sim", at, 0), fleet.Read(works, "sim", at, 0)
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
func (h *host) answers() bool { return h.agent.up && !time.Now().Before(h.off) }
