package levers

import (
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
	// Witness looks, by other means than the lever's, whether a step stands; known
	// is false where that can't be told. Without one, a lever that only says that
	// it has done something is believed.
	Witness func(ctx context.Context, s drain.Step) (stands, known bool, err error)
	Report  func(Check)

	only string                // the one check that is made
	mid  func(context.Context) // returns once the program is in the middle of a step
}

// Check is one thing that a lever keeps to, or does not.
type Check struct {
	Name    string
	Err     error // nil: it does
	Skipped bool  // it was not tried, and Err says why
}

// The names of what is checked; those of steps have the step's name before them.
const (
	checkPlan     = "answers plan for every step, and does nothing"
	checkOp       = "does not do what it does not know: an op"
	checkStep     = "does not do what it does not know: a step"
	checkNever    = "status of an act that never began is failed"
	checkNothing  = "undo of what was never done is done"
	checkKilled   = "is killed in mid-do: status tells what became of it, and do ends well"
	checkTerm     = "ends on TERM within five seconds"
	checkGroup    = "leaves nothing in its process group"
	checkDo       = "is done, again with the same act, and by another driver"
	checkEpoch    = "refuses an older epoch"
	checkNoReturn = "is not taken back after no_return"
	checkUndo     = "is taken back, twice, and an act of it is failed then"
)

// A trial ends where nothing that follows would mean anything.
var (
	errNotTried = errors.New("not tried: something before it did not hold")
	errFinal    = errors.New("not tried: a step can't be taken back any more")
	errStuck    = errors.New("it does not come to an end")
)

// Conform runs the trial and reports whether everything held.
func (t Trial) Conform(ctx context.Context) bool {
	c := &conform{Trial: t, id: fmt.Sprintf("try-%x", time.Now().UnixNano()), epoch: 7}
	c.Wait, c.Poll = or(c.Wait, 2*time.Minute), or(c.Poll, 500*time.Millisecond)
	c.over = !c.check(checkPlan, func() error { return c.plans(ctx) })
	c.check(checkOp, func() error { return c.unknown(ctx, "no-such-op", c.Steps[0]) })
	c.check(checkStep, func() error { return c.unknown(ctx, "do", "no-such-step") })
	c.check(checkNever, func() error { return c.neverBegan(ctx) })
	c.check(checkNothing, func() error { return c.undoNothing(ctx) })
	c.check(checkKilled, func() error { return c.killed(ctx) })
	c.check(checkTerm, func() error { return c.term(ctx) })
	c.check(checkGroup, func() error { return c.group(ctx) })
	c.forward(ctx)
	c.check(checkEpoch, func() error { return c.olderEpoch(ctx) })
	c.back(ctx)
	return !c.bad
}

type conform struct {
	Trial
	id    string
	epoch uint64
	n     int
	state json.RawMessage
	done  []stood
	final bool       // a step can't be taken back any more
	last  drain.Step // that step
	over  bool       // what is left is not tried
	bad   bool
}

// stood is a step that was done, and the acts by which it was.
type stood struct {
	step drain.Step
	acts []string
}

