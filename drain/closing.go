package drain

import (
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// blocking reports whether an item keeps the host from being looked at as empty.
func (d *decider) blocking(it Item) bool {
	if it.Open() && it.Move.Underway() && !it.Held && !it.Keep {
		return true
	}
	return it.Open() && !it.Keep && it.Kept == "" && !d.excepted(it) && !d.atRest(it)
}

// excepted reports whether the gate has accepted that an item stays. What was
// accepted of an earlier one of its name, a loss say, does not cover it, and
// nothing does that a person has escalated since.
func (d *decider) excepted(it Item) bool {
	return it.Excepted || it.Escalated == "" && slices.ContainsFunc(d.facts.Accepted, func(a fleet.Accepted) bool {
		return a.Key == it.Key && a.At.After(it.FoundAt)
	})
}

// accepted reports whether the gate has accepted that something was lost.
func (d *decider) accepted(k fleet.Key) bool {
	_, ok := d.s.Accepted[k]
	return ok || slices.ContainsFunc(d.facts.Accepted, func(a fleet.Accepted) bool { return a.Key == k })
}

// close moves the drain to verifying, empty or parked, or back, by what is left. A
// host is empty only by a reading made after the first one in which nothing stood
// against it any more, and that was made after the last act: what a person cleaned
// in between was an act too. It is parked where all that stands against it is
// parked on it.
func (d *decider) close(act bool) {
	for _, it := range d.s.Items {
		if d.blocking(it) {
			if d.s.Phase == Verifying || d.s.Phase == Empty || d.s.Phase == Parked {
				d.phase(Draining, nil, time.Time{})
			}
			return
		}
	}
	if !act || d.s.Person {
		return
	}
	issues := d.issues()
	parked, others := d.split(issues)
	end := Empty
	if len(parked) > 0 {
		end = Parked
	}
	again := d.facts.At.IsZero() || !d.s.Seen.IsZero() && d.facts.At.After(d.s.Seen)
	since := d.s.Seen
	switch {
	case len(others) > 0:
		since = time.Time{}
	case since.IsZero():
		since = d.facts.At
	}
	news := !slices.Equal(d.s.Issues, issues) || !since.Equal(d.s.Seen)
	switch d.s.Phase {
	case Draining:
		d.phase(Verifying, issues, since)
	case DeadlineReached:
		if len(others) == 0 && again {
			d.phase(Verifying, parked, since)
			d.phase(end, parked, since)
		} else if news {
			d.phase(DeadlineReached, issues, since)
		}
	case Verifying:
		if len(others) == 0 && again {
			d.phase(end, parked, since)
		} else if news {
			d.phase(Verifying, issues, since)
		}
	case Empty, Parked:
		if len(others) > 0 || end != d.s.Phase {
			d.phase(Verifying, issues, since)
		}
	}
}

// issues is what the gate says, and what this package itself knows to stand
// against it: an empty host is never concluded from a list that somebody forgot
// to fill.
func (d *decider) issues() []fleet.Issue {
	all := slices.Clone(d.v.Issues)
	add := func(check string, k fleet.Key, detail string, acceptable bool) {
		same := func(is fleet.Issue) bool { return is.Check == check && (is.Key == k || is.Key.IsZero()) }
		if !slices.ContainsFunc(all, same) {
			all = append(all, fleet.Issue{Check: check, Key: k, Detail: detail, Acceptable: acceptable})
		}
	}
	for _, p := range d.facts.Probes() {
		if p.Status != fleet.OK && !(p.Status == fleet.NotApplicable && p.Name != "processes") {
			add(fleet.CheckProbes, fleet.Key{Kind: "probe", ID: p.Name}, p.Name+" was not read: "+p.Error, false)
		}
	}
	for _, t := range d.facts.OpenTickets() {
		add(fleet.CheckTickets, t.Key, "ticket "+t.ID+" is open", false)
	}
	switch {
	case d.v.SelfClaims:
	case d.v.Source.Claims.Status != fleet.OK:
		add(fleet.CheckClaims, fleet.Key{}, "the control plane can't be read: "+d.v.Source.Claims.Error, false)
	case !d.v.Source.Stable:
		add(fleet.CheckClaims, fleet.Key{}, "two readings of the claims do not agree yet", false)
	}
	for _, k := range d.keys {
		if it := d.s.Items[k]; it.Open() && it.Kept == "" && !d.excepted(it) {
			what := " is kept, and not accepted"
			if d.atRest(it) {
				what = " is parked here, at rest"
			}
			add(fleet.CheckLeft, k, k.String()+what, true)
		}
	}
	for _, l := range d.s.Lost {
		if !d.accepted(l.Key) {
			add(fleet.CheckLost, l.Key, l.Key.String()+" was lost: "+l.How, true)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(d.open), fleet.Key.Compare) {
		text := "an act on " + k.String() + " has no outcome yet"
		if on, doubt := d.s.InDoubt(k); doubt && len(d.v.Targets) > 0 {
			if _, listed := d.target(on); !listed {
				text += ": " + on.Name() + " is no longer in the fleet; ask target-gone once that is known to be gone"
			}
		}
		add(fleet.CheckLeft, k, text, false)
	}
	return all
}

// deadline names what is left. Nothing new begins after it. What has arrived
// since the last pass is named too, and where the host can't be read, that.
func (d *decider) deadline(why fleet.Reason) {
	if why.IsZero() && !d.rebooted() {
		d.inventory()
		d.missing(everyone)
	}
	left := d.left()
	ev := DriveDeadline{Left: left}
	if !why.IsZero() {
		ev.Age = "the host can't be read: this is what was last known"
		if at := d.s.LastAt; !at.IsZero() {
			ev.Age += ", " + d.now.Sub(at).Round(time.Second).String() + " old"
		}
		if len(left) == 0 {
			ev.Left = []Left{{Reason: why}}
		}
	}
	d.emit(ev)
	d.phase(DeadlineReached, d.v.Issues, time.Time{})
}

// left names what is open, and what else the gate has against the host.
func (d *decider) left() []Left {
	var left []Left
	for _, k := range d.keys {
		it := d.s.Items[k]
		if !it.Open() {
			continue
		}
		reason := it.Reason
		switch {
		case !it.MissingAt.IsZero():
			reason = fleet.Because(WaitMissing, "until", stamp(it.MissingAt.Add(d.p.CacheWindow)))
		case reason.IsZero() && it.Step != StepWait:
			reason = fleet.Because(WaitNoTime, "step", string(it.Step))
		case reason.IsZero():
			reason = fleet.Because(WaitArrived)
		}
		left = append(left, Left{Key: k, Class: it.Class, Owner: it.Owner, Step: it.Step, Reason: reason})
	}
	for _, is := range d.v.Issues {
		if !slices.ContainsFunc(left, func(l Left) bool { return l.Key == is.Key && !is.Key.IsZero() }) {
			left = append(left, Left{Key: is.Key, Reason: fleet.Because("issue", "check", is.Check, "detail", is.Detail)})
		}
	}
	return left
}

// nameLeft names what the deadline did not: what a host shows that could not be
// read then, and what has come since. Nothing that is left is without a name.
func (d *decider) nameLeft() {
	named := make(map[fleet.Key]bool, len(d.s.Left))
	for _, l := range d.s.Left {
		named[l.Key] = true
	}
	for _, k := range d.keys {
		if it := d.s.Items[k]; it.Open() && !named[k] {
			d.emit(DriveDeadline{Left: d.left()})
			return
		}
	}
}
