package engine

import (
	"context"
	"errors"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// pass is one round: read, decide, write what was decided, begin the acts.
func (d *Driver) pass(ctx context.Context) (wake time.Time, err error) {
	if err := d.catchUp(ctx); err != nil {
		return d.retryLater(ctx, err)
	}
	v, err := d.e.View(ctx, d.host, d.s)
	if err != nil {
		// The host is no longer listed, or its plane was never read: decided upon
		// as a host that can't be read.
		v = drain.View{Source: fleet.HostView{Host: fleet.Host{ID: d.host}, Problem: err.Error(),
			Facts: fleet.ReadFailed[fleet.Facts]("look", time.Now(), 0, err)}}
	}
	if facts, ok := v.Source.Facts.Get(); ok && facts.Machine == d.s.Machine && !d.s.Phase.Ended() {
		if err := d.renewHold(ctx, facts); err != nil {
			var taken *HoldTaken
			if errors.As(err, &taken) || final(err) {
				return time.Time{}, err
			}
			d.e.cfg.Log.Warn("drain hold not renewed", "host", d.host, "error", err)
		}
		d.retell(ctx, v)
	}
	decision := drain.Next(d.s, v, d.e.cfg.Policy, d.now())
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	return decision.Wake, d.carryOut(ctx, decision)
}

// retell tells a plane again that has not heard of the cordon, or has forgotten
// it.
func (d *Driver) retell(ctx context.Context, v drain.View) {
	if v.Source.Cordon != fleet.HostOnly || d.s.Phase == drain.Planned || d.s.Phase == drain.Cordoning {
		return
	}
	plane, err := d.e.cfg.Plane(d.host)
	if err != nil {
		return
	}
	if _, err := plane.Set(ctx, d.host, fleet.Flag{Set: true, Why: d.s.Reason, Who: d.e.cfg.Actor.Name}); err != nil {
		d.e.cfg.Log.Warn("plane not told again", "host", d.host, "error", err)
	}
}

// carryOut writes the decision's events, and for each act its intent before it
// begins. A stream that has moved on since the decision makes it void: the next
// pass decides anew.
func (d *Driver) carryOut(ctx context.Context, decision drain.Decision) error {
	if len(decision.Events) > 0 {
		num := d.s.Num
		if err := d.write(ctx, &num, decision.Events...); err != nil {
			return d.void(ctx, err)
		}
	}
	for _, a := range decision.Acts {
		legal, err := d.intend(ctx, a)
		if err != nil {
			return d.void(ctx, err)
		}
		if !legal {
			return nil // the next pass decides anew
		}
		d.begin(ctx, a)
	}
	return nil
}

// void tells a decision that came too late from an error: after a conflict the
// state is read again, and a journal that can't be reached is tried again.
func (d *Driver) void(ctx context.Context, err error) error {
	if errors.Is(err, drain.ErrConflict) {
		return d.catchUp(ctx)
	}
	if errors.Is(err, drain.ErrLeaseLost) {
		return err
	}
	_, err = d.retryLater(ctx, err)
	return err
}

// retryLater lets a driver outlive a journal that is away for a moment; the
// lease decides when it has been away for too long.
func (d *Driver) retryLater(ctx context.Context, err error) (time.Time, error) {
	if ctx.Err() != nil {
		return time.Time{}, context.Cause(ctx)
	}
	if errors.Is(err, drain.ErrLeaseLost) {
		return time.Time{}, err
	}
	d.e.cfg.Log.Warn("journal", "host", d.host, "error", err)
	return time.Time{}, nil
}

// begin runs an act beside the driver; its answer comes back through a channel.
func (d *Driver) begin(ctx context.Context, a drain.Act) {
	d.running++
	job := d.job(a)
	go func() {
		answer := d.e.do(ctx, job)
		select {
		case d.answers <- answered{act: a, answer: answer}:
		case <-d.left: // nobody listens any more: the next driver asks where it ran
		}
	}()
}

func (e *Engine) do(ctx context.Context, j drain.Job) drain.Answer {
	if j.Act.Kind == drain.ActCordon {
		report, err := e.Cordon(ctx, j.Source.ID, j.Reason, true, nil)
		if err != nil {
			return drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(report.State), "detail", err.Error()), Detail: err.Error()}
		}
		return drain.Answer{Result: drain.Done}
	}
	lever, ok := e.cfg.Levers[j.Act.Kind]
	if !ok {
		return drain.Answer{Result: drain.Refused, Detail: "no lever for acts of kind " + string(j.Act.Kind)}
	}
	answer, err := lever.Do(ctx, j)
	if err == nil {
		return answer
	}
	// Nothing is known about the act: ask where it ran before calling it undone.
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if got, known, serr := lever.Status(sctx, j); serr == nil && known {
		return got
	}
	return drain.Answer{Result: drain.Interrupted, Detail: err.Error()}
}
