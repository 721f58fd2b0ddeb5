package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/fleet"
)

// prove reads everything back once the scheduler's cache window has passed.
func (e *Engine) prove(ctx context.Context, host fleet.HostID, r *CordonReport) error {
	deadline := time.Now().Add(e.cfg.Window(host) + e.cfg.Retry)
	for {
		v, err := e.cfg.Look.Look(ctx, host)
		if err == nil {
			r.State = v.Cordon
			holds, _, _ := v.Holds()
			if v.Cordon == fleet.Cordoned && holds.Cordon != nil {
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
	if holds, _, known := v.Holds(); v.Cordon == fleet.Uncordoned || known && holds.Cordon == nil {
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
