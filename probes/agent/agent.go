package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// Agent is one running daemon. New reads what the host remembers; Run serves.
type Agent struct {
	cfg     Config
	started time.Time
	lock    *os.File // held while this agent owns the state directory
	audit   *auditLog
	store   *store
	scan    *scanner
	shared  *shared
	metrics *metrics

	life context.Context // the agent's own lifetime: acts run on it, not on a request's
	end  context.CancelFunc
	work sync.WaitGroup

	// mu makes changes one after another, and an act's last check one step with
	// the act. What follows is guarded by it.
	mu      sync.Mutex
	slots   *slots // nil while the state directory can't be used
	rec     Record
	tickets map[string]fleet.Ticket
	swept   time.Duration // when closed tickets were last dropped, on CLOCK_BOOTTIME
	// admissions counts tickets made and settled.
	admissions uint64
	idle       map[idleThing]time.Duration // since when a thing has been seen unused, on CLOCK_BOOTTIME
	acts       *acts
	proofs     map[string][]proof.Item // what lay under the proofs made here, by nonce
	nonces     []string                // of proofs, oldest first
}

// ErrLocked says that another process owns the state directory.
var ErrLocked = errors.New("another agent owns the state directory")

// New reads the state directory. The agent holds at once what it held before;
// where nothing can be read it admits nothing until it is told.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if cfg.Machine == "" || cfg.Boot == "" || cfg.StateDir == "" || cfg.Prober == nil {
		return nil, errors.New("agent: machine, boot, state directory and prober are required")
	}
	now := cfg.Clock.Now()
	a := &Agent{
		cfg: cfg, started: now, audit: newAuditLog(cfg.StateDir), scan: newScanner(), shared: &shared{facts: map[factsOf][]byte{}},
		tickets: map[string]fleet.Ticket{}, proofs: map[string][]proof.Item{},
		rec: Record{Machine: cfg.Machine, Unheld: true},
	}
	a.life, a.end = context.WithCancel(context.Background())
	if err := a.open(); err != nil {
		a.end()
		return nil, err
	}
	a.store = newStore(fleet.Facts{
		At: now, Machine: cfg.Machine, Boot: cfg.Boot, BootedAt: cfg.BootedAt, Hostname: cfg.Hostname, Offer: cfg.Offer,
		Agent: fleet.AgentInfo{Version: cfg.Version, Scope: cfg.Scope, Started: now},
	})
	a.metrics = newMetrics(a)
	a.mu.Lock()
	a.publish()
	a.mu.Unlock()
	return a, nil
}

// open takes what the state directory has. Only another owner is an error: an
// unusable disk must not keep the agent from answering.
func (a *Agent) open() error {
	dir, log := a.cfg.StateDir, a.cfg.Log
	lock, err := lockWithin(dir, a.cfg.LockWait)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("agent: %w: %s", err, dir)
	}
	if err != nil {
		log.Warn("state directory", "error", err)
	}
	a.lock = lock
	a.dropOutputs()
	s, rec, err := openSlots(dir)
	a.slots = s
	switch {
	case err == nil && rec.Machine == a.cfg.Machine:
		a.rec = rec.forBoot(a.cfg.Boot)
	case s == nil:
		log.Warn("the slots can't be written", "error", err)
		// Read-only or full: what they say still holds.
		if rec, err := ReadHolds(dir); err == nil && rec.Machine == a.cfg.Machine {
			a.rec = rec.forBoot(a.cfg.Boot)
		}
	case err == nil:
		log.Warn("the record of holds is another machine's", "machine", rec.Machine)
	}
	if tickets, err := readTickets(dir); err == nil {
		a.tickets = tickets
	} else {
		// Work may yet land that was admitted: the gate stays shut.
		log.Error("tickets can't be read", "error", err)
		a.tickets[unreadable] = fleet.Ticket{ID: unreadable, Who: "tickets can't be read: " + err.Error(), At: a.started}
	}
	a.acts = openActs(dir, a.cfg.Boot, a.alive, log)
	return nil
}

// lockWithin waits for whoever has the lock: an admission without a daemon takes
// it for a moment.
func lockWithin(dir string, wait time.Duration) (*os.File, error) {
	for end := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		lock, err := lockState(dir)
		if !errors.Is(err, ErrLocked) || time.Now().After(end) {
			return lock, err
		}
	}
}

// lockState takes the lock of a state directory, creating both where needed.
func lockState(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Whoever may write there may forge holds and tickets.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o022 != 0 {
		if err := os.Chmod(dir, info.Mode().Perm()&^0o022); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, err
	}
	return f, nil
}

// Listener is one socket and the role that its callers have.
type Listener struct {
	net.Listener
	Role wire.Role
}

// Run serves the listeners until ctx ends, then waits for requests in flight.
// Processes that exec acts have started go on.
func (a *Agent) Run(ctx context.Context, listeners []Listener) error {
	stop := context.AfterFunc(ctx, a.end)
	defer stop()
	defer a.close()
	defer a.work.Wait()
	defer a.end()
	a.work.Go(func() { a.scanLoop(a.life) })
	a.outlived()
	srv := a.server()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		hello := wire.Hello{Proto: wire.Proto, Version: a.cfg.Version, Role: l.Role, Machine: a.cfg.Machine}
		a.work.Go(func() { failed <- srv.Serve(roleListener{l, a.cfg.Proc, hello, newPlaces(connsMax)}) })
	}
	var err error
	select {
	case <-a.life.Done():
	case err = <-failed:
	}
	// Under the lock: an act that was let in has been started by then, and none
	// is let in afterwards.
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	// Watches end with the agent's life; what else is in flight gets a moment.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	return err
}

// Close gives up an agent that was never run.
func (a *Agent) Close() {
	a.end()
	a.close()
}

func (a *Agent) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots != nil {
		a.slots.close()
		a.slots = nil
	}
	a.acts.close()
	a.audit.close()
	if a.lock != nil {
		a.lock.Close()
	}
}

// Facts returns the latest facts.
func (a *Agent) Facts() fleet.Facts {
	f, _ := a.store.get()
	return f
}
