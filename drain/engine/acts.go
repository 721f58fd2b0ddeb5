package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// answered is what is known of an act, on its way back to the driver. With an
// error nothing is known: it may have happened, and is asked about again.
type answered struct {
	act    drain.Act
	answer drain.Answer
	err    error
}

// begin runs an act beside the driver; its answer comes back through a channel.
func (d *Driver) begin(ctx context.Context, a drain.Act) {
	job, tenure := d.job(a), d.tenure
	d.beside(&Begun{Job: job, do: func() (drain.Answer, error) {
		if err := d.e.stillOurs(ctx, tenure); err != nil {
			return drain.Answer{}, err
		}
		return d.e.do(ctx, job)
	}})
}

func (d *Driver) beside(b *Begun) {
	a, fn := b.Job.Act, b.do
	d.running++
	d.mine[a.ID] = true
	if d.hand != nil {
		d.hand(b)
		return
	}
	go func() {
		answer, err := fn()
		select {
		case d.answers <- answered{a, answer, err}:
		case <-d.left: // nobody listens any more: the next driver asks where it ran
		}
	}()
}

// heard takes an answer in. An agent that has met a newer driver ends the turn.
func (d *Driver) heard(a answered) error {
	d.running--
	switch {
	case errors.Is(a.err, drain.ErrLeaseLost):
		delete(d.mine, a.act.ID)
		return a.err
	case a.err != nil:
		delete(d.mine, a.act.ID)
		d.asked[a.act.ID] = time.Now()
		d.e.cfg.Log.Warn("outcome not known", "act", a.act.ID, "error", a.err)
	default:
		d.told = append(d.told, a)
	}
	return nil
}

// flush writes the outcomes that the journal does not have yet; those that it
// could not take stay for the next attempt.
func (d *Driver) flush(ctx context.Context) error {
	for len(d.told) > 0 {
		a := d.told[0]
		if _, open := d.s.Open[a.act.ID]; open {
			told := outcome(a.act, a.answer)
			if now := d.now(); now.Before(d.s.LastAt) {
				told.Heard = now
			}
			if err := d.write(ctx, nil, told); err != nil {
				return err
			}
			if a.act.Kind == drain.ActNotice || a.act.Kind == drain.ActSignal {
				d.followBack()
			}
		}
		delete(d.mine, a.act.ID)
		delete(d.asked, a.act.ID)
		d.told = d.told[1:]
	}
	return nil
}

// flushAnew is flush after a write whose fate is not known: the outcome may stand
// in the journal, and have gone unread because the context ended.
func (d *Driver) flushAnew(ctx context.Context) error {
	if len(d.told) == 0 {
		return nil
	}
	if err := d.catchUp(ctx); err != nil {
		return err
	}
	return d.flush(ctx)
}

// ask finds out about acts that have an intent, no outcome, and nobody here who
// runs them: an earlier driver left them, or an answer was lost. They are asked
// about where they ran, again and again; until then they stay open, and nothing
// else is done to their workloads.
func (d *Driver) ask(ctx context.Context) {
	for _, a := range d.s.Open {
		if at, waited := d.asked[a.ID]; d.mine[a.ID] || waited && time.Since(at) < d.e.cfg.Pass {
			continue
		}
		job := d.job(a)
		d.beside(&Begun{Job: job, Asks: true, do: func() (drain.Answer, error) { return d.e.status(ctx, job) }})
	}
}

// status asks where an act ran. Where that can't be told, or where it was never
// heard of, it is not done: it is decided upon anew.
func (e *Engine) status(ctx context.Context, j drain.Job) (drain.Answer, error) {
	never := drain.Answer{Result: drain.NotDone, Reason: fleet.Because("driver_ended")}
	lever, ok := e.cfg.Levers[j.Act.Kind]
	if !ok {
		return never, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, known, err := lever.Status(ctx, j)
	if err != nil {
		return drain.Answer{}, err
	}
	if !known {
		return never, nil
	}
	if j.Act.Op == drain.OpDo && answer.Result == drain.FailedAct {
		// By the contract of levers: do may be asked again. That it never began, because
		// its driver ended, is no failure of the move.
		answer.Result = drain.NotDone
	}
	return answer, nil
}

// do carries an act out.
func (e *Engine) do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if j.Act.Kind == drain.ActCordon {
		return e.doCordon(ctx, j), nil
	}
	lever, ok := e.cfg.Levers[j.Act.Kind]
	if !ok {
		return drain.Answer{Result: drain.Refused, Detail: "no lever for acts of kind " + string(j.Act.Kind)}, nil
	}
	answer, err := lever.Do(ctx, j)
	if err == nil || errors.Is(err, drain.ErrLeaseLost) {
		return answer, err
	}
	// Nothing is known about the act: ask where it ran before calling it undone.
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	got, known, serr := lever.Status(sctx, j)
	switch {
	case serr != nil:
		return drain.Answer{}, fmt.Errorf("%w; and asked what became of it: %w", err, serr)
	case known:
		return got, nil
	case j.Act.Kind == drain.ActSignal || j.Act.Kind == drain.ActExec:
		return drain.Answer{Result: drain.NotDone, Detail: err.Error()}, nil
	}
	return drain.Answer{Result: drain.Interrupted, Detail: err.Error()}, nil
}

func (e *Engine) doCordon(ctx context.Context, j drain.Job) drain.Answer {
	report, err := e.Cordon(ctx, j.Source.ID, j.Reason, true, nil)
	if err != nil {
		return drain.Answer{Result: drain.FailedAct, Reason: fleet.Because(drain.WaitCordon, "state", string(report.State), "detail", err.Error()), Detail: err.Error()}
	}
	return drain.Answer{Result: drain.Done}
}

func (d *Driver) job(a drain.Act) drain.Job {
	return drain.Job{Drain: d.s.Drain, Epoch: d.lease.Epoch, Machine: d.s.Machine, Source: fleet.Host{ID: d.host},
		For: d.s.For, Reason: d.s.Reason, Until: d.s.Deadline, By: d.s.By.Name, Act: a, Item: d.s.Items[a.Key]}
}

func outcome(a drain.Act, answer drain.Answer) drain.DriveOutcome {
	return drain.DriveOutcome{Act: a.ID, Key: a.Key, Result: answer.Result, Reason: answer.Reason, Detail: answer.Detail,
		State: answer.State, Progress: answer.Progress, NoReturn: answer.NoReturn}
}
