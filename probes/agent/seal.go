package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// accept makes an exception for one key that the person has typed.
func (a *Agent) accept(c Caller, req wire.AcceptRequest) (fleet.Accepted, error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return fleet.Accepted{}, err
	}
	if err := checkKey(req.Key); err != nil {
		return fleet.Accepted{}, err
	}
	switch {
	case req.Typed != req.Key.String():
		return fleet.Accepted{}, refuse(wire.CodeBadRequest, "what was typed is not "+req.Key.String())
	case req.Reason == "" || req.Who == "":
		return fleet.Accepted{}, refuse(wire.CodeBadRequest, "an exception needs a reason and a name")
	case len(req.Key.ID) > maxText:
		return fleet.Accepted{}, refuse(wire.CodeBadRequest, "key: too long to be remembered")
	}
	made := fleet.Accepted{Key: req.Key, Reason: clip(req.Reason, maxText), Who: clip(req.Who, maxText), At: a.cfg.Clock.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.audited(c, note{"accept", req.Key.String(), made.Reason}, func() error {
		if err := a.notSealed(); err != nil {
			return err
		}
		next := a.rec
		next.Accepted = slices.DeleteFunc(slices.Clone(next.Accepted), func(x AcceptedInBoot) bool { return x.Key == req.Key })
		if len(next.Accepted) >= maxAccepted {
			return refuse(wire.CodeNotRecorded, "too many exceptions are remembered")
		}
		next.Accepted = append(next.Accepted, AcceptedInBoot{made, a.cfg.Boot})
		if err := next.fits(); err != nil {
			return notRecorded(err)
		}
		return a.commit(next)
	})
	return made, err
}

// seal confirms a proof in this instant: made by this host in this boot, not
// old, and the host is as it says. From then on nothing is admitted, nothing
// lifted and nothing done here, until the boot ends or the seal is lifted.
func (a *Agent) seal(ctx context.Context, c Caller, req wire.SealRequest) (reply wire.SealReply, err error) {
	if err := a.checkMachine(req.Machine, true); err != nil {
		return reply, err
	}
	switch req.Terminator {
	case "command", "poweroff", "release":
	default:
		return reply, refuse(wire.CodeBadRequest, "terminator: want command, poweroff or release")
	}
	doc, err := a.checkProof(req)
	if err != nil {
		return reply, err
	}
	f, err := a.lookAnew(ctx, true)
	if err != nil {
		return reply, err
	}
	defer a.mu.Unlock()
	err = a.audited(c, note{"seal", string(doc.Host), "drain " + doc.Drain + " nonce " + doc.Nonce + " for " + req.Terminator}, func() error {
		reply, err = a.sealNow(f, req, doc)
		return err
	})
	return reply, err
}

// checkProof checks what can be checked without looking at the host.
func (a *Agent) checkProof(req wire.SealRequest) (proof.Document, error) {
	bad := func(err error) error { return refuse(wire.CodeBadProof, err.Error()) }
	doc, err := proof.Parse(req.Proof)
	if err != nil {
		return doc, bad(err)
	}
	all, err := a.signers()
	if err != nil {
		return doc, err
	}
	i := slices.IndexFunc(all, func(s ssh.Signer) bool { return ssh.FingerprintSHA256(s.PublicKey()) == doc.HostKey })
	if i < 0 {
		return doc, bad(errors.New("signed by a key that is none of this host's"))
	}
	if err := proof.Verify(req.Proof, req.Signature, all[i].PublicKey()); err != nil {
		return doc, bad(err)
	}
	issues := proof.Check(doc, proof.Expect{
		Machine: a.cfg.Machine, Boot: a.cfg.Boot, HostKey: doc.HostKey,
		BootNow: a.cfg.Clock.Boottime(), Now: a.cfg.Clock.Now(), Scoped: a.cfg.Scope != "",
	})
	if doc.Scope != a.cfg.Scope {
		issues = append(issues, fleet.Issue{Check: fleet.CheckReach, Detail: "made for another scope"})
	}
	if len(issues) > 0 {
		return doc, refuse(wire.CodeBadProof, issues[0].Detail).issues(issues)
	}
	if a.cfg.Scope != "" && req.Terminator == "command" {
		return doc, refuse(wire.CodeScoped, "this agent sees only the scope "+a.cfg.Scope+": no real machine can be terminated on its word")
	}
	return doc, nil
}

