package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// Unsure is a start of a replacement of which nobody knows what became: the
// target's agent died in the middle of it, or its answer was lost. Until that
// target has been looked at, nothing is started there or anywhere else, because
// the first one may be running.
type Unsure struct {
	At      time.Time `json:"at,omitzero"`
	Answers string    `json:"answers,omitempty"` // yes or no: what the health command has said since
}

// IsZero reports whether there is no doubt.
func (u Unsure) IsZero() bool { return u.At.IsZero() }

// unsure reports whether an outcome leaves open whether a start has taken. What
// was refused has not begun; a command that failed says so itself, unless it was
// ended because it took too long.
func (b DriveOutcome) unsure() bool {
	switch b.Result {
	case Interrupted, NotDone:
		return true
	case FailedAct:
		return b.Reason.Code == TimedOut
	}
	return false
}

// TimedOut is the reason of a command that was ended by its host's agent because
// it took too long.
const TimedOut = "timed_out"

// UnsureOf names the hosts that must be read anew before a decision: what may
// run on them decides what comes next.
func (s State) UnsureOf() []fleet.HostID {
	var ids []fleet.HostID
	for _, it := range s.Items {
		if it.Open() && !it.Unsure.IsZero() && it.Target != "" && !slices.Contains(ids, it.Target) {
			ids = append(ids, it.Target)
		}
	}
	slices.Sort(ids)
	return ids
}

// settle finds out what became of a start. What the target shows of the workload
// is adopted as soon as it answers. Only a target that was read anew, shows
// nothing of it once the cache window has passed, and where its health command
// says no, proves that there is none.
func (d *decider) settle(it Item) {
	there, at, why := d.observed(it)
	until := it.Unsure.At.Add(d.p.CacheWindow)
	switch {
	case d.beyondReach(it):
	case why != "":
		d.because(it, fleet.Because(WaitUnsure, "target", it.Target.Name(), "detail", why))
	case there:
		d.health(it, true)
	case it.Unsure.Answers == "":
		d.health(it, false)
	case d.now.Before(until):
		d.because(it, fleet.Because(WaitUnsure, "target", it.Target.Name(), "until", stamp(until)))
		d.wake(until)
	default:
		d.moving-- // it is not on its way there
		d.inbound[it.Target] = slices.DeleteFunc(d.inbound[it.Target], func(f Found) bool { return f.Key == it.Key })
		d.start(it, at)
	}
}

// placeFor asks for a target. Where something answers for the workload that the
// target's rules do not recognise, its start is repeated there and nowhere else.
func (d *decider) placeFor(it Item) (fleet.HostID, fleet.Reason) {
	if it.Unsure.Answers != "yes" {
		return d.place(it)
	}
	all := d.v.Targets
	defer func() { d.v.Targets = all }()
	d.v.Targets = slices.DeleteFunc(slices.Clone(all), func(v fleet.HostView) bool { return v.Host.ID != it.Target })
	return d.place(it)
}

// observed reports whether a target shows an item, by which reading of its own
// clock, or why that can't be said.
func (d *decider) observed(it Item) (there bool, at time.Time, why string) {
	i := slices.IndexFunc(d.v.Targets, func(v fleet.HostView) bool { return v.Host.ID == it.Target })
	if i < 0 || !slices.Contains(d.v.Anew, it.Target) {
		return false, time.Time{}, "it has not been read since"
	}
	f, ok := d.v.Targets[i].Facts.Get()
	switch {
	case !ok:
		return false, time.Time{}, "it can't be read: " + d.v.Targets[i].Facts.Error
	case f.Workloads.Status != fleet.OK:
		return false, time.Time{}, "its workloads can't be read: " + f.Workloads.Error
	}
	there = slices.ContainsFunc(f.Workloads.Value, func(w fleet.Workload) bool { return w.Key == it.Key && w.Phase == fleet.Running })
	return there, f.At, ""
}
