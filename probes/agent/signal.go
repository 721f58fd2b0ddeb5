package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/probes/wire"
)

// lastWait lies between the second TERM and KILL.
const lastWait = 30 * time.Second

const maxRuns = 4096

func checkSignal(req wire.ActRequest) error {
	switch {
	case req.Signal != "TERM" && req.Signal != "KILL":
		return refuse(wire.CodeBadRequest, "signal: want TERM or KILL")
	case len(req.Runs) == 0 || len(req.Runs) > maxRuns:
		return refuse(wire.CodeBadRequest, "runs: name the processes that are meant")
	case req.Grace < 0:
		return refuse(wire.CodeBadRequest, "a negative grace")
	case req.Signal == "KILL" && req.Recorded == "":
		return refuse(wire.CodeBadRequest, "recorded: a KILL is in the journal before it is asked for")
	case req.Signal == "KILL" && req.Named == "":
		return refuse(wire.CodeBadRequest, "named: a KILL names the plan, or the ask, that named the workload")
	}
	for _, run := range req.Runs {
		if run.PID <= 1 || run.Start == 0 || run.Boot == "" || run.PID == os.Getpid() {
			return refuse(wire.CodeBadRequest, "run "+run.String()+" can't be signalled")
		}
	}
	return nil
}

// target is a process that is held by a pidfd, so that its pid can't mean
// another one, and that has been shown to be the run that was asked for.
type target struct {
	run fleet.Run
	fd  int
}

// signal sends TERM or KILL to identified processes. All of them are identified
// before the first one is signalled.
func (a *Agent) signal(ctx context.Context, req wire.ActRequest, reply *wire.ActReply) error {
	targets, gone, err := a.identify(req.Runs)
	defer closeTargets(targets)
	if err != nil {
		return err
	}
	if err := a.belong(ctx, req, targets); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fence(req); err != nil {
		return err
	}
	if req.Signal == "KILL" {
		if err := a.dueKill(req, targets, reply); err != nil {
			return err
		}
	}
	done, err := a.send(req, targets)
	parts := []string{fmt.Sprintf("%s sent to %d", req.Signal, done)}
	if n := gone + len(targets) - done; n > 0 {
		parts = append(parts, fmt.Sprintf("%d already gone", n))
	}
	reply.Detail = strings.Join(parts, ", ")
	return err
}

// identify opens a pidfd for each run and only then reads who it is: what the
// pidfd holds can't be replaced in between.
func (a *Agent) identify(runs []fleet.Run) (targets []target, gone int, err error) {
	for _, run := range runs {
		if run.Boot != a.cfg.Boot {
			return targets, gone, otherRun(run, "it ran in another boot")
		}
		fd, err := unix.PidfdOpen(run.PID, 0)
		if errors.Is(err, unix.ESRCH) {
			gone++
			continue
		}
		if err != nil {
			// A thread's id is no process; a pid out of range is none either.
			return targets, gone, otherRun(run, err.Error())
		}
		start, state, err := readStart(a.cfg.Proc, run.PID)
		switch {
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH):
			unix.Close(fd)
			gone++
		case err != nil:
			unix.Close(fd)
			return targets, gone, fmt.Errorf("signal %d: %w", run.PID, err)
		case start != run.Start:
			unix.Close(fd)
			return targets, gone, otherRun(run, fmt.Sprintf("process %d started at tick %d", run.PID, start))
		case state == 'Z' || state == 'X':
			unix.Close(fd)
			gone++
		default:
			targets = append(targets, target{run, fd})
		}
	}
	return targets, gone, nil
}

func closeTargets(ts []target) {
	for _, t := range ts {
		unix.Close(t.fd)
	}
}

func otherRun(run fleet.Run, why string) error {
	return refuse(wire.CodeOtherRun, "nothing was signalled: "+why).arg("run", run.String())
}

// readStart reads state and start time from a stat file, fields 3 and 22:
//
//	4117 (web (v2)) S 1 4117 4117 0 -1 4194560 … 88123 …
//
// The name in parentheses may hold anything; what counts follows the last one.
func readStart(proc string, pid int) (start uint64, state byte, err error) {
	b, err := os.ReadFile(filepath.Join(proc, itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStart(string(b))
}

func parseStart(stat string) (start uint64, state byte, err error) {
	i := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[i+1:])
	if i < 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return 0, 0, errors.New("stat: not as expected")
	}
	if _, err := fmt.Sscanf(fields[19], "%d", &start); err != nil {
		return 0, 0, fmt.Errorf("stat: start time %q", fields[19])
	}
	return start, fields[0][0], nil
}

