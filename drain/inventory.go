package drain

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"ebb/fleet"
)

// inventory adds what the host shows and the drain does not know yet. Passes
// repeat it, so what arrives in mid-drain is seen, and marked late.
func (d *decider) inventory() {
	fresh, again := d.look()
	machine, boot := d.facts.Machine, d.facts.Boot
	if d.s.Machine != "" {
		machine = ""
	}
	if d.s.Boot != "" {
		boot = ""
	}
	if len(again) > 0 {
		d.emit(DriveFound{Items: sortedFound(again), Again: true})
	}
	if len(fresh) == 0 && d.s.First && machine == "" && boot == "" {
		return
	}
	d.emit(DriveFound{Items: sortedFound(fresh), Late: d.s.First, Machine: machine, Boot: boot})
	if len(fresh) > 0 {
		d.keys = sortedKeys(d.s.Items)
	}
}

// look takes note of what this reading shows, and tells what of that is new to the
// drain, and of what it says something new.
func (d *decider) look() (fresh, again []Found) {
	d.present = make(map[fleet.Key]bool, len(d.v.Source.Findings))
	d.seen = make(map[fleet.Key]*Found, len(d.v.Source.Findings))
	shown := make([]Found, 0, len(d.v.Source.Findings)) // never grows: d.seen points into it
	for _, w := range d.facts.Workloads.Value {
		d.present[w.Key] = w.Phase != fleet.Gone
	}
	for _, f := range d.v.Source.Findings {
		if f.Process == nil && (f.Workload == nil || f.Workload.Phase == fleet.Gone) {
			continue
		}
		d.present[f.Key] = true
		old, known := d.s.Items[f.Key]
		known = known && old.Open()
		found := d.classify(f, old)
		if !usable(f.Key) || !known && !d.subject(f) {
			continue
		}
		if found.Kept == "" {
			shown = append(shown, found)
			d.seen[f.Key] = &shown[len(shown)-1]
		}
		switch {
		case !known || old.Run != found.Run:
			fresh = append(fresh, found)
		case differs(old, found):
			again = append(again, found)
		}
	}
	return fresh, again
}

// classify is Classify for an item that may be known already: what a person
// chose stands, and so does the class of a copy whose claim we have moved.
func (d *decider) classify(f fleet.Finding, old Item) Found {
	found := Classify(f, d.v.Source.Host, d.p)
	found.Kept = d.kept(f)
	moved := old.Open() && (old.Replaced() || old.Move.Underway() || old.Move.Complete() || old.Move.Resting())
	if old.ParkBy != "" || moved {
		found.Park = old.Park
	}
	switch {
	case old.ClassBy != "":
		if found.Class != old.Class {
			found.Lever, found.InFlight, found.Readiness = "", nil, "" // those of a class that it does not have
			found.Budget = d.p.Defaults[old.Class]
			if f.Workload != nil {
				found.Budget.Grace = max(found.Budget.Grace, f.Workload.Grace)
			}
		}
		if moved { // its claim says nothing of its class any more: what is known of its traffic stands
			found.Lever, found.Readiness = cmp.Or(found.Lever, old.Lever), cmp.Or(found.Readiness, old.Readiness)
			if found.InFlight == nil {
				found.InFlight = old.InFlight
			}
		}
		found.Class, found.Rule = old.Class, old.Rule
	case moved:
		found.Class, found.Rule, found.Budget = old.Class, old.Rule, old.Budget
		found.Lever, found.InFlight, found.Readiness = old.Lever, old.InFlight, old.Readiness
	}
	found.MayDie = d.s.MayDie[f.Key] && mayDie(found)
	return found
}

// kept says by which rule a finding may stay.
func (d *decider) kept(f fleet.Finding) string {
	switch {
	case f.Workload != nil && f.Workload.Kept != "":
		return f.Workload.Kept
	case f.Workload != nil && Keeps(f, d.v.Source.Host, d.p):
		return "a rule of the fleet"
	case f.Process != nil && f.Process.Kept != "":
		return f.Process.Kept
	case f.Process != nil && f.Process.System != "":
		return f.Process.System
	}
	return ""
}

func sortedFound(all []Found) []Found {
	slices.SortFunc(all, func(a, b Found) int { return a.Key.Compare(b.Key) })
	return all
}

