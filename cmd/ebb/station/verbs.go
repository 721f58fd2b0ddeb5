package station

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/tui/feed"
)

var _ feed.Verbs = (*Console)(nil)

// kept is the proof of the last verify of a host.
type kept struct {
	signed engine.SignedProof
	path   string
}

var errReadOnly = errors.New("this console is read-only: it was opened with --read-only")

func (c *Console) may() error {
	if c.readOnly {
		return errReadOnly
	}
	return nil
}

// Focus implements feed.Verbs.
func (c *Console) Focus(hosts ...fleet.HostID) { c.Observer.Focus(hosts...) }

// Cordon implements feed.Verbs. A cordon that reaches only one side goes on
// being retried for as long as the console is open.
func (c *Console) Cordon(ctx context.Context, host fleet.HostID, reason string) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	r, err := c.Engine.Cordon(ctx, host, reason, false, nil)
	if err != nil {
		if r.State == fleet.HostOnly || r.State == fleet.PlaneOnly {
			c.wg.Go(func() { c.retryCordon(host, reason) })
			return "", fmt.Errorf("%w; retrying while this console is open", shown(err))
		}
		return "", shown(err)
	}
	c.wg.Go(func() { // proves itself; the screens show how far it is
		pctx, cancel := context.WithTimeout(c.ctx, 5*time.Minute)
		defer cancel()
		if _, err := c.Engine.Cordon(pctx, host, reason, true, nil); err != nil && c.ctx.Err() == nil {
			c.log.Warn("cordon not proved", "host", host, "error", err)
		}
	})
	text := "plane and host are told; it is being proved"
	if r.Theirs != "" {
		text += " (" + r.Theirs + " had set the plane's flag before)"
	}
	if r.Journal != "" {
		text += "; the journal does not know it yet"
	}
	return text, nil
}

// Reword implements feed.Verbs.
func (c *Console) Reword(ctx context.Context, host fleet.HostID, reason string) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	if err := c.Engine.Reword(ctx, host, reason); err != nil {
		return "", shown(err)
	}
	return "the cordon stays; its reason is now: " + reason, nil
}

func (c *Console) retryCordon(host fleet.HostID, reason string) {
	for c.ctx.Err() == nil {
		if v, ok := c.snapshot(host); ok && v.Cordon == fleet.Uncordoned && v.Unreachable.IsZero() {
			return // somebody uncordoned it
		}
		r, err := c.Engine.Cordon(c.ctx, host, reason, true, nil)
		if err == nil || r.Missing() == "" {
			return
		}
		select { // an answer that is final comes at once, and may be another later
		case <-c.ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

func (c *Console) snapshot(host fleet.HostID) (fleet.HostView, bool) {
	snap, _ := c.Observer.Latest()
	return snap.Host(host)
}

// Uncordon implements feed.Verbs.
func (c *Console) Uncordon(ctx context.Context, host fleet.HostID, theirs bool) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	left, err := c.Engine.Uncordon(ctx, host, "", theirs)
	if err != nil {
		return "", shown(err)
	}
	switch {
	case left.Nothing:
		return "it was not cordoned any more: there was nothing to lift", nil
	case left.Drain != nil:
		return "the cordon is lifted; the drain still holds it" + c.giveBack(ctx, host, left.Holds), nil
	}
	return "serving" + c.giveBack(ctx, host, left.Holds), nil
}

// giveBack resumes what is parked on a host from which the last hold was lifted, and
// says what is parked there where another is left.
func (c *Console) giveBack(ctx context.Context, host fleet.HostID, left fleet.Holds) string {
	if c.Journal == nil {
		return ""
	}
	s, err := c.Engine.State(ctx, host)
	switch {
	case err != nil: // the hold is lifted all the same
		return "; whether anything is parked here is not known: " + shown(err).Error()
	case len(s.Parked()) == 0:
		return ""
	case left.Any():
		return "; parked until it is resumed: " + keyNames(s.Parked())
	}
	keys, err := c.Engine.Resume(ctx, host, fleet.Key{})
	if err != nil {
		return "; what is parked here was not resumed: " + shown(err).Error()
	}
	c.drive(host)
	return "; resuming " + keyNames(keys)
}

func keyNames(keys []fleet.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = k.String()
	}
	return strings.Join(all, ", ")
}

// Plan implements feed.Verbs.
func (c *Console) Plan(ctx context.Context, host fleet.HostID, r feed.Request) (drain.Plan, error) {
	p, err := c.Engine.Plan(ctx, host, engine.Request(r))
	return p, shown(err)
}

// Drain implements feed.Verbs.
func (c *Console) Drain(ctx context.Context, host fleet.HostID, r feed.Request, plan drain.Plan) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	id, resumed, err := c.Engine.Start(ctx, host, engine.Request(r), plan)
	if err != nil {
		return "", shown(err)
	}
	c.drive(host)
	if resumed {
		return "drain " + id + " is taken up again", nil
	}
	return "drain " + id + " has begun", nil
}

