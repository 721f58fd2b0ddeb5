package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/proof"
)

// Terminate is the irreversible verb. It takes a proof, checks it, re-reads the
// claims, has the host confirm the digest and seal itself, journals the intent,
// and runs the terminator exactly once. Any doubt on the way refuses, by name.
func (e *Engine) Terminate(ctx context.Context, host fleet.HostID, signed SignedProof, t Terminator, gone Gone) error {
	plan, issues, err := e.prepare(ctx, host, signed, t, gone)
	if err == nil && len(issues) == 0 {
		issues, err = plan.agent.Seal(ctx, SealAsk{SignedProof: signed, Who: e.cfg.Actor.Name, Terminator: t.Type, Machine: plan.doc.Machine})
	}
	var act string
	if err == nil && len(issues) == 0 {
		act, issues, err = e.intend(ctx, host, t, plan)
	}
	if err != nil {
		return fmt.Errorf("terminate %s: nothing was run: %w", host, err)
	}
	if len(issues) > 0 {
		e.record(ctx, host, drain.RecRefused{Verb: "terminate", Issues: issues})
		r := &Refused{Verb: "terminate", Host: host, Issues: issues}
		if past, err := e.terminations(ctx, host); err == nil && past.open.Act != "" {
			r.Next = settleIt(host)
		}
		return r
	}
	err = e.runTerminator(ctx, host, t, plan, gone)
	if errors.Is(err, errCutShort) {
		// The journal must not say what nobody knows: the intent stays open until a
		// person settles it.
		return &CutShort{host}
	}
	out := drain.RecTerminateOutcome{Act: act, Done: err == nil}
	if err != nil {
		out.Error = err.Error()
	}
	lost := e.recordIn(ctx, host, plan.doc.Drain, out)
	switch {
	case err != nil && lost != "":
		return fmt.Errorf("terminate %s: %w; and the journal does not know it: %s", host, err, lost)
	case err != nil:
		return fmt.Errorf("terminate %s: %w", host, err)
	case lost != "":
		return fmt.Errorf("terminate %s: done, and the journal does not know it: %s", host, lost)
	}
	return nil
}

// prepared is everything that a terminate has made sure of.
type prepared struct {
	agent    Agent
	doc      proof.Document
	run      []string
	instance string
}

// prepare checks everything that can be checked without changing anything.
func (e *Engine) prepare(ctx context.Context, host fleet.HostID, signed SignedProof, t Terminator, gone Gone) (p prepared, issues []fleet.Issue, err error) {
	if err := t.check(gone); err != nil {
		return p, refusal(fleet.CheckReach, err.Error()), nil
	}
	past, err := e.terminations(ctx, host)
	if err != nil {
		return p, nil, err
	}
	if open := past.inTheWay(); open != "" {
		return p, refusal(fleet.CheckReach, open), nil
	}
	if p.agent, err = e.cfg.Agents.Agent(ctx, host, RoleTerminate); err != nil {
		return p, nil, err
	}
	facts, err := p.agent.Facts(ctx, false)
	if err == nil {
		err = e.sameMachine(ctx, "terminate", host, facts.Machine)
	}
	if err != nil {
		return p, nil, err
	}
	if p.doc, issues, err = e.judge(ctx, host, signed, p.agent.HostKey(), t); err != nil || len(issues) > 0 {
		return p, issues, err
	}
	v, err := e.cfg.Look.Look(ctx, host)
	if err != nil {
		return p, nil, err
	}
	if issues := claimsMoved(p.doc, v); len(issues) > 0 {
		return p, issues, nil
	}
	p.instance = v.Host.Instance
	if p.run, err = t.resolve(v.Host); err != nil {
		return p, refusal(fleet.CheckReach, err.Error()), nil
	}
	return p, nil, nil
}

func refusal(check, detail string) []fleet.Issue {
	return []fleet.Issue{{Check: check, Detail: detail}}
}

// intend journals the intent, where the stream ends as it was read: of two who
// terminate at once only one gets past this.
func (e *Engine) intend(ctx context.Context, host fleet.HostID, t Terminator, p prepared) (string, []fleet.Issue, error) {
	b := drain.RecTerminateIntent{Act: e.cfg.NewID(), Type: t.Type, To: t.To, Run: p.run, Instance: p.instance, Digest: p.doc.Digest}
	for range 10 {
		past, err := e.terminations(ctx, host)
		if err != nil {
			return "", nil, err
		}
		if open := past.inTheWay(); open != "" {
			return "", refusal(fleet.CheckReach, open), nil
		}
		err = e.append(ctx, host, p.doc.Drain, 0, &past.num, nil, b)
		if !errors.Is(err, drain.ErrConflict) {
			return b.Act, nil, err
		}
	}
	return "", nil, fmt.Errorf("journal the intent: %w again and again: is the drain still being driven?", drain.ErrConflict)
}

// judge checks signature and document against the host as the console knows it.
func (e *Engine) judge(ctx context.Context, host fleet.HostID, signed SignedProof, key ssh.PublicKey, t Terminator) (proof.Document, []fleet.Issue, error) {
	if key == nil {
		return proof.Document{}, nil, errNoKey
	}
	if err := proof.Verify(signed.Proof, signed.Signature, key); err != nil {
		text := "the proof: " + err.Error()
		if claims, bad := proof.Parse(signed.Proof); bad == nil && claims.Host != host {
			text += fmt.Sprintf("; it says that it is of %s, not of %s", claims.Host, host)
		}
		return proof.Document{}, refusal(fleet.CheckReach, text), nil
	}
	doc, err := proof.Parse(signed.Proof)
	if err != nil {
		return proof.Document{}, refusal(fleet.CheckReach, "the proof: "+err.Error()), nil
	}
	s, err := e.State(ctx, host)
	if err != nil {
		return doc, nil, err
	}
	expect := proof.Expect{Host: host, Machine: s.Machine, Drain: s.Drain, HostKey: ssh.FingerprintSHA256(key), Now: time.Now(), Scoped: t.Type != "command"}
	return doc, append(proof.Check(doc, expect), drainIssues(s, doc.Holds.Drain)...), nil
}

// claimsMoved names what the claims say now that they did not say in the proof.
func claimsMoved(doc proof.Document, v fleet.HostView) []fleet.Issue {
	claims, ok := v.Claims.Get()
	if !ok && !v.SelfClaims {
		return refusal(fleet.CheckClaims, "the control plane can't be read: "+v.Claims.Error)
	}
	if !ok && doc.Asserted.Claims == "" || ok && proof.ClaimsDigest(claims) == doc.Asserted.Claims {
		return nil
	}
	detail := "the claims have changed since the proof was made"
	for _, c := range claims {
		if c.Phase != fleet.Gone {
			detail += "; now claimed: " + c.Key.String() + " " + string(c.Phase)
		}
	}
	return refusal(fleet.CheckClaims, detail)
}
