package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Driver is one turn of driving one drain. It is used by one goroutine.
type Driver struct {
	e       *Engine
	host    fleet.HostID
	s       drain.State
	lease   drain.Lease
	sink    func(drain.Event)
	driven  time.Time     // when somebody last drove, before this turn
	offset  time.Duration // journal's clock less ours
	answers chan answered
	left    chan struct{} // closed when nobody listens to answers any more
	running int
	hold    *fleet.Hold // the drain hold as last confirmed by the host
}

// answered is the outcome of an act, on its way back to the driver.
type answered struct {
	act    drain.Act
	answer drain.Answer
}

// Drive takes the host's drain up and drives it until it is empty, stopped, past
// its deadline, or the context ends; it returns the state it left. Every event
// of the host that it reads or writes is shown to sink, in order. The lease is
// released on the way out, so that the next driver need not wait for it.
func (e *Engine) Drive(ctx context.Context, host fleet.HostID, sink func(drain.Event)) (drain.State, error) {
	d := &Driver{e: e, host: host, sink: sink, answers: make(chan answered), left: make(chan struct{})}
	defer close(d.left)
	var err error
	if d.s, err = e.catchUp(ctx, host, drain.State{}, nil); err != nil {
		return d.s, err
	}
	if d.s.Drain == "" || d.s.Undone {
		return d.s, fmt.Errorf("drive %s: it has no drain", host)
	}
	if err := d.take(ctx); err != nil {
		return d.s, err
	}
	err = d.loop(ctx)
	d.leave(err)
	return d.s, err
}

// take acquires the lease with an epoch above every one that journal and host
// have seen, announces it, and opens the turn.
func (d *Driver) take(ctx context.Context) error {
	v, err := d.e.View(ctx, d.host, d.s)
	if err != nil {
		return err
	}
	facts, seen := v.Source.Facts.Get()
	if !seen && d.s.Machine == "" {
		return fmt.Errorf("drive %s: the host can't be read: %s", d.host, v.Source.Facts.Error)
	}
	if seen && d.s.Machine != "" && facts.Machine != d.s.Machine {
		return &Refused{Verb: "drive", Host: d.host, Issues: []fleet.Issue{{Check: fleet.CheckReach,
			Detail: fmt.Sprintf("another machine answers at its address: %s, not %s", facts.Machine, d.s.Machine)}}}
	}
	var known uint64
	if h := facts.Holds.Drain; h != nil {
		if h.Drain != d.s.Drain {
			return &HoldTaken{Hold: *h}
		}
		known = h.Epoch
	}
	d.driven = d.lastDriven(ctx)
	if d.lease, err = d.e.cfg.Journal.Acquire(ctx, d.s.Drain, d.e.cfg.Holder, max(known, d.s.Epoch)); err != nil {
		return fmt.Errorf("drive %s: %w", d.host, err)
	}
	if err := d.open(ctx, facts, seen); err != nil {
		d.release()
		return err
	}
	return nil
}

// lastDriven is when the drain last had a driver: its last event, or the last
// renewal of a lease that was never released.
func (d *Driver) lastDriven(ctx context.Context) time.Time {
	last := d.s.LastAt
	leases, err := d.e.cfg.Journal.Leases(ctx)
	if err != nil {
		return last
	}
	for _, l := range leases {
		if renewed := l.Until.Add(-drain.LeaseTTL); l.Drain == d.s.Drain && renewed.After(last) {
			last = renewed
		}
	}
	return last
}

