package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// keepProofs is how many proofs' items are remembered, so that a seal can name
// what changed.
const keepProofs = 16

// forgetter is a prober that can drop what it remembers, so that a proof rests
// on nothing but what is read for it.
type forgetter interface{ Forget() }

// lookAnew scans with nothing remembered, and returns with the lock held: the
// facts are those of a host on which no admission was made or settled since the
// look began. With an error the lock is not held.
func (a *Agent) lookAnew(ctx context.Context, forget bool) (fleet.Facts, error) {
	for range 3 {
		if p, ok := a.cfg.Prober.(forgetter); ok && forget {
			p.Forget()
		}
		a.mu.Lock()
		admissions := a.admissions
		a.mu.Unlock()
		f, err := a.fresh(ctx)
		if err != nil {
			return f, fmt.Errorf("look at the host: %w", err)
		}
		a.mu.Lock()
		if a.admissions == admissions {
			return a.withState(f), nil
		}
		a.mu.Unlock()
	}
	return fleet.Facts{}, refuse(wire.CodeTicketsOpen, "admissions come and go while the host is looked at")
}

// prove looks at the host anew and signs what it finds, if that is nothing.
func (a *Agent) prove(ctx context.Context, c Caller, req wire.ProofRequest) (reply wire.ProofReply, err error) {
	asserted, err := a.checkProofRequest(req)
	if err != nil {
		return reply, err
	}
	signer, err := a.signer(req.HostKey)
	if err != nil {
		return reply, err
	}
	f, err := a.lookAnew(ctx, true)
	if err != nil {
		return reply, err
	}
	defer a.mu.Unlock()
	err = a.audited(c, note{"proof", req.Host, "drain " + req.Drain + " nonce " + req.Nonce}, func() error {
		reply, err = a.proveNow(f, req, asserted, signer)
		return err
	})
	return reply, err
}

func (a *Agent) checkProofRequest(req wire.ProofRequest) (proof.Asserted, error) {
	var asserted proof.Asserted
	if err := a.checkMachine(req.Machine, true); err != nil {
		return asserted, err
	}
	if req.Drain == "" || req.Host == "" || req.Nonce == "" || len(req.Nonce) > maxID {
		return asserted, refuse(wire.CodeBadRequest, "a proof needs a drain, a host and a nonce")
	}
	if len(req.Asserted) > 0 {
		if err := json.Unmarshal(req.Asserted, &asserted); err != nil {
			return asserted, refuse(wire.CodeBadRequest, "asserted: "+err.Error())
		}
	}
	return asserted, nil
}

// proveNow builds and signs the document. The lock is held: no hold can be
// lifted and nothing admitted between the look and the signature.
func (a *Agent) proveNow(f fleet.Facts, req wire.ProofRequest, asserted proof.Asserted, signer ssh.Signer) (wire.ProofReply, error) {
	if err := a.notSealed(); err != nil {
		return wire.ProofReply{}, err
	}
	hold := a.rec.Holds.Drain
	switch {
	case hold == nil:
		return wire.ProofReply{}, refuse(wire.CodeNotHeld, "drain "+req.Drain+" does not hold this host")
	case hold.Drain != req.Drain:
		return wire.ProofReply{}, otherDrain(hold)
	}
	if err := a.notStale(req.Drain, req.Epoch); err != nil {
		return wire.ProofReply{}, err
	}
	if issues := slices.Concat(proof.Issues(f), a.actIssues(), proof.AssertedIssues(asserted, f.Accepted)); len(issues) > 0 {
		return wire.ProofReply{}, refuse(wire.CodeNotEmpty, fmt.Sprintf("%d things keep this host from being proved empty", len(issues))).issues(issues)
	}
	items, now := proof.Items(f), a.cfg.Clock.Now()
	info := f.Agent
	info.Role = ""
	raw, err := proof.Marshal(proof.Document{
		Version: proof.Version, Host: fleet.HostID(req.Host), Machine: a.cfg.Machine, Boot: a.cfg.Boot,
		Drain: req.Drain, Epoch: req.Epoch, Purpose: hold.For, Nonce: req.Nonce,
		Made: now, Expires: now.Add(proof.Lifetime), MadeBoot: a.cfg.Clock.Boottime(),
		Scope: a.cfg.Scope, Holds: f.Holds, Probes: f.Probes(), Kept: proof.KeptOf(f), Accepted: f.Accepted,
		Lost: req.Lost, Digest: proof.Digest(items), Items: len(items), Agent: info,
		HostKey: ssh.FingerprintSHA256(signer.PublicKey()), Asserted: asserted,
	})
	if err != nil {
		return wire.ProofReply{}, err
	}
	sig, err := proof.Sign(raw, signer)
	if err != nil {
		return wire.ProofReply{}, err
	}
	a.rememberProof(req.Nonce, items)
	return wire.ProofReply{Proof: raw, Signature: sig}, nil
}

