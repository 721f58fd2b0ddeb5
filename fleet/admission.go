package fleet

import "time"

// Op is something a host may be asked to take or to go on with.
type Op string

// The operations of the admission table.
const (
	OpClaim     Op = "claim"     // new work
	OpFork      Op = "fork"      // a copy of something that runs here
	OpRestore   Op = "restore"   // new work from a checkpoint
	OpRenew     Op = "renew"     // longer life for existing work
	OpExec      Op = "exec"      // a command inside existing work
	OpWake      Op = "wake"      // resume this host's own work at rest
	OpHibernate Op = "hibernate" // put existing work to rest here
	OpMoveIn    Op = "move-in"   // a live move from another host
	OpAdopt     Op = "adopt"     // another host's archived work
	OpRefill    Op = "refill"    // a warm pool
	OpAdvertise Op = "advertise" // offer this host to schedulers
)

// Ops lists every operation.
var Ops = []Op{OpClaim, OpFork, OpRestore, OpRenew, OpExec, OpWake, OpHibernate, OpMoveIn, OpAdopt, OpRefill, OpAdvertise}

// Existing reports whether the operation concerns work that is already here.
func (o Op) Existing() bool {
	switch o {
	case OpRenew, OpExec, OpWake, OpHibernate:
		return true
	}
	return false
}

// Verdict of the admission table on one operation.
type Admission struct {
	Allowed bool      `json:"allowed"`
	Capped  bool      `json:"capped,omitempty"` // counts against the host's caps
	Until   time.Time `json:"until,omitzero"`   // renew no further than this
	Hold    *Hold     `json:"hold,omitempty"`   // what refused it
	Reason  string    `json:"reason,omitempty"`
}

// Admit is the admission table: what a host under these holds takes. moved says
// that the workload concerned has already been moved off an evacuating host.
//
// Both holds answer the same to new work; they differ in live moves (a cordoned
// host may still receive one, a draining host may not) and in how long existing
// work may be renewed.
func Admit(h Holds, op Op, moved bool) Admission {
	if !h.Any() {
		return Admission{Allowed: true, Capped: op == OpClaim || op == OpFork || op == OpRestore || op == OpMoveIn}
	}
	first := h.Cordon
	if h.Drain != nil {
		first = h.Drain
	}
	refused := func(why string) Admission { return Admission{Hold: first, Reason: why} }
	switch {
	case op.Existing():
		if h.Drain == nil {
			return Admission{Allowed: true}
		}
		if moved && (h.Drain.Evacuate || h.Cordon != nil) {
			return refused("the workload has been moved off this host")
		}
		a := Admission{Allowed: true}
		if op == OpRenew {
			a.Until = h.Drain.Deadline
		}
		return a
	case op == OpMoveIn && h.Drain == nil:
		return Admission{Allowed: true, Capped: true}
	case op == OpAdopt:
		return refused("the host is held: it keeps its own archived work and adopts no other")
	case h.Drain != nil:
		return refused("the host is draining")
	default:
		return refused("the host is cordoned")
	}
}

// Ticket is one admission: permission given to a local creator, open until the
// creator reports that the work is there or that it failed. An overdue ticket
// still counts as open: something slow that was admitted before a cordon must
// not land after a proof.
type Ticket struct {
	ID     string    `json:"id"`
	Op     Op        `json:"op"`
	Key    Key       `json:"key"`
	Who    string    `json:"who"`
	At     time.Time `json:"at"`
	Due    time.Time `json:"due"`
	Closed string    `json:"closed,omitempty"` // "done", "failed" or "settled"; empty while open
}

// Open reports whether nobody has settled the ticket yet.
func (t Ticket) Open() bool { return t.Closed == "" }
