package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/proof"
)

// Verification is the gate as it stands: open with a proof, or shut with every
// reason by name.
type Verification struct {
	Host   fleet.HostID        `json:"host"`
	At     time.Time           `json:"at"`
	Issues []fleet.Issue       `json:"issues"`
	Probes []fleet.ProbeStatus `json:"probes,omitempty"`
	Proof  *SignedProof        `json:"proof,omitempty"`
	Doc    *proof.Document     `json:"document,omitempty"`
}

// Check reads host and claims anew and lists what keeps the gate shut. It
// changes nothing.
func (e *Engine) Check(ctx context.Context, host fleet.HostID) (Verification, drain.View, drain.State, error) {
	s, err := e.State(ctx, host)
	if err != nil {
		return Verification{}, drain.View{}, s, err
	}
	v, err := e.View(ctx, host, s)
	if err != nil {
		return Verification{}, v, s, fmt.Errorf("verify %s: %w", host, err)
	}
	ver := Verification{Host: host, At: time.Now(), Issues: v.Issues, Probes: v.Source.Facts.Value.Probes()}
	if len(s.Open) > 0 {
		ver.Issues = append(ver.Issues, fleet.Issue{Check: fleet.CheckLeft, Detail: fmt.Sprintf("%d acts have begun and not ended", len(s.Open))})
	}
	return ver, v, s, nil
}

// Verify checks, and has the host sign a proof if nothing is left. The host
// looks again itself and may still refuse: then its reasons are returned.
func (e *Engine) Verify(ctx context.Context, host fleet.HostID, console string) (Verification, error) {
	ver, v, s, err := e.Check(ctx, host)
	if err != nil || len(ver.Issues) > 0 {
		return ver, err
	}
	facts := v.Source.Facts.Value
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	body, err := json.Marshal(asserted(v.Source, s, console))
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	hold := facts.Holds.Drain
	signed, issues, err := agent.Prove(ctx, ProofAsk{Drain: hold.Drain, Epoch: hold.Epoch, Machine: facts.Machine, Host: host, Nonce: uuid.NewString(), Asserted: body})
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	if len(issues) > 0 {
		ver.Issues = issues
		return ver, nil
	}
	if err := proof.Verify(signed.Proof, signed.Signature, agent.HostKey()); err != nil {
		return ver, fmt.Errorf("verify %s: the proof that it sent: %w", host, err)
	}
	doc, err := proof.Parse(signed.Proof)
	if err != nil {
		return ver, fmt.Errorf("verify %s: the proof that it sent: %w", host, err)
	}
	e.recordIn(ctx, host, hold.Drain, drain.RecProof{Digest: doc.Digest, Nonce: doc.Nonce, Expires: doc.Expires})
	ver.Proof, ver.Doc = &signed, &doc
	return ver, nil
}

// Accept makes an exception for one key, over the asker's own terminate channel.
// typed must be the key as the person typed it.
func (e *Engine) Accept(ctx context.Context, host fleet.HostID, key fleet.Key, reason, typed string) error {
	if typed != key.String() {
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: fmt.Sprintf("typed %q, not %q", typed, key)}}}
	}
	ver, v, s, err := e.Check(ctx, host)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ver.Issues, func(is fleet.Issue) bool { return is.Key == key })
	switch {
	case i < 0:
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: key.String() + " is not among what keeps the gate shut"}}}
	case !ver.Issues[i].Acceptable:
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: "can't be accepted: " + ver.Issues[i].Detail}}}
	}
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleTerminate)
	if err != nil {
		return fmt.Errorf("accept %s on %s: %w", key, host, err)
	}
	if err := agent.Accept(ctx, key, reason, e.cfg.Actor.Name, typed, v.Source.Facts.Value.Machine); err != nil {
		return fmt.Errorf("accept %s on %s: %w", key, host, err)
	}
	if lost := e.recordIn(ctx, host, s.Drain, drain.RecAccepted{Key: key, Reason: reason}); lost != "" {
		return fmt.Errorf("accept %s on %s: the host knows it, the journal does not: %s", key, host, lost)
	}
	return nil
}

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
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return drain.Answer{}, fmt.Errorf("clean %s on %s: %w", r.Key, host, err)
	}
	answer, err := agent.Clean(ctx, Cleaning{ID: "clean-" + uuid.NewString(), Machine: machine, Resource: r})
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
