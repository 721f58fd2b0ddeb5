package fleet

import "time"

// Class says how a workload can leave a host.
type Class string

// The five classes, and the one that means nobody has decided yet: nothing is
// done to an unclassified workload, it is named and a person is asked.
const (
	Unclassified Class = ""
	Ephemeral    Class = "ephemeral" // ends by itself
	Stateless    Class = "stateless" // start elsewhere, flip, stop
	Pausable     Class = "pausable"  // snapshot, ship, restore
	Durable      Class = "durable"   // fence, replay, promote
	Stuck        Class = "stuck"     // notice, TERM, grace, TERM, KILL
)

// Classes lists the classes in the order in which screens show them.
var Classes = []Class{Ephemeral, Stateless, Pausable, Durable, Stuck, Unclassified}

// Valid reports whether c is one of the five classes.
func (c Class) Valid() bool {
	switch c {
	case Ephemeral, Stateless, Pausable, Durable, Stuck:
		return true
	}
	return false
}

func (c Class) String() string {
	if c == Unclassified {
		return "unclassified"
	}
	return string(c)
}

// Budget is what one workload is given: Move is how long its strategy may take
// from its first act before it counts as late (the queue does not count);
// Grace is the time between the first TERM and the second.
type Budget struct {
	Move  time.Duration `json:"move,omitempty"`
	Grace time.Duration `json:"grace,omitempty"`
}

// ClassRule assigns a class and a budget; the first rule of a list that
// matches a workload wins. Empty fields of a match match everything.
type ClassRule struct {
	Name  string    `json:"name,omitempty"` // shown as the reason for the class
	Match RuleMatch `json:"match"`
	Class Class     `json:"class"`
	Budget
	Keep bool `json:"keep,omitempty"` // stays on the host: agents, device plugins
	// Lever names the program that carries the strategy out; InFlight says when a
	// serving workload has nothing left to do, and Readiness is the host's command
	// that takes it out of traffic.
	Lever     string    `json:"lever,omitempty"`
	InFlight  *InFlight `json:"in_flight,omitempty"`
	Readiness string    `json:"readiness,omitempty"`
	// Park keeps what is pausable at rest on its own host, and resumes it there
	// after the maintenance, rather than shipping it.
	Park bool `json:"park,omitempty"`
}

// RuleMatch selects workloads. Globs are those of path.Match.
type RuleMatch struct {
	Kind  string `json:"kind,omitempty"`
	ID    string `json:"id,omitempty"` // glob
	Owner string `json:"owner,omitempty"`
	Label string `json:"label,omitempty"` // "key=value" or "key"
	Plane string `json:"plane,omitempty"`
	Pool  string `json:"pool,omitempty"`
}

// Purpose is what a host is drained for; it limits what may be restored on it.
type Purpose string

// The purposes that "ebb drain --for" takes.
const (
	ForUnstated Purpose = ""
	ForKernel   Purpose = "kernel"
	ForDriver   Purpose = "driver"
	ForEngine   Purpose = "engine"
	ForHardware Purpose = "hardware"
	ForRetire   Purpose = "retire"
)

// Purposes lists the purposes that can be stated.
var Purposes = []Purpose{ForKernel, ForDriver, ForEngine, ForHardware, ForRetire}
