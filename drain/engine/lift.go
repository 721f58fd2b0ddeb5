package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Lifted is what lifting a hold came to.
type Lifted struct {
	fleet.Holds      // those that are left
	Nothing     bool // there was nothing to lift: nothing was changed, or written down
}

// Uncordon lifts the cordon at the host, and the plane's flag unless a drain
// still holds the host. A flag or cordon that someone else set is theirs: it is
// lifted only on explicit word, and nothing is lifted before that is clear.
//
// The plane comes first: where the second half fails, the host still takes
// nothing.
func (e *Engine) Uncordon(ctx context.Context, host fleet.HostID, reason string, theirs bool) (Lifted, error) {
	agent, facts, err := e.held(ctx, "uncordon", host, RoleCordon)
	if err != nil {
		return Lifted{}, fmt.Errorf("uncordon %s: %w", host, err)
	}
	if c := facts.Holds.Cordon; c != nil && c.Who != e.cfg.Actor.Name && !theirs {
		return Lifted{Holds: facts.Holds}, &Refused{Verb: "uncordon", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds,
			Detail: fmt.Sprintf("%s cordoned it (%q): it is theirs; --theirs lifts it all the same", c.Who, c.Why)}}}
	}
	if e.uncordoned(ctx, host, facts) {
		return Lifted{Holds: facts.Holds, Nothing: true}, nil
	}
	if facts.Holds.Drain == nil {
		if err := e.liftFlag(ctx, host, theirs); err != nil {
			return Lifted{Holds: facts.Holds}, fmt.Errorf("uncordon %s: nothing is lifted: %w", host, err)
		}
	}
	got, err := agent.LiftHold(ctx, Lift{Kind: fleet.CordonHold, Who: e.cfg.Actor.Name, Why: reason, Machine: facts.Machine})
	if err != nil {
		return Lifted{Holds: facts.Holds}, fmt.Errorf("uncordon %s: the host still holds: %w", host, err)
	}
	e.record(ctx, host, drain.RecUncordon{Theirs: theirs, Reason: reason})
	return Lifted{Holds: got.Holds}, nil
}

// uncordoned reports whether a host is known to have no cordon, at either side.
// The flag of a plane is that of a drain while one holds the host; an agent that
// has no record of its holds waits to be told of none.
func (e *Engine) uncordoned(ctx context.Context, host fleet.HostID, facts fleet.Facts) bool {
	switch {
	case facts.Holds.Cordon != nil || facts.Unheld:
		return false
	case facts.Holds.Drain != nil:
		return true
	}
	plane, err := e.cfg.Plane(host)
	if err != nil {
		return false
	}
	seen, err := plane.Eligible(ctx, host)
	return err == nil && !seen.Flag.Set
}

func (e *Engine) liftFlag(ctx context.Context, host fleet.HostID, theirs bool) error {
	plane, err := e.cfg.Plane(host)
	if err != nil {
		return err
	}
	return plane.Lift(ctx, host, theirs)
}

// held reads the holds of a host through a channel of a role.
func (e *Engine) held(ctx context.Context, verb string, host fleet.HostID, role Role) (Agent, fleet.Facts, error) {
	agent, err := e.cfg.Agents.Agent(ctx, host, role)
	var facts fleet.Facts
	if err == nil {
		facts, err = agent.Facts(ctx, false)
	}
	if err == nil {
		return agent, facts, e.sameMachine(ctx, verb, host, facts.Machine)
	}
	if s, unknown := e.State(ctx, host); unknown == nil && !s.Terminated.IsZero() {
		return nil, facts, &Refused{Verb: verb, Host: host, Issues: refusal(fleet.CheckReach,
			fmt.Sprintf("it was terminated at %s, by %s, and nothing answers: there is nothing to lift", s.Terminated.UTC().Format(time.RFC3339), s.TerminatedBy))}
	}
	return nil, facts, err
}

