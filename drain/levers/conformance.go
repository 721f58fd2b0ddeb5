package levers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"ebb/drain"
)

// Trial tries a lever out against the contract, with a workload that may be moved
// to and fro: every step is done for real, and taken back.
type Trial struct {
	Program Program
	Sample  Request      // workload, source and target; the rest is filled in
	Steps   []drain.Step // in their order
	Wait    time.Duration
	Poll    time.Duration
	Report  func(Check)
}

// Check is one thing that a lever keeps to, or does not.
type Check struct {
	Name string
	Err  error // nil: it does
}

// errStop ends a trial whose later checks would mean nothing.
var errStop = errors.New("not tried: an earlier step did not get done")

// Conform runs the trial and reports whether everything held.
func (t Trial) Conform(ctx context.Context) bool {
	c := &conform{Trial: t, id: fmt.Sprintf("try-%x", time.Now().UnixNano()), epoch: 7}
	c.Wait, c.Poll = or(c.Wait, 2*time.Minute), or(c.Poll, 500*time.Millisecond)
	c.check("answers plan", func() error { return c.plan(ctx) })
	c.check("does not do what it is not asked: an unknown op", func() error { return c.unknownOp(ctx) })
	c.check("status of an act that never began is no success", func() error { return c.neverBegan(ctx) })
	c.check("undo of what was never done is done", func() error { return c.undoNothing(ctx) })
	c.forward(ctx)
	c.check("refuses an older epoch", func() error { return c.olderEpoch(ctx) })
	c.back(ctx)
	c.check("is killed in mid-do: status tells what became of it, and do ends well", func() error { return c.killed(ctx) })
	c.check("ends on TERM within five seconds", func() error { return c.term(ctx) })
	c.cleanUp(ctx)
	return !c.bad
}

type conform struct {
	Trial
	id    string
	epoch uint64
	n     int
	state json.RawMessage
	done  []drain.Step
	final bool // a step can't be taken back any more
	bad   bool
}

func (c *conform) check(name string, fn func() error) bool {
	err := fn()
	c.bad = c.bad || err != nil
	c.Report(Check{Name: name, Err: err})
	return err == nil
}

func (c *conform) ask(op string, step drain.Step) Request {
	r := c.Sample
	c.n++
	r.Op, r.Step, r.Steps, r.Drain, r.Epoch, r.State = op, step, c.Steps, c.id, c.epoch, c.state
	r.Act = fmt.Sprintf("%s/%s/%s/%d", c.id, op, step, c.n)
	if r.Deadline.IsZero() {
		r.Deadline = time.Now().Add(time.Hour)
	}
	return r
}

