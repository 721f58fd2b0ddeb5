package wire

import (
	"time"

	"ebb/fleet"
)

// Paths of the agent's HTTP interface, with the role each needs.
const (
	PathSummary   = "/v1/summary"   // GET, observe → fleet.Summary
	PathFacts     = "/v1/facts"     // GET, observe → fleet.Facts; ?fresh=1 probes anew before it answers
	PathWatch     = "/v1/watch"     // GET, observe → JSON lines of Change; ?since=GENERATION&started=NS&by=key
	PathHolds     = "/v1/holds"     // GET, observe → fleet.Holds
	PathCordon    = "/v1/cordon"    // PUT CordonRequest, DELETE LiftRequest; cordon → HoldReply
	PathDrain     = "/v1/drain"     // PUT DrainRequest, DELETE LiftRequest; operate → HoldReply
	PathEpoch     = "/v1/epoch"     // POST EpochRequest, operate → EpochReply
	PathAdmission = "/v1/admission" // POST AdmissionRequest, admission → AdmissionReply (429 when refused)
	PathTickets   = "/v1/tickets/"  // POST …{id} TicketReport, admission (done, failed) or operate (settled)
	PathActs      = "/v1/acts"      // POST ActRequest, operate → 202 ActReply
	PathAct       = "/v1/acts/"     // GET …{id}?wait=DURATION, observe → ActReply
	PathProof     = "/v1/proof"     // POST ProofRequest, operate or terminate → ProofReply (409 with blockers)
	PathAccept    = "/v1/accept"    // POST AcceptRequest, terminate → fleet.Accepted
	PathSeal      = "/v1/seal"      // POST SealRequest, DELETE LiftRequest; terminate → SealReply
	PathPoweroff  = "/v1/poweroff"  // POST PoweroffRequest, terminate; only on a sealed host
	PathRebind    = "/v1/rebind"    // POST RebindRequest, operate → RebindReply
	PathSigner    = "/v1/signer"    // GET, observe → SignerReply: the SSH host keys the agent can sign with
	PathMetrics   = "/metrics"      // GET, observe: Prometheus text
)

// Header names. What they say is recorded as claimed, not as known.
const (
	HeaderOperator = "Ebb-Operator" // $EBB_OPERATOR, else user@console
	HeaderVersion  = "Ebb-Version"
)

// Problem is the body of every answer that is not a success: HTTP status 4xx or
// 5xx says how bad, Code says what, in one word.
type Problem struct {
	Code   string            `json:"code"`
	Error  string            `json:"error"`
	Hint   string            `json:"hint,omitempty"`
	Args   map[string]string `json:"args,omitempty"`
	Hold   *fleet.Hold       `json:"hold,omitempty"`   // the hold that refused it
	Issues []fleet.Issue     `json:"issues,omitempty"` // what keeps a proof or a seal from being given
	Epoch  uint64            `json:"epoch,omitempty"`  // the highest epoch seen, for code "stale_epoch"
}

// Problem codes.
const (
	CodeBadRequest   = "bad_request"
	CodeForbidden    = "forbidden"     // the role of the socket does not cover the call
	CodeOtherDrain   = "other_drain"   // another drain holds the host
	CodeStaleEpoch   = "stale_epoch"   // a newer driver has been here
	CodeNotHeld      = "not_held"      // the act needs a hold that is not there
	CodeSealed       = "sealed"        // the host has been sealed for termination
	CodeHeld         = "held"          // admission refused by a hold
	CodeUnheld       = "unheld"        // the agent has no record of its holds
	CodeFull         = "full"          // admission refused by a cap
	CodeNotRecorded  = "not_recorded"  // the change could not be made durable, nothing changed
	CodeOtherRun     = "other_run"     // the process or thing is not the one identified
	CodeTooEarly     = "too_early"     // the gap before KILL has not passed
	CodeUnknownName  = "unknown_name"  // no such command in the host's configuration
	CodeNotFound     = "not_found"     //
	CodeTicketsOpen  = "tickets_open"  // cleaning with open admissions
	CodeNotEmpty     = "not_empty"     // a proof was refused: see Issues
	CodeChanged      = "changed"       // the host is not as the proof says: see Issues
	CodeBadProof     = "bad_proof"     // signature, host, boot or age do not fit
	CodeScoped       = "scoped"        // a scoped agent refuses real terminators
	CodeOtherMachine = "other_machine" //
	ReasonTimedOut   = "timed_out"     // of an act: its command was ended because it took too long
)