func (c *conform) check(name string, fn func() error) bool {
	if c.only != "" && c.only != name {
		return true
	}
	if c.over {
		c.Report(Check{Name: name, Err: errNotTried, Skipped: true})
		return false
	}
	err := fn()
	if errors.Is(err, errFinal) || errors.Is(err, errNotTried) {
		c.Report(Check{Name: name, Err: err, Skipped: true})
		return true
	}
	c.bad = c.bad || err != nil
	c.over = c.over || errors.Is(err, errStuck)
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

// about asks what became of an act.
func (c *conform) about(act string, step drain.Step) Request {
	r := c.ask(string(drain.OpStatus), step)
	r.Of, r.Act = act, ""
	return r
}

// settle asks until an act no longer runs.
func (c *conform) settle(ctx context.Context, r Request, reply Reply) (Reply, error) {
	for end := time.Now().Add(c.Wait); reply.Result == drain.RunningAct || reply.Result == drain.WaitAct; {
		if time.Now().After(end) {
			return reply, fmt.Errorf("%w: it still answers %s after %s: %s", errStuck, reply.Result, c.Wait, reply.Progress)
		}
		if !pause(ctx, c.Poll) {
			return reply, ctx.Err()
		}
		next := r
		if reply.Result == drain.RunningAct && r.Op == string(drain.OpDo) {
			next.Op, next.Of, next.Act = string(drain.OpStatus), r.Act, ""
		}
		var err error
		if reply, err = c.Program.Call(ctx, next); err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// want asks, waits for the end of what was asked, and compares.
func (c *conform) want(ctx context.Context, r Request, want ...drain.Result) (Reply, error) {
	reply, err := c.Program.Call(ctx, r)
	if err == nil {
		reply, err = c.settle(ctx, r, reply)
	}
	if err != nil {
		return reply, err
	}
	if !slices.Contains(want, reply.Result) {
		return reply, fmt.Errorf("%s %s: it answers %s (%s), want %v", r.Op, r.Step, reply.Result, reply.Reason.Text+reply.Reason.Code, want)
	}
	if r.Op == string(drain.OpDo) && reply.Result == drain.Done {
		if reply.NoReturn && !c.final {
			c.final, c.last = true, r.Step
		}
		c.keep(reply)
		err = c.stands(ctx, r.Step, true)
	}
	return reply, err
}

func (c *conform) keep(r Reply) {
	if len(r.State) > 0 {
		c.state = r.State
	}
}

// stands asks the witness, if there is one.
func (c *conform) stands(ctx context.Context, s drain.Step, want bool) error {
	if c.Witness == nil {
		return nil
	}
	stands, known, err := c.Witness(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("witness of %s: %w", s, err)
	case known && stands && !want:
		return fmt.Errorf("the witness says that %s stands, and it should not", s)
	case known && !stands && want:
		return fmt.Errorf("the witness says that %s does not stand", s)
	}
	return nil
}

// plans asks for each step, and looks that nothing has come of it.
func (c *conform) plans(ctx context.Context) error {
	for _, s := range c.Steps {
		r := c.ask(string(drain.OpPlan), s)
		reply, err := c.Program.Call(ctx, r)
		if err != nil {
			return err
		}
		if !slices.Contains([]drain.Result{drain.Done, drain.WaitAct, drain.Refused}, reply.Result) {
			return fmt.Errorf("plan %s: it answers %s, want done, wait or refused", s, reply.Result)
		}
		if reply.Result != drain.Done && reply.Reason.IsZero() {
			return fmt.Errorf("plan %s: it answers %s without a reason", s, reply.Result)
		}
		if _, err := c.want(ctx, c.about(r.Act, s), drain.FailedAct); err != nil {
			return fmt.Errorf("what plan asked about is not to be begun: %w", err)
		}
		if err := c.stands(ctx, s, false); err != nil {
			return err
		}
	}
	return nil
}

func (c *conform) unknown(ctx context.Context, op string, s drain.Step) error {
	_, err := c.want(ctx, c.ask(op, s), drain.Refused, drain.FailedAct)
	return err
}

func (c *conform) neverBegan(ctx context.Context) error {
	_, err := c.want(ctx, c.about(c.id+"/never", c.Steps[0]), drain.FailedAct)
	return err
}

func (c *conform) undoNothing(ctx context.Context) error {
	_, err := c.want(ctx, c.ask(string(drain.OpUndo), c.Steps[0]), drain.Done)
	return err
}

// forward does each step twice with one act, then as another driver would, and
// asks.
func (c *conform) forward(ctx context.Context) {
	broken := false
	for _, s := range c.Steps {
		if !c.check(string(s)+" "+checkDo, func() error { return c.twice(ctx, s, broken) }) {
			broken = true // what was done is to be taken back all the same
		}
	}
}

func (c *conform) twice(ctx context.Context, s drain.Step, broken bool) error {
	switch {
	case c.final:
		return errFinal
	case broken:
		return errNotTried
	}
	r := c.ask(string(drain.OpDo), s)
	c.done = append(c.done, stood{step: s, acts: []string{r.Act}}) // it may have begun, whatever it answers
	if _, err := c.want(ctx, r, drain.Done); err != nil {
		return err
	}
	if _, err := c.want(ctx, r, drain.Done); err != nil {
		return fmt.Errorf("the same act again: %w", err)
	}
	if _, err := c.want(ctx, c.about(r.Act, s), drain.Done); err != nil {
		return fmt.Errorf("asked about it: %w", err)
	}
	c.epoch++
	other := c.ask(string(drain.OpDo), s)
	last := &c.done[len(c.done)-1]
	last.acts = append(last.acts, other.Act)
	if _, err := c.want(ctx, other, drain.Done); err != nil {
		return fmt.Errorf("by another driver: %w", err)
	}
	return nil
}

func (c *conform) olderEpoch(ctx context.Context) error {
	r := c.ask(string(drain.OpDo), c.Steps[0])
	r.Epoch = c.epoch - 1
	_, err := c.want(ctx, r, drain.Refused)
	return err
}

// back takes everything back, each step twice, in reverse order. What has passed
// its return must stand.
func (c *conform) back(ctx context.Context) {
	if c.final {
		c.check(string(c.last)+" "+checkNoReturn, func() error {
			_, err := c.want(ctx, c.ask(string(drain.OpUndo), c.last), drain.Refused, drain.FailedAct)
			if err == nil {
				err = c.stands(ctx, c.last, true)
			}
			return err
		})
		return
	}
	for _, s := range slices.Backward(c.done) {
		c.check(string(s.step)+" "+checkUndo, func() error { return c.undo(ctx, s) })
	}
	c.done, c.state = nil, nil
}

func (c *conform) undo(ctx context.Context, s stood) error {
	for range 2 {
		reply, err := c.want(ctx, c.ask(string(drain.OpUndo), s.step), drain.Done)
		if err != nil {
			return err
		}
		c.keep(reply)
	}
	for _, act := range s.acts {
		if _, err := c.want(ctx, c.about(act, s.step), drain.FailedAct); err != nil {
			return fmt.Errorf("asked about an act that has been taken back: %w", err)
		}
	}
	return c.stands(ctx, s.step, false)
}

// started begins a call and hands its process over once it runs.
func (c *conform) started(r Request) (*exec.Cmd, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := c.Program.command(append(in, '\n'))
	return cmd, cmd.Start()
}

// midway lets a call come to the middle of its step, as far as that can be known.
func (c *conform) midway(ctx context.Context, after time.Duration) {
	pause(ctx, after)
	if c.mid != nil {
		c.mid(ctx)
	}
}

// killed ends the program with KILL at several moments of its first step.
func (c *conform) killed(ctx context.Context) error {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond, 150 * time.Millisecond} {
		if c.final {
			return nil
		}
		r := c.ask(string(drain.OpDo), c.Steps[0])
		cmd, err := c.started(r)
		if err != nil {
			return err
		}
		c.midway(ctx, after)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if err := c.recovers(ctx, r); err != nil {
			return fmt.Errorf("killed after %s: %w", after, err)
		}
	}
	return nil
}

// recovers asks about an act that was cut short, does it anew, and takes it back.
func (c *conform) recovers(ctx context.Context, r Request) error {
	reply, err := c.want(ctx, c.about(r.Act, r.Step), drain.Done, drain.FailedAct)
	if err == nil && reply.Result == drain.Done {
		err = c.stands(ctx, r.Step, true)
	}
	if err != nil {
		return err
	}
	if _, err := c.want(ctx, c.ask(string(drain.OpDo), r.Step), drain.Done); err != nil {
		return fmt.Errorf("asked again: %w", err)
	}
	if c.final {
		return nil
	}
	if _, err := c.want(ctx, c.ask(string(drain.OpUndo), r.Step), drain.Done); err != nil {
		return fmt.Errorf("done, and undone: %w", err)
	}
	c.state = nil
	return c.stands(ctx, r.Step, false)
}

func (c *conform) term(ctx context.Context) error {
	if c.final {
		return errFinal
	}
	r := c.ask(string(drain.OpDo), c.Steps[0])
	cmd, err := c.started(r)
	if err != nil {
		return err
	}
	c.midway(ctx, 20*time.Millisecond)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t := time.NewTimer(or(c.Program.Grace, termGrace))
	defer t.Stop()
	select {
	case <-ended:
		sweep(cmd.Process.Pid, 0)
	case <-t.C:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		err = errors.New("it does not: it had to be killed")
	}
	return errors.Join(err, c.recovers(ctx, r))
}

// group looks what a call leaves behind in the group that it leads.
func (c *conform) group(ctx context.Context) error {
	if c.final {
		return errFinal
	}
	r := c.ask(string(drain.OpDo), c.Steps[0])
	cmd, err := c.started(r)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t := time.NewTimer(or(c.Program.Timeout, time.Minute))
	defer t.Stop()
	select {
	case <-ended:
		if sweep(cmd.Process.Pid, leaveGroup) {
			err = errors.New("something was left there, and was killed: what is to go on needs a session of its own")
		}
	case <-t.C:
		c.Program.end(cmd.Process.Pid, ended)
		err = ErrTimeout
	}
	return errors.Join(err, c.recovers(ctx, r))
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
