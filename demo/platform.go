package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"

	"ebb/fleet"
	"ebb/fleet/embedded"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// Platform is the demo's control plane and the owners of its workloads: it
// places work, asks hosts before it does, and notices when work has ended.
type Platform struct {
	Plane     *embedded.Plane
	Scheduler *embedded.Scheduler

	fleet  *Fleet
	stale  atomic.Bool // the scheduler's view is not refreshed
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Stale keeps the scheduler's view as it is, or lets it be refreshed again.
func (p *Platform) Stale(on bool) { p.stale.Store(on) }

// refresh reads the scheduler's view anew once in every cache time.
func (p *Platform) refresh(ctx context.Context) {
	for {
		if !p.stale.Load() {
			_ = p.Scheduler.Refresh(ctx) // what fails is tried again; the old view stays
		}
		if !pause(ctx, p.fleet.Scaled(SchedulerCache)) {
			return
		}
	}
}

// Scaled divides a duration by the fleet's speed.
func (f *Fleet) Scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / f.Speed) }

func startPlatform(ctx context.Context, f *Fleet) (*Platform, error) {
	plane, err := embedded.Open(ctx, embedded.Config{Name: PlaneName, URL: "sqlite:" + filepath.Join(f.Dir, "plane.db")})
	if err != nil {
		return nil, err
	}
	p := &Platform{Plane: plane, fleet: f}
	for i, h := range f.Hosts {
		host := fleet.Host{ID: h.ID(), Address: h.Name, Instance: fmt.Sprintf("i-%08x", 0x0f310000+i),
			Labels: map[string]string{"pool": pool(h.Name), "rack": fmt.Sprintf("r%d", 10+i%3)}}
		if err := plane.AddHost(ctx, host); err != nil {
			_ = plane.Close()
			return nil, err
		}
	}
	// The view is refreshed by refresh alone, so that a story can keep it stale for
	// as long as it needs, on a machine of any speed.
	p.Scheduler = &embedded.Scheduler{Plane: plane, Hosts: admitter{f}, Cache: 24 * time.Hour, Name: "demo-scheduler"}
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.wg.Go(func() { p.refresh(ctx) })
	p.wg.Go(func() { p.heartbeats(ctx) })
	p.wg.Go(func() { p.notice(ctx) })
	return p, nil
}

func (p *Platform) stop() {
	p.cancel()
	p.wg.Wait()
	_ = p.Plane.Close()
}

// admitter asks a demo host's agent, as the platform's daemon on it does.
type admitter struct{ fleet *Fleet }

func (a admitter) Admit(ctx context.Context, host fleet.HostID, op fleet.Op, key fleet.Key) (string, *embedded.Refusal, error) {
	c, err := a.dial(ctx, host)
	if err != nil {
		return "", nil, err
	}
	defer c.Close()
	reply, err := c.Admit(ctx, wire.AdmissionRequest{Op: op, Key: key, TTL: time.Minute, Who: "demo-scheduler"})
	var p *client.Problem
	if errors.As(err, &p) && p.Refused() {
		return "", &embedded.Refusal{Hold: p.Hold, Reason: p.Problem.Error}, nil
	}
	if err != nil {
		return "", nil, err
	}
	if reply.Ticket == nil {
		return "", nil, nil
	}
	return reply.Ticket.ID, nil, nil
}

func (a admitter) Report(ctx context.Context, host fleet.HostID, ticket, closed string) error {
	c, err := a.dial(ctx, host)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Settle(ctx, ticket, wire.TicketReport{Closed: closed, Who: "demo-scheduler"})
	return err
}

func (a admitter) dial(ctx context.Context, host fleet.HostID) (*client.Client, error) {
	h := a.fleet.Host(host.Name())
	if h == nil {
		return nil, fmt.Errorf("no demo host %s", host)
	}
	return h.dial(ctx, wire.Admission)
}

