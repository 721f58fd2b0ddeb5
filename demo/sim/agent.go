package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/probes/wire"
)

// refusal is an agent's no, with the code that the wire has for it.
type refusal struct {
	code   string
	hold   *fleet.Hold
	epoch  uint64
	issues []fleet.Issue
}

func (r *refusal) Error() string { return r.code }

func refuse(code string) error { return &refusal{code: code} }

// record is what an agent keeps in its slots. It is a value: a change makes a
// new one.
type record struct {
	holds    fleet.Holds
	epochs   map[string]uint64
	seal     string // the drain, in boot
	boot     string // of the seal and of what was accepted
	accepted []fleet.Accepted
}

func (r record) clone() record {
	r.epochs, r.accepted = maps.Clone(r.epochs), slices.Clone(r.accepted)
	if r.epochs == nil {
		r.epochs = map[string]uint64{}
	}
	return r
}

// slot is one of the two places of a record.
type slot struct {
	seq uint64
	rec record
	ok  bool
}

// sent is a TERM, by the host's boot-time clock.
type sent struct {
	at    time.Duration
	boot  string
	key   fleet.Key
	grace time.Duration
}

// acted is an act in the agent's log.
type acted struct {
	req   wire.ActRequest
	reply wire.ActReply
	// unwritten says that the end is known in memory only.
	unwritten bool
}

// machine is what an agent meets of its host: clocks, disk, processes.
type machine interface {
	Clock() time.Time
	Boottime() time.Duration
	Boot() string
	// Disk says how the next write goes; "torn" and "fail" do not take, and after
	// "torn" the agent is gone as well.
	Disk() string
	// Owner says whose a process is that runs now, and the grace that it asks for.
	Owner(fleet.Run) (key fleet.Key, grace time.Duration, runs bool)
	Signal(req wire.ActRequest, run fleet.Run)
	Exec(req wire.ActRequest) error
	// Look reads everything but what the agent itself keeps.
	Look() fleet.Facts
	Signer() ssh.Signer
	// Gauge reads how many requests a workload has in flight.
	Gauge(fleet.Key) (int, error)
	Remove(wire.ActRequest)
	Poweroff()
	// After calls later, unless the boot has ended by then.
	After(time.Duration, func())
	// Dies asks whether the agent ends at this point of an act.
	Dies(point string) bool
}

// errDied is what a caller sees of an agent that ends in the middle: nothing.
var errDied = fmt.Errorf("the agent has ended")

// agent is a model of ebbd's decisions: the fence, holds in two slots, acts that
// run once, the gaps before KILL, the seal. What it keeps on its disk outlives
// it; the rest does not.
type agent struct {
	m       machine
	id      string // of the machine
	up      bool
	rec     record
	slots   [2]slot
	acts    map[string]*acted
	terms   map[fleet.Run][]sent
	tickets map[string]fleet.Ticket
	n       int // tickets made
	lives   int
	idle    map[idle]time.Duration // since when a thing has been seen unused
}

func newAgent(m machine, id string) *agent {
	a := &agent{m: m, id: id, acts: map[string]*acted{}, terms: map[fleet.Run][]sent{}, tickets: map[string]fleet.Ticket{}}
	a.slots[0] = slot{seq: 1, rec: record{}.clone(), ok: true}
	a.start()
	return a
}

// start begins the agent, again after it ended: from what its disk has.
func (a *agent) start() {
	best := a.slots[0]
	if b := a.slots[1]; b.ok && (!best.ok || b.seq > best.seq) {
		best = b
	}
	a.up, a.rec, a.idle = true, best.rec.clone(), nil
	a.lives++
	boot := a.m.Boot()
	if a.rec.boot != boot {
		a.rec.seal, a.rec.accepted = "", nil
	}
	for _, x := range a.acts {
		if x.reply.State == wire.ActBegun || x.unwritten {
			x.reply, x.unwritten = wire.ActReply{ID: x.req.ID, State: wire.ActInterrupted, Begun: x.reply.Begun}, false
		}
	}
	for run, list := range a.terms { // what was sent in another boot counts for nothing
		if list = slices.DeleteFunc(list, func(s sent) bool { return s.boot != boot }); len(list) == 0 {
			delete(a.terms, run)
		} else {
			a.terms[run] = list
		}
	}
}

