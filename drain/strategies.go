package drain

import (
	"strconv"
	"time"

	"ebb/fleet"
)

// strategies asks each open item's strategy what comes next for it.
func (d *decider) strategies() {
	d.inbound = make(map[fleet.HostID]int)
	for _, it := range d.s.Items {
		if it.Open() && !it.StartedAt.IsZero() || d.starting(it) {
			d.moving++
			d.inbound[it.Target]++
		}
	}
	for _, k := range sortedKeys(d.s.Items) {
		it := d.s.Items[k]
		if _, here := d.present[k]; here && it.Open() && it.MissingAt.IsZero() {
			d.strategy(it)
		}
	}
}

func (d *decider) starting(it Item) bool {
	for _, a := range d.s.Open {
		if a.Key == it.Key && a.Step == StepStart {
			return true
		}
	}
	return false
}

// strategy decides about one item. After the outer deadline only what a person
// escalated by name goes on.
func (d *decider) strategy(it Item) {
	switch {
	case it.Escalated != "":
		d.escalate(it, it.Escalated, true)
	case d.s.Phase == DeadlineReached:
	case it.Held, it.Keep:
	case it.Phase == fleet.AtRest:
		d.because(it, fleet.Because(WaitNoStrategy, "class", it.Class.String(), "state", "at rest on this host"))
	default:
		switch it.Class {
		case fleet.Ephemeral:
			d.expire(it)
		case fleet.Stateless:
			d.redeploy(it)
		case fleet.Stuck:
			d.escalate(it, "plan", false)
		case fleet.Pausable, fleet.Durable:
			d.because(it, fleet.Because(WaitNoStrategy, "class", string(it.Class)))
		default:
			d.because(it, fleet.Because(WaitUnclassified, "verdict", string(it.Verdict)))
		}
	}
}

// expire lets a workload end by itself. What outlives the outer deadline, or its
// own expiry, is escalated, started in time to be over before the deadline.
func (d *decider) expire(it Item) {
	start := d.p.lastStart(d.s.Deadline, it.Budget.Grace)
	begun := !it.NoticeAt.IsZero() || !it.TermAt.IsZero()
	if begun || !d.now.Before(start) {
		if !it.Expires.IsZero() && it.Expires.Before(d.s.Deadline) && it.Expires.After(d.now) && !begun {
			d.because(it, fleet.Because(WaitExpires, "at", stamp(it.Expires)))
			d.wake(it.Expires)
			return
		}
		d.escalate(it, "plan", false)
		return
	}
	d.wake(start)
	if !it.Expires.IsZero() && !it.Expires.After(d.s.Deadline) && it.Expires.After(d.now) {
		d.because(it, fleet.Because(WaitExpires, "at", stamp(it.Expires)))
		d.wake(it.Expires)
		return
	}
	d.because(it, fleet.Because(WaitOutlives, "expires", stamp(it.Expires), "escalates", stamp(start)))
}

// redeploy starts a replacement elsewhere and stops the old one only once the
// new one answers.
func (d *decider) redeploy(it Item) {
	switch {
	case d.busy(it.Key):
	case it.Start == "" || it.Health == "":
		what := "start"
		if it.Start != "" {
			what = "health"
		}
		d.because(it, fleet.Because(WaitNoCommand, "what", what))
	case it.StartedAt.IsZero():
		d.start(it)
	case it.HealthyAt.IsZero():
		if ready := it.RetryAt.Add(d.p.HealthEvery); !it.RetryAt.IsZero() && d.now.Before(ready) {
			d.wake(ready)
			return
		}
		d.act(it, Act{Kind: ActExec, Step: StepHealth, Target: it.Target, Exec: it.Health})
		d.because(it, fleet.Because(WaitHealth, "target", it.Target.Name(), "detail", it.Reason.Args["detail"]))
	case it.FlippedAt.IsZero():
		if d.delayed(it, StepFlip) {
			return
		}
		d.act(it, Act{Kind: ActFlip, Step: StepFlip, Target: it.Target})
		d.because(it, fleet.Because(WaitFlip, "target", it.Target.Name()))
	default:
		d.retire(it)
	}
}

// retire stops an old copy whose replacement answers: TERM and its grace at
// once; the rest only when the outer deadline demands it.
func (d *decider) retire(it Item) {
	if it.TermAt.IsZero() {
		d.term(it, StepTerm)
		return
	}
	end := it.TermAt.Add(it.Budget.Grace)
	if d.now.Before(end) {
		d.because(it, fleet.Because(WaitGrace, "until", stamp(end)))
		d.wake(end)
		return
	}
	if last := d.s.Deadline.Add(-(d.p.TermGap + d.p.Margin)); d.now.Before(last) && it.Term2At.IsZero() {
		d.because(it, fleet.Because(WaitGrace, "until", stamp(last)))
		d.wake(last)
		return
	}
	if !it.MayDie {
		d.because(it, fleet.Because(WaitNotPlanned))
		return
	}
	d.finish(it, "plan", false)
}

