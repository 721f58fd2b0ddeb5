package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// loop makes passes until the drain ends or the context does.
func (d *Driver) loop(ctx context.Context) error {
	for {
		wake, err := d.pass(ctx)
		if err == nil && !d.finished() {
			err = d.wait(ctx, wake)
		} else if err == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// finished reports whether this turn is over. Past the deadline it goes on only
// while something that a person escalated by name is still there, on a host whose
// cordon had taken, and for the second reading of a host on which nothing is left.
func (d *Driver) finished() bool {
	if d.running > 0 || len(d.told) > 0 {
		return false
	}
	if d.over() {
		return true
	}
	if d.s.Unsettled() || d.s.Clearing() { // moves are still being finished, or rolled back; a second reading is due
		return false
	}
	if d.s.Phase != drain.DeadlineReached {
		return d.s.Phase.Ended()
	}
	for _, it := range d.s.Items {
		if it.Open() && it.Escalated != "" && d.s.Proved {
			return false
		}
	}
	return true
}

// over reports whether the drain that this driver took up is no longer there:
// its hold was lifted, with nothing left to be resumed, or the host has another drain
// by now.
func (d *Driver) over() bool { return d.s.Undone && !d.s.Resumes() || d.s.Drain != d.id }

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
			return d.heard(a)
		case <-t.C:
			return nil
		case <-poll.C: // asks are taken up within a second
			before := d.s.Num
			if err := d.catchUp(ctx); err == nil && d.s.Num != before {
				return nil
			}
		}
	}
}

// pass is one round: read, decide, write what was decided, begin the acts. A
// journal that is away for a moment costs a round; the lease decides when it has
// been away for too long.
func (d *Driver) pass(ctx context.Context) (wake time.Time, err error) {
	if err := d.catchUp(ctx); err != nil {
		return time.Time{}, d.tolerate(ctx, err)
	}
	if err := d.flush(ctx); err != nil {
		return time.Time{}, d.tolerate(ctx, err)
	}
	d.ask(ctx)
	v, num := d.look(ctx), d.s.Num
	if err := d.catchUp(ctx); err != nil { // looking may have taken long
		return time.Time{}, d.tolerate(ctx, err)
	}
	if d.over() {
		return time.Time{}, nil
	}
	if d.s.Num != num { // a cordon that was lifted meanwhile, say, may stand in what was seen
		return d.now(), nil
	}
	if err := d.uphold(ctx, v); err != nil {
		return time.Time{}, err
	}
	decision := drain.Next(d.s, v, d.e.cfg.Policy, d.now())
	if places(decision) {
		// Between looking at what others have promised and promising more, nobody
		// else of this process promises anything.
		d.e.ledger.placing.Lock()
		defer d.e.ledger.placing.Unlock()
		var err error
		if v.Promised, err = d.e.promised(ctx, d.host); err != nil {
			return time.Time{}, d.tolerate(ctx, err)
		}
		decision = drain.Next(d.s, v, d.e.cfg.Policy, d.now())
	}
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	return decision.Wake, d.tolerate(ctx, d.carryOut(ctx, v, decision))
}

// look reads the host. One that is no longer listed, or whose plane was never
// read, is decided upon as a host that can't be read.
func (d *Driver) look(ctx context.Context) drain.View {
	v, err := d.e.View(ctx, d.host, d.s)
	if err == nil {
		d.lookAgain(ctx, &v)
	}
	if err != nil {
		return drain.View{Source: fleet.HostView{Host: fleet.Host{ID: d.host}, Problem: err.Error(),
			Facts: fleet.ReadFailed[fleet.Facts]("look", time.Now(), 0, err)}}
	}
	return v
}

// lookAgain reads anew the targets where something may run of which nobody knows:
// what an observer has of them may be older than that.
func (d *Driver) lookAgain(ctx context.Context, v *drain.View) {
	for _, id := range d.s.UnsureOf() {
		d.lookAt(ctx, v, id)
	}
}

