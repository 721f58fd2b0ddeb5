package agent

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// actID is what an act's id must look like: one printable word. It may hold
// slashes, so it never becomes a file name as it is.
var actID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[!-~]{1,512}$`) })

// maxUnderWay is how many acts may run at once.
const maxUnderWay = 1024

// begin records an act and starts it. The act runs on the agent's own life: a
// cut link does not stop it. A repeat is answered with the first outcome.
func (a *Agent) begin(c Caller, req wire.ActRequest) (wire.ActReply, error) {
	if err := a.checkAct(req); err != nil {
		return wire.ActReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.acts.byID[req.ID]; old != nil {
		if !sameAct(old.req, req) {
			return wire.ActReply{}, refuse(wire.CodeBadRequest, "another act has this id")
		}
		return old.reply, nil
	}
	if a.life.Err() != nil {
		return wire.ActReply{}, refuse(wire.CodeNotRecorded, "the agent is ending")
	}
	if a.acts.underWay() >= maxUnderWay {
		return wire.ActReply{}, refuse(wire.CodeFull, "too many acts are under way")
	}
	what := note{verb: "act " + string(req.Kind), what: actText(req), why: "act " + req.ID + " of drain " + req.Drain}
	var started *act
	err := a.audited(c, what, func() error {
		if err := a.fence(req); err != nil {
			return err
		}
		now := a.cfg.Clock.Now()
		if err := a.acts.append(actLine{Begun: &begun{req, now}}); err != nil {
			return notRecorded(err)
		}
		started = &act{req: req, done: make(chan struct{}), reply: wire.ActReply{ID: req.ID, State: wire.ActBegun, Begun: now}}
		a.acts.add(started)
		return nil
	})
	if err != nil {
		return wire.ActReply{}, err
	}
	a.work.Go(func() { a.perform(c, what, started) })
	return started.reply, nil
}

func actText(r wire.ActRequest) string {
	switch r.Kind {
	case wire.ActSignal:
		return fmt.Sprintf("%s %s %v recorded %q named %q", r.Signal, r.Key, r.Runs, r.Recorded, r.Named)
	case wire.ActExec:
		return r.Command + " " + r.Key.String()
	case wire.ActClean:
		return r.Key.String() + " " + r.Identity
	case wire.ActQuiet:
		return fmt.Sprintf("%s %v at %s", r.Key, r.Gauges, r.URL)
	}
	return r.Key.String()
}

// sameAct compares what an act is about. Epoch and processes may differ: a new
// driver repeats the acts of the one before, and sees the host as it is by then.
func sameAct(a, b wire.ActRequest) bool {
	return a.Kind == b.Kind && a.Key == b.Key && a.Drain == b.Drain && a.Signal == b.Signal &&
		a.Command == b.Command && a.Identity == b.Identity && a.URL == b.URL && slices.Equal(a.Gauges, b.Gauges)
}

// perform runs an act to its end and records that.
func (a *Agent) perform(c Caller, n note, act *act) {
	reply := wire.ActReply{ID: act.req.ID, State: wire.ActFinished, Begun: act.reply.Begun}
	err := a.run(act.req, &reply)
	if a.life.Err() != nil && err == errEnding {
		return // begun and not finished: interrupted, to whoever asks after the restart
	}
	reply.OK = err == nil
	if err != nil {
		if reply.Reason.IsZero() {
			reply.Reason = reasonOf(err)
		}
		if reply.Detail == "" {
			reply.Detail = err.Error()
		}
	}
	reply.Finished = a.cfg.Clock.Now()
	a.mu.Lock()
	if e := a.acts.append(actLine{Finished: &reply}); e != nil {
		a.cfg.Log.Error("the end of an act could not be recorded", "act", reply.ID, "error", e)
	}
	act.reply = reply
	close(act.done)
	if len(a.acts.order) > 2*keepActs {
		if e := a.acts.compact(); e != nil {
			a.cfg.Log.Warn("acts.log", "error", e)
		}
	}
	a.mu.Unlock()
	if e := a.audit.append(a.auditLine(c, n, outcome(err))); e != nil {
		a.cfg.Log.Error("the end of an act is not in the audit log", "act", reply.ID, "error", e)
	}
	a.metrics.acted(act.req.Kind, err == nil)
	a.scan.kick()
}

func (a *Agent) run(req wire.ActRequest, reply *wire.ActReply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			a.cfg.Log.Error("act panicked", "act", req.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("act %s: internal error: %v", req.ID, p)
		}
	}()
	switch req.Kind {
	case wire.ActSignal:
		return a.signal(a.life, req, reply)
	case wire.ActExec:
		return a.exec(a.life, req, reply)
	case wire.ActClean:
		return a.clean(a.life, req, reply)
	case wire.ActQuiet:
		return a.quiet(a.life, req, reply)
	default:
		return a.markMoved(req)
	}
}

// follow waits for an act to end, at most for wait.
func (a *Agent) follow(ctx context.Context, id string, wait time.Duration) (wire.ActReply, error) {
	a.mu.Lock()
	act := a.acts.byID[id]
	if act == nil {
		a.mu.Unlock()
		return wire.ActReply{}, refuse(wire.CodeNotFound, "no such act")
	}
	done := act.done
	a.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(min(wait, time.Minute))
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		case <-a.life.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return act.reply, nil
}

func (a *Agent) checkAct(req wire.ActRequest) error {
	if !actID().MatchString(req.ID) || req.ID == "." || req.ID == ".." {
		return refuse(wire.CodeBadRequest, "id: want one printable ASCII word of at most 512 bytes")
	}
	if err := a.checkMachine(req.Machine, true); err != nil {
		return err
	}
	if err := checkKey(req.Key); err != nil {
		return err
	}
	if err := fits("drain", req.Drain, maxID); err != nil {
		return err
	}
	switch req.Kind {
	case wire.ActSignal:
		return checkSignal(req)
	case wire.ActExec:
		return a.checkExec(req)
	case wire.ActClean:
		return checkClean(req)
	case wire.ActQuiet:
		return checkQuiet(req)
	case wire.ActMoved:
		if req.Drain == "" {
			return refuse(wire.CodeBadRequest, "only a drain moves a workload off")
		}
		return fits("key", req.Key.String(), maxID)
	}
	return refuse(wire.CodeBadRequest, "unknown kind of act "+string(req.Kind))
}

// fence refuses an act that its sender has no right to any more, or not yet. It
// is asked when the act begins and again in its instant. The lock is held.
func (a *Agent) fence(req wire.ActRequest) error {
	if err := a.notSealed(); err != nil {
		return err
	}
	if req.Drain == "" {
		return a.fenceOfNoDrain(req)
	}
	hold := a.rec.Holds.Drain
	if hold != nil && hold.Drain != req.Drain {
		return otherDrain(hold)
	}
	if hold == nil && req.Kind != wire.ActExec {
		return refuse(wire.CodeNotHeld, "drain "+req.Drain+" does not hold this host")
	}
	if hold == nil {
		if err := a.takes(req); err != nil {
			return err
		}
	}
	top, announced := a.rec.epoch(req.Drain)
	switch {
	case !announced:
		return refuse(wire.CodeNotHeld, "drain "+req.Drain+" has not announced its epoch here")
	case req.Epoch < top:
		return a.notStale(req.Drain, req.Epoch)
	case req.Epoch > top:
		if err := a.raise(req.Drain, req.Epoch); err != nil {
			return err
		}
	}
	if req.Kind == wire.ActClean {
		return a.noTickets()
	}
	return nil
}

// takes refuses the first command for a workload that is not here on a host
// that is held for another reason, or does not know: it could only start new
// work. What was begun here before the hold is followed to its end.
func (a *Agent) takes(req wire.ActRequest) error {
	if !a.rec.Unheld && a.rec.Holds.Cordon == nil {
		return nil
	}
	f, _ := a.store.get()
	for _, w := range f.Workloads.Value {
		if w.Key == req.Key {
			return nil
		}
	}
	for _, act := range a.acts.byID {
		if r := act.req; r.Kind == wire.ActExec && r.Drain == req.Drain && r.Key == req.Key {
			return nil
		}
	}
	if a.rec.Unheld {
		return refuse(wire.CodeUnheld, "this host has no record of its holds")
	}
	return refuse(wire.CodeHeld, "the host is cordoned").hold(a.rec.Holds.Cordon)
}

// fenceOfNoDrain lets an operator clean, and end an orphan, on a host that
// takes no new work.
func (a *Agent) fenceOfNoDrain(req wire.ActRequest) error {
	if req.Kind != wire.ActClean && (req.Kind != wire.ActSignal || req.Signal != "TERM") {
		return refuse(wire.CodeBadRequest, "this act needs a drain")
	}
	if !a.rec.Holds.Any() {
		return refuse(wire.CodeNotHeld, "nothing holds this host: new work may arrive").hint("cordon it first")
	}
	return a.noTickets()
}

func (a *Agent) noTickets() error {
	open := openTickets(a.tickets)
	if len(open) == 0 {
		return nil
	}
	return refuse(wire.CodeTicketsOpen, fmt.Sprintf("%d admissions are open, the oldest for %s", len(open), open[0].Key)).
		arg("ticket", open[0].ID)
}

// markMoved records that a workload runs elsewhere now: its renewals and wakes
// are refused here.
func (a *Agent) markMoved(req wire.ActRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.fence(req); err != nil {
		return err
	}
	if a.rec.moved(req.Key) {
		return nil
	}
	if len(a.rec.Moved) >= maxMoved {
		return refuse(wire.CodeNotRecorded, "too many moved workloads are remembered")
	}
	next := a.rec
	next.Moved = append(slices.Clone(next.Moved), fleet.Key{Kind: req.Key.Kind, ID: req.Key.ID})
	if err := next.fits(); err != nil {
		return notRecorded(err)
	}
	return a.commit(next)
}
