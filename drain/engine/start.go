package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Request is what a person asks of a drain. The deadline is required.
type Request struct {
	Deadline time.Duration
	For      fleet.Purpose
	Evacuate bool
	Reason   string
}

// View reads everything that deciding about a host needs.
func (e *Engine) View(ctx context.Context, host fleet.HostID, s drain.State) (drain.View, error) {
	src, err := e.cfg.Look.Look(ctx, host)
	if err != nil {
		return drain.View{}, err
	}
	promised, err := e.promised(ctx, host)
	if err != nil { // what is placed by it is looked at once more before it is begun
		e.cfg.Log.Warn("what other drains promise is not known", "host", host, "error", err)
	}
	return drain.View{Source: src, Targets: e.cfg.Look.Targets(host), Issues: Issues(src, s), SelfClaims: src.SelfClaims,
		Promised: promised, JournalHost: e.cfg.JournalHost}, nil
}

// Plan says what a drain would do, and changes nothing. Levers are asked too, each
// for the workloads that it would move.
func (e *Engine) Plan(ctx context.Context, host fleet.HostID, r Request) (drain.Plan, error) {
	v, err := e.View(ctx, host, drain.State{})
	if err != nil {
		return drain.Plan{}, fmt.Errorf("plan %s: %w", host, err)
	}
	if s, err := e.State(ctx, host); err == nil { // without a journal nothing is known to be parked
		v.Parked = s.ParkedAt()
		if s.Drain != "" && !s.Over() {
			v.Standing = s
		}
	}
	now := time.Now()
	return e.askLevers(ctx, drain.MakePlan(v, e.cfg.Policy, now.Add(r.Deadline), r.For, now)), nil
}

// Start asks for a drain, or for the host's unfinished one to go on. It returns
// the drain's id and whether it was there before; the plan's list of what may
// die goes with the ask.
func (e *Engine) Start(ctx context.Context, host fleet.HostID, r Request, plan drain.Plan) (id string, resumed bool, err error) {
	if plan.Refused == "" { // else nothing is begun, and nothing written
		if err := e.startsOn(ctx, host); err != nil {
			return "", false, err
		}
	}
	for range 5 { // somebody may write to the stream in between
		id, resumed, err = e.start(ctx, host, r, plan)
		if !errors.Is(err, drain.ErrConflict) {
			break
		}
	}
	return id, resumed, err
}

// startsOn refuses a drain where another machine answers than the one that the
// host is known as. A host that can't be read is found out about by its driver.
func (e *Engine) startsOn(ctx context.Context, host fleet.HostID) error {
	v, err := e.cfg.Look.Look(ctx, host)
	if err != nil {
		return nil
	}
	if f, ok := v.Facts.Get(); ok {
		return e.sameMachine(ctx, "drain", host, f.Machine)
	}
	return nil
}

func (e *Engine) start(ctx context.Context, host fleet.HostID, r Request, plan drain.Plan) (id string, resumed bool, err error) {
	s, err := e.State(ctx, host)
	if err != nil {
		return "", false, err
	}
	if r := ending(host, s, plan); r != nil {
		return "", false, r
	}
	unfinished := s.Drain != "" && !s.Over()
	if unfinished && s.Phase != drain.Stopped {
		return s.Drain, true, nil
	}
	if plan.Refused != "" {
		return "", false, &Refused{Verb: "drain", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckReach, Detail: plan.Refused}}}
	}
	if r.Deadline <= 0 {
		return "", false, fmt.Errorf("drain %s: an outer deadline is required", host)
	}
	now, err := e.cfg.Journal.Now(ctx)
	if err != nil {
		return "", false, fmt.Errorf("drain %s: read the journal's clock: %w", host, err)
	}
	id = "d-" + e.cfg.NewID()[:8]
	if unfinished {
		id, resumed = s.Drain, true
	}
	ask := drain.AskStart{Deadline: now.Add(r.Deadline), For: r.For, Evacuate: r.Evacuate, Reason: r.Reason, MayDie: plan.MayDie()}
	if err := e.append(ctx, host, id, 0, &s.Num, nil, ask); err != nil {
		return "", false, err
	}
	return id, resumed, nil
}

// ending refuses a drain of a host that is on its way out: while its terminate has
// no outcome, and after that where nothing answers. What answers under a terminated
// host's name is another machine.
func ending(host fleet.HostID, s drain.State, plan drain.Plan) *Refused {
	at, by, word, next := s.Terminating.At, s.Terminating.By, "is being terminated since", "ebb board "+host.Name()+"; "+settleIt(host)
	if !s.Terminated.IsZero() {
		if plan.Refused == "" && plan.Unread == "" {
			return nil
		}
		at, by, word, next = s.Terminated, s.TerminatedBy, "was terminated at", "ebb log "+host.Name()+" says how it went"
	}
	if at.IsZero() {
		return nil
	}
	return &Refused{Verb: "drain", Host: host, Next: next,
		Issues: refusal(fleet.CheckReach, fmt.Sprintf("it %s %s, by %s", word, at.UTC().Format(time.RFC3339), by))}
}

// promised is what other drains bring to the hosts that this one could use.
func (e *Engine) promised(ctx context.Context, host fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
	if e.cfg.Promised == nil {
		return nil, nil
	}
	return e.cfg.Promised(ctx, host)
}
