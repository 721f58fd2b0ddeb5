package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Driver drives one drain. It is used by one goroutine.
type Driver struct {
	e    *Engine
	host fleet.HostID
	id   string // of the drain
	s    drain.State
	sink func(drain.Event)
	past past // who drove before, as the stream tells it

	lease  drain.Lease
	tenure *tenure   // of the lease
	began  time.Time // our clock when the turn was opened …
	clock  time.Time // … and the journal's in that moment

	hand    func(*Begun) // takes acts instead of a goroutine, where a Stepper drives
	answers chan answered
	left    chan struct{}        // closed when nobody listens to answers any more
	running int                  // goroutines that owe an answer
	mine    map[string]bool      // acts that run here, or whose outcome waits in told
	told    []answered           // outcomes that the journal does not have yet
	asked   map[string]time.Time // when it was last asked what became of an act
}

// errLapsed says that the journal does not know our lease any more: it could not
// be renewed in time, or somebody has taken it.
var errLapsed = fmt.Errorf("%w: it could not be renewed in time, or is another's", drain.ErrLeaseLost)

// Drive takes the host's drain up and drives it until it is empty, stopped, past
// its deadline, or the context ends; it returns the state it left. Every event
// of the host that it reads or writes from then on is shown to sink, in order.
//
// A journal that stays away for longer than the lease ends the turn, not the
// drive: nothing is done until it is back, and then the drain is taken anew,
// unless another driver has it by then. The lease is released on the way out, so
// that the next driver need not wait for it.
func (e *Engine) Drive(ctx context.Context, host fleet.HostID, sink func(drain.Event)) (drain.State, error) {
	d := &Driver{e: e, host: host, answers: make(chan answered), left: make(chan struct{}),
		mine: map[string]bool{}, asked: map[string]time.Time{}}
	defer close(d.left)
	if err := d.catchUp(ctx); err != nil {
		return d.s, err
	}
	if d.s.Drain == "" || d.s.Undone && !d.s.Resumes() {
		return d.s, fmt.Errorf("drive %s: it has no drain", host)
	}
	d.sink, d.id = sink, d.s.Drain
	e.ledger.driving(host, 1)
	defer e.ledger.driving(host, -1)
	err := d.turn(ctx)
	for errors.Is(err, errLapsed) {
		e.cfg.Log.Warn("the lease has lapsed", "host", host, "drain", d.s.Drain)
		err = d.retake(ctx)
	}
	return d.s, err
}

// turn drives under one lease.
func (d *Driver) turn(ctx context.Context) error {
	if err := d.take(ctx); err != nil {
		return err
	}
	err := d.keeping(ctx, func(ctx context.Context) error {
		if err := d.open(ctx); err != nil {
			return err
		}
		return d.loop(ctx)
	})
	d.leave(err)
	return err
}

// retake waits for the journal and drives on under a new lease.
func (d *Driver) retake(ctx context.Context) error {
	for {
		if !pause(ctx, time.Second) {
			return context.Cause(ctx)
		}
		err := d.catchUp(ctx)
		if err == nil {
			if d.over() {
				return nil
			}
			err = d.turn(ctx)
			if err == nil || ctx.Err() != nil || errors.Is(err, drain.ErrLeaseLost) || decided(err) || held(err) {
				return err
			}
		}
		d.e.cfg.Log.Warn("not taken again yet", "host", d.host, "error", err)
	}
}

// decided reports whether an error is an answer: another attempt gets the same.
func decided(err error) bool {
	return final(err) || errors.Is(err, drain.ErrLeaseLost)
}

func held(err error) bool {
	var h interface{ Held() drain.Lease }
	return errors.As(err, &h)
}