func (d *Driver) lookAt(ctx context.Context, v *drain.View, id fleet.HostID) {
	i := slices.IndexFunc(v.Targets, func(t fleet.HostView) bool { return t.Host.ID == id })
	if i < 0 {
		return // it is no longer listed
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	t, err := d.e.cfg.Look.Look(ctx, id)
	if err != nil {
		t = v.Targets[i]
		t.Facts = fleet.ReadFailed[fleet.Facts]("look", time.Now(), 0, err)
	}
	v.Targets = slices.Clone(v.Targets)
	v.Targets[i], v.Anew = t, append(v.Anew, id)
}

// uphold keeps the hold and the plane's flag as the drain wants them.
func (d *Driver) uphold(ctx context.Context, v drain.View) error {
	facts, ok := v.Source.Facts.Get()
	if !ok || d.s.Phase.Ended() || d.s.Undone {
		return nil
	}
	if d.s.Machine == "" && (d.s.Bound == "" || d.s.Bound == facts.Machine) {
		// The host could not be read when the turn began: nothing could be set there.
		took := drain.DriveTook{Driver: d.e.cfg.Holder, Machine: facts.Machine, Boot: facts.Boot}
		if err := d.write(ctx, nil, took); err != nil {
			return d.tolerate(ctx, err)
		}
	}
	if facts.Machine != d.s.Machine {
		return nil
	}
	if err := d.renewHold(ctx, facts); err != nil {
		if decided(err) {
			return err
		}
		d.e.cfg.Log.Warn("drain hold not renewed", "host", d.host, "error", err)
	}
	d.retell(ctx, v)
	return nil
}

// carryOut writes the decision's events, and for each act its intent before it
// begins. A stream that has moved on since the decision makes it void: the next
// pass decides anew.
func (d *Driver) carryOut(ctx context.Context, v drain.View, decision drain.Decision) error {
	num := d.s.Num
	if len(decision.Events) > 0 {
		if err := d.write(ctx, &num, decision.Events...); err != nil {
			return err
		}
		num += uint64(len(decision.Events))
	}
	for _, a := range decision.Acts {
		// Not d.s.Num: what an operator has asked for since the decision was not
		// taken into account.
		if err := d.write(ctx, &num, drain.DriveIntent{Act: a}); err != nil {
			return err
		}
		num++
		if _, legal := d.s.Open[a.ID]; !legal {
			return nil
		}
		if why := d.crowded(ctx, v, a); !why.IsZero() {
			d.mine[a.ID] = true
			d.told = append(d.told, answered{act: a, answer: drain.Answer{Result: drain.Withdrawn, Reason: why}})
			return d.flush(ctx)
		}
		d.begin(ctx, a)
	}
	return nil
}

// crowded says why an act that has just been written down stands back: another
// drain chose the room of its target before it.
func (d *Driver) crowded(ctx context.Context, v drain.View, a drain.Act) fleet.Reason {
	if d.e.cfg.PromisedBefore == nil || !a.Places() {
		return fleet.Reason{}
	}
	p, err := d.e.cfg.PromisedBefore(ctx, d.host, d.s.Items[a.Key].Placed)
	if err != nil {
		return fleet.Because(drain.WaitNoTarget, "why", "it is not known what other drains bring to "+a.Target.Name()+": "+err.Error())
	}
	d.lookAt(ctx, &v, a.Target) // after that: what was promised until then may have arrived since v was read
	return drain.Crowded(d.s, v, p, a)
}

// tolerate passes over what the next round makes good: a decision that came too
// late, and a journal that is away for a moment.
func (d *Driver) tolerate(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, drain.ErrConflict):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, drain.ErrLeaseLost):
		return lapsed(err)
	}
	d.e.cfg.Log.Warn("journal", "host", d.host, "error", err)
	return nil
}
