package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/fleet"
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
	park      bool // its rule parks it
	mode      int  // what a snapshot does to it: see site
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

func (h *host) keys() []fleet.Key {
	return slices.SortedFunc(maps.Keys(h.procs), fleet.Key.Compare)
}
