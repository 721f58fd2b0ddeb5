package drain

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// site is the truth about a workload that a lever moves: what its source could
// do, and what there is of it elsewhere.
type site struct {
	paused   bool // the source can't run on, not even after a restart
	fenced   bool // the source takes no writes, not even after a restart
	replayed bool
	up       bool // the target's copy runs, or takes writes
	repoint  bool
	parked   bool // its state is kept at rest here
	word     bool // somebody has asked for it to be resumed
	mode     int  // what a snapshot does to the process: 0 stops it, 1 leaves its state at rest, 2 leaves nothing
	ended    bool // its owner ended it: nothing brings it back
}

// run is one act of a lever; it goes on without its driver.
type leverRun struct {
	act    Act
	at     time.Time // when it is over
	result Result
	effect bool // whether what was asked comes about
	landed bool
}

func (w *world) site(k fleet.Key) *site {
	if w.sites == nil {
		w.sites = map[fleet.Key]*site{}
	}
	if w.sites[k] == nil {
		w.sites[k] = &site{}
	}
	return w.sites[k]
}

// lever takes an act of a lever. What it does comes about when it is over,
// whether anybody still listens or not.
func (w *world) lever(a Act) (Result, string, time.Duration) {
	result, detail := w.answer(a)
	if a.Op == OpStatus {
		r := w.runs[a.Of]
		switch {
		case result != Done:
			return Interrupted, detail, w.latency
		case r == nil:
			return FailedAct, "not begun", w.latency
		case !r.landed:
			return RunningAct, "at it", w.latency
		}
		return r.final(), detail, w.latency
	}
	if a.Op == OpUndo {
		for id, r := range w.runs { // undoing a step ends what still does it
			if r.act.Key == a.Key && !r.landed && r.act.Op == OpDo {
				delete(w.runs, id)
			}
		}
	}
	r := &leverRun{act: a, at: w.now.Add(w.latency), result: result, effect: result == Done}
	if result == FailedAct || result == Interrupted {
		r.effect = len(a.ID)%2 == 0 // it may have come about all the same
	}
	if w.slow > 0 && result == Done && a.Op == OpDo && len(a.ID)%3 == 0 {
		r.at = w.now.Add(w.slow)
		result = RunningAct
	}
	if w.runs == nil {
		w.runs = map[string]*leverRun{}
	}
	w.runs[a.ID] = r
	return result, detail, w.latency
}

func (r *leverRun) final() Result {
	if r.result == Interrupted || r.result == NotDone {
		if r.effect {
			return Done
		}
		return FailedAct
	}
	return r.result
}

