package fleet

import "time"

// WorkloadRule tells an agent how to recognise one kind of workload from its
// process. Tokens are compared whole: an id never matches a longer one that it
// is a prefix of.
type WorkloadRule struct {
	Name   string            `json:"name,omitempty"`
	Kind   string            `json:"kind"`
	Exe    string            `json:"exe,omitempty"`    // base name of the executable, or of argv[0]
	Token  string            `json:"token,omitempty"`  // an argument that must be there, whole
	ID     IDRule            `json:"id"`               //
	Owns   map[string]string `json:"owns,omitempty"`   // kind → template with {id}: "netns": "ns-{id}"
	Class  Class             `json:"class,omitempty"`  //
	Owner  string            `json:"owner,omitempty"`  //
	Labels map[string]string `json:"labels,omitempty"` //
	Grace  time.Duration     `json:"grace,omitempty"`  //
	Start  string            `json:"start,omitempty"`  // names of commands, as in a manifest
	Health string            `json:"health,omitempty"` //
	Stop   string            `json:"stop,omitempty"`   //
	Needs  Needs             `json:"needs,omitzero"`   //
}

// IDRule says where in a process the workload's id stands. Exactly one field is
// set.
type IDRule struct {
	After  string `json:"after,omitempty"`  // the argument after this one, or what follows it and "="
	Prefix string `json:"prefix,omitempty"` // the rest of the argument with this prefix
	Cgroup string `json:"cgroup,omitempty"` // the path element with this prefix, without ".scope" or ".service"
	Env    string `json:"env,omitempty"`    // the value of this environment variable
}

// SystemRules say which processes are the host's own. Kernel threads, process 1,
// the agent itself and logins are system without a rule.
type SystemRules struct {
	Units []string `json:"units,omitempty"` // systemd units, globs of path.Match
	Exes  []string `json:"exes,omitempty"`  // base names of executables, globs
	Netns []string `json:"netns,omitempty"` // names of network namespaces, globs
	Loops []string `json:"loops,omitempty"` // backing files of loop devices, globs
}

// KeepRule lets something stay on a drained host: an agent, a device plugin.
type KeepRule struct {
	Kind string `json:"kind,omitempty"` // of a workload
	ID   string `json:"id,omitempty"`   // glob
	Exe  string `json:"exe,omitempty"`  // base name, for processes that no rule recognises
	Unit string `json:"unit,omitempty"`
}

// DirRule names directories that belong to workloads: each entry of Path is one,
// and its name, less Prefix, is the id of its owner.
type DirRule struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"` // of the owner
	Prefix string `json:"prefix,omitempty"`
}

// Manifest is what the preset "manifest" reads: one small TOML file for each
// workload, written by whoever starts it and removed when it ends.
//
//	id      = "web-7"
//	kind    = "service"
//	class   = "stateless"
//	owner   = "search"
//	expires = 2026-11-29T17:30:00Z
//	grace   = "3m"
//	pidfile = "/run/web-7.pid"
//	start   = "web-start"     # names of commands in ebbd.toml
//	health  = "web-health"
//	rest    = "/var/lib/vms/vm0/snapshot"   # state kept while no process runs
type Manifest struct {
	ID      string            `json:"id" toml:"id"`
	Kind    string            `json:"kind" toml:"kind"`
	Class   Class             `json:"class,omitempty" toml:"class"`
	Owner   string            `json:"owner,omitempty" toml:"owner"`
	Expires time.Time         `json:"expires,omitzero" toml:"expires"`
	TTL     string            `json:"ttl,omitempty" toml:"ttl"` // from the process's start, where expires is not given
	Grace   string            `json:"grace,omitempty" toml:"grace"`
	PidFile string            `json:"pidfile,omitempty" toml:"pidfile"`
	Start   string            `json:"start,omitempty" toml:"start"`
	Health  string            `json:"health,omitempty" toml:"health"`
	Stop    string            `json:"stop,omitempty" toml:"stop"`
	Rest    string            `json:"rest,omitempty" toml:"rest"`
	Labels  map[string]string `json:"labels,omitempty" toml:"labels"`
	Owns    map[string]string `json:"owns,omitempty" toml:"owns"`
	GPUs    []string          `json:"gpus,omitempty" toml:"gpus"`
	Needs   Needs             `json:"needs,omitzero" toml:"needs"`
}

// Issue is one thing that keeps a host from being proved empty, by name.
type Issue struct {
	Check  string `json:"check"` // one of the Check constants
	Key    Key    `json:"key,omitzero"`
	Detail string `json:"detail"`
	// Acceptable says that the terminate role may accept it as an exception.
	Acceptable bool `json:"acceptable,omitempty"`
}

// The checks of the gate, in the order in which it shows them.
const (
	CheckReach   = "reach"   // the host answers, and is the machine it was
	CheckHolds   = "holds"   // both holds are there
	CheckProbes  = "probes"  // every probe answered or does not apply
	CheckLeft    = "left"    // nothing runs or rests but what is kept
	CheckLeaks   = "leaks"   // no resource without its owner
	CheckTickets = "tickets" // no open admission
	CheckClaims  = "claims"  // claims and host agree
	CheckLost    = "lost"    // nothing was lost
)

// Checks lists the checks in order.
var Checks = []string{CheckReach, CheckHolds, CheckProbes, CheckLeft, CheckLeaks, CheckTickets, CheckClaims, CheckLost}
