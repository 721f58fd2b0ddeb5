package sim

import (
	"errors"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// signalled is a signal as a process felt it.
type signalled struct {
	at     time.Time
	run    fleet.Run
	key    fleet.Key
	signal string
	act    string
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

// Remove takes a thing away.
func (h *host) Remove(r wire.ActRequest) {
	h.w.checkClean(h, r)
	h.lastAct = time.Now()
	h.w.count("cleaned")
	delete(h.things, r.Key.ID)
}
