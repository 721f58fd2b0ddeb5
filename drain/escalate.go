package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// escalate is notice, TERM, the full grace, TERM, 30 seconds, record, KILL. No
// part of it begins that can't be finished before the outer deadline; byPerson
// lifts that, since a person who names a workload means it.
func (d *decider) escalate(it Item, named string, byPerson bool) {
	if d.busy(it.Key) {
		return
	}
	if !byPerson && !it.MayDie {
		d.because(it, fleet.Because(WaitNotPlanned))
		return
	}
	if len(d.runs(it)) == 0 {
		d.because(it, fleet.Because(WaitNoProcess))
		return
	}
	grace := d.grace(it)
	fits := func(need time.Duration) bool {
		if byPerson || !d.now.Add(need).After(d.s.Deadline) {
			return true
		}
		d.because(it, fleet.Because(WaitNoTime, "needs", need.String(), "has", d.s.Deadline.Sub(d.now).Round(time.Second).String()))
		return false
	}
	told, asked := it.NoticeAt.Add(d.p.Notice), it.TermAt.Add(grace)
	switch {
	case it.NoticeAt.IsZero():
		if fits(d.p.escalation(grace) - d.p.Margin) {
			d.notice(it)
		}
	case it.TermAt.Before(it.NoticeAt): // or not sent yet
		if d.now.Before(told) {
			d.because(it, fleet.Because(WaitNotice, "term", stamp(told)))
			d.wake(told)
		} else if fits(grace + d.p.TermGap) {
			d.term(it, StepTerm)
		}
	case d.now.Before(asked):
		d.because(it, fleet.Because(WaitGrace, "until", stamp(asked)))
		d.wake(asked)
	case it.Term2At.Before(asked): // or sent before more grace was given
		if fits(d.p.TermGap) {
			d.term(it, StepTerm2)
		}
	default:
		d.finish(it, named, byPerson)
	}
}

// finish is the end of every escalation, after the second TERM.
func (d *decider) finish(it Item, named string, byPerson bool) {
	gap := it.Term2At.Add(d.p.TermGap)
	heard := it.AcceptedAt.Add(d.p.Notice)
	switch {
	case !it.KillAt.IsZero():
		d.because(it, fleet.Because(WaitSurvived, "since", stamp(it.KillAt)))
	case d.now.Before(gap):
		d.because(it, fleet.Because(WaitTermGap, "until", stamp(gap)))
		d.wake(gap)
	case d.p.Receivers && !it.Accepted && !byPerson:
		d.because(it, fleet.Because(WaitNoReceiver))
		if !d.delayed(it) {
			d.act(it, Act{Kind: ActNotice, Step: StepNotice, Runs: d.runs(it), Grace: d.grace(it), At: it.TermAt})
		}
	case d.p.Receivers && !byPerson && d.now.Before(heard): // whoever heard late has the same time to object
		d.because(it, fleet.Because(WaitNotice, "kill", stamp(heard)))
		d.wake(heard)
	case d.delayed(it):
	default:
		d.kill(it, named)
	}
}

// kill records first. Only what stands in the record is killed: processes that
// came later are another incarnation's, or are recorded anew.
func (d *decider) kill(it Item, named string) {
	var runs []fleet.Run
	for _, r := range d.runs(it) {
		if slices.Contains(it.RecordRuns, r) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 || it.RecordAt.IsZero() || it.RecordAt.Before(it.Term2At) {
		d.emit(DriveRecord{Key: it.Key, Runs: d.runs(it), Owner: it.Owner, Class: it.Class, Term: it.TermAt, Term2: it.Term2At, Named: named})
		d.because(it, fleet.Because(WaitKill))
		d.wake(d.now.Add(time.Millisecond))
		return
	}
	d.act(it, Act{Kind: ActSignal, Step: StepKill, Signal: "KILL", Runs: runs, Grace: d.grace(it), Record: it.Record, Named: named})
	d.because(it, fleet.Because(WaitKill))
}

func (d *decider) notice(it Item) {
	if d.delayed(it) {
		return
	}
	at := d.now.Add(d.p.Notice)
	d.act(it, Act{Kind: ActNotice, Step: StepNotice, Runs: d.runs(it), Grace: d.grace(it), At: at})
	d.because(it, fleet.Because(WaitNotice, "term", stamp(at)))
	d.wake(at)
}

func (d *decider) term(it Item, step Step) {
	if d.delayed(it) {
		return
	}
	runs := d.runs(it)
	if len(runs) == 0 {
		d.because(it, fleet.Because(WaitNoProcess))
		return
	}
	d.act(it, Act{Kind: ActSignal, Step: step, Signal: "TERM", Runs: runs, Grace: d.grace(it)})
}
