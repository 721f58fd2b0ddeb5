package engine

import (
	"context"
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// Reword gives one's own cordon another reason: one that was set on a hunch gets
// its real one. Who set it and since when stay, and nothing else changes; the
// plane keeps the words that it was told first.
func (e *Engine) Reword(ctx context.Context, host fleet.HostID, reason string) error {
	refused := func(detail string) error {
		return &Refused{Verb: "reword the cordon of", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds, Detail: detail}}}
	}
	agent, facts, err := e.held(ctx, "reword the cordon of", host, RoleCordon)
	if err != nil {
		return fmt.Errorf("reword the cordon of %s: %w", host, err)
	}
	c := facts.Holds.Cordon
	switch {
	case c == nil:
		return refused("it is not cordoned")
	case c.Who != e.cfg.Actor.Name:
		return refused(fmt.Sprintf("%s cordoned it (%q): its reason is theirs to change", c.Who, c.Why))
	case c.Why == reason:
		return nil
	}
	can, ok := agent.(Rewording)
	if !ok {
		return refused("nothing here can change the reason of a cordon")
	}
	got, err := can.Reword(ctx, e.cfg.Actor.Name, reason, facts.Machine)
	if err != nil {
		return fmt.Errorf("reword the cordon of %s: %w", host, err)
	}
	if now := got.Holds.Cordon; now == nil || now.Why == c.Why {
		return refused("its agent is older than this program, and keeps the reason it has")
	}
	e.record(ctx, host, drain.RecCordon{Reason: reason, Reword: true})
	return nil
}
