package fleet

import "time"

// Host is a machine that can go away, as a control plane lists it.
type Host struct {
	ID       HostID            `json:"id"`
	Address  string            `json:"address,omitempty"` // what SSH dials: an ssh_config alias, a name or an address
	Labels   map[string]string `json:"labels,omitempty"`
	Instance string            `json:"instance,omitempty"` // the provider's immutable id, for terminators

	// What the plane itself says about the host.
	Heartbeat time.Time `json:"heartbeat,omitzero"` // when the plane last heard from it
	Draining  bool      `json:"draining,omitempty"` // the plane's flag: not eligible for new work
	DrainWhy  string    `json:"drain_why,omitempty"`
	DrainWho  string    `json:"drain_who,omitempty"`
	DrainAt   time.Time `json:"drain_at,omitzero"`
}

// Pool is the host's pool label.
func (h Host) Pool() string { return h.Labels["pool"] }

// Flag is what a plane stores on a host to keep schedulers away: the OR of both
// holds, where the plane's schema has one flag.
type Flag struct {
	Set bool      `json:"set"`
	Why string    `json:"why,omitempty"`
	Who string    `json:"who,omitempty"`
	At  time.Time `json:"at,omitzero"`
}

// Eligibility is the scheduler's view of a host, read back to prove a cordon.
// Status NotApplicable means that the plane has no scheduler view to read: the
// cordon's proof is weaker then, and says so.
type Eligibility struct {
	Flag     Flag          `json:"flag"`     // what is stored
	Eligible Reading[bool] `json:"eligible"` // what the scheduler believes, from its own cache
}

// Phase is what a claim says the workload is doing.
type Phase string

// The phases of a claim.
const (
	Running Phase = "running"
	AtRest  Phase = "at_rest" // hibernated, archived, stopped with its state kept
	Gone    Phase = "gone"
)

// Claim is what a control plane says about one workload.
type Claim struct {
	Key     Key               `json:"key"`
	Host    HostID            `json:"host"`
	Phase   Phase             `json:"phase"`
	Class   Class             `json:"class,omitempty"`
	Owner   string            `json:"owner,omitempty"`
	Status  string            `json:"status,omitempty"` // the plane's own word
	Expires time.Time         `json:"expires,omitzero"`
	Changed time.Time         `json:"changed,omitzero"` // when the phase last changed, where the plane knows
	Run     Run               `json:"run,omitzero"`
	Labels  map[string]string `json:"labels,omitempty"`
}