// drive runs the host's drain in this process until it ends or Stop is called. One
// that was stopped and has not ended yet is waited for.
func (c *Console) drive(host fleet.HostID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, on := c.driving[host]
	if on && !before.stopped {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	d := &underway{stop: cancel, ended: make(chan struct{})}
	c.driving[host] = d
	c.wg.Go(func() {
		defer close(d.ended)
		if on {
			<-before.ended
		}
		_, err := c.Engine.Drive(ctx, host, nil)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("drive ended", "host", host, "error", err)
		}
		cancel()
		c.mu.Lock()
		if c.driving[host] == d {
			delete(c.driving, host)
		}
		c.poke()
		c.mu.Unlock()
	})
}

// Undrain implements feed.Verbs.
func (c *Console) Undrain(ctx context.Context, host fleet.HostID) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	c.stopDriving(host)
	left, err := c.Engine.Undrain(ctx, host, false)
	if err != nil {
		return "", shown(err)
	}
	if left.Nothing {
		return "no drain holds it: there was nothing to lift", nil
	}
	if left.Cordon != nil {
		return "the drain hold is lifted; the cordon stays" + c.giveBack(ctx, host, left.Holds), nil
	}
	return "the drain hold is lifted" + c.giveBack(ctx, host, left.Holds), nil
}

// Ask implements feed.Verbs. An ask that gives an ended drain something to do
// again is driven by this process.
func (c *Console) Ask(ctx context.Context, host fleet.HostID, ask drain.Body) error {
	if err := c.may(); err != nil {
		return err
	}
	word, handover := ask.(drain.AskHandover)
	if host == feed.Shift {
		if !handover {
			return fmt.Errorf("%s: not about a host", ask.Kind())
		}
		return shown(c.Engine.Ask(ctx, host, "", ask))
	}
	s, err := c.Engine.State(ctx, host)
	if err != nil {
		return shown(err)
	}
	if handover && word.To == c.Actor.Name && s.Drain != "" && !s.Over() {
		return shown(c.takeOver(ctx, host, s, word))
	}
	if resume, ok := ask.(drain.AskResume); ok {
		if _, err := c.Engine.Resume(ctx, host, resume.Key); err != nil {
			return shown(err)
		}
		c.drive(host)
		return nil
	}
	s.Host = host // that of a host without a drain is not set
	if err := c.Engine.AskOf(ctx, s, ask); err != nil {
		return shown(err)
	}
	switch ask.(type) {
	case drain.AskExtend, drain.AskEscalate, drain.AskRetry, drain.AskClass, drain.AskTargetGone:
		c.drive(host) // where another driver has it, and lives, this ends at once
	}
	return nil
}

