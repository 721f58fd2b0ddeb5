package drain

import (
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

func serving(w *world, readiness string) {
	w.p.Rules = append(w.p.Rules, fleet.ClassRule{Name: "serving", Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Stateless, Readiness: readiness,
		InFlight: &fleet.InFlight{URL: "http://127.0.0.1:8000/metrics", Gauge: []string{"running", "waiting"}, Window: 10 * time.Second}})
}

func TestServingIsQuietBeforeTerm(t *testing.T) {
	w := newWorld(t)
	serving(w, "unready")
	w.add("a", fleet.Stateless)
	busy := true
	w.answer = func(a Act) (Result, string) {
		if busy && a.Kind == ActQuiet {
			return FailedAct, "2 in flight"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(2*time.Minute, "busy", w.reason("a", WaitBusy))
	w.idle(3 * time.Minute)
	if slices.Contains(w.acted(wk("a")), StepTerm) {
		t.Fatalf("it was told to end while it answers\n%s", w.dump())
	}
	busy = false
	w.until(2*time.Minute, "empty", w.phase(Empty))
	got := slices.Compact(w.acted(wk("a")))
	if want := []Step{StepStart, StepHealth, StepFlip, StepUnready, StepQuiesce, StepTerm}; !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	for _, d := range w.did {
		if d.act.Step == StepUnready && (d.act.Target != source || d.act.Exec != "unready") || d.act.Kind == ActQuiet && d.act.Quiet.URL == "" {
			t.Fatalf("%+v", d.act)
		}
	}
	if to := w.s.Items[wk("a")].Target; to == source || to == "" {
		t.Fatalf("its target is %q", to)
	}
}

// What can't be read may be busy: at the deadline it is named, and has had no
// TERM.
func TestServingThatCantBeRead(t *testing.T) {
	w := newWorld(t)
	serving(w, "")
	w.add("a", fleet.Stateless)
	w.answer = func(a Act) (Result, string) {
		if a.Kind == ActQuiet {
			return Refused, "this agent can't"
		}
		return Done, ""
	}
	w.start(20 * time.Minute)
	w.until(25*time.Minute, "deadline", w.phase(DeadlineReached))
	if slices.Contains(w.acted(wk("a")), StepTerm) || w.s.Left[0].Reason.Args["detail"] != "this agent can't" {
		t.Fatalf("%+v\n%s", w.s.Left, w.dump())
	}
}

// A stateless workload's lever starts, asks, moves the traffic and stops.
func TestStatelessByLever(t *testing.T) {
	w := newWorld(t)
	w.p.Levers["web"] = LeverSpec{Name: "web", Steps: []Step{StepStart, StepHealth, StepFlip, StepStop}}
	w.p.Rules = append(w.p.Rules, fleet.ClassRule{Name: "web", Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Stateless, Lever: "web"})
	p := w.add("a", fleet.Stateless, func(p *proc) { p.start, p.health = "", "" })
	w.slow = 15 * time.Second
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepStop {
			w.site(p.key).ended = true
			delete(w.procs, p.key)
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "empty", w.phase(Empty))
	if got := w.tags(p.key); !slices.Equal(got, []Step{StepStart, StepHealth, StepFlip, StepStop}) {
		t.Fatalf("%v\n%s", got, w.dump())
	}
	for _, d := range w.did {
		if d.act.Kind == ActFlip && d.act.Lever != "web" {
			t.Fatalf("%+v", d.act)
		}
	}
}

// A person who chooses the class that it has anyway does not make it forget that
// it serves, not even once its claim has moved.
func TestServingStaysSoWhoeverChoseItsClass(t *testing.T) {
	w := newWorld(t)
	serving(w, "unready")
	w.add("a", fleet.Stateless)
	w.start(45 * time.Minute)
	w.ask(AskClass{Key: wk("a"), Class: fleet.Stateless})
	w.until(2*time.Minute, "empty", w.phase(Empty))
	if got := w.acted(wk("a")); !slices.Contains(got, StepQuiesce) || slices.Index(got, StepQuiesce) > slices.Index(got, StepTerm) {
		t.Fatalf("%v", got)
	}
}

// One that has been flipped serves its last answers whatever class somebody gives
// it meanwhile, and so does one that came back in its place.
func TestServingStaysSoThroughOtherClasses(t *testing.T) {
	for name, between := range map[string]func(*world, *proc){
		"still an orphan":   func(*world, *proc) {},
		"claimed here anew": func(w *world, p *proc) { w.claims[p.key] = []claim{{fleet.Running, w.now.Add(-time.Minute)}} },
		"come back":         func(w *world, p *proc) { w.respawn(p) },
	} {
		w := newWorld(t)
		serving(w, "")
		p := w.add("a", fleet.Stateless)
		busy := true
		w.answer = func(a Act) (Result, string) {
			if busy && a.Kind == ActQuiet {
				return FailedAct, "2 in flight"
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(2*time.Minute, "busy", w.reason("a", WaitBusy))
		w.ask(AskClass{Key: p.key, Class: fleet.Pausable})
		w.idle(time.Minute)
		between(w, p)
		w.idle(time.Minute)
		w.ask(AskClass{Key: p.key, Class: fleet.Stateless})
		w.idle(3 * time.Minute)
		if slices.Contains(w.acted(p.key), StepTerm) {
			t.Errorf("%s: it was told to end while it answers\n%s", name, w.dump())
		}
		busy = false
		w.until(5*time.Minute, name+": gone", func() bool { return slices.Contains(w.acted(p.key), StepTerm) })
	}
}
