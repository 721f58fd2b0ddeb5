package sim

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
)

// host is a machine with its agent, its disk and its clock.
type host struct {
	w       *World
	id      fleet.HostID
	machine string
	gen     int       // which machine of this name
	came    time.Time // when it began to answer
	boot    string
	boots   int
	bootAt  time.Time
	skew    time.Duration
	off     time.Time // until when it does not answer
	gone    bool      // for good
	dropped bool      // its plane lists it no more
	back    time.Time // when an agent that ended is started again
	full    time.Time // until when its disk takes no write
	agent   *agent
	procs   map[fleet.Key]*proc
	things  map[string]thing
	probe   string    // the one that fails
	broke   time.Time // since when it does
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
	h := &host{w: w, id: id, gen: gen, came: time.Now(), machine: fmt.Sprintf("m%d-%s", gen, id.Name()), bootAt: time.Now().Add(-100 * time.Hour), procs: map[fleet.Key]*proc{},
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

// After implements machine.
func (h *host) After(d time.Duration, fn func()) {
	boot := h.boot
	h.w.after(d, func() {
		if h.boot == boot && !h.gone {
			fn()
		}
	})
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

// answers reports whether a call reaches the agent.
func (h *host) answers() bool { return !h.gone && h.agent.up && !time.Now().Before(h.off) }