// subject reports whether a finding is something that has to leave: a workload,
// or a process that nothing explains and that has been there for a while.
func (d *decider) subject(f fleet.Finding) bool {
	if d.kept(f) != "" {
		return false
	}
	if f.Workload != nil {
		return f.Workload.Phase != fleet.Gone
	}
	if p := f.Process; p != nil && f.Verdict == fleet.Unattributed {
		return p.Started.IsZero() || d.facts.At.Sub(p.Started) >= d.p.Transient
	}
	return false
}

// differs reports whether what was observed says something new about an item. A
// reading that could not decide (verdict unknown) is not news, and neither are
// the processes that a workload starts and ends: acts name those of the reading
// that they rest on.
func differs(it Item, f Found) bool {
	if it.Run != f.Run {
		return true
	}
	if f.Verdict == fleet.UnknownV {
		return false
	}
	return it.Verdict != f.Verdict || it.Class != f.Class || it.Phase != f.Phase || it.Rule != f.Rule ||
		!it.Expires.Equal(f.Expires) || it.Declared != f.Declared || it.MayDie != f.MayDie || it.Kept != f.Kept ||
		it.Park != f.Park || it.Lever != f.Lever || it.Readiness != f.Readiness || !sameInFlight(it.InFlight, f.InFlight) || !sameNeeds(it.Needs, f.Needs) ||
		it.Start != f.Start || it.Health != f.Health || it.Stop != f.Stop || it.Owner != f.Owner ||
		it.Budget.Move < f.Budget.Move || it.Budget.Grace < f.Budget.Grace
}

// sameInFlight and sameNeeds spare most workloads, which have neither, a deep
// comparison.
func sameInFlight(a, b *fleet.InFlight) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}

func sameNeeds(a, b fleet.Needs) bool {
	return a.IsZero() && b.IsZero() || reflect.DeepEqual(a, b)
}

// mayDie says whether a class has a strategy that can end in a KILL. An
// ephemeral workload is among them: it may ignore its own end.
func mayDie(f Found) bool {
	switch f.Class {
	case fleet.Stuck, fleet.Ephemeral:
		return true
	case fleet.Stateless:
		return f.Start != "" && f.Health != "" || f.Lever != ""
	}
	return false
}

// everyone is all items, for missing.
func everyone(Item) bool { return true }