// Undrain stops the drain and lifts its hold; the cordon stays. theirs lifts the
// hold of a drain that somebody else began, or that this journal does not know.
func (e *Engine) Undrain(ctx context.Context, host fleet.HostID, theirs bool) (Lifted, error) {
	agent, facts, err := e.held(ctx, "undrain", host, RoleOperate)
	if err != nil {
		return Lifted{}, fmt.Errorf("undrain %s: %w", host, err)
	}
	s, err := e.State(ctx, host)
	if err != nil && !theirs {
		return Lifted{Holds: facts.Holds}, fmt.Errorf("undrain %s: %w", host, err)
	}
	h := facts.Holds.Drain
	if h != nil && s.Drain != h.Drain && !theirs {
		return Lifted{Holds: facts.Holds}, &Refused{Verb: "undrain", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds,
			Detail: fmt.Sprintf("drain %s of %s (journal %s) holds it, which this journal does not know; --theirs lifts it all the same", h.Drain, h.Who, h.Journal)}}}
	}
	if h != nil && h.Who != e.cfg.Actor.Name && !theirs {
		return Lifted{Holds: facts.Holds}, &Refused{Verb: "undrain", Host: host, Issues: []fleet.Issue{{Check: fleet.CheckHolds,
			Detail: fmt.Sprintf("drain %s is that of %s (%q): it is theirs; --theirs lifts it all the same", h.Drain, h.Who, h.Why)}}}
	}
	got := facts.Holds
	ours := s.Drain != "" && !s.Undone && (h == nil || h.Drain == s.Drain)
	if !ours && h == nil {
		return Lifted{Holds: facts.Holds, Nothing: true}, nil
	}
	if ours && !s.Phase.Ended() {
		// A driver that does not know yet would set the hold again.
		if err := e.Ask(ctx, host, s.Drain, drain.AskStop{Reason: "undrain", Undrain: true}); err != nil && !theirs {
			return Lifted{Holds: facts.Holds}, fmt.Errorf("undrain %s: %w", host, err)
		}
	}
	if moving := s.Moving(); ours && len(moving) > 0 && !theirs {
		issues := make([]fleet.Issue, len(moving))
		for i, k := range moving {
			issues[i] = fleet.Issue{Check: fleet.CheckLeft, Key: k,
				Detail: fmt.Sprintf("%s is in the middle of a move; the drain is stopped, and its driver rolls it back or finishes it: undrain again after that, or --theirs to leave it as it is", k)}
		}
		return Lifted{Holds: facts.Holds}, &Refused{Verb: "undrain", Host: host, Issues: issues}
	}
	if h != nil {
		lift := Lift{Kind: fleet.DrainHold, Drain: h.Drain, Epoch: max(h.Epoch, s.Epoch), Theirs: theirs, Who: e.cfg.Actor.Name, Machine: facts.Machine}
		answer, err := agent.LiftHold(ctx, lift)
		if err != nil {
			return Lifted{Holds: facts.Holds}, fmt.Errorf("undrain %s: %w", host, err)
		}
		got = answer.Holds
	}
	if err := e.undone(ctx, host, s, h, theirs); err != nil {
		return Lifted{Holds: got}, err
	}
	if h != nil && !got.Any() {
		if err := e.liftFlag(ctx, host, theirs); err != nil {
			return Lifted{Holds: got}, fmt.Errorf("undrain %s: the host is free, its plane's flag is not: %w", host, err)
		}
	}
	return Lifted{Holds: got}, nil
}

// undone records that the hold is lifted. Our own drain would be taken up again
// if its journal did not know.
func (e *Engine) undone(ctx context.Context, host fleet.HostID, s drain.State, h *fleet.Hold, theirs bool) error {
	id := s.Drain
	if h != nil {
		id = h.Drain
	}
	if lost := e.recordIn(ctx, host, id, drain.RecUndrain{Theirs: theirs}); lost != "" && id == s.Drain {
		return fmt.Errorf("undrain %s: the hold is lifted, and the journal does not know it (repeat it): %s", host, lost)
	}
	return nil
}