// Change is one line of a watch: either everything, or what differs from the
// generation before. Since lets a reader notice that it missed one.
type Change struct {
	Generation uint64       `json:"generation"`
	Since      uint64       `json:"since"` // the generation this is a difference from; 0 with Full
	Full       *fleet.Facts `json:"full,omitempty"`
	Patch      *Patch       `json:"patch,omitempty"`
	// Idle is a heartbeat: nothing changed, and the agent is there.
	Idle bool      `json:"idle,omitempty"`
	At   time.Time `json:"at"`
}

// Patch is what changed. Sections that are nil did not change, except that every
// probe's time moves on to Change.At while its status stays. A section comes
// whole, or as a delta to a caller that asked for ?by=key: one that does not know
// deltas would pass over them and go on with what is no longer so.
type Patch struct {
	Set       []fleet.Process                  `json:"set,omitempty"`    // processes that are new or differ
	Gone      []fleet.Run                      `json:"gone,omitempty"`   // processes that ended
	Status    *fleet.ProbeStatus               `json:"status,omitempty"` // of the process probe, where it differs
	Workloads *fleet.Reading[[]fleet.Workload] `json:"workloads,omitempty"`
	Netns     *fleet.Reading[[]fleet.Resource] `json:"netns,omitempty"`
	Loops     *fleet.Reading[[]fleet.Resource] `json:"loops,omitempty"`
	Dirs      *fleet.Reading[[]fleet.Resource] `json:"dirs,omitempty"`
	GPUs      *fleet.Reading[[]fleet.GPU]      `json:"gpus,omitempty"`
	State     *State                           `json:"state,omitempty"`

	WorkloadsBy *Delta[fleet.Workload] `json:"workloads_by,omitempty"`
	NetnsBy     *Delta[fleet.Resource] `json:"netns_by,omitempty"`
	LoopsBy     *Delta[fleet.Resource] `json:"loops_by,omitempty"`
	DirsBy      *Delta[fleet.Resource] `json:"dirs_by,omitempty"`
}

// Delta is what changed in a section whose things are in the order of their keys,
// each key once, while the probe's status, source and error stayed.
type Delta[T any] struct {
	Set  []T         `json:"set,omitempty"`  // new or different
	Gone []fleet.Key `json:"gone,omitempty"` //
	At   time.Time   `json:"at,omitzero"`    // of the reading, where it is older than Change.At
}

// State is the part of the facts that the agent itself decides.
type State struct {
	Holds    fleet.Holds      `json:"holds"`
	Unheld   bool             `json:"unheld,omitempty"`
	Sealed   string           `json:"sealed,omitempty"`
	Tickets  []fleet.Ticket   `json:"tickets,omitempty"`
	Accepted []fleet.Accepted `json:"accepted,omitempty"`
}

// CordonRequest sets the cordon; repeating it keeps who, why and since of the
// first one. With Reword whoever set it gives another reason for it.
type CordonRequest struct {
	Who     string `json:"who"`
	Why     string `json:"why"`
	Machine string `json:"machine,omitempty"` // refuse if this is another machine
	Reword  bool   `json:"reword,omitempty"`
}

// DrainRequest sets or renews the drain hold. Another drain of the same host is
// refused with CodeOtherDrain and the holder's hold.
type DrainRequest struct {
	Who      string        `json:"who"`
	Why      string        `json:"why,omitempty"`
	Drain    string        `json:"drain"`
	Journal  string        `json:"journal"`
	Epoch    uint64        `json:"epoch"`
	Deadline time.Time     `json:"deadline"`
	Evacuate bool          `json:"evacuate,omitempty"`
	For      fleet.Purpose `json:"for,omitempty"`
	Machine  string        `json:"machine,omitempty"`
}

