package sim

import (
	"slices"

	"ebb/drain"
	"ebb/fleet"
)

// watch is what has been seen of one host that is drained. Its state is folded
// from what operators and drivers wrote, and from nothing that a thief did: who
// wrote what is known here without looking at a signature.
type watch struct {
	w       *World
	id      fleet.HostID
	state   drain.State
	begun   map[string]bool // drains that an operator asked for
	named   map[fleet.Run]bool
	mayDie  map[fleet.Key]bool
	records map[string]drain.DriveRecord
	machine string
	holds   fleet.Holds
	flag    bool
	proved  bool
	moving  map[fleet.HostID]map[fleet.Key]bool // by target: starts that have neither failed nor come to their flip
}

func newWatch(w *World, id fleet.HostID) *watch {
	return &watch{w: w, id: id, begun: map[string]bool{}, named: map[fleet.Run]bool{}, mayDie: map[fleet.Key]bool{},
		records: map[string]drain.DriveRecord{}, moving: map[fleet.HostID]map[fleet.Key]bool{}}
}

func (x *watch) host() *host { return x.w.hosts[x.id] }

// saw looks at every event as it is appended.
func (w *World) saw(ev drain.Event) {
	w.checkLine(ev)
	x := w.watches[fleet.HostID(ev.Stream)]
	if x == nil {
		return
	}
	if w.forged[ev.ID] {
		w.count("forged " + string(ev.Kind))
		x.state.Num = ev.Num
		return
	}
	w.count(string(ev.Kind))
	before := x.state
	next, err := drain.Apply(before, ev)
	x.state = next
	if ev.Kind.IsDrive() {
		l := w.leases[ev.Drain]
		w.must(NoStranger, ev.Epoch == l.Epoch && l.Until.After(w.log.clock()), "%s of epoch %d, while the lease is of epoch %d until %v", ev.Kind, ev.Epoch, l.Epoch, l.Until)
		w.must(NoStranger, x.begun[ev.Drain], "%s of drain %s, which no operator asked for", ev.Kind, ev.Drain)
		w.must(NoStranger, err == nil, "a drive does not fold: %v", err)
	}
	x.told(before)
	body, _ := ev.Decode()
	x.note(ev, body, before, err)
}

func (x *watch) note(ev drain.Event, body drain.Body, before drain.State, err error) {
	w := x.w
	switch b := body.(type) {
	case drain.AskStart:
		x.begun[ev.Drain] = true
		for _, k := range b.MayDie {
			x.mayDie[k] = true
		}
		if err == nil && before.Drain != ev.Drain {
			x.proved = false
		}
	case drain.AskEscalate:
		x.named[b.Run] = true
		if b.Run.IsZero() {
			x.named[before.Items[b.Key].Run] = true
		}
	case drain.DriveRecord:
		x.records[ev.ID] = b
	case drain.DriveIntent:
		x.intent(b.Act, before)
	case drain.DrivePhase:
		w.count("phase " + string(b.Phase))
		if b.Phase == drain.Draining && before.Phase == drain.Cordoning {
			x.proved = true
			holds, flag := x.host().durable(), w.plane.flags[x.id].Set
			// Somebody may lift a hold, or change the machine, within this very step,
			// after the reading that proved the cordon.
			stood := x.holds.Both() && x.flag
			w.must(CordonFirst, holds.Both() && flag || stood, "it drains while the host has %+v and the plane's flag is %v", holds, flag)
		}
		switch b.Phase {
		case drain.Empty:
			x.checkEmpty(ev)
		case drain.Parked:
			x.checkParked()
		}
	case drain.DriveDeadline:
		x.checkDeadline(ev, before, b)
	case drain.DriveEnded:
		for _, e := range b.Ends {
			w.count("end " + string(e.End))
			x.checkEnded(before.Items[e.Key], e)
		}
	case drain.DriveWaits:
		for _, r := range b.Reasons {
			w.count("waits " + r.Reason.Code)
		}
	}
}

// intent looks at an act before it is carried out.
func (x *watch) intent(a drain.Act, before drain.State) {
	w := x.w
	have, again := w.intents[a.ID]
	w.must(NoStranger, !again, "act %s is begun twice, for %s and %s", a.ID, have, a.Key)
	w.intents[a.ID] = a.Key
	w.checkID(a)
	if a.Kind == drain.ActCordon {
		return
	}
	// What is parked comes back on word, whatever holds its host has by then.
	m := before.Items[a.Key].Move
	// A move that an earlier drain, or an earlier proof, has left half done is taken
	// back, or finished where there is no way back, under both holds.
	settles := m.Underway() && (a.Op == drain.OpUndo || a.Op == drain.OpStatus || m.NoReturn)
	w.must(CordonFirst, x.proved || m.Resting() || m.Resuming() || settles, "%s of %s is begun before the cordon has taken", a.Kind, a.Key)
	if begins := a.Step == drain.StepStart && a.Op != drain.OpUndo || a.Op == drain.OpDo && len(a.Steps) > 0; begins && !a.Park {
		n := 0
		for k, it := range before.Items {
			if k != a.Key && it.Open() && it.Target == a.Target && (!it.StartedAt.IsZero() || it.Move.Underway()) {
				n++
			}
		}
		w.must(Caps, n < w.policy.MovesPerTarget, "%d moves to %s, and one more: %s", n, a.Target, a.ID)
	}
}

// excused reports whether a person has accepted that something is there, or lost.
func (x *watch) excused(k fleet.Key) bool {
	_, ok := x.state.Accepted[k]
	return ok || slices.ContainsFunc(x.host().agent.rec.accepted, func(a fleet.Accepted) bool { return a.Key == k })
}