// missing decides about items that are no longer on the host, those of them that
// are asked about. Only a reading of workloads and processes that succeeded can
// show that something is gone.
func (d *decider) missing(about func(Item) bool) {
	probe, detail := "", ""
	switch {
	case d.facts.Processes.Status != fleet.OK:
		probe, detail = "processes", d.facts.Processes.Error
	case !d.facts.Workloads.Known():
		probe, detail = "workloads", d.facts.Workloads.Error
	}
	if probe != "" {
		if d.whole.IsZero() {
			d.whole = fleet.Because(WaitProbe, "probe", probe, "detail", detail)
		}
		return
	}
	processes := make(map[fleet.Key]bool)
	strays := make(map[fleet.Run]bool)
	for _, p := range d.facts.Processes.Value {
		if p.Owner.IsZero() {
			processes[p.Key()] = true
			strays[p.Run] = p.System == "" && p.Kept == "" && p.State != "Z" && p.State != "X"
		}
	}
	var gone, back []fleet.Key
	var ends []Ended
	for _, k := range d.keys {
		it := d.s.Items[k]
		if !about(it) {
			continue
		}
		here := d.present[k] || processes[k]
		if it.Open() && !here && strays[it.Run] { // its manifest was removed, say: that ends no process
			here = true
			if !it.Move.Underway() { // then its lever says why it waits
				d.because(it, fleet.Because(WaitUnknown, "detail", "its process runs, and nothing on the host says any more that it is this workload's"))
			}
		}
		switch {
		case !it.Open():
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
		d.wake(d.now.Add(time.Second)) // a second reading decides
	}
	if len(back) > 0 {
		d.emit(DriveMissing{Keys: back, Back: true})
	}
	if len(ends) > 0 {
		d.emit(DriveEnded{Ends: ends})
	}
}

// cause is what an item itself shows to have ended it: a signal of ours, its
// TTL. What nobody ever claimed can't be lost to anybody. A TTL has run out only
// where the host's own clock says so too: with a journal whose clock is wrong a
// loss would count as an end.
func (d *decider) cause(it Item) string {
	switch {
	case !it.SignalAt.IsZero():
		return "lever"
	case it.Replaced():
		if !it.FlippedAt.IsZero() && !it.HealthyAt.After(it.MissingAt) {
			return "lever"
		}
	case it.Verdict == fleet.Unattributed || it.Verdict == fleet.Orphan:
		return "itself"
	}
	if !it.Expires.IsZero() && !it.MissingAt.Before(it.Expires) && !d.facts.At.Before(it.Expires) {
		return "ttl"
	}
	return ""
}

// fate tells left from lost for something that is no longer there.
//
// It left by a lever if we signalled it or had replaced it, by its TTL if that
// had run out, and by its owner if the owner said so within the cache window:
// the claim turned gone, or the manifest was removed. Otherwise it is lost.
func (d *decider) fate(it Item) (Ended, bool) {
	until := it.MissingAt.Add(d.p.CacheWindow)
	waits := func(r fleet.Reason) (Ended, bool) {
		d.because(it, r)
		return Ended{}, false
	}
	if it.Move.Underway() && it.Escalated == "" && !(it.Move.NoReturn && (it.Held || it.Keep)) {
		return Ended{}, false // its lever has it: what is here may be gone, and come back
	}
	if by := d.cause(it); by != "" {
		return Ended{Key: it.Key, End: LeftHost, By: by}, true
	}
	if d.ownerSaidGone(it) {
		return Ended{Key: it.Key, End: LeftHost, By: "owner"}, true
	}
	if d.now.Before(until) {
		d.wake(until)
		if d.replacing(it) {
			return Ended{}, false // its strategy says why it waits
		}
		return waits(fleet.Because(WaitMissing, "until", stamp(until)))
	}
	if d.signalling(it.Key) {
		return waits(fleet.Because(WaitUnknown, "detail", "it is gone, and the outcome of a signal to it is not known yet"))
	}
	if d.v.Source.Claims.Status != fleet.OK && !d.v.SelfClaims {
		return waits(fleet.Because(WaitUnknown, "detail", "it is gone from the host and the control plane can't be read: "+d.v.Source.Claims.Error))
	}
	if d.replacing(it) {
		return Ended{}, false // its strategy goes on, so that the service comes back
	}
	how := "it vanished, and its owner did not say so"
	if it.Move.Resting() {
		how = "it was parked here, and its state is gone"
	}
	if !it.StartedAt.IsZero() {
		how = "it vanished before its replacement on " + it.Target.Name() + " answered"
	}
	return Ended{Key: it.Key, End: Lost, By: how}, true
}

// replacing reports whether a workload that has vanished is being replaced, so
// that its replacement should still be looked after.
func (d *decider) replacing(it Item) bool {
	return it.Class == fleet.Stateless && !(it.StartedAt.IsZero() && it.Unsure.IsZero() && it.Remains.IsZero()) && it.FlippedAt.IsZero() && d.missingCommand(it.Found) != "health" &&
		d.s.Phase == Draining && !it.Held && !it.Keep && !d.excepted(it) && it.Escalated == ""
}

// ownerSaidGone reports whether claim or manifest say that the workload was
// ended, around the time at which it vanished.
func (d *decider) ownerSaidGone(it Item) bool {
	same := func(w fleet.Workload) bool { return w.Key == it.Key && w.Declared }
	if it.Declared && d.facts.Workloads.Status == fleet.OK && !slices.ContainsFunc(d.facts.Workloads.Value, same) {
		return true
	}
	if d.v.SelfClaims || d.v.Source.Claims.Status != fleet.OK || !d.v.Source.Stable || it.Replaced() {
		return false // a claim that we moved says nothing about its owner
	}
	for _, c := range d.v.Source.Claims.Value {
		if c.Key != it.Key {
			continue
		}
		if c.Phase != fleet.Gone || c.Changed.After(it.MissingAt.Add(d.p.CacheWindow)) {
			return false
		}
	}
	return true
}

// runs is what a signal to an item names: its processes as this reading shows
// them, the main one first.
func (d *decider) runs(it Item) []fleet.Run {
	f, ok := d.seen[it.Key]
	if !ok || f.Run != it.Run {
		return nil
	}
	if len(f.Runs) == 0 && !f.Run.IsZero() {
		return []fleet.Run{f.Run}
	}
	return slices.Clone(f.Runs)
}
