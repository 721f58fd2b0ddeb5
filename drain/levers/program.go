package levers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Program is one executable lever. Each call is a process in a group of its own,
// and what it leaves in that group is killed when it ends. What it leaves in other
// sessions is not waited for.
type Program struct {
	Name    string
	Run     []string      // Run[0] is an absolute path
	Timeout time.Duration // of one call; default a minute
	Grace   time.Duration // between TERM and KILL after that; default 5s
	Linger  time.Duration // how long pipes that a fork keeps open are waited for; default 1s
}

// minStatus is the least that a lever gets to say what became of an act.
const minStatus = 10 * time.Second

// ErrTimeout says that a lever did not answer in time and was ended.
var ErrTimeout = errors.New("it did not answer in time")

// Call asks the program one question. An error means that it did not answer as
// the contract says; ErrTimeout that it was ended.
func (p Program) Call(ctx context.Context, r Request) (Reply, error) {
	in, err := json.Marshal(r)
	if err != nil {
		return Reply{}, fmt.Errorf("lever %s: %w", p.Name, err)
	}
	limit := or(p.Timeout, time.Minute)
	switch r.Op {
	case string(drain.OpStatus): // after a timeout its answer is all that is known of an act
		limit = max(limit, minStatus)
	case string(drain.OpPlan):
		limit = min(limit, MaxPlan)
	}
	out, err := p.run(ctx, append(in, '\n'), limit)
	if err != nil {
		return Reply{}, fmt.Errorf("lever %s: %s %s: %w", p.Name, r.Op, r.Step, err)
	}
	reply, err := ParseReply(out)
	if err != nil {
		return Reply{}, fmt.Errorf("lever %s: %s %s: %w", p.Name, r.Op, r.Step, err)
	}
	return reply, nil
}

// run starts the program and reads what it says. On timeout, on too much output
// and when the context ends the whole group gets TERM, and KILL after the grace.
func (p Program) run(ctx context.Context, in []byte, limit time.Duration) ([]byte, error) {
	if len(p.Run) == 0 {
		return nil, errors.New("it names no program")
	}
	call, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	stdout := &capped{over: make(chan struct{})}
	stderr := &tailWriter{}
	cmd := p.command(in)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		sweep(cmd.Process.Pid, leaveGroup)
		return stdout.buf, exitError(err, stdout, stderr)
	case <-stdout.over:
		p.end(cmd.Process.Pid, ended)
		return nil, errTooMuch
	case <-call.Done():
		p.end(cmd.Process.Pid, ended)
		return nil, withTail(context.Cause(call), stderr)
	}
}

var errTooMuch = fmt.Errorf("it answered more than %d bytes", MaxReply)

