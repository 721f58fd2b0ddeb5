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
	r.Journal = e.record(ctx, host, drain.RecCordon{Reason: reason})
	e.tell(ctx, host, reason, &r)
	if missing := r.Missing(); missing != "" {
		r.State = halfState(r)
		e.record(ctx, host, drain.RecCordoned{State: r.State, Error: r.Agent.Error + r.Plane.Error})
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
		r.Agent = retried(ctx, "host", func() error {
			agent, err := e.cfg.Agents.Agent(ctx, host, RoleCordon)
			if err != nil {
				return err
			}
			got, err := agent.SetHold(ctx, fleet.Hold{Kind: fleet.CordonHold, Who: e.cfg.Actor.Name, Why: reason}, "")
			if err == nil {
				r.Hold, r.Audit = got.Holds.Cordon, got.Audit
			}
			return err
		})
	})
	wg.Go(func() {
		r.Plane = retried(ctx, "plane", func() error {
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
// grows from half a second to five.
func retried(ctx context.Context, what string, do func() error) Side {
	wait := 500 * time.Millisecond
	for {
		err := do()
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

// prove reads everything back once the scheduler's cache window has passed.
func (e *Engine) prove(ctx context.Context, host fleet.HostID, r *CordonReport) error {
	deadline := time.Now().Add(e.cfg.Window(host) + e.cfg.Retry)
	for {
		v, err := e.cfg.Look.Look(ctx, host)
		if err == nil {
			r.State = v.Cordon
			if v.Cordon == fleet.Cordoned {
				e.proofs(ctx, host, v, r)
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			if err != nil {
				return fmt.Errorf("prove the cordon of %s: %w", host, err)
			}
			return fmt.Errorf("prove the cordon of %s: it is still %s", host, stateWord(v))
		}
		if !pause(ctx, min(time.Second, max(50*time.Millisecond, e.cfg.Window(host)/10))) {
			return ctx.Err()
		}
	}
}

func stateWord(v fleet.HostView) string {
	if v.Problem != "" {
		return "unproved: " + v.Problem
	}
	if v.Cordon == fleet.Uncordoned {
		return "not cordoned"
	}
	return string(v.Cordon)
}

// proofs lists what was read back, and what could not be.
func (e *Engine) proofs(ctx context.Context, host fleet.HostID, v fleet.HostView, r *CordonReport) {
	holds, at, _ := v.Holds()
	r.Hold = holds.Cordon
	r.Proved = append(r.Proved, "the host holds since "+since(holds)+", read "+at.UTC().Format(time.TimeOnly)+" by its clock")
	if v.SelfClaims {
		r.Weaker = "there is no control plane: the host's word stands alone"
	} else if v.Host.Draining {
		r.Proved = append(r.Proved, "the plane's flag is set")
	}
	if plane, err := e.cfg.Plane(host); err == nil && !v.SelfClaims {
		el, err := plane.Eligible(ctx, host)
		switch {
		case err != nil:
			r.Weaker = "the scheduler's view could not be read: " + err.Error()
		case el.Eligible.Status == fleet.OK && !el.Eligible.Value:
			r.Proved = append(r.Proved, "the scheduler no longer offers it")
		default:
			r.Weaker = "this plane shows no scheduler view: the cache window was waited out instead"
		}
	}
	r.Proved = append(r.Proved, startedSince(v, holds))
}

func since(h fleet.Holds) string {
	if h.Cordon != nil {
		return h.Cordon.Since.UTC().Format(time.TimeOnly)
	}
	return "an unknown time"
}

// startedSince names what began after the cordon by the host's own clock:
// admitted before it, or let in by something that does not ask.
func startedSince(v fleet.HostView, h fleet.Holds) string {
	f, ok := v.Facts.Get()
	if !ok || h.Cordon == nil {
		return "what started since could not be read"
	}
	var names []string
	for _, w := range f.Workloads.Value {
		if w.Started.After(h.Cordon.Since) {
			names = append(names, w.Key.String())
		}
	}
	if len(names) == 0 {
		return "nothing has started since"
	}
	return fmt.Sprintf("started since: %v", names)
}

// Uncordon lifts the cordon at the host, and the plane's flag unless a drain
// still holds the host. A flag or cordon that someone else set is theirs: it is
// lifted only on explicit word.
func (e *Engine) Uncordon(ctx context.Context, host fleet.HostID, reason string, theirs bool) (fleet.Holds, error) {
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleCordon)
	if err != nil {
		return fleet.Holds{}, fmt.Errorf("uncordon %s: %w", host, err)
	}
	facts, err := agent.Facts(ctx, false)
	if err != nil {
		return fleet.Holds{}, fmt.Errorf("uncordon %s: %w", host, err)
	}
	if c := facts.Holds.Cordon; c != nil && c.Who != e.cfg.Actor.Name && !theirs {
		return facts.Holds, &Refused{Verb: "uncordon", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds,
			Detail: fmt.Sprintf("%s cordoned it (%q): it is theirs; --theirs lifts it all the same", c.Who, c.Why)}}}
	}
	plane, err := e.cfg.Plane(host)
	if err != nil {
		return facts.Holds, fmt.Errorf("uncordon %s: %w", host, err)
	}
	got, err := agent.LiftHold(ctx, Lift{Kind: fleet.CordonHold, Who: e.cfg.Actor.Name, Why: reason, Machine: facts.Machine})
	if err != nil {
		return facts.Holds, fmt.Errorf("uncordon %s: %w", host, err)
	}
	if got.Holds.Drain == nil {
		if err := plane.Lift(ctx, host, theirs); err != nil {
			return got.Holds, fmt.Errorf("uncordon %s: the host is free, its plane's flag is not: %w", host, err)
		}
	}
	e.record(ctx, host, drain.RecUncordon{Theirs: theirs, Reason: reason})
	return got.Holds, nil
}

// Undrain stops the drain and lifts its hold; the cordon stays. theirs lifts the
// hold of a drain that this journal does not know.
func (e *Engine) Undrain(ctx context.Context, host fleet.HostID, theirs bool) (fleet.Holds, error) {
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return fleet.Holds{}, fmt.Errorf("undrain %s: %w", host, err)
	}
	facts, err := agent.Facts(ctx, false)
	if err != nil {
		return fleet.Holds{}, fmt.Errorf("undrain %s: %w", host, err)
	}
	h := facts.Holds.Drain
	if h == nil {
		return facts.Holds, nil
	}
	s, err := e.State(ctx, host)
	if err != nil && !theirs {
		return facts.Holds, err
	}
	if s.Drain != h.Drain && !theirs {
		return facts.Holds, &Refused{Verb: "undrain", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds,
			Detail: fmt.Sprintf("drain %s of %s (journal %s) holds it, which this journal does not know; --theirs lifts it all the same", h.Drain, h.Who, h.Journal)}}}
	}
	got, err := agent.LiftHold(ctx, Lift{Kind: fleet.DrainHold, Drain: h.Drain, Epoch: max(h.Epoch, s.Epoch), Theirs: theirs, Who: e.cfg.Actor.Name, Machine: facts.Machine})
	if err != nil {
		return facts.Holds, fmt.Errorf("undrain %s: %w", host, err)
	}
	e.recordIn(ctx, host, h.Drain, drain.RecUndrain{Theirs: theirs})
	if got.Holds.Cordon == nil {
		plane, err := e.cfg.Plane(host)
		if err == nil {
			err = plane.Lift(ctx, host, theirs)
		}
		if err != nil {
			return got.Holds, fmt.Errorf("undrain %s: the host is free, its plane's flag is not: %w", host, err)
		}
	}
	return got.Holds, nil
}

// Refused is a verb that was not carried out, with every reason.
type Refused struct {
	Verb   string
	Host   fleet.HostID
	Issues []fleet.Issue
}

func (r *Refused) Error() string {
	if len(r.Issues) == 0 {
		return fmt.Sprintf("%s %s: refused", r.Verb, r.Host)
	}
	return fmt.Sprintf("%s %s: refused: %s", r.Verb, r.Host, r.Issues[0].Detail)
}

// Final says that repeating the verb changes nothing.
func (r *Refused) Final() bool { return true }

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
