package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/proof"
)

// Terminator says how a host goes away: by a command, by powering it off, or by
// handing it to somebody (release), who is named.
type Terminator struct {
	Type string // command, poweroff, release
	To   string // release: who took it
	// Argv is the command with its placeholders filled from what the plane says
	// about the host; one that can't be filled is an error, because a command with
	// half its arguments must not run.
	Argv func(fleet.Host) ([]string, error)
	// Quiet is how long a host that was powered off must stay silent to count as
	// gone; zero is 30 seconds.
	Quiet time.Duration
}

// resolve returns the command line; types that run none have none.
func (t Terminator) resolve(h fleet.Host) ([]string, error) {
	if t.Type != "command" {
		return nil, nil
	}
	if t.Argv == nil {
		return nil, fmt.Errorf("no terminator is configured: set run in [terminate] of fleet.toml")
	}
	return t.Argv(h)
}

// Gone reports whether a host that was powered off no longer answers.
type Gone func(ctx context.Context, host fleet.HostID) bool

// Terminate is the irreversible verb. It takes a proof, checks it, re-reads the
// claims, has the host confirm the digest and seal itself, journals the intent,
// and runs the terminator exactly once. Any doubt on the way refuses, by name.
func (e *Engine) Terminate(ctx context.Context, host fleet.HostID, signed SignedProof, t Terminator, gone Gone) error {
	refuse := func(issues ...fleet.Issue) error {
		e.record(ctx, host, drain.RecRefused{Verb: "terminate", Issues: issues})
		return &Refused{Verb: "terminate", Host: host, Issues: issues}
	}
	if open, err := e.unresolved(ctx, host); err != nil {
		return fmt.Errorf("terminate %s: %w", host, err)
	} else if open != "" {
		return refuse(fleet.Issue{Check: fleet.CheckReach, Detail: open})
	}
	agent, err := e.cfg.Agents.Agent(ctx, host, RoleTerminate)
	if err != nil {
		return fmt.Errorf("terminate %s: %w", host, err)
	}
	doc, issues, err := e.judge(ctx, host, signed, agent.HostKey(), t)
	if err != nil {
		return fmt.Errorf("terminate %s: %w", host, err)
	}
	if len(issues) > 0 {
		return refuse(issues...)
	}
	v, err := e.cfg.Look.Look(ctx, host)
	if err != nil {
		return fmt.Errorf("terminate %s: %w", host, err)
	}
	if issues := claimsMoved(doc, v); len(issues) > 0 {
		return refuse(issues...)
	}
	run, err := t.resolve(v.Host)
	if err != nil {
		return refuse(fleet.Issue{Check: fleet.CheckReach, Detail: err.Error()})
	}
	issues, err = agent.Seal(ctx, SealAsk{SignedProof: signed, Who: e.cfg.Actor.Name, Terminator: t.Type, Machine: doc.Machine})
	if err != nil {
		return fmt.Errorf("terminate %s: seal: %w", host, err)
	}
	if len(issues) > 0 {
		return refuse(issues...)
	}
	act := uuid.NewString()
	intent := drain.RecTerminateIntent{Act: act, Type: t.Type, To: t.To, Run: run, Instance: v.Host.Instance, Digest: doc.Digest}
	if err := e.append(ctx, host, doc.Drain, 0, nil, nil, intent); err != nil {
		return fmt.Errorf("terminate %s: nothing was run: %w", host, err)
	}
	err = e.runTerminator(ctx, host, t, run, agent, doc, gone)
	if ctx.Err() != nil && err != nil {
		// Cut short: what became of it is not known, and the journal must not say
		// that it is. The intent stays open until a person settles it.
		return fmt.Errorf("terminate %s: cut short, find out what became of it: %w", host, err)
	}
	out := drain.RecTerminateOutcome{Act: act, Done: err == nil}
	if err != nil {
		out.Error = err.Error()
	}
	if lost := e.recordIn(ctx, host, doc.Drain, out); lost != "" && err == nil {
		return fmt.Errorf("terminate %s: done, and the journal does not know it: %s", host, lost)
	}
	if err != nil {
		return fmt.Errorf("terminate %s: %w", host, err)
	}
	return nil
}

// judge checks signature and document against the host as the console knows it.
func (e *Engine) judge(ctx context.Context, host fleet.HostID, signed SignedProof, key ssh.PublicKey, t Terminator) (proof.Document, []fleet.Issue, error) {
	if key == nil {
		return proof.Document{}, nil, fmt.Errorf("the SSH handshake showed no host key")
	}
	if err := proof.Verify(signed.Proof, signed.Signature, key); err != nil {
		return proof.Document{}, []fleet.Issue{{Check: fleet.CheckReach, Detail: "the proof: " + err.Error()}}, nil
	}
	doc, err := proof.Parse(signed.Proof)
	if err != nil {
		return proof.Document{}, []fleet.Issue{{Check: fleet.CheckReach, Detail: "the proof: " + err.Error()}}, nil
	}
	s, err := e.State(ctx, host)
	if err != nil {
		return doc, nil, err
	}
	expect := proof.Expect{Host: host, Machine: s.Machine, Drain: s.Drain, HostKey: ssh.FingerprintSHA256(key), Now: time.Now(), Scoped: t.Type != "command"}
	return doc, proof.Check(doc, expect), nil
}

