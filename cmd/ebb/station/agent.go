package station

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// agent is a client of one role as the engine wants it.
type agent struct {
	client *client.Client
	key    ssh.PublicKey
	speed  float64
}

func (a *agent) HostKey() ssh.PublicKey { return a.key }

func (a *agent) Facts(ctx context.Context, fresh bool) (fleet.Facts, error) {
	return a.client.Facts(ctx, fresh)
}

func (a *agent) SetHold(ctx context.Context, h fleet.Hold, machine string) (engine.HoldAnswer, error) {
	if h.Kind == fleet.CordonHold {
		return held(a.client.Cordon(ctx, wire.CordonRequest{Who: h.Who, Why: h.Why, Machine: machine}))
	}
	if err := a.scopedIfScaled(ctx); err != nil {
		return engine.HoldAnswer{}, err
	}
	return held(a.client.Drain(ctx, wire.DrainRequest{Who: h.Who, Why: h.Why, Drain: h.Drain, Journal: h.Journal,
		Epoch: h.Epoch, Deadline: h.Deadline, Evacuate: h.Evacuate, For: h.For, Machine: machine}))
}

// Reword implements engine.Rewording.
func (a *agent) Reword(ctx context.Context, who, why, machine string) (engine.HoldAnswer, error) {
	return held(a.client.Cordon(ctx, wire.CordonRequest{Who: who, Why: why, Machine: machine, Reword: true}))
}

// scopedIfScaled keeps shortened durations away from real hosts: only an agent
// that is limited to a part of its machine may be drained at speed.
func (a *agent) scopedIfScaled(ctx context.Context) error {
	if a.speed <= 1 {
		return nil
	}
	f, err := a.client.Facts(ctx, false)
	if err != nil {
		return err
	}
	if f.Agent.Scope == "" {
		return &engine.Refused{Verb: "drain", Issues: []fleet.Issue{{Detail: "the configuration scales durations (speed), which only scoped agents allow"}}}
	}
	return nil
}

func (a *agent) LiftHold(ctx context.Context, l engine.Lift) (engine.HoldAnswer, error) {
	r := wire.LiftRequest{Who: l.Who, Why: l.Why, Drain: l.Drain, Epoch: l.Epoch, Theirs: l.Theirs, Machine: l.Machine}
	if l.Kind == fleet.CordonHold {
		return held(a.client.Uncordon(ctx, r))
	}
	return held(a.client.Undrain(ctx, r))
}

func held(r wire.HoldReply, err error) (engine.HoldAnswer, error) {
	if err != nil {
		return engine.HoldAnswer{}, decided(err)
	}
	return engine.HoldAnswer{Holds: r.Holds, Machine: r.Machine, Boot: r.Boot, At: r.At, Audit: r.Audit}, nil
}

func (a *agent) Announce(ctx context.Context, drainID string, epoch uint64) (uint64, error) {
	r, err := a.client.Epoch(ctx, wire.EpochRequest{Drain: drainID, Epoch: epoch})
	return r.Epoch, decided(err)
}

func (a *agent) Clean(ctx context.Context, c engine.Cleaning) (drain.Answer, error) {
	return a.act(ctx, wire.ActRequest{ID: c.ID, Machine: c.Machine, Kind: wire.ActClean, Key: c.Resource.Key, Identity: c.Resource.Identity})
}

func (a *agent) Prove(ctx context.Context, p engine.ProofAsk) (engine.SignedProof, []fleet.Issue, error) {
	r, err := a.client.Proof(ctx, wire.ProofRequest{Drain: p.Drain, Epoch: p.Epoch, Machine: p.Machine, Host: string(p.Host),
		Nonce: p.Nonce, HostKey: ssh.FingerprintSHA256(a.key), Asserted: p.Asserted})
	if issues := issuesOf(err); issues != nil {
		return engine.SignedProof{}, issues, nil
	}
	return engine.SignedProof{Proof: r.Proof, Signature: r.Signature}, nil, decided(err)
}

func (a *agent) Accept(ctx context.Context, k fleet.Key, reason, who, typed, machine string) error {
	_, err := a.client.Accept(ctx, wire.AcceptRequest{Key: k, Reason: reason, Who: who, Typed: typed, Machine: machine})
	return decided(err)
}

func (a *agent) Seal(ctx context.Context, s engine.SealAsk) ([]fleet.Issue, error) {
	_, err := a.client.Seal(ctx, wire.SealRequest{Who: s.Who, Proof: s.Proof, Signature: s.Signature, Terminator: s.Terminator, Machine: s.Machine})
	if issues := issuesOf(err); issues != nil {
		return issues, nil
	}
	return nil, decided(err)
}

func (a *agent) Poweroff(ctx context.Context, drainID, who, machine string) error {
	_, err := a.client.Poweroff(ctx, wire.PoweroffRequest{Who: who, Drain: drainID, Machine: machine})
	return decided(err)
}

func (a *agent) Rebound(ctx context.Context, host fleet.HostID, was, machine, who, why string) error {
	_, err := a.client.Rebind(ctx, wire.RebindRequest{Who: who, Why: why, Host: string(host), Was: was, Machine: machine})
	return decided(err)
}

// issuesOf returns what an agent names against a proof or a seal, if the error
// is such an answer.
func issuesOf(err error) []fleet.Issue {
	var p *client.Problem
	if !errors.As(err, &p) || !p.Refused() {
		return nil
	}
	switch p.Code {
	case wire.CodeNotEmpty, wire.CodeChanged, wire.CodeBadProof, wire.CodeScoped, wire.CodeTicketsOpen:
		if len(p.Issues) > 0 {
			return p.Issues
		}
		return []fleet.Issue{{Check: fleet.CheckReach, Detail: p.Error()}}
	}
	return nil
}

// decided turns an agent's refusals into what the engine tells apart.
func decided(err error) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	switch {
	case p.Code == wire.CodeOtherDrain && p.Hold != nil:
		return &engine.HoldTaken{Hold: *p.Hold}
	case p.Code == wire.CodeStaleEpoch:
		return fmt.Errorf("%w: %v", drain.ErrLeaseLost, p)
	case p.Refused():
		return &finalError{p}
	}
	return err
}

// finalError is a refusal: asking again changes nothing.
type finalError struct{ *client.Problem }

func (*finalError) Final() bool     { return true }
func (e *finalError) Unwrap() error { return e.Problem }
func (e *finalError) Hint() string  { return e.Problem.Hint }
