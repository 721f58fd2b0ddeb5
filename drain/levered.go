package drain

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"ebb/fleet"
)

// leverAnswered folds how an act of a lever went.
func (it *Item) leverAnswered(a Act, b DriveOutcome, at time.Time) {
	lever, fails := it.Move.Lever, it.Fails
	if a.Step == StepHealth && !it.Unsure.IsZero() && (b.Result == FailedAct || b.Result == Refused || b.Result == WaitAct) {
		it.Unsure.Answers = "no"
	}
	it.Move = it.Move.answered(a, b, at)
	reason := fleet.Reason{}
	detail := cmp.Or(b.Detail, b.Progress, string(b.Result))
	switch b.Result {
	case Done:
		it.RetryAt, it.Fails = time.Time{}, 0
		if a.Op == OpUndo && a.Step == StepStart {
			it.Remains, it.RetryAt, it.Fails = Remains{}, at, fails // it has failed all the same
			break
		}
		if a.Op == OpUndo {
			if it.Move.Rounds > 0 && len(it.Move.Begun) == 0 {
				it.RetryAt = at // once more, but not at once
			}
			break
		}
		if it.succeeded(a, at); a.Step == StepWake {
			it.resumed(at)
			reason = it.Reason
		}
	case RunningAct:
		if a.Op != OpUndo {
			reason = fleet.Because(WaitRunning, "lever", lever, "step", string(a.Step), "detail", b.Progress)
			break
		}
		it.RetryAt = at
		reason = fleet.Because(WaitUndo, "step", string(a.Step), "detail", b.Progress)
	case WaitAct:
		it.RetryAt, it.Fails = at, it.Fails+1
		reason = fleet.Because(WaitLeverWaits, "lever", lever, "step", string(a.Step), "detail", detail)
	default:
		if a.Op == OpDo && a.Step == StepStart && b.Result == NotDone {
			it.Unsure = Unsure{At: at}
		}
		if b.leaves(a) {
			it.Remains = Remains{a.Lever, a.Target}
		}
		it.RetryAt, it.Fails = at, it.Fails+1
		reason = fleet.Because(WaitFailed, "step", string(a.tag()), "detail", detail, "code", b.Reason.Code)
		if it.Move.Resuming() && (b.Result == Refused || it.Fails >= giveUp) {
			it.Fails = giveUp
			reason = fleet.Because(WaitNotResumed, "step", string(a.Step), "detail", detail)
		}
	}
	if !it.Held && !it.Keep {
		it.Reason = reason
	}
}

// leverWay finds the lever of an item and its way; a reason says why there is
// none.
func (d *decider) leverWay(f Found) (LeverSpec, []Step, fleet.Reason) {
	return d.wayOf(f, d.parks(f))
}

func (d *decider) wayOf(f Found, park bool) (LeverSpec, []Step, fleet.Reason) {
	if f.Lever == "" {
		return LeverSpec{}, nil, fleet.Because(WaitNoStrategy, "class", string(f.Class))
	}
	spec, ok := d.p.Levers[f.Lever]
	if !ok {
		return spec, nil, fleet.Because(WaitNoLever, "lever", f.Lever)
	}
	steps, missing := way(f.Class, spec, park)
	if missing != "" {
		return spec, nil, fleet.Because(WaitNoLever, "lever", f.Lever, "step", string(missing))
	}
	return spec, steps, fleet.Reason{}
}

// move brings a workload on along its lever's way, or back.
func (d *decider) move(it Item) {
	if d.busy(it.Key) {
		return
	}
	m := it.Move
	why := d.rollback(it)
	switch {
	case m.Undoing || m.Underway() && why != "":
		d.undo(it, why)
	case m.Underway() && d.frozen(it):
	case m.Asked != "":
		d.askLever(it)
	case m.Underway():
		d.forward(it)
	case m.Complete():
		d.because(it, fleet.Because(WaitLeaving))
	default:
		d.setOut(it)
	}
}

// frozen reports whether a move that can only be finished is left alone: a person
// said so, or it has failed too often after the drain had ended.
func (d *decider) frozen(it Item) bool {
	return it.Held || it.Keep && !it.Move.Resuming() || d.over() && it.Fails >= giveUp
}

