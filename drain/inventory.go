package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// inventory adds what the host shows and the drain does not know yet. Passes
// repeat it, so what arrives in mid-drain is seen, and marked late.
func (d *decider) inventory() {
	d.present = make(map[fleet.Key]struct{})
	var fresh []Found
	for _, f := range d.v.Source.Findings {
		if !d.subject(f) {
			continue
		}
		d.present[f.Key] = struct{}{}
		found := Classify(f, d.v.Source.Host, d.p)
		found.MayDie = d.s.MayDie[f.Key] && mayDie(found, d.s.Deadline)
		old, known := d.s.Items[f.Key]
		if known && old.Open() && !differs(old, found) {
			continue
		}
		if known && !old.Open() && old.Run == found.Run && old.End == LeftHost && found.Run.IsZero() {
			continue
		}
		fresh = append(fresh, found)
	}
	if len(fresh) == 0 && d.s.First {
		return
	}
	slices.SortFunc(fresh, func(a, b Found) int { return a.Key.Compare(b.Key) })
	d.emit(DriveFound{Items: fresh, Late: d.s.First})
}

// subject reports whether a finding is something that has to leave: a workload,
// or a process that nothing explains and that has been there for a while.
func (d *decider) subject(f fleet.Finding) bool {
	switch {
	case f.Workload != nil:
		return f.Workload.Kept == "" && f.Workload.Phase != fleet.Gone && !Keeps(f, d.v.Source.Host, d.p)
	case f.Process != nil:
		p := f.Process
		if p.System != "" || p.Kept != "" || f.Verdict != fleet.Unattributed {
			return false
		}
		return p.Started.IsZero() || d.facts.At.Sub(p.Started) >= d.p.Transient
	}
	return false
}

// differs reports whether what was observed says something new about an item. A
// reading that could not decide (verdict unknown) is not news.
func differs(it Item, f Found) bool {
	if f.Verdict == fleet.UnknownV {
		return it.Run != f.Run
	}
	class := f.Class
	if it.ClassBy != "" {
		class = it.Class
	}
	return it.Run != f.Run || it.Verdict != f.Verdict || it.Class != class || it.Phase != f.Phase ||
		!it.Expires.Equal(f.Expires) || it.Declared != f.Declared || !slices.Equal(it.Runs, f.Runs)
}

// mayDie says whether a drain's plan lists the workload as one that may be
// killed: the escalating strategies only.
func mayDie(f Found, deadline time.Time) bool {
	switch f.Class {
	case fleet.Stuck:
		return true
	case fleet.Ephemeral:
		return f.Expires.IsZero() || f.Expires.After(deadline)
	case fleet.Stateless:
		return f.Start != "" && f.Health != ""
	}
	return false
}

// missing decides about items that are no longer on the host. Only a reading of
// workloads and processes that succeeded can show that something is gone.
func (d *decider) missing() {
	if d.facts.Workloads.Status != fleet.OK || d.facts.Processes.Status != fleet.OK {
		probe, detail := "workloads", d.facts.Workloads.Error
		if d.facts.Processes.Status != fleet.OK {
			probe, detail = "processes", d.facts.Processes.Error
		}
		d.waits = append(d.waits, Wait{Reason: fleet.Because(WaitProbe, "probe", probe, "detail", detail)})
		return
	}
	var gone, back []fleet.Key
	var ends []Ended
	for _, k := range sortedKeys(d.s.Items) {
		it := d.s.Items[k]
		if !it.Open() {
			continue
		}
		_, here := d.present[k]
		switch {
		case here && !it.MissingAt.IsZero():
			back = append(back, k)
		case here:
		case it.MissingAt.IsZero():
			gone = append(gone, k)
		default:
			if end, ok := d.fate(it); ok {
				ends = append(ends, end)
			}
		}
	}
	if len(gone) > 0 {
		d.emit(DriveMissing{Keys: gone})
	}
	if len(back) > 0 {
		d.emit(DriveMissing{Keys: back, Back: true})
	}
	if len(ends) > 0 {
		d.emit(DriveEnded{Ends: ends})
	}
}

// fate tells left from lost for something that is no longer there.
//
// It left by a lever if we signalled it, by its TTL if that had run out, and by
// its owner if the owner said so within the cache window: the claim turned gone,
// or the manifest was removed. Otherwise it is lost. What nobody ever claimed
// can't be lost to anybody.
func (d *decider) fate(it Item) (Ended, bool) {
	left := func(by string) (Ended, bool) { return Ended{Key: it.Key, End: LeftHost, By: by}, true }
	until := it.MissingAt.Add(d.p.CacheWindow)
	switch {
	case !it.TermAt.IsZero():
		return left("lever")
	case it.Verdict == fleet.Unattributed || it.Verdict == fleet.Orphan:
		return left("itself")
	case !it.Expires.IsZero() && !it.MissingAt.Before(it.Expires):
		return left("ttl")
	}
	if d.ownerSaidGone(it) {
		return left("owner")
	}
	if d.now.Before(until) {
		d.because(it, fleet.Because(WaitMissing, "until", stamp(until)))
		d.wake(until)
		return Ended{}, false
	}
	if d.v.Source.Claims.Status != fleet.OK && !d.v.SelfClaims {
		d.because(it, fleet.Because(WaitUnknown, "detail", "it is gone from the host and the control plane can't be read: "+d.v.Source.Claims.Error))
		return Ended{}, false
	}
	return Ended{Key: it.Key, End: Lost, By: "it vanished, and its owner did not say so"}, true
}

func (d *decider) ownerSaidGone(it Item) bool {
	if it.Declared {
		declared := slices.ContainsFunc(d.facts.Workloads.Value, func(w fleet.Workload) bool { return w.Key == it.Key && w.Declared })
		if !declared {
			return true
		}
	}
	if d.v.SelfClaims || d.v.Source.Claims.Status != fleet.OK || !d.v.Source.Stable {
		return false
	}
	for _, c := range d.v.Source.Claims.Value {
		if c.Key == it.Key && c.Phase != fleet.Gone {
			return false
		}
	}
	return true
}
