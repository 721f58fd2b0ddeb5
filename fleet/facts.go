package fleet

import (
	"fmt"
	"time"
)

// Facts is everything an agent knows about its host at one generation. Times
// are the host's own wall clock.
type Facts struct {
	Generation uint64    `json:"generation"`
	At         time.Time `json:"at"`
	Machine    string    `json:"machine"` // /etc/machine-id
	Boot       string    `json:"boot"`    // boot id
	BootedAt   time.Time `json:"booted_at,omitzero"`
	Hostname   string    `json:"hostname,omitempty"`
	Agent      AgentInfo `json:"agent"`

	Holds    Holds      `json:"holds"`
	Unheld   bool       `json:"unheld,omitempty"` // the agent has no record of its holds and admits nothing until told
	Sealed   string     `json:"sealed,omitempty"` // the drain for which the host was sealed
	Tickets  []Ticket   `json:"tickets,omitempty"`
	Accepted []Accepted `json:"accepted,omitempty"`

	Processes Reading[[]Process]  `json:"processes"`
	Workloads Reading[[]Workload] `json:"workloads"`
	Netns     Reading[[]Resource] `json:"netns"`
	Loops     Reading[[]Resource] `json:"loops"`
	Dirs      Reading[[]Resource] `json:"dirs"`
	GPUs      Reading[[]GPU]      `json:"gpus"`

	Offer Offer `json:"offer,omitzero"` // as the host's configuration says
}

// AgentInfo describes the agent that reports.
type AgentInfo struct {
	Version string    `json:"version"`
	Scope   string    `json:"scope,omitempty"` // argv token that limits what is this host's; empty on real hosts
	Started time.Time `json:"started,omitzero"`
	Role    string    `json:"role,omitempty"` // the role of the channel that asked
}

// Probes lists the status of every probe, in a fixed order.
func (f Facts) Probes() []ProbeStatus {
	return []ProbeStatus{
		Probe("processes", f.Processes),
		Probe("workloads", f.Workloads),
		Probe("netns", f.Netns),
		Probe("loops", f.Loops),
		Probe("dirs", f.Dirs),
		Probe("gpus", f.GPUs),
	}
}

// OpenTickets returns the admissions that nobody has settled.
func (f Facts) OpenTickets() []Ticket {
	var open []Ticket
	for _, t := range f.Tickets {
		if t.Open() {
			open = append(open, t)
		}
	}
	return open
}

// Process is one process. Of its arguments only the tokens that a rule names
// leave the host.
type Process struct {
	Run     Run       `json:"run"`
	PPID    int       `json:"ppid"`
	Comm    string    `json:"comm"`
	Exe     string    `json:"exe,omitempty"`   // path of the executable
	State   string    `json:"state,omitempty"` // one letter, as in /proc/PID/stat
	UID     uint32    `json:"uid"`
	Session int       `json:"session,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Cgroup  string    `json:"cgroup,omitempty"`
	Netns   uint64    `json:"netns,omitempty"`  // inode of its network namespace
	System  string    `json:"system,omitempty"` // why it is the host's own: "kernel", "unit ssh.service", "login"; empty otherwise
	Kept    string    `json:"kept,omitempty"`   // the keep rule of the host's configuration that lets it stay
	Owner   Key       `json:"owner,omitzero"`   // the workload it belongs to
}

// Key names the process where something is said about it alone: "process/" and
// its pid and start time, so that an exception accepted for it never covers
// another process that gets the same pid.
func (p Process) Key() Key {
	return Key{Kind: "process", ID: fmt.Sprintf("%d:%d", p.Run.PID, p.Run.Start)}
}

// Workload is something that runs, or rests, on the host and that a rule
// recognises.
type Workload struct {
	Key      Key               `json:"key"`
	Rule     string            `json:"rule"`               // which rule recognised it
	Phase    Phase             `json:"phase"`              // Running, or AtRest where state is kept without a process
	Run      Run               `json:"run,omitzero"`       // its main process
	Runs     []Run             `json:"runs,omitempty"`     // all its processes, the main one first
	Declared bool              `json:"declared,omitempty"` // its owner's manifest is there
	Kept     string            `json:"kept,omitempty"`     // the keep rule that lets it stay
	Class    Class             `json:"class,omitempty"`    // as its owner states it
	Owner    string            `json:"owner,omitempty"`
	Expires  time.Time         `json:"expires,omitzero"`
	Grace    time.Duration     `json:"grace,omitempty"` // its owner's; never shortened
	Started  time.Time         `json:"started,omitzero"`
	Owns     []Key             `json:"owns,omitempty"` // resources: netns, tap, dir, loop
	GPUs     []string          `json:"gpus,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Needs    Needs             `json:"needs,omitzero"`   // as its owner states it
	Start    string            `json:"start,omitempty"`  // name of the command that starts it on another host
	Health   string            `json:"health,omitempty"` // name of the command that says whether it answers
	Stop     string            `json:"stop,omitempty"`
}