func (d *decider) start(it Item) {
	if d.delayed(it, StepStart) {
		return
	}
	if d.moving >= d.p.MovesPerHost {
		d.because(it, fleet.Because(WaitTurn, "limit", strconv.Itoa(d.p.MovesPerHost), "running", strconv.Itoa(d.moving)))
		return
	}
	target, why := d.place(it)
	if target == "" {
		d.because(it, fleet.Because(WaitNoTarget, "why", why))
		return
	}
	d.moving++
	d.inbound[target]++
	d.act(it, Act{Kind: ActExec, Step: StepStart, Target: target, Exec: it.Start})
	d.because(it, fleet.Because(WaitStarting, "target", target.Name()))
}

// delayed reports whether a failed step must wait before it is tried again.
func (d *decider) delayed(it Item, step Step) bool {
	if it.RetryAt.IsZero() {
		return false
	}
	tries := min(max(it.Tries[step]-1, 0), 3)
	ready := it.RetryAt.Add(d.p.Retry << tries)
	if d.now.Before(ready) {
		d.wake(ready)
		return true
	}
	return false
}

// escalate is notice, TERM, the full grace, TERM, 30 seconds, record, KILL. It
// does not begin unless it can end before the outer deadline; byPerson lifts
// that, since a person who names a workload after the deadline means it.
func (d *decider) escalate(it Item, named string, byPerson bool) {
	if d.busy(it.Key) {
		return
	}
	if !byPerson && !it.MayDie {
		d.because(it, fleet.Because(WaitNotPlanned))
		return
	}
	begun := !it.NoticeAt.IsZero() || !it.TermAt.IsZero()
	if need := d.p.escalation(it.Budget.Grace); !begun && !byPerson && d.now.Add(need).After(d.s.Deadline.Add(d.p.Margin)) {
		d.because(it, fleet.Because(WaitNoTime, "needs", need.String(), "has", d.s.Deadline.Sub(d.now).Round(time.Second).String()))
		return
	}
	if it.NoticeAt.IsZero() && it.TermAt.IsZero() {
		d.notice(it)
		return
	}
	if term := it.NoticeAt.Add(d.p.Notice); it.TermAt.IsZero() && d.now.Before(term) {
		d.because(it, fleet.Because(WaitNotice, "term", stamp(term)))
		d.wake(term)
		return
	}
	if it.TermAt.IsZero() {
		d.term(it, StepTerm)
		return
	}
	if end := it.TermAt.Add(it.Budget.Grace); d.now.Before(end) {
		d.because(it, fleet.Because(WaitGrace, "until", stamp(end)))
		d.wake(end)
		return
	}
	d.finish(it, named, byPerson)
}

// finish is the end of every escalation, after the full grace.
func (d *decider) finish(it Item, named string, byPerson bool) {
	if d.busy(it.Key) || d.delayed(it, it.Step) {
		return
	}
	gap := it.Term2At.Add(d.p.TermGap)
	switch {
	case it.Term2At.IsZero():
		d.term(it, StepTerm2)
	case d.now.Before(gap):
		d.because(it, fleet.Because(WaitTermGap, "until", stamp(gap)))
		d.wake(gap)
	case d.p.Receivers && !it.Accepted && !byPerson:
		d.because(it, fleet.Because(WaitNoReceiver))
		if retry := it.NoticeAt.Add(d.p.Retry); !d.now.Before(retry) && it.Tries[StepNotice] < 20 {
			d.notice(it)
		}
	case it.RecordAt.IsZero():
		d.emit(DriveRecord{Key: it.Key, Runs: it.Runs, Owner: it.Owner, Class: it.Class, Term: it.TermAt, Term2: it.Term2At, Named: named})
		d.wake(d.now.Add(time.Millisecond))
	case it.KillAt.IsZero():
		d.act(it, Act{Kind: ActSignal, Step: StepKill, Signal: "KILL", Runs: it.Runs, Grace: it.Budget.Grace, Record: it.Record, Named: named})
		d.because(it, fleet.Because(WaitKill))
	}
}

func (d *decider) notice(it Item) {
	at := d.now.Add(d.p.Notice)
	d.act(it, Act{Kind: ActNotice, Step: StepNotice, At: at})
	d.because(it, fleet.Because(WaitNotice, "term", stamp(at)))
	d.wake(at)
}

func (d *decider) term(it Item, step Step) {
	if d.delayed(it, step) {
		return
	}
	d.act(it, Act{Kind: ActSignal, Step: step, Signal: "TERM", Runs: it.Runs, Grace: it.Budget.Grace})
}
