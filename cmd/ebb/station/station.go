// Package station connects one ebb process to its fleet: the control planes, the
// agents over SSH, the journal, the observer and the engine, as the
// configuration says. It holds the adapters between packages that must not know
// each other, and nothing else.
package station

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/journal"
	"ebb/drain/levers"
	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/fleet/observe"
	"ebb/fleet/sshlink"
	"ebb/probes/wire"
)

// Options say where the configuration is and who asks.
type Options struct {
	Config string // path; empty takes the first default that exists
	Getenv func(string) string
	Log    *slog.Logger
	// NoJournal leaves the journal closed: a cordon works without it.
	NoJournal bool
}

// Station is an open connection to a fleet. Close ends everything it started.
type Station struct {
	Config   config.Fleet
	Journal  *journal.Journal // nil while it can't be opened; JournalError says why
	Observer *observe.Observer
	Engine   *engine.Engine
	Policy   drain.Policy
	Actor    drain.Actor
	Holder   string
	Trust    engine.Trust // whose asks are obeyed
	Demo     int          // hosts of a demo, which end with this program; 0: it is none

	JournalError error
	trouble      atomic.Pointer[error] // what a watch of the journal last had

	planes map[string]plane
	pool   *sshlink.Pool
	agents *agents
	log    *slog.Logger
	getenv func(string) string
	spool  *spool
	signer ssh.Signer // an operator's key that is at hand, or nil
	forget func()     // ends the connection to the SSH agent that signs
	stop   context.CancelFunc
	done   chan struct{}
}

