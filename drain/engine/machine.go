package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// bound is the machine as which the journal knows a host; known is false where
// the journal can't be asked within two seconds: a cordon does not wait for a
// journal. A host that was terminated is bound to none.
func (e *Engine) bound(ctx context.Context, host fleet.HostID) (machine string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := e.State(ctx, host)
	return s.Bound, err == nil
}

// sameMachine refuses a verb where another machine answers at a host's address
// than the one that the journal knows it as, and binds a host that it does not
// know yet.
func (e *Engine) sameMachine(ctx context.Context, verb string, host fleet.HostID, machine string) error {
	want, known := e.bound(ctx, host)
	switch {
	case want != "" && want != machine:
		return otherMachine(verb, host, machine, want)
	case want == "" && known && machine != "":
		e.record(ctx, host, drain.RecBound{Machine: machine})
	}
	return nil
}

// otherMachine is the refusal of everything where another machine answers than
// the one that was meant.
func otherMachine(verb string, host fleet.HostID, have, want string) *Refused {
	return &Refused{Verb: verb, Host: host,
		Issues: refusal(fleet.CheckReach, fmt.Sprintf("another machine answers at its address: %s, not %s", have, want)),
		Next:   "if it was reimaged or replaced on purpose: ebb agent rebind " + host.Name() + " --confirm " + host.Name()}
}

// another reports whether a machine is not the one that a host's drain goes on, or
// that the host is bound to where it has none.
func another(s drain.State, machine string) bool {
	want := cmp.Or(s.Machine, s.Bound)
	return want != "" && machine != want
}

// elsewhere is otherMachine for what goes by a drain, which stays that of its
// machine where the host was bound anew since.
func elsewhere(verb string, host fleet.HostID, machine string, s drain.State) *Refused {
	r := otherMachine(verb, host, machine, cmp.Or(s.Machine, s.Bound))
	if s.Bound == machine {
		r.Next = "the drain is that of the machine before: ebb undrain " + host.Name() + ", then drain it anew"
	}
	return r
}

// Rebind binds a host to the machine that answers at its address now, and returns
// both. typed is the host's name as the person typed it. It takes the operate
// role on the host, and in a shared journal an operator's key.
func (e *Engine) Rebind(ctx context.Context, host fleet.HostID, typed, reason string) (was, now string, err error) {
	if typed != host.Name() && typed != string(host) {
		return "", "", &Refused{Verb: "rebind", Host: host, Issues: refusal(fleet.CheckReach, fmt.Sprintf("typed %q, not %q", typed, host.Name()))}
	}
	s, err := e.State(ctx, host)
	if err != nil {
		return "", "", fmt.Errorf("rebind %s: %w", host, err)
	}
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return s.Bound, "", fmt.Errorf("rebind %s: %w", host, err)
	}
	facts, err := agent.Facts(ctx, true)
	if err != nil {
		return s.Bound, "", fmt.Errorf("rebind %s: %w", host, err)
	}
	if facts.Machine == s.Bound {
		return s.Bound, s.Bound, nil
	}
	ask := drain.AskRebind{Machine: facts.Machine, Was: s.Bound, Reason: reason}
	if err := e.append(ctx, host, "", 0, &s.Num, nil, ask); err != nil {
		return s.Bound, facts.Machine, fmt.Errorf("rebind %s: %w", host, err)
	}
	if err := agent.Rebound(ctx, host, s.Bound, facts.Machine, e.cfg.Actor.Name, reason); err != nil {
		return s.Bound, facts.Machine, fmt.Errorf("rebind %s: the journal has it, the host's audit log does not: %w", host, err)
	}
	return s.Bound, facts.Machine, nil
}

// answers is the machine that answers at a host's address now; empty where none
// does within a moment.
func (e *Engine) answers(ctx context.Context, host fleet.HostID) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleCordon)
	if err != nil {
		return ""
	}
	f, err := agent.Facts(ctx, false)
	if err != nil {
		return ""
	}
	return f.Machine
}