// over reports whether nothing may begin any more.
func (d *decider) over() bool {
	return d.s.Phase == Stopped || d.s.Phase == DeadlineReached || !d.now.Before(d.s.Deadline)
}

// rollback says why a move must be rolled back, if so.
func (d *decider) rollback(it Item) string {
	m := it.Move
	seen, here := d.seen[it.Key]
	switch {
	case m.NoReturn || !m.Underway() && !m.Undoing:
		return ""
	case d.s.Phase == Stopped:
		return "the drain was stopped"
	case d.over():
		return "the deadline is reached"
	case it.Held, it.Keep, it.Kept != "", d.excepted(it):
		return "it is to stay"
	case d.swapped(it):
		return it.Target.Name() + " is another machine now"
	case it.Class != m.Class:
		return "its class is " + it.Class.String() + " now"
	case m.Failed != "" && (m.Result == Refused || m.Failed == StepRestore || it.Fails >= giveUp):
		return string(m.Failed) + " failed"
	case m.Class == fleet.Pausable && here && m.Done[StepSnapshot] != (time.Time{}) && !seen.Run.IsZero() && seen.Run != m.Run:
		return "it was started anew here after its snapshot"
	}
	return ""
}

// undo takes the last step back that stands. The next one follows only once the
// lever has answered that this one is undone: that is what keeps the source
// paused while another copy may be there.
func (d *decider) undo(it Item, why string) {
	m := it.Move
	s := m.Last()
	if d.over() && it.Fails >= giveUp || d.delayed(it) {
		d.stuckUndo(it, s)
		return
	}
	a := Act{Kind: ActLever, Op: OpUndo, Step: s, Lever: m.Lever, Target: it.Target}
	if rest(s) {
		d.flips(&a)
	}
	d.act(it, a)
	if !it.Held && !it.Keep { // what a person said stays the reason
		d.because(it, fleet.Because(WaitUndo, "step", string(s), "why", why))
	}
}

// stuckUndo says why a move that is being rolled back stands still. While the
// target's copy may exist the source stays paused, and that has its own reason.
func (d *decider) stuckUndo(it Item, s Step) {
	if it.Fails == 0 || it.Reason.Code == WaitTwoCopies {
		return
	}
	_, restored := it.Move.Begun[StepRestore]
	_, promoted := it.Move.Begun[StepPromote]
	if restored || promoted {
		d.because(it, fleet.Because(WaitTwoCopies, "target", it.Target.Name(), "step", string(s), "detail", it.Reason.Args["detail"]))
	}
}

// askLever asks what became of an act that runs beside the engine.
func (d *decider) askLever(it Item) {
	m := it.Move
	if d.tooSoon(m.AskAt, d.p.LeverEvery*time.Duration(min(max(it.Fails, 1), 6))) {
		return
	}
	step := it.Step
	if next := m.Next(); next != "" {
		step = next
	}
	a := Act{Kind: ActLever, Op: OpStatus, Step: step, Lever: cmp.Or(m.Lever, it.Lever), Target: it.Target, Of: m.Asked}
	if atPlane(step) {
		d.flips(&a)
	}
	d.act(it, a)
}

// flips makes an act one that changes the claim, after the lever has done its part
// if it has one.
func (d *decider) flips(a *Act) {
	if a.Kind = ActFlip; rest(a.Step) {
		a.Kind = ActRest
	}
	if spec, ok := d.p.Levers[a.Lever]; !ok || !spec.Does(a.Step) {
		a.Lever = ""
	}
}