// land lets what levers do come about.
func (w *world) land() {
	w.t.Helper()
	var due []string
	for id, r := range w.runs {
		if !r.landed && !r.at.After(w.now) {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	for _, id := range due {
		r := w.runs[id]
		r.landed = true
		if r.effect {
			w.effect(r.act)
			w.checkCopies(r.act)
		}
	}
}

func (w *world) effect(a Act) {
	w.t.Helper()
	s, p := w.site(a.Key), w.procs[a.Key]
	if a.Op == OpUndo {
		w.undoEffect(a, s, p)
		return
	}
	switch a.Step {
	case StepSnapshot:
		s.paused = true
		if p != nil && s.mode == 1 {
			p.rests = true
		} else if p != nil && s.mode == 2 {
			delete(w.procs, a.Key)
		}
	case StepPark:
		if !s.paused || s.up {
			w.t.Fatalf("%s is parked while it may run: paused %v, up elsewhere %v\n%s", a.Key, s.paused, s.up, w.dump())
		}
		s.parked = true
		w.rest(a.Key, p)
	case StepResume:
		if !s.parked || s.up || !s.word || w.s.Machine != w.machine {
			w.t.Fatalf("%s is resumed: parked %v, up elsewhere %v, asked for %v, machine %s\n%s", a.Key, s.parked, s.up, s.word, w.machine, w.dump())
		}
		if p != nil && p.rests {
			n := *p
			s.parked, s.paused, n.rests = false, false, false
			w.respawn(&n)
		}
	case StepWake:
		if p := w.procs[a.Key]; p != nil && p.rests {
			w.t.Fatalf("%s is called awake and rests\n%s", a.Key, w.dump())
		}
		if !s.ended {
			w.claims[a.Key] = append(w.claims[a.Key], claim{fleet.Running, w.now})
		}
	case StepRestore:
		if s.parked {
			w.t.Fatalf("%s is parked here and restored elsewhere\n%s", a.Key, w.dump())
		}
		if !s.paused {
			w.t.Fatalf("%s is restored while its source runs\n%s", a.Key, w.dump())
		}
		s.up = true
	case StepFence:
		s.fenced = true
	case StepReplay:
		if !s.fenced {
			w.t.Fatalf("%s is replayed to a position that moves on", a.Key)
		}
		s.replayed = true
	case StepPromote:
		if !s.fenced || !s.replayed {
			w.t.Fatalf("%s is promoted: fenced %v, replayed %v\n%s", a.Key, s.fenced, s.replayed, w.dump())
		}
		s.up = true
	case StepFlip, StepRepoint:
		w.claims[a.Key] = append(w.claims[a.Key], claim{fleet.Gone, w.now})
		s.repoint = true
	case StepRemove:
		if !s.up || !s.repoint {
			w.t.Fatalf("%s is removed: up elsewhere %v, claim moved %v", a.Key, s.up, s.repoint)
		}
		delete(w.procs, a.Key)
	}
}

func (w *world) undoEffect(a Act, s *site, p *proc) {
	switch a.Step {
	case StepPark:
		if !s.parked {
			return
		}
		s.parked = false
		if !s.ended {
			w.claims[a.Key] = append(w.claims[a.Key], claim{fleet.Running, w.now})
		}
		if p != nil && s.mode == 0 {
			p.rests = false // its process is there again, paused
		} else if p != nil && s.mode == 2 {
			delete(w.procs, a.Key)
		}
	case StepResume, StepWake:
		w.t.Fatalf("%s: %s is undone", a.Key, a.Step)
	case StepRestore:
		s.up = false
	case StepReplay:
		s.replayed = false
	case StepFence:
		s.fenced = false
	case StepSnapshot:
		if !s.paused || s.ended {
			return
		}
		s.paused = false
		switch {
		case p == nil && s.mode == 2 && w.last[a.Key] != nil:
			w.respawn(w.last[a.Key])
		case p != nil && s.mode == 1:
			n := *p
			n.rests = false
			w.respawn(&n)
		}
	case StepPromote:
		w.t.Fatalf("%s: promote is undone", a.Key)
	}
}

// reboot ends what runs on the host; what rests is on its disk.
func (w *world) reboot(boot string) {
	w.boot = boot
	maps.DeleteFunc(w.procs, func(_ fleet.Key, p *proc) bool { return !p.rests })
}

// rest leaves of a workload what is kept of it here.
func (w *world) rest(k fleet.Key, p *proc) {
	s := w.site(k)
	if p == nil && w.last[k] != nil && !s.ended {
		n := *w.last[k]
		p = &n
		w.procs[k] = p
	}
	if p != nil {
		p.rests, p.dies = true, time.Time{}
	}
	if !s.ended {
		w.claims[k] = append(w.claims[k], claim{fleet.AtRest, w.now})
	}
}

// checkCopies is the rule that everything else serves: never two runnable copies.
func (w *world) checkCopies(a Act) {
	w.t.Helper()
	s, p := w.site(a.Key), w.procs[a.Key]
	if s.up && p != nil && !s.paused && !s.fenced && !p.rests {
		w.t.Fatalf("two runnable copies of %s after %s %s\n%s", a.Key, a.Op, a.Step, w.dump())
	}
}

// levered is a workload that a lever moves.
func levered(mode int) func(*proc) {
	return func(p *proc) { p.lever, p.mode = true, mode }
}

// movesRules give the workloads that are levered to one lever.
func movesRules() []fleet.ClassRule {
	var rules []fleet.ClassRule
	rules = append(rules, fleet.ClassRule{Name: "parked", Match: fleet.RuleMatch{Label: "parked"}, Class: fleet.Pausable, Lever: "lev", Park: true})
	for _, c := range []fleet.Class{fleet.Pausable, fleet.Durable} {
		rules = append(rules, fleet.ClassRule{Name: "moved " + string(c), Match: fleet.RuleMatch{Label: "moved=" + string(c)}, Class: c, Lever: "lev"})
	}
	return rules
}

func (w *world) dumpSites() string {
	out := ""
	for k, s := range w.sites {
		out += fmt.Sprintf("  %s %+v\n", k, *s)
	}
	return out
}