// heartbeats is what hosts tell the plane, beside and apart from their agents.
func (p *Platform) heartbeats(ctx context.Context) {
	for {
		for _, h := range p.fleet.Hosts {
			if h.alive() {
				_ = p.Plane.SetHeartbeat(ctx, h.ID(), time.Now())
			}
		}
		if !pause(ctx, 2*time.Second) {
			return
		}
	}
}

func (h *Host) alive() bool {
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

// notice ends the claim of work whose manifest is gone: that is how owners say
// here that something has ended.
func (p *Platform) notice(ctx context.Context) {
	for pause(ctx, 250*time.Millisecond) {
		all, err := p.Plane.Claims(ctx, nil)
		if err != nil {
			continue
		}
		for host, claims := range all {
			h := p.fleet.Host(host.Name())
			for _, c := range claims {
				if h == nil || c.Phase != fleet.Running || c.Status == "starting" {
					continue
				}
				s := Spec{Kind: c.Key.Kind, ID: c.Key.ID}
				dir := filepath.Join(h.Dir, manifestDir)
				if h.alive() && dead(pidFile(dir, s)) {
					forget(h.Dir, s) // the platform's own clean-up after a process that was killed
				}
				if _, err := os.Stat(s.file(dir)); errors.Is(err, fs.ErrNotExist) {
					_ = p.Plane.End(ctx, c.Key)
				}
			}
		}
	}
}

// dead reports whether a pid file names a process that is no more.
func dead(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// Run places a workload wherever the scheduler thinks it fits.
func (p *Platform) Run(ctx context.Context, s Spec) (fleet.HostID, error) {
	if err := p.define(s); err != nil {
		return "", err
	}
	return p.Scheduler.Place(ctx, embedded.Work{Key: s.Key(), Class: s.Class, Owner: s.Owner, TTL: s.Life,
		Start: func(_ context.Context, host fleet.HostID) error {
			_, err := Launch(p.fleet.Host(host.Name()).Place(), s)
			return err
		}})
}

// RunOn places a workload on a chosen host, asking it first.
func (p *Platform) RunOn(ctx context.Context, h *Host, s Spec) error {
	land, err := p.Admit(ctx, h, s)
	if err != nil {
		return err
	}
	return land(ctx)
}

// Admit asks a host for a workload and returns what makes it land there: the
// time between the two is a slow image pull.
func (p *Platform) Admit(ctx context.Context, h *Host, s Spec) (land func(context.Context) error, err error) {
	if err := p.define(s); err != nil {
		return nil, err
	}
	a := admitter{p.fleet}
	ticket, refusal, err := a.Admit(ctx, h.ID(), fleet.OpClaim, s.Key())
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, fmt.Errorf("%s refused %s: %s", h.Name, s.Key(), refusal.Reason)
	}
	return func(ctx context.Context) error {
		c := fleet.Claim{Key: s.Key(), Host: h.ID(), Phase: fleet.Running, Class: s.Class, Owner: s.Owner}
		if s.Life > 0 {
			c.Expires = time.Now().Add(s.Life)
		}
		if _, err := Launch(h.Place(), s); err != nil {
			return errors.Join(err, a.Report(ctx, h.ID(), ticket, "failed"))
		}
		return errors.Join(p.Plane.Put(ctx, c), a.Report(ctx, h.ID(), ticket, "done"))
	}, nil
}

// define writes a workload's definition to the catalog, from which a start
// command on another host can start it.
func (p *Platform) define(s Spec) error {
	raw, err := toml.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(s.file(p.fleet.catalog()), raw, 0o600)
}

// OwnerEnds is the owner of a workload ending it: TERM to its process, which
// removes its manifest as its last act.
func (p *Platform) OwnerEnds(h *Host, s Spec) error {
	return signalPID(pidFile(filepath.Join(h.Dir, manifestDir), s), h.Token)
}

// pause waits, and reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