func (d *Driver) open(ctx context.Context, facts fleet.Facts, seen bool) error {
	now, err := d.e.cfg.Journal.Now(ctx)
	if err != nil {
		return fmt.Errorf("drive %s: read the journal's clock: %w", d.host, err)
	}
	d.offset = now.Sub(time.Now())
	took := drain.DriveTook{Driver: d.e.cfg.Holder}
	if seen {
		took.Machine, took.Boot = facts.Machine, facts.Boot
	}
	if d.s.Epoch > 0 && !d.driven.IsZero() {
		if gap := now.Sub(d.driven); gap > 2*d.e.cfg.Pass {
			took.Blind = gap
			took.Person = !d.s.Phase.Ended() && (gap > d.e.cfg.BlindMax || now.After(d.s.Deadline))
		}
	}
	if err := d.write(ctx, nil, took); err != nil {
		return err
	}
	if seen {
		if err := d.renewHold(ctx, facts); err != nil {
			return err
		}
	}
	return d.resolve(ctx)
}

// renewHold sets the drain hold, and again whenever what it says has changed:
// the fence's epoch, and the deadline that limits how far work is renewed.
func (d *Driver) renewHold(ctx context.Context, facts fleet.Facts) error {
	want := fleet.Hold{Kind: fleet.DrainHold, Who: d.s.By.Name, Why: d.s.Reason, Drain: d.s.Drain, Journal: d.e.cfg.Journal.Name(),
		Epoch: d.lease.Epoch, Deadline: d.s.Deadline, Evacuate: d.s.Evacuate, For: d.s.For}
	if h := facts.Holds.Drain; h != nil && h.Drain == want.Drain && h.Epoch == want.Epoch && h.Deadline.Equal(want.Deadline) {
		return nil
	}
	if facts.Holds.Drain == nil && d.s.Phase != drain.Planned && d.s.Phase != drain.Cordoning && d.hold != nil {
		return nil // somebody lifted it in mid-drain: it is not set again
	}
	agent, err := d.e.cfg.Agents.Agent(ctx, d.host, RoleOperate)
	if err != nil {
		return fmt.Errorf("drain %s: %w", d.host, err)
	}
	got, err := agent.SetHold(ctx, want, facts.Machine)
	if err != nil {
		return fmt.Errorf("drain %s: set the drain hold: %w", d.host, err)
	}
	d.hold = got.Holds.Drain
	return nil
}

// resolve settles intents that an earlier driver left without an outcome, by
// asking where they ran.
func (d *Driver) resolve(ctx context.Context) error {
	for _, a := range d.s.Open {
		lever, ok := d.e.cfg.Levers[a.Kind]
		answer := drain.Answer{Result: drain.NotDone, Reason: fleet.Because("driver_ended")}
		if ok {
			got, known, err := lever.Status(ctx, d.job(a))
			if err != nil {
				answer = drain.Answer{Result: drain.Interrupted, Detail: err.Error()}
			} else if known {
				answer = got
			}
		}
		if err := d.write(ctx, nil, outcome(a, answer)); err != nil {
			return err
		}
	}
	return nil
}

// loop makes passes until the drain ends, this process loses the lease, or the
// context does.
func (d *Driver) loop(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		d.renew(ctx, d.lease, cancel)
	}()
	defer func() { cancel(nil); <-renewed }()
	for {
		wake, err := d.pass(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		if d.finished() {
			return nil
		}
		if err := d.wait(ctx, wake); err != nil {
			return err
		}
	}
}

// finished reports whether this turn is over. Past the deadline it goes on only
// while something that a person escalated by name is still there.
func (d *Driver) finished() bool {
	if d.running > 0 || !d.s.Phase.Ended() && !d.s.Undone {
		return false
	}
	if d.s.Phase != drain.DeadlineReached || d.s.Undone {
		return true
	}
	for _, it := range d.s.Items {
		if it.Open() && it.Escalated != "" {
			return false
		}
	}
	return true
}

// wait sleeps until an act answers, a time in the state comes, or the next pass
// is due.
func (d *Driver) wait(ctx context.Context, wake time.Time) error {
	pass := d.e.cfg.Pass
	if !wake.IsZero() {
		pass = min(pass, max(wake.Sub(d.now()), d.e.cfg.Pass/50))
	}
	t := time.NewTimer(pass)
	defer t.Stop()
	poll := time.NewTicker(min(time.Second, d.e.cfg.Pass))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case a := <-d.answers:
			d.running--
			return d.write(ctx, nil, outcome(a.act, a.answer))
		case <-t.C:
			return nil
		case <-poll.C: // asks are taken up within a second
			before := d.s.Num
			if err := d.catchUp(ctx); err != nil || d.s.Num != before {
				return err
			}
		}
	}
}

