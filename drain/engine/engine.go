// Package engine runs drains: it observes, lets the pure core decide, writes
// the intent, acts, writes the outcome, and begins again.
//
// One goroutine drives one drain, and only while it holds the drain's lease and
// the highest epoch that its host has seen. It also carries out the verbs that
// are not drives: cordon, uncordon, verify, accept, clean, terminate. Each of
// them works on what plane and host say at that moment, and each leaves its
// trace in the journal.
//
//	Looker ─► Next ─► journal (intent) ─► Lever ─► journal (outcome) ─► Apply
//
// The engine keeps nothing that the journal does not have: another process can
// take any drain over at any moment. It never lifts a hold that nobody asked it
// to lift, and every failure leaves the host held.
package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/fleet"
)

// Config is what an Engine is made of.
type Config struct {
	Journal  Journal
	Plane    func(fleet.HostID) (Cordoner, error)
	Look     Looker
	Agents   Agents
	Levers   map[drain.ActKind]Lever
	Policy   drain.Policy
	Actor    drain.Actor
	Trust    Trust                            // whose asks are obeyed
	Signer   ssh.Signer                       // signs this process's asks; nil where nobody's key is at hand
	Holder   string                           // names this process in leases
	Window   func(fleet.HostID) time.Duration // scheduler cache window with its margin
	Retry    time.Duration                    // how long a cordon retries both sides; default 60s
	Pass     time.Duration                    // between two passes; default 5s
	BlindMax time.Duration                    // a longer gap between drivers waits for a person; default 10m
	// Spool keeps a record that the journal could not take, to be appended with the
	// same id once it can; nil where there is none.
	Spool func(drain.Event) error
	Log   *slog.Logger
	// Promised says what drains of other hosts are bringing where; nil where nobody
	// can say. With an error nothing is placed.
	Promised func(ctx context.Context, except fleet.HostID) (map[fleet.HostID][]fleet.Needs, error)
	// PromisedBefore is Promised as the journal says at this moment, and of it only
	// what was chosen before an event: of two processes that place at the same time
	// the later one stands back. It may be nil.
	PromisedBefore func(ctx context.Context, except fleet.HostID, seq uint64) (map[fleet.HostID][]fleet.Needs, error)
	// NewID makes the ids of events, drains and proofs; nil makes random UUIDs.
	NewID func() string
	// JournalHost is where the journal is served, where that is another machine: a
	// drain of that host is refused.
	JournalHost string
}

// Engine carries out verbs and drives drains.
type Engine struct {
	cfg    Config
	ledger ledger
	began  time.Time
}

// New makes an engine.
func New(cfg Config) *Engine {
	if cfg.Retry <= 0 {
		cfg.Retry = time.Minute
	}
	if cfg.Pass <= 0 {
		cfg.Pass = 5 * time.Second
	}
	if cfg.BlindMax <= 0 {
		cfg.BlindMax = 10 * time.Minute
	}
	if cfg.NewID == nil {
		cfg.NewID = uuid.NewString
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{cfg: cfg, began: time.Now()}
}
