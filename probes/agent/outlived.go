package agent

import (
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/probes/wire"
)

// outlivedPoll is how often it is looked whether a command that has outlived its
// agent has ended.
const outlivedPoll = 100 * time.Millisecond

// noteRun remembers, durably, which process an act's command is. Without that
// line the act is interrupted where it could have been followed. The lock is held.
func (a *Agent) noteRun(id string, pid int) {
	start, _, err := readStart(a.cfg.Proc, pid)
	if err != nil {
		return // it has ended
	}
	act := a.acts.byID[id]
	if act == nil {
		return
	}
	act.run = fleet.Run{Boot: a.cfg.Boot, PID: pid, Start: start}
	if err := a.acts.append(actLine{Ran: &ran{id, act.run}}); err != nil {
		a.cfg.Log.Warn("the process of an act could not be recorded", "act", id, "error", err)
	}
}

// alive reports whether a process of this boot is still there.
func (a *Agent) alive(run fleet.Run) bool {
	start, state, err := readStart(a.cfg.Proc, run.PID)
	return err == nil && start == run.Start && state != 'Z' && state != 'X'
}

// outlived follows the commands that an earlier agent has started and that still
// run. How they end can't be known, but that they have: only then is their act
// interrupted, because until then it may still take effect.
func (a *Agent) outlived() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.acts.order {
		if act := a.acts.byID[id]; act.reply.State == wire.ActBegun && !act.run.IsZero() {
			a.work.Go(func() { a.followOutlived(act) })
		}
	}
}

func (a *Agent) followOutlived(act *act) {
	tick := time.NewTicker(outlivedPoll)
	defer tick.Stop()
	term := time.NewTimer(a.timeoutOf(act.req))
	defer term.Stop()
	var kill <-chan time.Time
	for a.alive(act.run) {
		select {
		case <-a.life.Done():
			return
		case <-tick.C:
			continue
		case <-term.C:
			t := time.NewTimer(killAfter)
			defer t.Stop()
			kill = t.C
			a.endOutlived(act.run, unix.SIGTERM)
		case <-kill:
			a.endOutlived(act.run, unix.SIGKILL)
		}
	}
	a.mu.Lock()
	act.reply.State = wire.ActInterrupted
	close(act.done)
	a.mu.Unlock()
	a.scan.kick()
}

// endOutlived signals the session of a command that takes too long, if its leader is
// still the one that was started.
func (a *Agent) endOutlived(run fleet.Run, sig unix.Signal) {
	if a.alive(run) {
		_ = unix.Kill(-run.PID, sig)
	}
}
