package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
)

// leaseMargin is how long before its end a lease that could not be renewed
// counts as lost: what is under way by then is still inside it.
const leaseMargin = 2 * time.Second

// tenure is a lease with the time of its last confirmation. Whoever renews it and
// the acts that run beside the driver share it.
type tenure struct {
	lease drain.Lease

	mu    sync.Mutex
	asked time.Time // when the journal was asked that last confirmed it
}

func (t *tenure) confirm(asked time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = asked
}

// left is for how long the lease is certainly ours. The monotonic clock stands
// still while a machine sleeps and the wall clock can be set: the one by which
// more time has passed counts.
func (t *tenure) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	return drain.LeaseTTL - leaseMargin - max(now.Sub(t.asked), now.Round(0).Sub(t.asked.Round(0)))
}

// stillOurs is the last look before something is done, in the instant in which it
// begins. A process that was stopped between an intent and its act, or whose
// machine slept, may wake when another driver has long gone on. An agent refuses
// what it asks for then, by its epoch; control planes, programs and receivers know
// of no epoch. Where so much time has passed that the lease may be another's, the
// journal is asked.
func (e *Engine) stillOurs(ctx context.Context, t *tenure) error {
	if t.left() > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drain.LeaseRenew)
	defer cancel()
	asked := time.Now()
	if _, err := e.cfg.Journal.Renew(ctx, t.lease); err != nil {
		return lapsed(fmt.Errorf("whether the lease is still ours: %w", err))
	}
	t.confirm(asked)
	return nil
}

// keeping calls fn while the lease is renewed beside it. Where the lease is lost,
// fn's context ends, and that is what comes of it.
func (d *Driver) keeping(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	t := d.tenure
	go func() {
		defer close(kept)
		d.keepLease(ctx, t, cancel)
	}()
	defer func() { cancel(nil); <-kept }()
	err := fn(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// keepLease renews the lease until ctx ends. A driver that can't renew it stops
// before it runs out, whatever the journal's driver is waiting for: what it did
// later could meet another driver.
func (d *Driver) keepLease(ctx context.Context, t *tenure, lost context.CancelCauseFunc) {
	guard := time.AfterFunc(t.left(), func() { lost(errLapsed) })
	defer guard.Stop()
	for wait := d.e.untilRenewal(); pause(ctx, wait); {
		asked := time.Now()
		rctx, cancel := context.WithTimeout(ctx, drain.LeaseRenew)
		_, err := d.e.cfg.Journal.Renew(rctx, t.lease)
		cancel()
		switch {
		case err == nil:
			wait = d.e.untilRenewal()
			t.confirm(asked)
			guard.Reset(t.left())
		case errors.Is(err, drain.ErrLeaseLost):
			lost(fmt.Errorf("%w (%v)", errLapsed, err))
			return
		default:
			wait = time.Second
		}
	}
}

// untilRenewal is how long it is to the next renewal of all leases of this engine.
// They are renewed at the same moments, so that the journal can take them together.
func (e *Engine) untilRenewal() time.Duration {
	return drain.LeaseRenew - time.Since(e.began)%drain.LeaseRenew
}

// leave ends the turn: acts that still run are waited for, briefly, so that
// their outcomes stand in the journal; what is not known by then is asked for by
// the next driver.
func (d *Driver) leave(why error) {
	if errors.Is(why, errLapsed) {
		return // nothing can be written under this lease any more
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for d.running > 0 && ctx.Err() == nil {
		select {
		case a := <-d.answers:
			_ = d.heard(a) // the turn is over, whatever it says
		case <-ctx.Done():
		}
	}
	if err := d.flushAnew(ctx); err != nil {
		d.e.cfg.Log.Error("outcomes not journaled", "host", d.host, "error", err)
	}
	text := string(d.s.Phase)
	if why != nil {
		text = why.Error()
	}
	if err := d.write(ctx, nil, drain.DriveReleased{Why: text}); err != nil {
		d.e.cfg.Log.Warn("release not journaled", "host", d.host, "error", err)
	}
	rctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	if err := d.e.cfg.Journal.Release(rctx, d.lease); err != nil {
		d.e.cfg.Log.Warn("lease not released", "drain", d.lease.Drain, "error", err)
	}
}