func (a *Agent) sealNow(f fleet.Facts, req wire.SealRequest, doc proof.Document) (wire.SealReply, error) {
	if drain := a.rec.sealedIn(a.cfg.Boot); drain != "" && drain != doc.Drain {
		return wire.SealReply{}, a.notSealed()
	}
	hold := a.rec.Holds.Drain
	switch {
	case hold == nil:
		return wire.SealReply{}, refuse(wire.CodeNotHeld, "drain "+doc.Drain+" no longer holds this host")
	case hold.Drain != doc.Drain:
		return wire.SealReply{}, otherDrain(hold)
	}
	// The look took time; the proof must hold now.
	if age := a.cfg.Clock.Boottime() - doc.MadeBoot; age > proof.Lifetime {
		return wire.SealReply{}, refuse(wire.CodeBadProof, fmt.Sprintf("made %v ago; it holds for %v", age, proof.Lifetime))
	}
	if issues := a.actIssues(); len(issues) > 0 {
		return wire.SealReply{}, refuse(wire.CodeChanged, issues[0].Detail).issues(issues)
	}
	if err := a.unchanged(f, doc); err != nil {
		return wire.SealReply{}, err
	}
	seal := Seal{Drain: doc.Drain, Boot: a.cfg.Boot, Who: clip(req.Who, maxText), At: a.cfg.Clock.Now()}
	if old := a.rec.Seal; old != nil && old.Boot == a.cfg.Boot {
		seal = *old // sealed for this drain before
	} else {
		next := a.rec
		next.Seal = &seal
		if err := a.commit(next); err != nil {
			return wire.SealReply{}, err
		}
	}
	return wire.SealReply{Sealed: seal.Drain, At: seal.At, Boot: seal.Boot}, nil
}

// unchanged compares the host with the proof and names what differs.
func (a *Agent) unchanged(f fleet.Facts, doc proof.Document) error {
	items := proof.Items(f)
	if proof.Digest(items) == doc.Digest {
		return nil
	}
	r := refuse(wire.CodeChanged, "the host is not as the proof says")
	before, known := a.proofs[doc.Nonce]
	if !known {
		issues := proof.Issues(f)
		issues = append(issues, fleet.Issue{Check: fleet.CheckLeft, Detail: "what changed can't be told: the agent has been restarted since the proof"})
		return r.issues(issues)
	}
	var issues []fleet.Issue
	for _, line := range proof.Diff(before, items) {
		issues = append(issues, fleet.Issue{Check: fleet.CheckLeft, Detail: line})
	}
	if len(issues) > 0 {
		r.problem.Error += ": " + issues[0].Detail
	}
	return r.issues(issues)
}

// unseal lifts the seal and nothing else.
func (a *Agent) unseal(c Caller, req wire.LiftRequest) (reply wire.SealReply, err error) {
	if err := a.checkMachine(req.Machine, false); err != nil {
		return reply, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reply = wire.SealReply{At: a.cfg.Clock.Now(), Boot: a.cfg.Boot}
	err = a.audited(c, note{"unseal", clip(req.Drain, maxID), clip(req.Why, maxText)}, func() error {
		drain := a.rec.sealedIn(a.cfg.Boot)
		if drain == "" {
			return nil
		}
		if drain != req.Drain && !req.Theirs {
			return refuse(wire.CodeOtherDrain, "the host is sealed for drain "+drain).hold(a.rec.Holds.Drain)
		}
		next := a.rec
		next.Seal = nil
		return a.commit(next)
	})
	return reply, err
}

// poweroff ends a sealed host; a scoped agent ends itself.
func (a *Agent) poweroff(c Caller, req wire.PoweroffRequest) (reply wire.SealReply, err error) {
	if err := a.checkMachine(req.Machine, true); err != nil {
		return reply, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err = a.audited(c, note{"poweroff", clip(req.Drain, maxID), "by " + clip(req.Who, maxText)}, func() error {
		drain := a.rec.sealedIn(a.cfg.Boot)
		if drain == "" || drain != req.Drain {
			return refuse(wire.CodeNotHeld, "the host is not sealed for drain "+clip(req.Drain, maxID)).hint("seal it with its proof first")
		}
		if open := openTickets(a.tickets); len(open) > 0 {
			return a.noTickets()
		}
		reply = wire.SealReply{Sealed: drain, At: a.rec.Seal.At, Boot: a.cfg.Boot}
		return a.cfg.Poweroff()
	})
	return reply, err
}
