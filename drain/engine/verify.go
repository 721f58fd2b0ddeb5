package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

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
	Unread bool                `json:"unread,omitempty"` // the host could not be read: nothing is known of what only it can say
	Next   string              `json:"next,omitempty"`   // what to type, where something helps
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
	ver.Issues = append(ver.Issues, drainIssues(s, v.Source.Facts.Value.Holds.Drain)...)
	switch f, read := v.Source.Facts.Get(); {
	case !read:
		ver.Unread = true
		ver.Issues = append(ver.Issues, lostIssues(v.Source, s)...)
	case another(s, f.Machine):
		ver.Next = elsewhere("verify", host, f.Machine, s).Next
	}
	return ver, v, s, nil
}

// lostIssues is what the journal says was lost, where the host can't be asked: it
// is known all the same.
func lostIssues(v fleet.HostView, s drain.State) []fleet.Issue {
	all := proof.AssertedIssues(asserted(v, s, ""), nil)
	return slices.DeleteFunc(all, func(is fleet.Issue) bool {
		_, accepted := s.Accepted[is.Key]
		return is.Check != fleet.CheckLost || accepted
	})
}

// drainIssues is what the journal says against a proof. A host that is held by a
// drain that this journal does not know may have lost things that nobody here
// has heard of.
func drainIssues(s drain.State, h *fleet.Hold) []fleet.Issue {
	var all []fleet.Issue
	add := func(check, format string, args ...any) {
		all = append(all, fleet.Issue{Check: check, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case h == nil: // named with the holds
	case s.Drain == "":
		add(fleet.CheckHolds, "drain %s holds it, which this journal does not know", h.Drain)
	case h.Drain != s.Drain:
		add(fleet.CheckHolds, "drain %s holds it; this journal knows %s", h.Drain, s.Drain)
	case s.Undone:
		add(fleet.CheckHolds, "drain %s was lifted, and its hold is there again", h.Drain)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Open)) {
		add(fleet.CheckLeft, "act %s has begun and not ended", id)
	}
	return all
}

// Verify checks, and has the host sign a proof if nothing is left. The host
// looks again itself and may still refuse: then its reasons are returned.
func (e *Engine) Verify(ctx context.Context, host fleet.HostID, console string) (Verification, error) {
	ver, v, s, err := e.Check(ctx, host)
	facts, read := v.Source.Facts.Get()
	if err == nil && read {
		err = e.sameMachine(ctx, "verify", host, facts.Machine)
	}
	if err != nil || len(ver.Issues) > 0 {
		return ver, err
	}
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleOperate)
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	body, err := json.Marshal(asserted(v.Source, s, console))
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	hold := facts.Holds.Drain
	ask := ProofAsk{Drain: hold.Drain, Epoch: hold.Epoch, Machine: facts.Machine, Host: host, Nonce: e.cfg.NewID(), Asserted: body}
	signed, issues, err := agent.Prove(ctx, ask)
	if err != nil {
		return ver, fmt.Errorf("verify %s: %w", host, err)
	}
	if len(issues) > 0 {
		ver.Issues = issues
		return ver, nil
	}
	doc, err := received(signed, agent.HostKey(), ask)
	if err != nil {
		return ver, fmt.Errorf("verify %s: the proof that it sent: %w", host, err)
	}
	e.recordIn(ctx, host, hold.Drain, drain.RecProof{Digest: doc.Digest, Nonce: doc.Nonce, Expires: doc.Expires})
	ver.Proof, ver.Doc = &signed, &doc
	return ver, nil
}

// received checks that a proof is what was asked for, signed by the host that
// the SSH handshake has shown.
func received(signed SignedProof, key ssh.PublicKey, ask ProofAsk) (proof.Document, error) {
	if key == nil {
		return proof.Document{}, errNoKey
	}
	if err := proof.Verify(signed.Proof, signed.Signature, key); err != nil {
		return proof.Document{}, err
	}
	doc, err := proof.Parse(signed.Proof)
	if err != nil {
		return doc, err
	}
	if doc.Nonce != ask.Nonce || doc.Host != ask.Host || doc.Machine != ask.Machine || doc.Drain != ask.Drain {
		return doc, fmt.Errorf("it is another's: host %s, machine %s, drain %s, nonce %s", doc.Host, doc.Machine, doc.Drain, doc.Nonce)
	}
	return doc, nil
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
	if f, read := v.Source.Facts.Get(); read {
		if err := e.sameMachine(ctx, "accept", host, f.Machine); err != nil {
			return err
		}
	}
	named := slices.DeleteFunc(slices.Clone(ver.Issues), func(is fleet.Issue) bool { return key.IsZero() || is.Key != key })
	fixed := slices.IndexFunc(named, func(is fleet.Issue) bool { return !is.Acceptable })
	switch {
	case !v.Source.Facts.Value.Holds.Both():
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: "it is not being drained: there is no gate to make an exception for"}}}
	case len(named) == 0:
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: key.String() + " is not among what keeps the gate shut"}}}
	case fixed >= 0:
		return &Refused{Verb: "accept", Host: host, Issues: []fleet.Issue{{Key: key, Detail: "can't be accepted: " + named[fixed].Detail}}}
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

var errNoKey = errors.New("the SSH handshake showed no host key")