// LiftRequest lifts one hold (or a seal) and nothing else.
type LiftRequest struct {
	Who     string `json:"who"`
	Why     string `json:"why,omitempty"`
	Drain   string `json:"drain,omitempty"` // must be the drain that holds, unless Theirs
	Epoch   uint64 `json:"epoch,omitempty"`
	Theirs  bool   `json:"theirs,omitempty"` // lift the hold of a drain whose journal is dead
	Machine string `json:"machine,omitempty"`
}

// HoldReply is the state after a change of holds.
type HoldReply struct {
	Holds   fleet.Holds `json:"holds"`
	Machine string      `json:"machine"`
	Boot    string      `json:"boot"`
	At      time.Time   `json:"at"`              // the host's clock at the change
	Audit   string      `json:"audit,omitempty"` // why the audit line could not be written, if so
	Changed bool        `json:"changed"`
}

// EpochRequest announces a new driver to the source and to targets.
type EpochRequest struct {
	Drain string `json:"drain"`
	Epoch uint64 `json:"epoch"`
}

// EpochReply is the highest epoch that the agent has seen for the drain.
type EpochReply struct {
	Epoch uint64 `json:"epoch"`
}

// AdmissionRequest asks whether the host takes something.
type AdmissionRequest struct {
	Op  fleet.Op      `json:"op"`
	Key fleet.Key     `json:"key"`
	TTL time.Duration `json:"ttl,omitempty"` // how long the creation may take before its ticket is overdue
	Who string        `json:"who,omitempty"`
}

// AdmissionReply admits, with a ticket where something will be created.
type AdmissionReply struct {
	Allowed bool          `json:"allowed"`
	Ticket  *fleet.Ticket `json:"ticket,omitempty"`
	Until   time.Time     `json:"until,omitzero"` // renew no further than this
}

// TicketReport settles a ticket: Closed is "done", "failed", or "settled" by a
// person.
type TicketReport struct {
	Closed string `json:"closed"`
	Who    string `json:"who,omitempty"`
}

// ActRequest is one act. The agent runs an id once: a repeat is answered with
// the first outcome. Drain and Epoch are the fence; an act of no drain (cleaning
// a held host) leaves both empty.
type ActRequest struct {
	ID      string      `json:"id"`
	Drain   string      `json:"drain,omitempty"`
	Epoch   uint64      `json:"epoch,omitempty"`
	Machine string      `json:"machine"`
	Kind    ActKind     `json:"kind"`
	Key     fleet.Key   `json:"key"`
	Runs    []fleet.Run `json:"runs,omitempty"` // signal: every process meant, main first

	Signal   string        `json:"signal,omitempty"`   // signal: TERM or KILL
	Grace    time.Duration `json:"grace,omitempty"`    // signal KILL: gap that must lie between the first and the second TERM
	Recorded string        `json:"recorded,omitempty"` // signal KILL: id of the journal event that records it beforehand
	Named    string        `json:"named,omitempty"`    // signal KILL: "plan" or the ask that named the workload

	Command string        `json:"command,omitempty"` // exec: a name in the host's configuration
	Timeout time.Duration `json:"timeout,omitempty"` // exec, quiet: when it gives up

	// quiet: the agent reads Prometheus text at URL, which must be http on the
	// host's own loopback, and sums the gauges of these names over all labels.
	// It ends well once the sum was zero at every reading for Window (zero: 5 s).
	URL    string        `json:"url,omitempty"`
	Gauges []string      `json:"gauges,omitempty"`
	Window time.Duration `json:"window,omitempty"`

	Identity string `json:"identity,omitempty"` // clean: Resource.Identity as observed
}

// ActKind is what an act does.
type ActKind string

// The kinds of act.
const (
	ActSignal ActKind = "signal" // TERM or KILL to identified processes
	ActExec   ActKind = "exec"   // run a named command for a workload
	ActClean  ActKind = "clean"  // remove a netns, detach a loop device, move a directory aside and remove it
	ActMoved  ActKind = "moved"  // mark a workload as moved off an evacuating host
	ActQuiet  ActKind = "quiet"  // wait until a serving workload has had no request in flight for a while
)

// ActState is how far an act is.
type ActState string

// The states of an act. Interrupted means that the agent ended in the middle:
// observe again, never guess.
const (
	ActBegun       ActState = "begun"
	ActFinished    ActState = "finished"
	ActInterrupted ActState = "interrupted"
)