// settle asks until an act no longer runs.
func (c *conform) settle(ctx context.Context, r Request, reply Reply) (Reply, error) {
	for end := time.Now().Add(c.Wait); reply.Result == drain.RunningAct || reply.Result == drain.WaitAct; {
		if time.Now().After(end) {
			return reply, fmt.Errorf("it still answers %s after %s: %s", reply.Result, c.Wait, reply.Progress)
		}
		if !pause(ctx, c.Poll) {
			return reply, ctx.Err()
		}
		next := r
		if reply.Result == drain.RunningAct && r.Op == "do" {
			next.Op, next.Of, next.Act = "status", r.Act, ""
		}
		var err error
		if reply, err = c.Program.Call(ctx, next); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// call asks and waits for the end of what was asked.
func (c *conform) call(ctx context.Context, r Request) (Reply, error) {
	reply, err := c.Program.Call(ctx, r)
	if err == nil {
		reply, err = c.settle(ctx, r, reply)
	}
	return reply, err
}

func (c *conform) want(ctx context.Context, r Request, want ...drain.Result) (Reply, error) {
	reply, err := c.call(ctx, r)
	if err != nil {
		return reply, err
	}
	if !slices.Contains(want, reply.Result) {
		return reply, fmt.Errorf("%s %s: it answers %s (%s), want %v", r.Op, r.Step, reply.Result, reply.Reason.Text+reply.Reason.Code, want)
	}
	return reply, nil
}

func (c *conform) plan(ctx context.Context) error {
	_, err := c.want(ctx, c.ask("plan", c.Steps[0]), drain.Done, drain.Refused)
	return err
}

func (c *conform) unknownOp(ctx context.Context) error {
	_, err := c.want(ctx, c.ask("no-such-op", c.Steps[0]), drain.Refused, drain.FailedAct)
	return err
}

func (c *conform) neverBegan(ctx context.Context) error {
	r := c.ask("status", c.Steps[0])
	r.Of, r.Act = c.id+"/never", ""
	reply, err := c.Program.Call(ctx, r)
	if err == nil && reply.Result != drain.FailedAct {
		err = fmt.Errorf("it answers %s, want failed", reply.Result)
	}
	return err
}

func (c *conform) undoNothing(ctx context.Context) error {
	_, err := c.want(ctx, c.ask("undo", c.Steps[0]), drain.Done)
	return err
}

// forward does each step twice with one act, then with another, and asks.
func (c *conform) forward(ctx context.Context) {
	for _, s := range c.Steps {
		if c.final {
			return // what follows can't be tried without ending something for good
		}
		if len(c.done) > 0 && c.done[len(c.done)-1] == "" {
			c.check("do "+string(s), func() error { return errStop })
			continue
		}
		ok := c.check("do "+string(s)+", again with the same act, and with another", func() error { return c.twice(ctx, s) })
		if !ok {
			s = ""
		}
		c.done = append(c.done, s)
	}
}

func (c *conform) twice(ctx context.Context, s drain.Step) error {
	r := c.ask("do", s)
	first, err := c.want(ctx, r, drain.Done)
	if err != nil {
		return err
	}
	c.final = c.final || first.NoReturn
	if _, err := c.want(ctx, r, drain.Done); err != nil {
		return fmt.Errorf("the same act again: %w", err)
	}
	c.keep(first)
	q := r
	q.Op, q.Of, q.Act, q.State = "status", r.Act, "", c.state
	if _, err := c.want(ctx, q, drain.Done); err != nil {
		return fmt.Errorf("asked about it: %w", err)
	}
	other, err := c.want(ctx, c.ask("do", s), drain.Done)
	if err != nil {
		return fmt.Errorf("another act: %w", err)
	}
	c.keep(other)
	return nil
}

func (c *conform) keep(r Reply) {
	if len(r.State) > 0 {
		c.state = r.State
	}
}

func (c *conform) olderEpoch(ctx context.Context) error {
	r := c.ask("do", c.Steps[0])
	r.Epoch = c.epoch - 1
	_, err := c.want(ctx, r, drain.Refused)
	return err
}

// back takes everything back, each step twice.
func (c *conform) back(ctx context.Context) {
	if c.final {
		return
	}
	for _, s := range slices.Backward(c.done) {
		if s == "" {
			continue
		}
		c.check("undo "+string(s)+", twice", func() error {
			for range 2 {
				reply, err := c.want(ctx, c.ask("undo", s), drain.Done)
				if err != nil {
					return err
				}
				c.keep(reply)
			}
			return nil
		})
	}
	c.done, c.state = nil, nil
}

// started begins a call and hands its process over once it runs.
func (c *conform) started(r Request) (*exec.Cmd, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Program.Run[0], c.Program.Run[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(in), time.Second
	return cmd, cmd.Start()
}

// killed ends the program with KILL at several moments of its first step.
func (c *conform) killed(ctx context.Context) error {
	if c.final {
		return nil
	}
	s := c.Steps[0]
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond, 150 * time.Millisecond} {
		r := c.ask("do", s)
		cmd, err := c.started(r)
		if err != nil {
			return err
		}
		pause(ctx, after)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		q := r
		q.Op, q.Of, q.Act = "status", r.Act, ""
		if _, err := c.want(ctx, q, drain.Done, drain.FailedAct); err != nil {
			return fmt.Errorf("killed after %s: %w", after, err)
		}
		if _, err := c.want(ctx, c.ask("do", s), drain.Done); err != nil {
			return fmt.Errorf("killed after %s, and asked again: %w", after, err)
		}
		if _, err := c.want(ctx, c.ask("undo", s), drain.Done); err != nil {
			return fmt.Errorf("killed after %s, done, and undone: %w", after, err)
		}
	}
	return nil
}

func (c *conform) term(ctx context.Context) error {
	if c.final {
		return nil
	}
	cmd, err := c.started(c.ask("do", c.Steps[0]))
	if err != nil {
		return err
	}
	pause(ctx, 20*time.Millisecond)
	began := time.Now()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(6 * time.Second):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	if took := time.Since(began); took > 5*time.Second {
		return errors.New("it does not: it had to be killed")
	}
	return nil
}

// cleanUp takes back what the last checks may have left.
func (c *conform) cleanUp(ctx context.Context) {
	if c.final {
		return
	}
	_, _ = c.call(ctx, c.ask("undo", c.Steps[0]))
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