// leave ends the turn: acts that still run are waited for, briefly, so that
// their outcomes stand in the journal; what is not known by then is asked for by
// the next driver.
func (d *Driver) leave(why error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for d.running > 0 {
		select {
		case a := <-d.answers:
			d.running--
			if !errors.Is(why, drain.ErrLeaseLost) {
				if err := d.write(ctx, nil, outcome(a.act, a.answer)); err != nil {
					d.e.cfg.Log.Error("outcome not journaled", "act", a.act.ID, "error", err)
				}
			}
		case <-ctx.Done():
			return
		}
	}
	if errors.Is(why, drain.ErrLeaseLost) {
		return
	}
	text := string(d.s.Phase)
	if why != nil {
		text = why.Error()
	}
	if err := d.write(ctx, nil, drain.DriveReleased{Why: text}); err != nil {
		d.e.cfg.Log.Warn("release not journaled", "host", d.host, "error", err)
	}
	d.release()
}

func (d *Driver) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := d.e.cfg.Journal.Release(ctx, d.lease); err != nil {
		d.e.cfg.Log.Warn("lease not released", "drain", d.lease.Drain, "error", err)
	}
}

// renew keeps the lease. A driver that can't renew it stops before it runs out:
// what it might still do could meet another driver.
func (d *Driver) renew(ctx context.Context, l drain.Lease, lost context.CancelCauseFunc) {
	last := time.Now()
	for pause(ctx, drain.LeaseRenew) {
		rctx, cancel := context.WithTimeout(ctx, drain.LeaseRenew)
		next, err := d.e.cfg.Journal.Renew(rctx, l)
		cancel()
		switch {
		case err == nil:
			l, last = next, time.Now()
		case ctx.Err() != nil:
			return
		case time.Since(last) > drain.LeaseTTL-drain.LeaseRenew, errors.Is(err, drain.ErrLeaseLost):
			lost(fmt.Errorf("%w: %v", drain.ErrLeaseLost, err))
			return
		}
	}
}

// now is the journal's clock, by our monotonic one.
func (d *Driver) now() time.Time { return time.Now().Add(d.offset) }

// write appends with the lease and folds what the stream then has.
func (d *Driver) write(ctx context.Context, expect *uint64, bodies ...drain.Body) error {
	if err := d.e.append(ctx, d.host, d.s.Drain, d.lease.Epoch, expect, &d.lease, bodies...); err != nil {
		return err
	}
	return d.catchUp(ctx)
}

// intend writes the intent of an act and reports whether it may begin: an intent
// that does not fold is one that another event has overtaken.
func (d *Driver) intend(ctx context.Context, a drain.Act) (bool, error) {
	num := d.s.Num
	if err := d.write(ctx, &num, drain.DriveIntent{Act: a}); err != nil {
		return false, err
	}
	_, open := d.s.Open[a.ID]
	return open, nil
}

func (d *Driver) catchUp(ctx context.Context) error {
	s, err := d.e.catchUp(ctx, d.host, d.s, d.sink)
	d.s = s
	return err
}

func (d *Driver) job(a drain.Act) drain.Job {
	return drain.Job{Drain: d.s.Drain, Epoch: d.lease.Epoch, Machine: d.s.Machine, Source: fleet.Host{ID: d.host},
		For: d.s.For, Reason: d.s.Reason, By: d.s.By.Name, Act: a, Item: d.s.Items[a.Key]}
}

func outcome(a drain.Act, answer drain.Answer) drain.DriveOutcome {
	return drain.DriveOutcome{Act: a.ID, Key: a.Key, Result: answer.Result, Reason: answer.Reason, Detail: answer.Detail}
}
