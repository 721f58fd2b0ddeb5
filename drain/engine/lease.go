package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
)

// leaseMargin is how long before its end a lease that could not be renewed
// counts as lost: what is under way by then is still inside it.
const leaseMargin = 2 * time.Second

// keepLease renews the lease until ctx ends. A driver that can't renew it stops
// before it runs out, whatever the journal's driver is waiting for: what it did
// later could meet another driver.
func (d *Driver) keepLease(ctx context.Context, l drain.Lease, lost context.CancelCauseFunc) {
	valid := func(asked time.Time) time.Duration { return time.Until(asked.Add(drain.LeaseTTL - leaseMargin)) }
	guard := time.AfterFunc(valid(d.taken), func() { lost(errLapsed) })
	defer guard.Stop()
	for wait := drain.LeaseRenew; pause(ctx, wait); {
		asked := time.Now()
		rctx, cancel := context.WithTimeout(ctx, drain.LeaseRenew)
		next, err := d.e.cfg.Journal.Renew(rctx, l)
		cancel()
		switch {
		case err == nil:
			l, wait = next, drain.LeaseRenew
			guard.Reset(valid(asked))
		case errors.Is(err, drain.ErrLeaseLost):
			lost(fmt.Errorf("%w (%v)", errLapsed, err))
			return
		default:
			wait = time.Second
		}
	}
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