// setOut begins a move: a place is found before anything is paused.
func (d *decider) setOut(it Item) {
	spec, steps, why := d.leverWay(it.Found)
	switch {
	case !why.IsZero():
		d.because(it, why)
		return
	case it.Move.Rounds >= max(d.p.Rounds, 1):
		if it.Reason.Code != WaitRolledBack {
			d.because(it, fleet.Because(WaitRolledBack, "times", strconv.Itoa(it.Move.Rounds), "detail", it.Reason.Args["detail"]))
		}
		return
	case d.over(), d.delayed(it):
		return
	case d.moving >= d.p.MovesPerHost:
		d.because(it, fleet.Because(WaitTurn, "limit", strconv.Itoa(d.p.MovesPerHost), "running", strconv.Itoa(d.moving)))
		return
	}
	first := Act{Kind: ActLever, Op: OpDo, Step: steps[0], Lever: spec.Name, Class: it.Class, Steps: steps}
	if first.Park = d.parks(it.Found); first.Park {
		first.Compat = dependsOn(it.Found, offerOf(d.v.Source))
	} else if first.Target, why = d.place(it); first.Target == "" {
		d.because(it, why)
		return
	} else if v, listed := d.target(first.Target); listed {
		first.Machine, _ = v.Machine()
	}
	d.moving++
	d.promise(first.Target, it)
	d.act(it, first)
	d.because(it, fleet.Because(WaitLever, "lever", spec.Name, "step", string(steps[0])))
}

// forward does the next step.
func (d *decider) forward(it Item) {
	switch {
	case d.delayed(it):
		return
	case !it.Move.NoReturn && d.doubted(it):
		return
	}
	next := it.Move.Next()
	if next == StepRemove {
		if why := d.removable(it); !why.IsZero() {
			d.because(it, why)
			return
		}
	}
	d.step(it, next)
}

// step asks for one step of a move.
func (d *decider) step(it Item, step Step) {
	m := it.Move
	a := Act{Kind: ActLever, Op: OpDo, Step: step, Lever: m.Lever, Target: it.Target}
	if atPlane(step) {
		d.flips(&a)
	}
	d.act(it, a)
	if a.Kind == ActFlip && a.Lever == "" {
		d.because(it, fleet.Because(WaitFlip, "target", it.Target.Name()))
		return
	}
	d.because(it, fleet.Because(WaitLever, "lever", m.Lever, "step", string(step)))
}

// doubted reports whether this reading says that nobody claims the workload any
// more: then it is not brought to life elsewhere. It waits as it is, because that
// its owner ended it can turn out to be a slow plane.
func (d *decider) doubted(it Item) bool {
	seen, here := d.seen[it.Key]
	if !here || seen.Verdict != fleet.Orphan && seen.Verdict != fleet.Unattributed {
		return false
	}
	d.because(it, fleet.Because(WaitUnclassified, "verdict", string(seen.Verdict)))
	return true
}

// unsettled goes on, in a drain that has been stopped, with what must be finished
// or rolled back, and with what was parked and is asked for again. The host of that
// may be held no more, and has most likely been rebooted.
func (d *decider) unsettled() {
	if why := d.readable(); !why.IsZero() {
		d.wait(why)
		return
	}
	d.index()
	held := d.facts.Holds.Drain
	if held != nil && held.Drain != d.s.Drain { // it is another's to decide about
		d.wait(fleet.Because(WaitHold, "what", "drain"))
		return
	}
	why := d.settlesNot(held)
	d.look()
	d.missing(func(it Item) bool { return it.Move.Resting() })
	same := why.IsZero()
	if same && d.s.Resumes() {
		why = d.whole
	}
	d.wait(why)
	for _, k := range d.keys {
		it := d.s.Items[k]
		switch {
		case !it.Open():
		case it.Move.Resting(), it.Move.Resuming():
			if it.MissingAt.IsZero() || it.Move.Resuming() {
				d.bringBack(it)
			}
		case same && it.Move.Underway():
			d.move(it)
		}
	}
	d.flushReasons()
}

// settlesNot says why moves that are to be finished or rolled back stay as they are:
// the hold under which they began is gone, or that boot.
func (d *decider) settlesNot(held *fleet.Hold) fleet.Reason {
	moving := slices.ContainsFunc(d.keys, func(k fleet.Key) bool {
		it := d.s.Items[k]
		return it.Open() && it.Move.Underway() && !it.Move.Resuming()
	})
	switch {
	case !moving:
	case held == nil:
		return fleet.Because(WaitHold, "what", "drain")
	case d.s.Boot != "" && d.s.Boot != d.facts.Boot:
		return fleet.Because(WaitRebooted, "boot", d.facts.Boot)
	}
	return fleet.Reason{}
}
