package engine

import (
	"context"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/fleet"
)

// Journal is where events go. drain/journal implements it.
type Journal interface {
	Append(ctx context.Context, b drain.Batch) ([]drain.Event, error)
	Stream(ctx context.Context, stream string, after uint64, limit int) ([]drain.Event, error)
	Acquire(ctx context.Context, drainID, holder string, minEpoch uint64) (drain.Lease, error)
	Renew(ctx context.Context, l drain.Lease) (drain.Lease, error)
	Release(ctx context.Context, l drain.Lease) error
	// Leases lists those held, and those that ran out without being released.
	Leases(ctx context.Context) ([]drain.Lease, error)
	Now(ctx context.Context) (time.Time, error)
	Name() string
}

// Cordoner is a control plane that can be told to keep work away.
type Cordoner interface {
	Set(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error)
	Lift(ctx context.Context, host fleet.HostID, theirs bool) error
	Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error)
}

// Looker reads a host anew, and knows the others.
type Looker interface {
	Look(ctx context.Context, host fleet.HostID) (fleet.HostView, error)
	Targets(host fleet.HostID) []fleet.HostView
}

// Role is what a channel to an agent is opened for.
type Role string

// The roles that the engine asks for; terminate is opened on demand only.
const (
	RoleCordon    Role = "cordon"
	RoleOperate   Role = "operate"
	RoleTerminate Role = "terminate"
)

// Agent is a host's agent, through a channel of one role.
type Agent interface {
	Facts(ctx context.Context, fresh bool) (fleet.Facts, error)
	SetHold(ctx context.Context, h fleet.Hold, machine string) (HoldAnswer, error)
	LiftHold(ctx context.Context, l Lift) (HoldAnswer, error)
	Announce(ctx context.Context, drainID string, epoch uint64) (uint64, error)
	Clean(ctx context.Context, c Cleaning) (drain.Answer, error)
	Prove(ctx context.Context, a ProofAsk) (SignedProof, []fleet.Issue, error)
	Accept(ctx context.Context, k fleet.Key, reason, who, typed, machine string) error
	Seal(ctx context.Context, s SealAsk) ([]fleet.Issue, error)
	Poweroff(ctx context.Context, drainID, who, machine string) error
	// Rebound has the host write down that its name is bound to its machine, and to
	// which it was before.
	Rebound(ctx context.Context, host fleet.HostID, was, machine, who, why string) error
	HostKey() ssh.PublicKey // that the SSH handshake showed
}

// Rewording is what an agent is that can change the reason of a cordon that is
// there. Only whoever set it may.
type Rewording interface {
	Reword(ctx context.Context, who, why, machine string) (HoldAnswer, error)
}

// Agents opens channels.
type Agents interface {
	Agent(ctx context.Context, host fleet.HostID, role Role) (Agent, error)
}

// HoldAnswer is the host's state after a change of holds.
type HoldAnswer struct {
	Holds   fleet.Holds
	Machine string
	Boot    string
	At      time.Time // the host's clock
	Audit   string    // why its audit line could not be written, if so
}

// Lift asks for one hold to be lifted.
type Lift struct {
	Kind    fleet.HoldKind
	Drain   string
	Epoch   uint64
	Theirs  bool
	Who     string
	Why     string
	Machine string
}

// Cleaning asks for one resource to be removed, by identity.
type Cleaning struct {
	ID       string
	Machine  string
	Resource fleet.Resource
}

// ProofAsk asks the host to look at itself and sign.
type ProofAsk struct {
	Drain    string
	Epoch    uint64
	Machine  string
	Host     fleet.HostID
	Nonce    string
	Asserted []byte // JSON of proof.Asserted
}

// SignedProof is proof.json and its detached signature.
type SignedProof struct {
	Proof     []byte
	Signature string
}

// SealAsk asks the host to confirm a proof in this instant, and to take nothing
// from then on.
type SealAsk struct {
	SignedProof
	Who        string
	Terminator string
	Machine    string
}

// Lever carries one kind of act out.
type Lever interface {
	Do(ctx context.Context, j drain.Job) (drain.Answer, error)
	// Status says what became of an act; known is false where that can't be told
	// and the act may be repeated.
	Status(ctx context.Context, j drain.Job) (a drain.Answer, known bool, err error)
}

// HoldTaken is returned by an Agent when another drain holds the host.
type HoldTaken struct{ Hold fleet.Hold }

func (e *HoldTaken) Error() string {
	return "drain " + e.Hold.Drain + " of " + e.Hold.Who + " holds the host (journal " + e.Hold.Journal + ")"
}
