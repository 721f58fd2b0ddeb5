package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"ebb/fleet"
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
	// Exec runs the command line; nil runs it on this machine, apart from the
	// terminal, to its end.
	Exec func(ctx context.Context, argv []string) error
	// Quiet is how long a host that was powered off must stay silent to count as
	// gone; zero is 30 seconds.
	Quiet time.Duration
}

// Gone reports whether a host that was powered off no longer answers.
type Gone func(ctx context.Context, host fleet.HostID) bool

// check says what is missing for a terminator to run at all.
func (t Terminator) check(gone Gone) error {
	switch {
	case t.Type == "command" && t.Argv == nil:
		return errors.New("no terminator is configured: set run in [terminate] of fleet.toml")
	case t.Type == "release" && t.To == "":
		return errors.New("the terminator is release, and nobody is named who takes the host")
	case t.Type == "poweroff" && gone == nil:
		return errors.New("nobody can tell whether the host is gone")
	case t.Type != "command" && t.Type != "release" && t.Type != "poweroff":
		return fmt.Errorf("unknown terminator %q", t.Type)
	}
	return nil
}

// resolve returns the command line; types that run none have none.
func (t Terminator) resolve(h fleet.Host) ([]string, error) {
	if t.Type != "command" {
		return nil, nil
	}
	argv, err := t.Argv(h)
	if err == nil && (len(argv) == 0 || argv[0] == "") {
		err = errors.New("the terminator names no command")
	}
	return argv, err
}

// errCutShort says that nobody knows what became of a terminator.
var errCutShort = errors.New("cut short: find out what became of it, then settle it")

// CutShort is a terminate of which nobody knows what became.
type CutShort struct{ Host fleet.HostID }

func (e *CutShort) Error() string { return fmt.Sprintf("terminate %s: %v", e.Host, errCutShort) }

// Hint says how it is settled.
func (e *CutShort) Hint() string { return settleIt(e.Host) }

// settleIt is what to type once a person has found out what became of a terminate.
func settleIt(host fleet.HostID) string {
	return "once you know: ebb terminate " + host.Name() + " --outcome done --confirm " + host.Name() + ", or --outcome failed"
}

func (e *Engine) runTerminator(ctx context.Context, host fleet.HostID, t Terminator, p prepared, gone Gone) error {
	switch t.Type {
	case "command":
		if t.Exec != nil {
			return t.Exec(ctx, p.run)
		}
		return runCommand(ctx, p.run)
	case "release":
		return nil // the journal names who took the host
	}
	err := p.agent.Poweroff(ctx, p.doc.Drain, e.cfg.Actor.Name, p.doc.Machine)
	if final(err) {
		return err
	}
	// Without an answer the host may be going down all the same.
	if serr := stayedGone(ctx, host, gone, cmp.Or(t.Quiet, poweroffQuiet)); serr != nil {
		return errors.Join(err, serr)
	}
	return nil
}

// runCommand runs a terminator to its end. Once begun it is not cut short by a
// key: it runs apart from the terminal.
func runCommand(ctx context.Context, run []string) error {
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
		away := gone(ctx, host)
		switch {
		case ctx.Err() != nil: // its answer may be that of the end
			return errCutShort
		case !away:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= quiet:
			return nil
		}
		if !pause(ctx, time.Second) {
			return errCutShort
		}
	}
	return fmt.Errorf("%s still answers %s after it was told to power off", host, poweroffWait)
}