// Clean implements feed.Verbs.
func (c *Console) Clean(ctx context.Context, host fleet.HostID, r fleet.Resource) (string, error) {
	if err := c.may(); err != nil {
		return "", err
	}
	v, err := c.Observer.Look(ctx, host)
	if err != nil {
		return "", shown(err)
	}
	if v.Facts.Status != fleet.OK {
		return "", fmt.Errorf("clean %s: the host can't be read: %s", r.Key, v.Facts.Error)
	}
	answer, err := c.Engine.Clean(ctx, host, r, v.Facts.Value.Machine)
	if err != nil {
		return "", shown(err)
	}
	if answer.Result != drain.Done {
		return "", fmt.Errorf("clean %s: %s", r.Key, answer.Detail)
	}
	return r.Key.String() + " is gone", nil
}

// Check implements feed.Verbs.
func (c *Console) Check(ctx context.Context, host fleet.HostID) (feed.Gate, error) {
	ver, v, _, err := c.Engine.Check(ctx, host)
	if err != nil {
		return feed.Gate{}, shown(err)
	}
	return c.gate(ver, v.Source), nil
}

// Verify implements feed.Verbs. The proof is written to the state directory, so
// that it outlives the console.
func (c *Console) Verify(ctx context.Context, host fleet.HostID) (feed.Gate, error) {
	if err := c.may(); err != nil {
		return feed.Gate{}, err
	}
	ver, err := c.Engine.Verify(ctx, host, c.Actor.Name)
	if err != nil {
		return feed.Gate{}, shown(err)
	}
	v, _ := c.snapshot(host)
	g := c.gate(ver, v)
	if ver.Proof == nil {
		return g, nil
	}
	path, err := writeProof(c.getenv, host, ver.Doc.Drain, *ver.Proof)
	if err != nil {
		return g, err
	}
	g.Proof = &feed.Proof{Path: path, Digest: ver.Doc.Digest, Made: ver.Doc.Made, Expires: ver.Doc.Expires, Scope: ver.Doc.Scope}
	c.mu.Lock()
	c.proofs[host] = kept{signed: *ver.Proof, path: path}
	c.mu.Unlock()
	return g, nil
}

func (c *Console) gate(ver engine.Verification, v fleet.HostView) feed.Gate {
	g := feed.Gate{Host: ver.Host, At: ver.At, Issues: ver.Issues, Probes: ver.Probes, Command: c.terminatorText()}
	if holds, _, ok := v.Holds(); ok {
		g.Holds = holds
	}
	if t := c.Terminator(""); t.Type == "command" {
		argv, err := t.Argv(v.Host)
		if g.Command = strings.Join(argv, " "); err != nil {
			g.Command = err.Error()
		}
	}
	if f, ok := v.Facts.Get(); ok {
		for _, p := range f.Processes.Value {
			if p.Kept != "" {
				g.Kept = append(g.Kept, p.Comm)
			}
		}
	}
	return g
}

// Accept implements feed.Verbs.
func (c *Console) Accept(ctx context.Context, host fleet.HostID, key fleet.Key, reason, typed string) error {
	if err := c.may(); err != nil {
		return err
	}
	return shown(c.Engine.Accept(ctx, host, key, reason, typed))
}

// Terminate implements feed.Verbs.
func (c *Console) Terminate(ctx context.Context, host fleet.HostID, typed string) error {
	if err := c.may(); err != nil {
		return err
	}
	if typed != host.Name() {
		return fmt.Errorf("terminate %s: %q was typed", host.Name(), typed)
	}
	c.mu.Lock()
	p, ok := c.proofs[host]
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("terminate %s: there is no proof yet: verify it first", host.Name())
	}
	// A released host goes to whoever released it: the console has nobody else's name.
	return shown(c.Engine.Terminate(ctx, host, p.signed, c.Terminator(c.Actor.Name), c.Gone))
}

func (c *Console) stopDriving(host fleet.HostID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, on := c.driving[host]; on {
		d.end()
	}
}

// Stop implements feed.Verbs. The screen is left at once; the drives end behind
// it, in HandOver, where there is time to ask who takes them.
func (c *Console) Stop() {}

func (c *Console) stopAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.driving {
		d.end()
	}
}