// commit makes a record durable and only then current.
func (a *agent) commit(next record) error {
	at := 0
	if a.slots[0].ok && (!a.slots[1].ok || a.slots[0].seq > a.slots[1].seq) {
		at = 1
	}
	next.boot = a.m.Boot()
	switch a.m.Disk() {
	case "fail":
		a.slots[at].ok = false // spoiled, so that what was refused does not come back
		return refuse(wire.CodeNotRecorded)
	case "torn":
		a.slots[at].ok, a.up = false, false
		return errDied
	}
	a.slots[at] = slot{seq: max(a.slots[0].seq, a.slots[1].seq) + 1, rec: next.clone(), ok: true}
	a.rec = next
	return nil
}

// write is a line of the acts' log.
func (a *agent) write() error {
	switch a.m.Disk() {
	case "fail":
		return refuse(wire.CodeNotRecorded)
	case "torn":
		a.up = false
		return errDied
	}
	return nil
}

func (a *agent) isMachine(id string, need bool) error {
	if id == a.id || id == "" && !need {
		return nil
	}
	return refuse(wire.CodeOtherMachine)
}

func (a *agent) notSealed() error {
	if a.rec.seal != "" {
		return refuse(wire.CodeSealed)
	}
	return nil
}

func (a *agent) cordon(r wire.CordonRequest) error {
	if err := a.isMachine(r.Machine, false); err != nil {
		return err
	}
	if a.rec.holds.Cordon != nil {
		return nil
	}
	next := a.rec.clone()
	next.holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: r.Who, Why: r.Why, Since: a.m.Clock()}
	return a.commit(next)
}

func (a *agent) uncordon(r wire.LiftRequest) error {
	if err := a.isMachine(r.Machine, false); err != nil {
		return err
	}
	if err := a.notSealed(); err != nil {
		return err
	}
	if a.rec.holds.Cordon == nil {
		return nil
	}
	next := a.rec.clone()
	next.holds.Cordon = nil
	return a.commit(next)
}

func (a *agent) drain(r wire.DrainRequest) error {
	if err := a.isMachine(r.Machine, false); err != nil {
		return err
	}
	if r.Drain == "" || r.Deadline.IsZero() {
		return refuse(wire.CodeBadRequest)
	}
	if err := a.notSealed(); err != nil {
		return err
	}
	old := a.rec.holds.Drain
	if old != nil && old.Drain != r.Drain {
		return &refusal{code: wire.CodeOtherDrain, hold: old}
	}
	if err := a.notStale(r.Drain, r.Epoch); err != nil {
		return err
	}
	h := fleet.Hold{Kind: fleet.DrainHold, Who: r.Who, Why: r.Why, Since: a.m.Clock(), Drain: r.Drain, Journal: r.Journal,
		Epoch: r.Epoch, Deadline: r.Deadline, Evacuate: r.Evacuate, For: r.For}
	if old != nil {
		h.Who, h.Why, h.Since = old.Who, old.Why, old.Since
	}
	next := a.rec.clone()
	next.holds.Drain = &h
	if next.holds.Equal(a.rec.holds) {
		return nil
	}
	next.epochs[r.Drain] = max(next.epochs[r.Drain], r.Epoch)
	return a.commit(next)
}

func (a *agent) notStale(drain string, epoch uint64) error {
	if top := a.rec.epochs[drain]; epoch < top {
		return &refusal{code: wire.CodeStaleEpoch, epoch: top}
	}
	return nil
}

func (a *agent) undrain(r wire.LiftRequest) error {
	if err := a.isMachine(r.Machine, false); err != nil {
		return err
	}
	if err := a.notSealed(); err != nil {
		return err
	}
	old := a.rec.holds.Drain
	if old == nil {
		return nil
	}
	if !r.Theirs {
		if old.Drain != r.Drain {
			return &refusal{code: wire.CodeOtherDrain, hold: old}
		}
		if err := a.notStale(r.Drain, r.Epoch); err != nil && r.Epoch != 0 {
			return err
		}
	}
	next := a.rec.clone()
	next.holds.Drain = nil
	return a.commit(next)
}

func (a *agent) announce(r wire.EpochRequest) (uint64, error) {
	if r.Drain == "" {
		return 0, refuse(wire.CodeBadRequest)
	}
	top, seen := a.rec.epochs[r.Drain]
	if r.Epoch == 0 || seen && r.Epoch == top {
		return top, nil
	}
	if err := a.notStale(r.Drain, r.Epoch); err != nil {
		return top, err
	}
	return r.Epoch, a.raise(r.Drain, r.Epoch)
}

func (a *agent) raise(drain string, epoch uint64) error {
	next := a.rec.clone()
	next.epochs[drain] = max(next.epochs[drain], epoch)
	if h := next.holds.Drain; h != nil && h.Drain == drain {
		hold := *h
		hold.Epoch = max(hold.Epoch, epoch)
		next.holds.Drain = &hold
	}
	return a.commit(next)
}