// take acquires the lease with an epoch above every one that journal and host
// have seen.
func (d *Driver) take(ctx context.Context) error {
	v, err := d.e.View(ctx, d.host, d.s)
	if err != nil {
		return err
	}
	facts, seen := v.Source.Facts.Get()
	if !seen && d.s.Machine == "" {
		return fmt.Errorf("drive %s: the host can't be read: %s", d.host, v.Source.Facts.Error)
	}
	if seen && another(d.s, facts.Machine) {
		return elsewhere("drive", d.host, facts.Machine, d.s)
	}
	var known uint64
	if h := facts.Holds.Drain; h != nil {
		if h.Drain != d.s.Drain {
			return &HoldTaken{Hold: *h}
		}
		known = h.Epoch
	}
	d.past.asked(ctx, d)
	asked := time.Now()
	if d.lease, err = d.e.cfg.Journal.Acquire(ctx, d.s.Drain, d.e.cfg.Holder, max(known, d.s.Epoch)); err != nil {
		return fmt.Errorf("drive %s: %w", d.host, err)
	}
	d.tenure = &tenure{lease: d.lease, asked: asked}
	return nil
}

// open writes that a turn begins, makes the epoch known where an older driver
// could still act, and asks about the acts that it left.
func (d *Driver) open(ctx context.Context) error {
	now, err := d.e.cfg.Journal.Now(ctx)
	if err != nil {
		return fmt.Errorf("drive %s: read the journal's clock: %w", d.host, err)
	}
	d.began, d.clock = time.Now(), now
	facts, seen := d.facts(ctx)
	took := drain.DriveTook{Driver: d.e.cfg.Holder}
	if seen {
		took.Machine, took.Boot = facts.Machine, facts.Boot
	}
	if gap := d.past.gap(d.s, now); gap > 2*d.e.cfg.Pass {
		took.Blind = gap
		took.Person = !d.s.Phase.Ended() && (d.past.alone(d.s, now) > d.e.cfg.BlindMax || now.After(d.s.Deadline))
	}
	if err := d.write(ctx, nil, took); err != nil {
		return lapsed(err)
	}
	if seen {
		if err := d.announce(ctx, facts); err != nil {
			return err
		}
	}
	d.ask(ctx)
	return nil
}

// facts reads the host again, under the lease: what it said before may be what
// another driver has changed since.
func (d *Driver) facts(ctx context.Context) (fleet.Facts, bool) {
	v, err := d.e.cfg.Look.Look(ctx, d.host)
	if err != nil {
		return fleet.Facts{}, false
	}
	f, ok := v.Facts.Get()
	want := cmp.Or(d.s.Machine, d.s.Bound)
	return f, ok && (want == "" || f.Machine == want)
}

// lapsed marks an error of the journal that says that the lease is lost.
func lapsed(err error) error {
	if errors.Is(err, drain.ErrLeaseLost) && !errors.Is(err, errLapsed) {
		return fmt.Errorf("%w (%v)", errLapsed, err)
	}
	return err
}

// now is the journal's clock, by our monotonic one: a step of this machine's
// clock moves no countdown.
func (d *Driver) now() time.Time { return d.clock.Add(time.Since(d.began)) }

// followBack is called when something has been written from which a countdown
// runs. Where the journal's clock was set back that has an earlier time than ours
// is, and notice and grace would be cut short by the difference: ours is set back
// too.
func (d *Driver) followBack() {
	if at := d.s.LastAt; !at.IsZero() && at.Before(d.now()) {
		d.clock, d.began = at, time.Now()
	}
}

// write appends with the lease and folds what was written, or, where others have
// written in between, what the stream then has.
func (d *Driver) write(ctx context.Context, expect *uint64, bodies ...drain.Body) error {
	events, err := d.e.events(d.host, d.id, d.lease.Epoch, bodies...)
	if err != nil {
		return err
	}
	stored, err := d.e.put(ctx, drain.Batch{Stream: string(d.host), Expect: expect, Lease: &d.lease, Events: events})
	if err != nil {
		return err
	}
	if stored[0].Num != d.s.Num+1 {
		return d.catchUp(ctx)
	}
	d.s = d.e.fold(d.host, d.s, stored, d.hear)
	d.e.ledger.enter(d.host, d.s)
	return nil
}

func (d *Driver) catchUp(ctx context.Context) error {
	s, err := d.e.catchUp(ctx, d.host, d.s, d.hear)
	d.s = s
	d.e.ledger.enter(d.host, s)
	return err
}

// hear is told every event of the stream, in order.
func (d *Driver) hear(ev drain.Event) {
	if d.e.cfg.Trust.Check(ev) == nil { // nobody has spoken who is not obeyed
		d.past.note(ev)
	}
	if d.sink != nil {
		d.sink(ev)
	}
}