// belong refuses processes that are the host's own, that this agent does not
// see, or that are another workload's.
func (a *Agent) belong(ctx context.Context, req wire.ActRequest, targets []target) error {
	if len(targets) == 0 {
		return nil
	}
	f, _ := a.store.get()
	if f.Processes.Status != fleet.OK || !sees(f, targets) {
		var err error
		if f, err = a.fresh(ctx); err != nil {
			return ending(ctx, err)
		}
	}
	if f.Processes.Status != fleet.OK {
		return refuse(wire.CodeOtherRun, "processes can't be read: nothing was signalled")
	}
	there := make(map[fleet.Run]fleet.Process, len(f.Processes.Value))
	for _, p := range f.Processes.Value {
		there[p.Run] = p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range targets {
		p, ok := there[t.run]
		switch {
		case !ok:
			return otherRun(t.run, "it is not among this host's processes")
		case p.System != "":
			return otherRun(t.run, "it is the host's own: "+p.System)
		case !a.isOf(f, p, req.Key):
			return otherRun(t.run, "it is not of "+req.Key.String())
		}
	}
	return nil
}

func sees(f fleet.Facts, targets []target) bool {
	there := make(map[fleet.Run]bool, len(f.Processes.Value))
	for _, p := range f.Processes.Value {
		there[p.Run] = true
	}
	return !slices.ContainsFunc(targets, func(t target) bool { return !there[t.run] })
}

// isOf reports whether a process is of the workload: as the facts say now, or
// as they said when it was sent TERM for that workload.
func (a *Agent) isOf(f fleet.Facts, p fleet.Process, key fleet.Key) bool {
	if p.Owner == key || p.Key() == key {
		return true
	}
	for _, w := range f.Workloads.Value {
		if w.Key == key && (w.Run == p.Run || slices.Contains(w.Runs, p.Run)) {
			return true
		}
	}
	return slices.ContainsFunc(a.acts.terms[p.Run], func(s sent) bool { return s.Key == key })
}

// dueKill refuses a KILL before the gaps have passed for every process that is
// left: TERM, the grace, TERM, thirty seconds.
func (a *Agent) dueKill(req wire.ActRequest, targets []target, reply *wire.ActReply) error {
	now := a.cfg.Clock.Boottime()
	var wait time.Duration
	for _, t := range targets {
		left, why := killWait(a.acts.terms[t.run], max(req.Grace, a.cfg.scaled(a.ownGrace(req.Key, t.run))), a.cfg.scaled(lastWait), now)
		if left < 0 {
			return refuse(wire.CodeTooEarly, why).arg("run", t.run.String())
		}
		wait = max(wait, left)
	}
	if wait == 0 {
		return nil
	}
	reply.NotYet = a.cfg.Clock.Now().Add(wait)
	return refuse(wire.CodeTooEarly, fmt.Sprintf("KILL may be asked for in %v", wait.Round(time.Millisecond)))
}

// killWait returns how long a KILL has to wait, given when TERM was sent: 0 if
// it is due, negative if a TERM is missing.
func killWait(terms []sent, grace, last, now time.Duration) (time.Duration, string) {
	if len(terms) == 0 {
		return -1, "this agent has not sent TERM to it"
	}
	first := terms[0].At
	for _, t := range terms[1:] {
		if t.At-first >= grace {
			return max(0, t.At+last-now), ""
		}
	}
	if now-first >= grace {
		return -1, "the second TERM, after the grace, has not been sent"
	}
	return first + grace + last - now, ""
}

// ownGrace is what the workload's owner asks for, now or when TERM was sent: it
// is never shortened.
func (a *Agent) ownGrace(key fleet.Key, run fleet.Run) time.Duration {
	f, _ := a.store.get()
	var grace time.Duration
	for _, w := range f.Workloads.Value {
		if w.Key == key || w.Run == run || slices.Contains(w.Runs, run) {
			grace = max(grace, w.Grace)
		}
	}
	for _, s := range a.acts.terms[run] {
		grace = max(grace, s.Grace)
	}
	return grace
}

// send signals every target. A TERM is recorded after it was sent: a crash in
// between costs another TERM and never allows a KILL too early.
func (a *Agent) send(req wire.ActRequest, targets []target) (int, error) {
	sig := unix.SIGTERM
	if req.Signal == "KILL" {
		sig = unix.SIGKILL
	}
	done := 0
	for _, t := range targets {
		err := unix.PidfdSendSignal(t.fd, sig, nil, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return done, fmt.Errorf("signal %d: %w", t.run.PID, err)
		}
		done++
		if sig == unix.SIGKILL {
			continue
		}
		s := sent{Run: t.run, Key: req.Key, Boot: a.cfg.Boot, At: a.cfg.Clock.Boottime(), Grace: a.ownGrace(req.Key, t.run)}
		if err := a.acts.append(actLine{Sent: &s}); err != nil {
			return done, fmt.Errorf("TERM was sent to %d and could not be recorded: %w", t.run.PID, err)
		}
		a.acts.term(s)
	}
	return done, nil
}
