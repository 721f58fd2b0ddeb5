// Package feed is what the console is given: the latest state of everything as
// one value, and the verbs it may call.
//
// A screen draws a Frame and asks nobody. Frames are handed over as the latest
// value, never queued: a slow terminal skips some. Verbs are called from
// commands, never from Update, and every answer is a message; what a verb
// refuses is data, with its reasons.
package feed

import (
	"context"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Frame is everything that screens draw, at one moment. It is immutable.
type Frame struct {
	At       time.Time                    // by the journal's clock: countdowns of two consoles agree
	Made     time.Time                    // the same moment by this process's clock; zero: both clocks are one
	Snapshot fleet.Snapshot               //
	Drains   map[fleet.HostID]drain.State // the newest drain of each host that has one
	Events   []drain.Event                // the newest events of all hosts, oldest first, at most EventsKept
	Words    []drain.Event                // the newest words left for the next shift, oldest first, at most WordsKept
	Journal  fleet.ProbeStatus            // whether the journal answers, and how old what is shown is
	Driving  map[fleet.HostID]bool        // drains that this very process drives
	Policy   drain.Policy                 // for the times that countdowns run to
	Config   Config                       //
	Replay   string                       // the journal that is played again; empty: this is now
}

// EventsKept bounds Frame.Events.
const EventsKept = 1000

// WordsKept bounds Frame.Words.
const WordsKept = 50

// Shift is the stream of words that are about no host.
const Shift = fleet.HostID("shift/notes")

// Config is what does not change while the console is open.
type Config struct {
	Operator   string // who acts
	Terminator string // what terminate would run, as configured: "cloudctl instances terminate {instance}"
	ReadOnly   bool
	Version    string
	Demo       int // hosts of a demo, which end with the console; 0: it is none
}

// Historian is what a Source is that can read the whole journal, oldest event
// first.
type Historian interface {
	History(ctx context.Context) ([]drain.Event, error)
}

// Source hands over the latest frame and a channel that is closed when there is
// a newer one.
type Source interface {
	Latest() (Frame, <-chan struct{})
}

// Request is what a person asks of a drain.
type Request struct {
	Deadline time.Duration
	For      fleet.Purpose
	Evacuate bool
	Reason   string
}

// Gate is what stands between a host and terminate.
type Gate struct {
	Host    fleet.HostID
	At      time.Time
	Issues  []fleet.Issue // empty: the gate is open
	Probes  []fleet.ProbeStatus
	Holds   fleet.Holds
	Kept    []string
	Proof   *Proof
	Command string // what terminate would run, resolved; or why it can't be
}

// Proof is a proof that the host has signed, as far as the console shows it.
type Proof struct {
	Path    string // where it was written
	Digest  string
	Made    time.Time
	Expires time.Time
	Scope   string
}

// Verbs are the console's only way to change anything. Every method may take as
// long as its context allows and is called from a command. A refusal is an error
// whose Issues method (see Refusal) names every reason.
type Verbs interface {
	// Focus names the hosts whose full facts are wanted: those on the screen.
	Focus(hosts ...fleet.HostID)
	Cordon(ctx context.Context, host fleet.HostID, reason string) (string, error)
	// Reword gives one's own cordon another reason.
	Reword(ctx context.Context, host fleet.HostID, reason string) (string, error)
	Uncordon(ctx context.Context, host fleet.HostID, theirs bool) (string, error)
	Plan(ctx context.Context, host fleet.HostID, r Request) (drain.Plan, error)
	// Drain starts the drain that the plan describes, and drives it in this process.
	Drain(ctx context.Context, host fleet.HostID, r Request, plan drain.Plan) (string, error)
	Undrain(ctx context.Context, host fleet.HostID) (string, error)
	// Ask appends an operator's ask (drain.AskExtend, AskEscalate, …) to the
	// host's drain.
	Ask(ctx context.Context, host fleet.HostID, ask drain.Body) error
	// Clean removes one leaked resource, by the identity that was on the screen.
	Clean(ctx context.Context, host fleet.HostID, r fleet.Resource) (string, error)
	// Check reads host and claims anew; Verify also has the host sign a proof.
	Check(ctx context.Context, host fleet.HostID) (Gate, error)
	Verify(ctx context.Context, host fleet.HostID) (Gate, error)
	Accept(ctx context.Context, host fleet.HostID, key fleet.Key, reason, typed string) error
	// Terminate runs the terminator with the proof of the last Verify. The state
	// is read again, and the agent confirms, in that instant.
	Terminate(ctx context.Context, host fleet.HostID, typed string) error
	// Stop ends the drives of this process: their leases are released, the drains
	// and their holds stay.
	Stop()
}

// Refusal is an error that names its reasons.
type Refusal interface {
	error
	Reasons() []fleet.Issue
}
