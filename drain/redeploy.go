package drain

import (
	"strconv"
	"time"

	"ebb/fleet"
)

// redeploy starts a replacement elsewhere and stops the old one only once the
// new one answers.
//
// Where the rule of its class names a lever, that program starts the new one,
// asks whether it answers and moves the traffic; otherwise commands of the target
// do, and the claim's move is the flip.
func (d *decider) redeploy(it Item) {
	what := d.missingCommand(it.Found)
	switch {
	case d.busy(it.Key):
		d.beyondReach(it)
	case !it.Remains.IsZero():
		d.takeBack(it)
	case it.Move.Asked != "":
		d.askLever(it)
	case what != "" && it.FlippedAt.IsZero():
		d.because(it, fleet.Because(WaitNoCommand, "what", what))
	case !it.Unsure.IsZero() && what == "":
		d.settle(it)
	case it.StartedAt.IsZero():
		d.start(it, time.Time{})
	case it.HealthyAt.IsZero() && what == "":
		d.health(it, false)
	case it.FlippedAt.IsZero():
		if d.delayed(it) {
			return
		}
		d.act(it, d.levered(it, StepFlip, Act{Kind: ActFlip, Step: StepFlip, Target: it.Target}))
		d.because(it, fleet.Because(WaitFlip, "target", it.Target.Name()))
	case it.MissingAt.IsZero():
		d.retire(it)
	}
}

// levered gives an act to the item's lever, if that does the step.
func (d *decider) levered(it Item, s Step, a Act) Act {
	spec, ok := d.p.Levers[it.Lever]
	if !ok || !spec.Does(s) {
		return a
	}
	if a.Kind != ActFlip {
		a.Kind, a.Exec = ActLever, ""
	}
	a.Op, a.Lever = OpDo, spec.Name
	return a
}

func (d *decider) missingCommand(f Found) string {
	if spec, ok := d.p.Levers[f.Lever]; ok && spec.Does(StepStart) && spec.Does(StepHealth) {
		return ""
	}
	switch {
	case f.Start == "":
		return "start"
	case f.Health == "":
		return "health"
	}
	return ""
}

// start places a replacement and has it started. absent is the reading that shows
// that nothing came of an earlier start, where that was in doubt.
func (d *decider) start(it Item, absent time.Time) {
	if d.delayed(it) {
		return
	}
	if d.moving >= d.p.MovesPerHost {
		d.because(it, fleet.Because(WaitTurn, "limit", strconv.Itoa(d.p.MovesPerHost), "running", strconv.Itoa(d.moving)))
		return
	}
	target, why := d.placeFor(it)
	if target == "" {
		d.because(it, why)
		return
	}
	d.moving++
	d.promise(target, it)
	d.act(it, d.levered(it, StepStart, Act{Kind: ActExec, Step: StepStart, Target: target, Exec: it.Start, Absent: absent}))
	d.because(it, fleet.Because(WaitStarting, "target", target.Name()))
}

// health asks the replacement whether it answers, less often the longer it does
// not. What it last said stays the reason. present says that the target shows a
// replacement of which it is not known who started it.
func (d *decider) health(it Item, present bool) {
	if d.beyondReach(it) {
		return
	}
	every := d.p.HealthEvery * time.Duration(min(max(it.Fails, 1), 5))
	if d.tooSoon(it.RetryAt, every) {
		return
	}
	d.act(it, d.levered(it, StepHealth, Act{Kind: ActExec, Step: StepHealth, Target: it.Target, Exec: it.Health, Present: present}))
	if it.Reason.Code != WaitFailed || it.Reason.Args["step"] != string(StepHealth) {
		d.because(it, fleet.Because(WaitHealth, "target", it.Target.Name()))
	}
}

// retire stops an old copy whose replacement answers: it is asked with TERM at
// once, since nobody uses it any more. Only one that does not go, and that the
// plan lists, is escalated, from the notice on and in time for the deadline.
func (d *decider) retire(it Item) {
	if !it.NoticeAt.IsZero() {
		d.escalate(it, "plan", false)
		return
	}
	if !d.quiesced(it) {
		return
	}
	if spec, ok := d.p.Levers[it.Lever]; ok && spec.Does(StepStop) && it.TermAt.IsZero() && it.Move.Done[StepStop].IsZero() {
		if !d.delayed(it) {
			d.act(it, d.levered(it, StepStop, Act{Step: StepStop, Target: it.Target}))
		}
		return
	}
	if it.TermAt.IsZero() {
		d.term(it, StepTerm)
		return
	}
	if end := it.TermAt.Add(d.grace(it)); d.now.Before(end) {
		d.because(it, fleet.Because(WaitGrace, "until", stamp(end)))
		d.wake(end)
		return
	}
	if start := d.p.lastStart(d.s.Deadline, d.grace(it)); d.now.Before(start) {
		d.because(it, fleet.Because(WaitOutlives, "expires", "", "escalates", stamp(start)))
		d.wake(start)
		return
	}
	d.escalate(it, "plan", false)
}
