package sim

import (
	"cmp"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// site is the truth about a workload that a lever moves: what its source could
// do, and what there is of it elsewhere.
type site struct {
	home           fleet.HostID // where it ran when it began
	at             fleet.HostID // where the target's copy is
	paused, fenced bool         // the source can't run on, or takes no writes: not even after a restart
	replayed       bool
	parked         bool // its state is kept at rest at home
	word           bool // somebody has asked for it to be resumed
	back           bool // it has been, and was not parked since
	up             bool // the target's copy runs, or takes writes
	repoint        bool
	ended          bool              // its owner ended it
	epochs         map[string]uint64 // by drain: the lever refuses an older one
	last           *proc             // as it was when its snapshot was taken
}

// effort is what a lever does for one act. It goes on without its driver.
type effort struct {
	act    drain.Act
	on     string // the machine of the target with which the move began
	at     time.Time
	final  drain.Result
	effect bool
	landed bool
}

func (w *World) site(k fleet.Key) *site {
	if w.sites[k] == nil {
		w.sites[k] = &site{epochs: map[string]uint64{}}
	}
	return w.sites[k]
}

// lever does what a program beside the engine would.
func (w *World) lever(j drain.Job) drain.Answer {
	a, s := j.Act, w.site(j.Act.Key)
	if a.Op == drain.OpStatus {
		r, known := w.leverStatus(a.Of)
		if !known {
			return drain.Answer{Result: drain.FailedAct, Detail: "not begun"}
		}
		return r
	}
	if old := w.efforts[a.ID]; old != nil {
		return old.answer()
	}
	if j.Epoch < s.epochs[j.Drain] {
		return drain.Answer{Result: drain.Refused, Detail: "an older epoch"}
	}
	s.epochs[j.Drain] = j.Epoch
	if a.Op == drain.OpUndo { // undoing a step ends what still does it
		for id, r := range w.efforts {
			if r.act.Key == a.Key && !r.landed && r.act.Op == drain.OpDo {
				delete(w.efforts, id)
			}
		}
	}
	n := w.draw("lever " + a.Key.ID)
	r := &effort{act: a, on: cmp.Or(a.Machine, j.Item.Move.Machine), at: time.Now(), final: drain.Done, effect: true}
	switch {
	case w.faults && n%8 == 0:
		r.final, r.effect = drain.FailedAct, n/8%2 == 0 // it may have come about all the same
	case w.without(r):
		r.final, r.effect = drain.FailedAct, false
	case w.faults && n%8 == 1:
		r.final, r.effect = drain.Refused, false
	case n%3 == 0 && a.Op == drain.OpDo:
		r.at = r.at.Add(time.Duration(1+n/10%60) * time.Second)
	}
	w.efforts[a.ID] = r
	w.order = append(w.order, a.ID)
	w.land()
	return r.answer()
}

// without reports whether a step's target is gone, or another machine than the one
// with which the move began: nothing can be done there, and nothing is undone
// there either.
func (w *World) without(r *effort) bool {
	t := w.hosts[r.act.Target]
	return r.act.Op == drain.OpDo && t != nil && (t.gone || r.on != "" && r.on != t.machine)
}

func (r *effort) answer() drain.Answer {
	if !r.landed {
		return drain.Answer{Result: drain.RunningAct, Detail: "at it"}
	}
	return drain.Answer{Result: r.final}
}

func (w *World) leverStatus(id string) (drain.Answer, bool) {
	if r := w.efforts[id]; r != nil {
		return r.answer(), true
	}
	return drain.Answer{}, false
}

// land lets what levers do come about.
func (w *World) land() {
	for _, id := range w.order {
		r := w.efforts[id]
		if r == nil || r.landed || r.at.After(time.Now()) {
			continue
		}
		r.landed = true
		if w.without(r) {
			r.final, r.effect = drain.FailedAct, false // while it was at it
		}
		if r.effect {
			w.effect(r.act)
			w.checkCopies(r.act.Key, string(r.act.Op)+" "+string(r.act.Step))
		}
	}
	w.order = slices.DeleteFunc(w.order, func(id string) bool { r := w.efforts[id]; return r == nil || r.landed })
}

func (w *World) effect(a drain.Act) {
	s := w.site(a.Key)
	h := w.hosts[s.home]
	p := h.procs[a.Key]
	h.lastAct = time.Now()
	w.count(string(a.Op) + " " + string(a.Step))
	if a.Op == drain.OpUndo {
		w.undo(a, s, p, h)
		return
	}
	switch a.Step {
	case drain.StepSnapshot:
		s.paused = true
		switch {
		case p == nil:
		case p.mode == 1:
			s.last, p.rests = p, true
		case p.mode == 2:
			s.last = p
			h.die(a.Key, "lever")
		}
	case drain.StepPark:
		w.park(a, s, p, h)
	case drain.StepResume:
		w.resume(a, s, p, h)
	case drain.StepRestore:
		w.must(OneCopy, !s.parked, "%s is parked at home and restored elsewhere", a.Key)
		w.must(OneCopy, s.paused, "%s is restored while its source may run", a.Key)
		w.comeUp(a, s)
	case drain.StepFence:
		s.fenced = true
	case drain.StepReplay:
		w.must(OneCopy, s.fenced, "%s is replayed to a position that moves on", a.Key)
		s.replayed = true
	case drain.StepPromote:
		w.must(OneCopy, s.fenced && s.replayed, "%s is promoted: fenced %v, replayed %v", a.Key, s.fenced, s.replayed)
		w.comeUp(a, s)
	case drain.StepRemove:
		w.must(OneCopy, s.up && s.repoint, "%s is removed: up elsewhere %v, claim moved %v", a.Key, s.up, s.repoint)
		if p != nil {
			h.die(a.Key, "lever")
		}
	}
}

// comeUp starts the target's copy.
func (w *World) comeUp(a drain.Act, s *site) {
	t := w.hosts[a.Target]
	if s.up || t == nil {
		return
	}
	s.up, s.at = true, a.Target
	if t.procs[a.Key] == nil {
		t.add(a.Key, a.Class, func(p *proc) { p.copy = true })
		w.checkRoom(t)
	}
}

func (w *World) undo(a drain.Act, s *site, p *proc, h *host) {
	switch a.Step {
	case drain.StepPark:
		w.unpark(a, s, p, h)
	case drain.StepResume, drain.StepWake:
		w.must(OneCopy, false, "%s: %s is undone", a.Key, a.Step)
	case drain.StepRestore:
		if s.up {
			w.hosts[s.at].die(a.Key, "lever")
		}
		s.up = false
	case drain.StepReplay:
		s.replayed = false
	case drain.StepFence:
		s.fenced = false
	case drain.StepSnapshot:
		if !s.paused || s.ended {
			return
		}
		s.paused = false
		switch {
		case p == nil && s.last != nil && s.last.mode == 2:
			h.respawn(s.last)
		case p != nil && p.rests:
			h.respawn(p)
		}
	case drain.StepPromote:
		w.must(OneCopy, false, "%s: promote is undone", a.Key)
	}
}

// checkCopies is the rule that everything else serves: never two runnable copies.
func (w *World) checkCopies(k fleet.Key, after string) {
	s := w.sites[k]
	if s == nil || s.home == "" {
		return
	}
	p := w.hosts[s.home].procs[k]
	two := s.up && p != nil && !s.paused && !s.fenced && !p.rests
	w.must(OneCopy, !two, "two runnable copies of %s after %s", k, after)
}
