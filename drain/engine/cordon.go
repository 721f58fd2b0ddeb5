package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// CordonReport is what a cordon achieved, side by side.
type CordonReport struct {
	Host    fleet.HostID      `json:"host"`
	State   fleet.CordonState `json:"state"`
	Agent   Side              `json:"agent"`
	Plane   Side              `json:"plane"`
	Hold    *fleet.Hold       `json:"hold,omitempty"`
	Proved  []string          `json:"proved,omitempty"` // what was read back
	Weaker  string            `json:"weaker,omitempty"` // what could not be
	Theirs  string            `json:"theirs,omitempty"` // who had set the plane's flag before
	Audit   string            `json:"audit,omitempty"`
	Journal string            `json:"journal,omitempty"` // why the journal has no record of it, if so
}

// Side is how one side of a cordon stands.
type Side struct {
	Told  bool      `json:"told"`
	At    time.Time `json:"at,omitzero"`
	Error string    `json:"error,omitempty"`

	refused *Refused // where another machine answers
}

// Missing names the side that has not been told, or "".
func (r CordonReport) Missing() string {
	switch {
	case !r.Agent.Told && !r.Plane.Told:
		return "host and plane"
	case !r.Agent.Told:
		return "host"
	case !r.Plane.Told:
		return "plane"
	}
	return ""
}

// Cordon tells plane and host at the same time, each retried for the engine's
// retry time, and with wait proves it: after the scheduler's cache window it
// reads flag, hold, eligibility and what started since back. It works without
// the journal; told is called when both sides have confirmed.
func (e *Engine) Cordon(ctx context.Context, host fleet.HostID, reason string, wait bool, told func(CordonReport)) (CordonReport, error) {
	r := CordonReport{Host: host}
	var wg sync.WaitGroup // a journal that hangs keeps nobody from being told
	wg.Go(func() { r.Journal = e.record(ctx, host, drain.RecCordon{Reason: reason}) })
	e.tell(ctx, host, reason, &r)
	wg.Wait()
	if missing := r.Missing(); missing != "" {
		r.State = halfState(r)
		e.record(ctx, host, drain.RecCordoned{State: r.State, Error: joined(r)})
		if r.Agent.refused != nil {
			return r, r.Agent.refused
		}
		return r, fmt.Errorf("cordon %s: the %s could not be told: %s", host, missing, joined(r))
	}
	r.State = fleet.Cordoning
	if told != nil {
		told(r)
	}
	if !wait {
		return r, nil
	}
	err := e.prove(ctx, host, &r)
	rec := drain.RecCordoned{State: r.State, Proved: r.Proved, Weaker: r.Weaker}
	if err != nil {
		rec.Error = err.Error()
	}
	if lost := e.record(ctx, host, rec); lost != "" {
		r.Journal = lost
	}
	return r, err
}

func halfState(r CordonReport) fleet.CordonState {
	switch {
	case r.Agent.Told:
		return fleet.HostOnly
	case r.Plane.Told:
		return fleet.PlaneOnly
	}
	return fleet.Uncordoned
}

func joined(r CordonReport) string {
	switch {
	case r.Agent.Error != "" && r.Plane.Error != "":
		return r.Agent.Error + "; " + r.Plane.Error
	case r.Agent.Error != "":
		return r.Agent.Error
	}
	return r.Plane.Error
}

// tell reaches both sides in parallel; neither waits for the other.
func (e *Engine) tell(ctx context.Context, host fleet.HostID, reason string, r *CordonReport) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Retry)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		machine, known := e.bound(ctx, host)
		var answered string
		r.Agent = retried(ctx, "host", func(ctx context.Context) error {
			agent, err := e.cfg.Agents.Agent(ctx, host, RoleCordon)
			if err != nil {
				return err
			}
			got, err := agent.SetHold(ctx, fleet.Hold{Kind: fleet.CordonHold, Who: e.cfg.Actor.Name, Why: reason}, machine)
			if err == nil {
				r.Hold, r.Audit, answered = got.Holds.Cordon, got.Audit, got.Machine
			}
			return err
		})
		switch {
		case r.Agent.Told && known && machine == "" && answered != "":
			e.record(ctx, host, drain.RecBound{Machine: answered})
		case !r.Agent.Told && machine != "":
			if have := e.answers(ctx, host); have != "" && have != machine {
				r.Agent.refused = otherMachine("cordon", host, have, machine)
				r.Agent.Error = "host: " + r.Agent.refused.Issues[0].Detail
			}
		}
	})
	wg.Go(func() {
		r.Plane = retried(ctx, "plane", func(ctx context.Context) error {
			plane, err := e.cfg.Plane(host)
			if err != nil {
				return err
			}
			flag, err := plane.Set(ctx, host, fleet.Flag{Set: true, Why: reason, Who: e.cfg.Actor.Name})
			if err == nil && flag.Who != "" && flag.Who != e.cfg.Actor.Name {
				r.Theirs = flag.Who
			}
			return err
		})
	})
	wg.Wait()
}

// retried calls do until it succeeds or the context ends, with a pause that
// grows from half a second to five. An attempt that hangs is given up.
func retried(ctx context.Context, what string, do func(context.Context) error) Side {
	wait := 500 * time.Millisecond
	for {
		once, cancel := context.WithTimeout(ctx, 15*time.Second)
		err := do(once)
		cancel()
		if err == nil {
			return Side{Told: true, At: time.Now()}
		}
		if final(err) || !pause(ctx, wait) {
			return Side{Error: what + ": " + err.Error()}
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// Final marks errors that no repetition will change.
type Final interface{ Final() bool }

func final(err error) bool {
	var f Final
	var taken *HoldTaken
	return errors.As(err, &taken) || (errors.As(err, &f) && f.Final())
}
