package drain

import (
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// Parking is the other way of a pausable workload: instead of being shipped it is
// snapshotted, kept at rest on its own host, and resumed there after the
// maintenance. These are its rules:
//
//   - A rule of its class says so (park = true), or a person, by name. It needs a
//     lever that has snapshot and resume.
//   - What is parked is counted by the reading, not by the lever's word: its state
//     must be seen at rest, with no process. It is neither left nor lost, it stands
//     by name in the state, at the deadline and at the gate, and a host that has
//     nothing but it is parked, not empty. State that vanished is lost.
//   - It is not parked where that would lose it: on a host that is to be retired or
//     whose hardware is at stake, and where the drain is about what its snapshot
//     depends on. Then it is shipped, and the plan says why it isn't parked.
//   - Nothing resumes by itself: a person asks, once the drain is over (AskResume).
//     That stops the drain, so that nothing is parked again; its holds stay. The
//     host may have been rebooted meanwhile, but must be the machine it was.
//   - Before it is resumed its state must be there at rest, claimed on this host,
//     and the host must still have the versions that it had when it was parked.
//   - To resume is past the point of no return: from then on there is a runnable
//     copy here, the only one, and its steps are finished, in their order, by
//     whoever drives. An act of which nothing is known is asked about first. After
//     a few failures it is named and left to a person, who may ask again.
var parkWay = []Step{StepSnapshot, StepPark, StepResume, StepClock, StepAnswers, StepWake}

// parkNeeds are the steps without which nothing is parked. Park and wake are
// always there, because claims are changed at the control plane whatever the lever
// does.
var parkNeeds = []Step{StepSnapshot, StepResume}

// ParkWay are the steps of a workload that is parked, and which of them come
// before the maintenance.
func ParkWay() (before, after []Step) {
	i := slices.Index(parkWay, StepResume)
	return slices.Clone(parkWay[:i]), slices.Clone(parkWay[i:])
}

// Word is what a person asked for: who, and when.
type Word struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// IsZero reports whether nobody asked.
func (w Word) IsZero() bool { return w == Word{} }

// Resting reports whether the move has come to where its workload is parked, and
// nothing has begun to bring it back.
func (m Move) Resting() bool {
	_, parked := m.Done[StepPark]
	_, resumed := m.Begun[StepResume]
	return m.Park && parked && !resumed && !m.Undoing
}

// Resuming reports whether the move is bringing a parked workload back.
func (m Move) Resuming() bool {
	_, begun := m.Begun[StepResume]
	return m.Park && begun
}

// Parked reports whether the workload is parked here: its lever has said so, and
// the last reading showed its state at rest.
func (i Item) Parked() bool {
	return i.Open() && i.Move.Resting() && i.Phase == fleet.AtRest && i.MissingAt.IsZero()
}

// ParkedAt is when it was parked.
func (i Item) ParkedAt() time.Time { return i.Move.Done[StepPark] }

// resumes reports whether somebody has asked for a workload to be resumed, and
// that has neither come about nor been given up.
func (i Item) resumes() bool {
	if !i.Open() || i.Resume.IsZero() || !i.Move.Resting() && !i.Move.Resuming() || i.Held || i.Escalated != "" || i.Fails >= giveUp {
		return false
	}
	switch i.Reason.Code {
	case WaitUnclassified, WaitOtherHere, WaitNoLever, WaitNotResumed:
		return false
	}
	return true
}

// Parked names the workloads that are parked on the host, as far as is known.
func (s State) Parked() []fleet.Key {
	return s.parked(func(_ fleet.Key, it Item) bool { return it.Move.Resting() })
}

// parked names the open workloads for which ok holds, in their order. On a host
// that is gone there are none.
func (s State) parked(ok func(fleet.Key, Item) bool) []fleet.Key {
	if !s.Terminated.IsZero() {
		return nil
	}
	var keys []fleet.Key
	for k, it := range s.Items {
		if it.Open() && ok(k, it) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, fleet.Key.Compare)
	return keys
}

// ParkedAt is Parked with the time at which each was.
func (s State) ParkedAt() map[fleet.Key]time.Time {
	at := map[fleet.Key]time.Time{}
	for _, k := range s.Parked() {
		at[k] = s.Items[k].ParkedAt()
	}
	return at
}

// Resumable names what can be asked to be resumed: what is parked, and what did not
// come all the way back. With a key, it is only that.
func (s State) Resumable(key fleet.Key) []fleet.Key {
	return s.parked(func(k fleet.Key, it Item) bool {
		return (it.Move.Resting() || it.Move.Resuming()) && (key.IsZero() || key == k)
	})
}

// Resumes reports whether there is something to resume that was asked for, also
// once the drain's hold has been lifted.
func (s State) Resumes() bool {
	if s.Newer != "" || !s.Terminated.IsZero() {
		return false
	}
	for _, it := range s.Items {
		if it.resumes() {
			return true
		}
	}
	return false
}

// Parks decides whether a pausable workload is parked on its host rather than
// shipped. Where it was to be and can't, the reason says why.
func Parks(f Found, purpose fleet.Purpose, here fleet.Offer) (bool, fleet.Reason) {
	if !f.Park || f.Class != fleet.Pausable {
		return false, fleet.Reason{}
	}
	if risksState(purpose) {
		return false, fleet.Because(NotParkedFor, "for", string(purpose))
	}
	name := string(purpose)
	version, depends := dependsOn(f, here)[name]
	if purpose == fleet.ForEngine && !depends { // it is what a snapshot is restored by
		version, depends = here.Compat[name], true
	}
	if depends {
		return false, fleet.Because(NotParkedOn, "what", name, "has", quoted(version))
	}
	return true, fleet.Reason{}
}

// WouldNotPark says why a workload of the drain would not be parked although
// somebody asks for it: what its snapshot depends on, on a host as it was seen, or
// what its lever lacks. Zero: it would be.
func (s State) WouldNotPark(k fleet.Key, on fleet.HostView, p Policy) fleet.Reason {
	f := s.Items[k].Found
	f.Park = true
	if _, not := Parks(f, s.For, offerOf(on)); !not.IsZero() {
		return not
	}
	d := decider{s: s, p: p}
	_, _, why := d.wayOf(f, true)
	return why
}

// risksState reports whether a host may not come back from a maintenance with
// what is on its disk.
func risksState(p fleet.Purpose) bool { return p == fleet.ForRetire || p == fleet.ForHardware }

// dependsOn are the versions of its host that a workload's snapshot can't do
// without: those that it names, that of the driver where it has GPUs, and that of
// the engine, where the host states one.
func dependsOn(f Found, here fleet.Offer) map[string]string {
	on := map[string]string{}
	for name, version := range f.Needs.Compat {
		if version == "" {
			version = here.Compat[name]
		}
		on[name] = version
	}
	add := func(name string) {
		if v := here.Compat[name]; v != "" && on[name] == "" {
			on[name] = v
		}
	}
	add(string(fleet.ForEngine))
	if driver := string(fleet.ForDriver); f.Needs.GPUs > 0 {
		if add(driver); on[driver] == "" {
			on[driver] = ""
		}
	}
	return on
}

func (d *decider) parks(f Found) bool {
	park, _ := Parks(f, d.s.For, offerOf(d.v.Source))
	return park
}

// rests says how a parked workload stands, and takes its park back where somebody
// else has started it here.
func (d *decider) rests(it Item) {
	seen, here := d.seen[it.Key]
	switch {
	case d.busy(it.Key), it.Held, it.Keep, it.Kept != "", d.excepted(it), !here:
	case seen.Phase != fleet.AtRest && !seen.Run.IsZero() && seen.Run != it.Move.Run:
		d.undo(it, "it was started anew here after its snapshot")
	case seen.Phase != fleet.AtRest:
		d.because(it, fleet.Because(WaitLeaving))
	case risksState(d.s.For):
		d.because(it, fleet.Because(WaitParkedStays, "for", string(d.s.For)))
	default:
		d.becauseAt(it, WaitParked, "since", it.ParkedAt())
	}
}

// atRest reports whether an item is parked and may stay so in this drain.
func (d *decider) atRest(it Item) bool { return it.Parked() && !risksState(d.s.For) }

// split parts issues in what is said of parked workloads and of what is theirs,
// and all others.
func (d *decider) split(issues []fleet.Issue) (parked, others []fleet.Issue) {
	theirs := map[fleet.Key]bool{}
	for _, k := range d.keys {
		if d.atRest(d.s.Items[k]) {
			theirs[k] = true
		}
	}
	if len(theirs) == 0 {
		return nil, issues
	}
	for _, r := range [][]fleet.Resource{d.facts.Netns.Value, d.facts.Loops.Value, d.facts.Dirs.Value} {
		for _, x := range r {
			if theirs[x.Owner] && len(x.Users) == 0 {
				theirs[x.Key] = true
			}
		}
	}
	for _, is := range issues {
		if is.Check == fleet.CheckLeft && theirs[is.Key] {
			parked = append(parked, is)
		} else {
			others = append(others, is)
		}
	}
	return parked, others
}

// bringBack goes on with a workload that somebody has asked to resume.
func (d *decider) bringBack(it Item) {
	m := it.Move
	switch {
	case d.busy(it.Key) || !it.resumes():
	case m.Asked != "":
		d.askLever(it)
	case d.delayed(it):
	case !m.Resuming() && !d.mayResume(it):
	default:
		d.step(it, m.Next())
	}
}

// mayResume is the last look before a parked workload is brought back: its state
// is here at rest, somebody claims it here, and what it was parked on is the same.
func (d *decider) mayResume(it Item) bool {
	no := func(r fleet.Reason) bool {
		d.because(it, r)
		return false
	}
	spec, known := d.p.Levers[it.Move.Lever]
	seen, here := d.seen[it.Key]
	switch {
	case !known, !spec.Does(StepResume):
		return no(fleet.Because(WaitNoLever, "lever", it.Move.Lever, "step", string(StepResume)))
	case !here:
		return false // what becomes of it is decided by the reading
	case !seen.Run.IsZero() || seen.Phase != fleet.AtRest:
		return no(fleet.Because(WaitNotResumed, "step", string(StepResume), "detail", "it runs here already"))
	case d.v.SelfClaims:
	case d.v.Source.Claims.Status != fleet.OK:
		return no(fleet.Because(WaitPlane, "detail", d.v.Source.Claims.Error))
	case !d.v.Source.Stable:
		return no(fleet.Because(WaitUnknown, "detail", "two readings of the claims do not agree yet"))
	case !d.claimedHere(it.Key):
		return no(fleet.Because(WaitUnclassified, "verdict", string(fleet.Orphan)))
	}
	has := offerOf(d.v.Source).Compat
	for _, what := range slices.Sorted(maps.Keys(it.Move.Compat)) {
		if want := it.Move.Compat[what]; has[what] != want {
			return no(fleet.Because(WaitOtherHere, "what", what, "has", quoted(has[what]), "wants", quoted(want)))
		}
	}
	return true
}

func (d *decider) claimedHere(k fleet.Key) bool {
	return slices.ContainsFunc(d.v.Source.Claims.Value, func(c fleet.Claim) bool {
		return c.Key == k && c.Phase != fleet.Gone && (c.Host == "" || c.Host == d.v.Source.Host.ID)
	})
}

// applyResume folds the word on which what is parked comes back: the drain, which
// would park it again, is over. Its holds stay.
func applyResume(s State, e Event, a AskResume) (State, error) {
	if !s.Phase.Ended() && !s.Undone {
		return s, illegal("the drain of %s is %s and would park it again: stop it first", s.Host, s.Phase)
	}
	keys := s.Resumable(a.Key)
	if len(keys) == 0 {
		return s, illegal("nothing of that name is parked on %s", s.Host)
	}
	if s.Phase != Stopped {
		s.Phase, s.Since, s.Issues = Stopped, e.At, nil
	}
	s.Person, s.Waiting = false, fleet.Reason{}
	return changeAll(s, keys, func(it *Item) {
		it.Resume, it.Held = Word{By: whoOf(e), At: e.At}, false
		it.RetryAt, it.Fails, it.Reason = time.Time{}, 0, fleet.Reason{}
		it.Move.Failed, it.Move.Result = "", ""
	}), nil
}

// resumed ends the move of a workload that runs here again: a drain that begins
// after this one finds it as any other.
func (it *Item) resumed(at time.Time) {
	it.Resumed = Word{By: it.Resume.By, At: at}
	it.Move, it.Resume, it.FirstAct, it.Overdue = Move{}, Word{}, time.Time{}, false
	it.Phase, it.Step, it.Reason = fleet.Running, StepWait, fleet.Because(WaitResumed, "by", it.Resumed.By)
}

// Refuses says why a person's choice between parking and shipping would be of no
// effect; "" where it is taken.
func (s State) Refuses(a AskPark) string {
	it, known := s.Items[a.Key]
	switch {
	case !known || !it.Open():
		return a.Key.String() + " is not in the drain, or has ended"
	case it.Class != fleet.Pausable:
		return a.Key.String() + " is " + it.Class.String() + ": only what is pausable is parked"
	case it.Move.Resting():
		return a.Key.String() + " is parked already"
	case it.Move.Underway():
		return a.Key.String() + " is on its way already"
	case !a.Ship && risksState(s.For):
		return "a host that is drained for " + string(s.For) + " may not come back with its state: nothing is parked there"
	}
	return ""
}

// goingOn is the word on which an item is resumed, where that has begun: another
// drain goes on with it. What has not begun has to be asked for anew.
func (i Item) goingOn() Word {
	if i.Move.Resuming() {
		return i.Resume
	}
	return Word{}
}