// command is one call, not yet started.
func (p Program) command(in []byte) *exec.Cmd {
	cmd := exec.Command(p.Run[0], p.Run[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(in), or(p.Linger, time.Second)
	return cmd
}

// end tells the whole group of a call to end. One whose leader does so at once,
// as a shell does around the program that it runs, has the grace all the same.
func (p Program) end(pid int, ended <-chan error) {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	until := time.Now().Add(or(p.Grace, termGrace))
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-ended:
		sweep(pid, time.Until(until))
	case <-t.C:
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		<-ended
	}
}

// termGrace is the time between TERM and KILL.
const termGrace = 5 * time.Second

// leaveGroup is how long a program that was started in the background may take to
// come into a session of its own, once the call that started it has ended.
const leaveGroup = 2 * time.Second

// sweep waits until nothing is left of a group whose leader has ended, and kills
// what is left after the grace; it reports whether it had to. The number of
// a group that has members is not given out anew.
func sweep(pid int, grace time.Duration) (killed bool) {
	until := time.Now().Add(grace)
	for syscall.Kill(-pid, 0) == nil {
		if !time.Now().Before(until) {
			return syscall.Kill(-pid, syscall.SIGKILL) == nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func exitError(err error, stdout *capped, stderr *tailWriter) error {
	if stdout.full {
		return errTooMuch
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // a fork kept the pipes: the answer is there all the same
		return nil
	}
	return withTail(err, stderr)
}

func withTail(err error, stderr *tailWriter) error {
	if said := strings.TrimSpace(stderr.String()); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

func or(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// capped keeps the first MaxReply bytes, and says once that there are more.
type capped struct {
	buf  []byte
	over chan struct{}
	once sync.Once
	full bool
}

func (c *capped) Write(p []byte) (int, error) {
	if len(c.buf)+len(p) > MaxReply {
		c.full = true
		c.once.Do(func() { close(c.over) })
		return len(p), nil
	}
	c.buf = append(c.buf, p...)
	return len(p), nil
}

// Programs are the levers of a fleet, as one lever of the engine.
type Programs struct {
	By map[string]Program
	// Host finds what a plane says about a host, for its address.
	Host func(context.Context, fleet.HostID) (fleet.Host, error)
}

// Do asks the act's lever to do, undo or tell what an act asks for. One that does
// not answer in time is asked what became of it; one that answers nonsense has
// failed.
func (l Programs) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	p, ok := l.By[j.Act.Lever]
	if !ok {
		return drain.Answer{Result: drain.Refused, Reason: fleet.Because(drain.WaitNoLever, "lever", j.Act.Lever),
			Detail: fmt.Sprintf("lever %q is not configured here", j.Act.Lever)}, nil
	}
	reply, err := p.Call(ctx, l.request(ctx, j))
	switch {
	case err == nil:
		return reply.answer(), nil
	case ctx.Err() != nil:
		return drain.Answer{}, err // ended with its driver: the next one asks
	case errors.Is(err, ErrTimeout) && j.Act.Op != drain.OpStatus:
		if a, known, serr := l.Status(ctx, j); serr == nil && known {
			return a, nil
		}
		return drain.Answer{Result: drain.Interrupted, Detail: err.Error()}, nil
	case j.Act.Op == drain.OpStatus:
		return drain.Answer{Result: drain.Interrupted, Detail: err.Error()}, nil // nothing is known about the act that was asked about
	}
	return drain.Answer{Result: drain.FailedAct, Detail: err.Error()}, nil
}

// Foresee asks the lever whether it could do what an act of a plan asks for, and
// with which target. It changes nothing.
func (l Programs) Foresee(ctx context.Context, j drain.Job) (drain.Answer, error) {
	p, ok := l.By[j.Act.Lever]
	if !ok {
		return drain.Answer{}, fmt.Errorf("lever %q is not configured here", j.Act.Lever)
	}
	reply, err := p.Call(ctx, l.request(ctx, j))
	if err != nil {
		return drain.Answer{}, err
	}
	return reply.answer(), nil
}

// Status asks the lever what became of an act. A question is simply asked again,
// and so is an undo: taking back what is taken back is done.
func (l Programs) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	p, ok := l.By[j.Act.Lever]
	if !ok || j.Act.Op != drain.OpDo {
		return drain.Answer{}, false, nil
	}
	r := l.request(ctx, j)
	r.Op, r.Act, r.Of = string(drain.OpStatus), "", j.Act.ID
	reply, err := p.Call(ctx, r)
	if err != nil {
		return drain.Answer{}, false, err
	}
	return reply.answer(), true, nil
}

func (l Programs) request(ctx context.Context, j drain.Job) Request {
	it := j.Item
	steps := j.Act.Steps
	if len(steps) == 0 {
		steps = it.Move.Steps
	}
	target := cmp.Or(j.Act.Target, it.Target)
	return Request{Op: string(j.Act.Op), Act: j.Act.ID, Of: j.Act.Of, Step: j.Act.Step, Steps: steps,
		Drain: j.Drain, Epoch: j.Epoch, For: j.For, Deadline: j.Until, State: it.Move.State,
		Workload: Workload{Kind: j.Act.Key.Kind, ID: j.Act.Key.ID, Class: it.Class, Owner: it.Owner, Run: it.Run, Needs: it.Needs},
		Source:   l.place(ctx, j.Source.ID, j.Machine), Target: l.place(ctx, target, cmp.Or(j.Act.Machine, it.Move.Machine))}
}

// place looks an address up; where nobody knows it, the name has to do.
func (l Programs) place(ctx context.Context, id fleet.HostID, machine string) Place {
	p := Place{ID: id, Machine: machine}
	if id == "" || l.Host == nil {
		return p
	}
	if h, err := l.Host(ctx, id); err == nil {
		p.Address = h.Address
	}
	return p
}

// LeverFlip moves the traffic by a lever, where one does that, and then the claim.
type LeverFlip struct {
	Programs Programs
	Flip     Flip
}

// Do moves both. What the lever says stands until it is done.
func (l LeverFlip) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	var said drain.Answer
	if j.Act.Lever != "" {
		a, err := l.Programs.Do(ctx, j)
		if err != nil || a.Result != drain.Done {
			return a, err
		}
		said = a
	}
	a, err := l.Flip.Do(ctx, j)
	if a.State == nil {
		a.State, a.Progress = said.State, said.Progress
	}
	return a, err
}

// Status says that nothing is known: a flip may be repeated, since traffic and
// claim stay where they are if they have moved.
func (l LeverFlip) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}

// Quiet waits, by the source's agent, until nothing is in flight.
type Quiet struct{ Agents Agents }

// Do asks the agent, which answers when it has seen that, or that it has not.
func (l Quiet) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	return l.Agents.Act(ctx, j.Source.ID, j.Machine, j)
}

// Status asks the source's agent.
func (l Quiet) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	return l.Agents.Outcome(ctx, j.Source.ID, j.Act.ID)
}