// Open reads the configuration and connects. A journal that can't be opened is
// not an error: whoever needs it says so, and a cordon does not.
func Open(ctx context.Context, opts Options) (*Station, error) {
	if opts.Getenv == nil {
		opts.Getenv = os.Getenv
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := load(opts)
	if err != nil {
		return nil, err
	}
	s := &Station{Config: cfg, log: opts.Log, Actor: actor(opts.Getenv), getenv: opts.Getenv}
	s.Holder = s.Actor.Console
	if s.Trust, err = trustOf(cfg); err != nil {
		return nil, err
	}
	var name string
	if s.signer, name, s.forget = signerOf(cfg, s.Trust, opts.Getenv); s.signer != nil {
		s.Actor.Name = name
	}
	s.Policy = policyOf(cfg)
	if s.pool, err = openPool(cfg); err != nil {
		return nil, err
	}
	if s.planes, err = openPlanes(ctx, cfg, s.pool); err != nil {
		_ = s.pool.Close()
		return nil, err
	}
	s.agents = newAgents(cfg, s.pool, s.host, s.Actor.Name)
	s.spool = &spool{path: spoolPath(opts.Getenv)}
	if !opts.NoJournal {
		s.openJournal(ctx, opts)
		s.unspool(ctx)
	}
	s.assemble()
	return s, nil
}

// unspool gives the journal what it could not take before.
func (s *Station) unspool(ctx context.Context) {
	if s.Journal == nil {
		return
	}
	n, err := s.spool.flush(ctx, s.Journal)
	if err != nil {
		s.log.Warn("spooled records are not journaled yet", "error", err)
	}
	if n > 0 {
		s.log.Info("spooled records are journaled", "records", n)
	}
}

func load(opts Options) (config.Fleet, error) {
	path := opts.Config
	if path == "" {
		path = opts.Getenv("EBB_CONFIG")
	}
	if path != "" {
		return config.LoadFleet(path)
	}
	tried := config.DefaultFleetPaths(opts.Getenv)
	for _, p := range slices.Backward(tried) {
		if _, err := os.Stat(p); err == nil {
			return config.LoadFleet(p)
		}
	}
	return config.Fleet{}, &HintError{
		Err:  fmt.Errorf("no configuration: looked for %s", strings.Join(tried, ", ")),
		Next: "write one (ebb doctor --sample prints a start), name one with --config, or try: ebb demo",
	}
}

// HintError is an error with what to type next.
type HintError struct {
	Err  error
	Next string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// Hint returns what to type next.
func (e *HintError) Hint() string { return e.Next }

// actor names who acts, and from where. The name is claimed, not proved: the
// agents record the user of the SSH connection beside it.
func actor(getenv func(string) string) drain.Actor {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := getenv("EBB_OPERATOR")
	if name == "" {
		name = "unknown@" + host
		if u, err := user.Current(); err == nil {
			name = u.Username + "@" + host
		}
	}
	return drain.Actor{Name: name, Console: fmt.Sprintf("%s:%d", host, os.Getpid())}
}

func policyOf(cfg config.Fleet) drain.Policy {
	p := drain.DefaultPolicy()
	p.Rules = cfg.Rules()
	for c, b := range cfg.Budgets {
		p.Defaults[c] = b
	}
	if cfg.Limits.MovesPerHost > 0 {
		p.MovesPerHost = cfg.Limits.MovesPerHost
	}
	if cfg.Limits.MovesPerTarget > 0 {
		p.MovesPerTarget = cfg.Limits.MovesPerTarget
	}
	p.Receivers = len(cfg.Notices) > 0
	p.Levers = leverSpecs(cfg)
	for _, pl := range cfg.Planes {
		p.CacheWindow = max(p.CacheWindow, pl.SchedulerCache+5*time.Second)
	}
	return p.Scale(cfg.Speed)
}

func (s *Station) openJournal(ctx context.Context, opts Options) {
	url := s.Config.Journal.URL
	if url == "" {
		if url, s.JournalError = config.DefaultJournal(opts.Getenv); s.JournalError != nil {
			return
		}
	}
	s.spool.journal = journalID(url)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	s.Journal, s.JournalError = journal.Open(ctx, url, journal.WithTrouble(func(err error) {
		s.trouble.Store(&err)
		if err == nil {
			s.log.Info("the journal answers again")
			return
		}
		s.log.Warn("journal", "error", err)
	}))
}

// assemble builds observer and engine over what is open.
func (s *Station) assemble() {
	planes := make(map[string]observe.Plane, len(s.planes))
	windows := make(map[string]time.Duration, len(s.planes))
	for name, p := range s.planes {
		planes[name], windows[name] = p, p.window
	}
	s.Observer = observe.New(observe.Config{
		Planes: planes, Window: windows, Log: s.log, Interval: scaled(3*time.Second, s.Config.Speed, 300*time.Millisecond),
		Agent: func(ctx context.Context, h fleet.Host) (observe.Agent, error) { return s.agents.observe(ctx, h) },
	})
	s.Engine = engine.New(engine.Config{
		Journal: journalOr{s.Journal, s.JournalError},
		Plane:   func(h fleet.HostID) (engine.Cordoner, error) { return s.plane(h) },
		Look:    s.Observer, Agents: s.agents, Levers: s.levers(), Policy: s.Policy, Actor: s.Actor, Holder: s.Holder, Trust: s.Trust, Signer: s.signer,
		Window:   func(h fleet.HostID) time.Duration { return windows[h.Plane()] },
		Promised: s.promised(), PromisedBefore: s.promisedBefore(), JournalHost: journalHost(s.Config.Journal.URL),
		Retry: scaled(time.Minute, s.Config.Speed, 10*time.Second),
		Pass:  scaled(5*time.Second, s.Config.Speed, 250*time.Millisecond), Log: s.log, Spool: s.spool.keep,
	})
}

// scaled divides a duration by a scoped fleet's speed, down to a floor.
func scaled(d time.Duration, speed float64, floor time.Duration) time.Duration {
	if speed <= 1 {
		return d
	}
	return max(time.Duration(float64(d)/speed), floor)
}

func (s *Station) levers() map[drain.ActKind]engine.Lever {
	notice := levers.Notice{}
	for _, n := range s.Config.Notices {
		notice.Timeout = max(notice.Timeout, n.Timeout)
		if n.Type == "webhook" {
			notice.Receivers = append(notice.Receivers, levers.Webhook{URL: n.URL})
			continue
		}
		notice.Receivers = append(notice.Receivers, levers.Command{Run: n.Run})
	}
	flip := levers.Flip{Plane: func(h fleet.HostID) (any, error) { p, err := s.plane(h); return p.inner, err }}
	return s.withPrograms(map[drain.ActKind]engine.Lever{
		drain.ActSignal: levers.Signal{Agents: s.agents},
		drain.ActExec:   levers.Exec{Agents: s.agents},
		drain.ActNotice: notice,
	}, flip)
}

func (s *Station) plane(h fleet.HostID) (plane, error) {
	p, ok := s.planes[h.Plane()]
	if !ok {
		return plane{}, fmt.Errorf("host %s: no control plane %q is configured", h, h.Plane())
	}
	return p, nil
}

// host finds what a plane says about a host, for its address. Where the plane is
// silent, the host's name stands in, which may well be an alias of ssh_config: a
// cordon does not wait for a database, and a wrong host would show a wrong key.
func (s *Station) host(ctx context.Context, id fleet.HostID) (fleet.Host, error) {
	lctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	h, err := s.Observer.Host(lctx, id)
	if _, known := s.planes[id.Plane()]; err == nil || !known || errors.Is(err, observe.ErrNotListed) || ctx.Err() != nil {
		return h, err
	}
	s.log.Warn("the plane is silent: the host's name is taken for its address", "host", id, "error", err)
	return fleet.Host{ID: id, Address: id.Name()}, nil
}

// Reach opens the channel for reading, and says what to type where that fails.
func (s *Station) Reach(ctx context.Context, id fleet.HostID) error {
	h, err := s.host(ctx, id)
	if err == nil {
		_, _, err = s.agents.open(ctx, h, wire.Observe)
	}
	return err
}

// Observe runs the observer until Close.
func (s *Station) Observe(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		if err := s.Observer.Run(ctx); err != nil {
			s.log.Error("observer", "error", err)
		}
	}()
}

// Close ends the observer, every channel, and the journal.
func (s *Station) Close() error {
	if s.stop != nil {
		s.stop()
		<-s.done
	}
	s.agents.close()
	s.forget()
	errs := []error{s.pool.Close()}
	for _, p := range s.planes {
		errs = append(errs, p.close())
	}
	if s.Journal != nil {
		errs = append(errs, s.Journal.Close())
	}
	return errors.Join(errs...)
}

// NeedJournal returns why the journal can't be used, if so.
func (s *Station) NeedJournal() error {
	if s.Journal != nil {
		return nil
	}
	return &HintError{Err: fmt.Errorf("open the journal: %w", s.JournalError), Next: "check [journal] url in " + s.Config.Path + ", then: ebb doctor"}
}