// ActReply is the state of an act and, once finished, its outcome.
type ActReply struct {
	ID       string       `json:"id"`
	State    ActState     `json:"state"`
	OK       bool         `json:"ok"`
	Reason   fleet.Reason `json:"reason,omitzero"` // why it was refused or failed
	Detail   string       `json:"detail,omitempty"`
	Exit     int          `json:"exit,omitempty"`   // exec: exit status
	Output   string       `json:"output,omitempty"` // exec: the last 4 KiB
	Begun    time.Time    `json:"begun,omitzero"`
	Finished time.Time    `json:"finished,omitzero"`
	NotYet   time.Time    `json:"not_yet,omitzero"`   // too_early: when it may be asked again
	Progress *Progress    `json:"progress,omitempty"` // quiet: the last reading, also while the act is begun
}

// Progress is what a quiet act has last read. Detail says the same in words.
type Progress struct {
	InFlight float64       `json:"in_flight"`         // the sum of the gauges; of no meaning where Unknown is set
	Was      float64       `json:"was"`               // the highest sum read
	Zero     time.Duration `json:"zero,omitempty"`    // for how long it has been zero
	Unknown  string        `json:"unknown,omitempty"` // why the last reading says nothing
	At       time.Time     `json:"at"`
}

// Reasons for which a quiet act ends without having seen quiet.
const (
	ReasonBusy    = "busy"    // requests were in flight to the end; args in_flight, was
	ReasonUnknown = "unknown" // the gauges could not be read at the end; args error
)

// ProofRequest asks the agent to look anew and to sign what it finds.
type ProofRequest struct {
	Drain   string `json:"drain"`
	Epoch   uint64 `json:"epoch"`
	Machine string `json:"machine"`
	Host    string `json:"host"` // plane/id, as the console names it
	Nonce   string `json:"nonce"`
	// HostKey is the SSH fingerprint (SHA256:…) that the console saw in its
	// handshake; the agent signs with that key or refuses.
	HostKey  string   `json:"host_key"`
	Asserted []byte   `json:"asserted"` // JSON of proof.Asserted: what the console vouches for
	Lost     []string `json:"lost,omitempty"`
}

// ProofReply is the signed proof.
type ProofReply struct {
	Proof     []byte `json:"proof"`     // proof.json, byte for byte as signed
	Signature string `json:"signature"` // armored SSHSIG
}

// AcceptRequest makes an exception for one key, by name.
type AcceptRequest struct {
	Key     fleet.Key `json:"key"`
	Reason  string    `json:"reason"`
	Who     string    `json:"who"`
	Typed   string    `json:"typed"` // the key as the person typed it
	Machine string    `json:"machine,omitempty"`
}

// SealRequest asks the agent to confirm a proof in this instant and to refuse
// everything from then on.
type SealRequest struct {
	Who        string `json:"who"`
	Proof      []byte `json:"proof"`
	Signature  string `json:"signature"`
	Terminator string `json:"terminator"` // command, poweroff or release
	Machine    string `json:"machine"`
}

// SealReply confirms the seal.
type SealReply struct {
	Sealed string    `json:"sealed"` // the drain
	At     time.Time `json:"at"`
	Boot   string    `json:"boot"`
}

// PoweroffRequest powers a sealed host off, or ends a scoped agent.
type PoweroffRequest struct {
	Who     string `json:"who"`
	Drain   string `json:"drain"`
	Machine string `json:"machine"`
}

// RebindRequest tells a host that a person has bound its name to this machine. It
// changes nothing there but the audit log.
type RebindRequest struct {
	Who     string `json:"who"`
	Why     string `json:"why,omitempty"`
	Host    string `json:"host"`
	Was     string `json:"was,omitempty"` // the machine before
	Machine string `json:"machine"`
}

// RebindReply names the machine.
type RebindReply struct {
	Machine string `json:"machine"`
}

// SignerReply lists the SSH host keys that the agent can sign with.
type SignerReply struct {
	Keys []SignerKey `json:"keys"`
}

// SignerKey is one host key.
type SignerKey struct {
	Fingerprint string `json:"fingerprint"`
	Public      string `json:"public"` // authorized_keys form
}