// actIssues names the acts that have not ended: a command that starts something
// must not land after a proof, no more than an admission. The lock is held.
func (a *Agent) actIssues() []fleet.Issue {
	var out []fleet.Issue
	for _, id := range a.acts.order {
		if act := a.acts.byID[id]; act.reply.State == wire.ActBegun {
			out = append(out, fleet.Issue{
				Check: fleet.CheckTickets, Key: act.req.Key,
				Detail: fmt.Sprintf("act %s has not ended: %s %s", id, act.req.Kind, actText(act.req)),
			})
		}
	}
	return out
}

// withState puts the agent's present state over facts from a scan.
func (a *Agent) withState(f fleet.Facts) fleet.Facts {
	now, _ := a.store.get()
	f.Holds, f.Unheld, f.Sealed, f.Tickets, f.Accepted = now.Holds, now.Unheld, now.Sealed, now.Tickets, now.Accepted
	return f
}

func (a *Agent) rememberProof(nonce string, items []proof.Item) {
	if _, ok := a.proofs[nonce]; !ok {
		a.nonces = append(a.nonces, nonce)
	}
	a.proofs[nonce] = items
	if len(a.nonces) > keepProofs {
		delete(a.proofs, a.nonces[0])
		a.nonces = slices.Delete(a.nonces, 0, 1)
	}
}

// signers reads the host keys that can sign without a passphrase.
func (a *Agent) signers() ([]ssh.Signer, error) {
	var out []ssh.Signer
	var errs []error
	for _, glob := range a.cfg.HostKeys {
		files, err := filepath.Glob(a.cfg.path(glob))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err == nil {
				var s ssh.Signer
				if s, err = ssh.ParsePrivateKey(raw); err == nil {
					out = append(out, s)
					continue
				}
			}
			errs = append(errs, fmt.Errorf("host key %s: %w", file, err))
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(append(errs, errors.New("no host key can be read"))...)
	}
	return out, nil
}

// signer finds the host key that the console saw, or refuses.
func (a *Agent) signer(fingerprint string) (ssh.Signer, error) {
	all, err := a.signers()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if ssh.FingerprintSHA256(s.PublicKey()) == fingerprint {
			return s, nil
		}
	}
	return nil, refuse(wire.CodeBadProof, "the console saw host key "+clip(fingerprint, maxID)+", which is none of this host's").
		hint("something between console and host answers in its place, or host_keys in ebbd.toml is incomplete")
}

func (a *Agent) signerReply() (wire.SignerReply, error) {
	all, err := a.signers()
	if err != nil {
		return wire.SignerReply{}, err
	}
	var reply wire.SignerReply
	for _, s := range all {
		reply.Keys = append(reply.Keys, wire.SignerKey{
			Fingerprint: ssh.FingerprintSHA256(s.PublicKey()),
			Public:      string(ssh.MarshalAuthorizedKey(s.PublicKey())),
		})
	}
	return reply, nil
}
