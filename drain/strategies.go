package drain

import (
	"time"

	"ebb/fleet"
)

// strategies asks each open item's strategy what comes next for it.
func (d *decider) strategies() {
	d.inbound = make(map[fleet.HostID][]Found)
	for _, k := range d.keys {
		it := d.s.Items[k]
		if it.Open() && (!it.StartedAt.IsZero() || !it.Unsure.IsZero() || !it.Remains.IsZero() || d.starting(it.Key) || it.Move.Underway()) {
			d.moving++
			d.promise(it.Target, it)
		}
	}
	for _, k := range d.keys {
		it := d.s.Items[k]
		if !it.Open() || d.only != nil && !d.only(it) {
			continue
		}
		_, here := d.seen[k]
		switch {
		case it.Escalated == "" && it.Move.Resting():
			d.rests(it)
		case it.Escalated == "" && it.Move.Underway():
			d.move(it)
		case here && it.MissingAt.IsZero():
			d.strategy(it)
		case !it.MissingAt.IsZero() && d.replacing(it):
			d.redeploy(it)
		}
	}
}

// strategy decides about one item. After the outer deadline only what a person
// escalated by name goes on. What a person told to leave alone is left alone,
// whatever was said before.
func (d *decider) strategy(it Item) {
	switch {
	case it.Held, it.Keep, it.Kept != "":
	case d.busy(it.Key):
		d.beyondReach(it)
	case it.Escalated != "":
		d.escalate(it, it.Escalated, true)
	case d.excepted(it): // somebody took the responsibility that it stays
	case d.s.Phase == DeadlineReached, !d.now.Before(d.s.Deadline):
	case it.Move.Complete():
		d.move(it)
	case it.Phase == fleet.AtRest:
		d.because(it, restReason(it.Class))
	case it.Replaced() && it.Class == fleet.Stateless:
		d.redeploy(it)
	case it.Class != fleet.Unclassified && d.doubtful(it):
	default:
		d.byClass(it)
	}
}

func (d *decider) byClass(it Item) {
	switch it.Class {
	case fleet.Ephemeral:
		d.expire(it)
	case fleet.Stateless:
		d.redeploy(it)
	case fleet.Stuck:
		d.escalate(it, "plan", false)
	case fleet.Pausable, fleet.Durable:
		d.move(it)
	default:
		d.because(it, fleet.Because(WaitUnclassified, "verdict", string(it.Verdict)))
	}
}

// doubtful reports whether this reading can't say that somebody claims the item:
// then nothing is done to it now, even where an earlier reading could.
func (d *decider) doubtful(it Item) bool {
	var now fleet.Verdict
	if f := d.seen[it.Key]; f != nil {
		now = f.Verdict
	}
	if now == fleet.Agreed || now == fleet.Resting {
		return false
	}
	switch {
	case it.Verdict == fleet.UnknownV:
		d.because(it, fleet.Because(WaitUnknown, "detail", "it is not known whether anybody claims it"))
	case now != fleet.UnknownV: // a class that a person chose does not make it somebody's
		d.because(it, fleet.Because(WaitUnclassified, "verdict", string(now)))
	}
	return true
}

func restReason(c fleet.Class) fleet.Reason {
	return fleet.Because(WaitNoStrategy, "class", c.String(), "state", "at rest on this host")
}

// expire lets a workload end by itself. What outlives the outer deadline, or its
// own expiry, is escalated, started in time to be over before the deadline.
func (d *decider) expire(it Item) {
	start := d.p.lastStart(d.s.Deadline, d.grace(it))
	ends := it.Expires.After(d.now) && !it.Expires.After(d.s.Deadline)
	switch {
	case !it.NoticeAt.IsZero():
		d.escalate(it, "plan", false)
	case ends:
		d.becauseAt(it, WaitExpires, "at", it.Expires)
		d.wake(it.Expires)
	case d.expiring(it):
		d.becauseAt(it, WaitExpires, "at", it.Expires)
		d.wake(it.Expires.Add(d.p.Transient))
	case d.now.Before(start):
		d.wake(start)
		d.because(it, fleet.Because(WaitOutlives, "expires", stamp(it.Expires), "escalates", stamp(start)))
	default:
		d.escalate(it, "plan", false)
	}
}

// expiring reports whether an item's own time has only just run out: it needs a
// moment to be gone, and nobody is told of an escalation that it will not see, nor
// that there is no time for one. It waits only where the escalation would still fit
// after that moment, or does not fit now either.
func (d *decider) expiring(it Item) bool {
	if it.Expires.IsZero() || it.Expires.After(d.now) || it.Expires.After(d.s.Deadline) {
		return false
	}
	moment, last := it.Expires.Add(d.p.Transient), d.p.lastStart(d.s.Deadline, d.grace(it)).Add(d.p.Margin)
	return d.now.Before(moment) && (!moment.After(last) || d.now.After(last))
}

// delayed reports whether a step that failed must wait before it is tried again.
func (d *decider) delayed(it Item) bool {
	return d.tooSoon(it.RetryAt, d.p.Retry<<min(max(it.Fails-1, 0), 3))
}

// setBack is how far ahead of the driver's clock a stamp may be before it counts
// as one from before the journal's clock was set back: two readings of one clock
// are not as far apart.
const setBack = time.Minute

// tooSoon reports whether what was last tried at since has to wait, and has the
// decider called when it no longer has. For what was tried at a time that is still
// to come nobody waits, since that could be hours.
func (d *decider) tooSoon(since time.Time, after time.Duration) bool {
	if since.IsZero() || since.Sub(d.now) > setBack {
		return false
	}
	ready := since.Add(after)
	if d.now.Before(ready) {
		d.wake(ready)
		return true
	}
	return false
}

func (d *decider) grace(it Item) time.Duration { return d.p.Grace(it) }

// Grace is the time that a workload has between the first TERM and the second,
// with what a person added. One that has no such budget, because its class is
// never escalated by itself, gets that of the class that is.
func (p Policy) Grace(it Item) time.Duration {
	grace := it.Budget.Grace
	if grace <= 0 {
		grace = p.Defaults[fleet.Stuck].Grace
	}
	return grace + it.Extra
}