// claimsMoved names what the claims say now that they did not say in the proof.
func claimsMoved(doc proof.Document, v fleet.HostView) []fleet.Issue {
	claims, ok := v.Claims.Get()
	if !ok {
		return []fleet.Issue{{Check: fleet.CheckClaims, Detail: "the control plane can't be read: " + v.Claims.Error}}
	}
	if proof.ClaimsDigest(claims) != doc.Asserted.Claims {
		detail := "the claims have changed since the proof was made"
		for _, c := range claims {
			if c.Phase != fleet.Gone {
				detail += "; now claimed: " + c.Key.String() + " " + string(c.Phase)
			}
		}
		return []fleet.Issue{{Check: fleet.CheckClaims, Detail: detail}}
	}
	return nil
}

// unresolved says what an earlier terminate left open, if anything. A terminator
// is never run twice: a person must find out what became of it.
func (e *Engine) unresolved(ctx context.Context, host fleet.HostID) (string, error) {
	open, done, err := e.terminations(ctx, host)
	switch {
	case err != nil:
		return "", err
	case open.Act != "":
		return fmt.Sprintf("an earlier terminate (%s, digest %.12s) has no outcome: find out what became of %q, then settle it with --outcome", open.Type, open.Digest, open.Instance), nil
	case !done.IsZero():
		return "it was terminated at " + done.UTC().Format(time.RFC3339), nil
	}
	return "", nil
}

func (e *Engine) openIntent(ctx context.Context, host fleet.HostID) (drain.RecTerminateIntent, error) {
	open, _, err := e.terminations(ctx, host)
	return open, err
}

// terminations reads the host's stream for the first intent without an outcome,
// and for when it was terminated, unless it came back into service since.
func (e *Engine) terminations(ctx context.Context, host fleet.HostID) (open drain.RecTerminateIntent, done time.Time, err error) {
	pending := map[string]drain.RecTerminateIntent{}
	var order []string
	err = e.each(ctx, host, func(ev drain.Event, body drain.Body) {
		switch b := body.(type) {
		case drain.RecTerminateIntent:
			pending[b.Act] = b
			order = append(order, b.Act)
		case drain.RecTerminateOutcome:
			delete(pending, b.Act)
			if b.Done {
				done = ev.At
			}
		case drain.AskStart:
			done = time.Time{}
		}
	})
	for _, id := range order {
		if b, is := pending[id]; is {
			return b, done, err
		}
	}
	return open, done, err
}

// Settle records what a person found out about a terminate without an outcome.
func (e *Engine) Settle(ctx context.Context, host fleet.HostID, done bool, found string) error {
	s, err := e.State(ctx, host)
	if err != nil {
		return err
	}
	open, err := e.openIntent(ctx, host)
	if err != nil {
		return err
	}
	if open.Act == "" {
		return &Refused{Verb: "settle", Host: host, Issues: []fleet.Issue{{Detail: "no terminate is without an outcome"}}}
	}
	return e.append(ctx, host, s.Drain, 0, nil, nil, drain.RecTerminateOutcome{Act: open.Act, Done: done, Error: found})
}

func (e *Engine) runTerminator(ctx context.Context, host fleet.HostID, t Terminator, run []string, agent Agent, doc proof.Document, gone Gone) error {
	switch t.Type {
	case "command":
		return runCommand(ctx, run)
	case "release":
		return nil // the journal names who took the host
	case "poweroff":
		if err := agent.Poweroff(ctx, doc.Drain, e.cfg.Actor.Name, doc.Machine); err != nil {
			return err
		}
		return stayedGone(ctx, host, gone, cmp.Or(t.Quiet, poweroffQuiet))
	}
	return fmt.Errorf("unknown terminator %q", t.Type)
}

func runCommand(ctx context.Context, run []string) error {
	// A terminator that has begun is not cut short by a key: it runs apart from
	// the terminal, to its end.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), run[0], run[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(run, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// Poweroff counts as done when the host stops answering and stays silent for
// this long.
const (
	poweroffQuiet = 30 * time.Second
	poweroffWait  = 5 * time.Minute
)

func stayedGone(ctx context.Context, host fleet.HostID, gone Gone, quiet time.Duration) error {
	limit := time.Now().Add(poweroffWait)
	var since time.Time
	for time.Now().Before(limit) {
		switch {
		case !gone(ctx, host):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= quiet:
			return nil
		}
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s still answers %s after it was told to power off", host, poweroffWait)
}