// Resource is a thing that outlives processes: a network namespace, a loop
// device, a directory that a rule says belongs to a workload.
type Resource struct {
	Key      Key       `json:"key"`              // kind netns, loop, dir; id as the host names it
	Identity string    `json:"identity"`         // what can't be reused: inode, device and backing inode
	Owner    Key       `json:"owner,omitzero"`   // the workload it belongs to by a rule, whether that runs or not
	Users    []Run     `json:"users,omitempty"`  // processes in it or holding it
	Detail   string    `json:"detail,omitempty"` // backing file, addresses
	Since    time.Time `json:"since,omitzero"`
	Deleted  bool      `json:"deleted,omitempty"` // its file is gone
	System   string    `json:"system,omitempty"`  // why it is the host's own
}

// GPU is one device and what holds it.
type GPU struct {
	UUID    string `json:"uuid"`
	Index   int    `json:"index"`
	Name    string `json:"name,omitempty"`
	Util    int    `json:"util"` // percent
	Holders []Run  `json:"holders,omitempty"`
	Errors  uint64 `json:"errors,omitempty"` // uncorrected ECC errors
}

// Accepted is an exception that a person with the terminate role has made.
type Accepted struct {
	Key    Key       `json:"key"`
	Reason string    `json:"reason"`
	Who    string    `json:"who"`
	At     time.Time `json:"at"`
}

// Summary is the few hundred bytes by which a fleet is watched.
type Summary struct {
	Generation uint64    `json:"generation"`
	At         time.Time `json:"at"` // of the last look at the host, by its clock
	// Clock is the host's clock as it answered: a hold ages by it also while nothing
	// is looked at. Zero from an agent that does not say.
	Clock        time.Time     `json:"clock,omitzero"`
	Machine      string        `json:"machine"`
	Boot         string        `json:"boot"`
	Version      string        `json:"version"`
	Scope        string        `json:"scope,omitempty"`
	Holds        Holds         `json:"holds"`
	Unheld       bool          `json:"unheld,omitempty"`
	Sealed       string        `json:"sealed,omitempty"`
	Tickets      int           `json:"tickets"`
	Classes      map[Class]int `json:"classes"`
	Unattributed int           `json:"unattributed"`
	GPUs         [2]int        `json:"gpus"` // busy, all
	ProbesFailed []string      `json:"probes_failed,omitempty"`
	// Offer is what the host can take; Kinds and Groups are what it has already.
	Offer  Offer          `json:"offer,omitzero"`
	Kinds  map[string]int `json:"kinds,omitempty"`
	Groups []string       `json:"groups,omitempty"`
}

// HostNow is the host's clock as it answered, as far as the answer tells.
func (s Summary) HostNow() time.Time {
	if s.Clock.IsZero() {
		return s.At
	}
	return s.Clock
}
