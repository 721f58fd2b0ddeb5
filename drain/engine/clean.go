package engine

import (
	"context"
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// Leaks lists what cleaning would remove: resources whose owner is gone.
func Leaks(v fleet.HostView) []fleet.Finding {
	var out []fleet.Finding
	for _, f := range v.Findings {
		if f.Verdict == fleet.Leak && f.Resource != nil {
			out = append(out, f)
		}
	}
	return out
}

// Clean removes one leaked resource, by the identity that was shown.
func (e *Engine) Clean(ctx context.Context, host fleet.HostID, r fleet.Resource, machine string) (drain.Answer, error) {
	if err := e.sameMachine(ctx, "clean", host, machine); err != nil {
		return drain.Answer{}, err
	}
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return drain.Answer{}, fmt.Errorf("clean %s on %s: %w", r.Key, host, err)
	}
	answer, err := agent.Clean(ctx, Cleaning{ID: "clean-" + e.cfg.NewID(), Machine: machine, Resource: r})
	if err != nil {
		return answer, fmt.Errorf("clean %s on %s: %w", r.Key, host, err)
	}
	rec := drain.RecCleaned{Key: r.Key, Identity: r.Identity, Done: answer.Result == drain.Done, Error: answer.Detail}
	if rec.Done {
		rec.Error = ""
	}
	e.record(ctx, host, rec)
	return answer, nil
}
