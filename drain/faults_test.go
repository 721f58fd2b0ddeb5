package drain

import (
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

func TestDeadlineBeforeAnything(t *testing.T) {
	t.Run("in the cordon", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Durable)
		w.answer = func(Act) (Result, string) { return FailedAct, "plane is down" }
		w.start(time.Minute)
		w.until(time.Minute, "says why", func() bool { return w.s.Waiting.Args["detail"] == "plane is down" })
		w.until(2*time.Minute, "deadline", w.phase(DeadlineReached))
		if len(w.s.Left) != 1 || w.s.Left[0].Key != wk("a") {
			t.Fatalf("%+v", w.s.Left)
		}
		w.ask(AskExtend{Until: w.now.Add(time.Hour)})
		if w.s.Phase != Cordoning {
			t.Fatalf("a drain whose cordon never took is %s", w.s.Phase)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Durable)
		w.start(10 * time.Minute)
		w.until(time.Minute, "draining", w.reason("a", WaitNoStrategy))
		w.factsDown = true
		w.until(15*time.Minute, "deadline", w.phase(DeadlineReached))
		if len(w.s.Left) != 1 {
			t.Fatalf("%+v", w.s.Left)
		}
	})
	t.Run("unreadable, and more than was known is there later", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Durable)
		w.start(10 * time.Minute)
		w.until(time.Minute, "draining", w.reason("a", WaitNoStrategy))
		w.factsDown = true
		w.add("b", fleet.Durable)
		w.until(15*time.Minute, "deadline", w.phase(DeadlineReached))
		if names := keysOf(w.s.Left); !slices.Equal(names, []fleet.Key{wk("a")}) {
			t.Fatalf("%v", names)
		}
		w.factsDown = false
		w.until(time.Minute, "named", func() bool { return slices.Contains(keysOf(w.s.Left), wk("b")) })
		n := len(w.log)
		w.idle(5 * time.Minute)
		for _, e := range w.log[n:] {
			if e.Kind == (DriveDeadline{}).Kind() {
				t.Fatalf("named again: %s", w.dump())
			}
		}
	})
}

func keysOf(left []Left) []fleet.Key {
	var out []fleet.Key
	for _, l := range left {
		out = append(out, l.Key)
	}
	return out
}

func TestFaults(t *testing.T) {
	t.Run("another machine", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.phase(Draining))
		n := len(w.did)
		w.machine = "m2"
		w.idle(5 * time.Minute)
		if len(w.did) != n || w.s.Waiting.Code != WaitOtherMachine {
			t.Fatalf("%s", w.dump())
		}
	})
	t.Run("probe failed", func(t *testing.T) {
		for _, probe := range []string{"processes", "workloads", "netns"} {
			w := newWorld(t)
			w.add("a", fleet.Ephemeral, ttl(time.Minute))
			w.start(45 * time.Minute)
			w.tick(5 * time.Second)
			w.tick(5 * time.Second)
			w.probe = probe
			w.idle(10 * time.Minute)
			if w.s.Phase == Empty || len(w.s.Lost) > 0 {
				t.Fatalf("%s: %s", probe, w.dump())
			}
			w.probe = ""
			w.until(5*time.Minute, "empty", w.phase(Empty))
		}
	})
	t.Run("plane unreadable", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.planeDown = true
		w.start(45 * time.Minute)
		w.idle(5 * time.Minute)
		if len(w.acted(wk("a"))) != 0 || w.s.Waiting.Code != WaitPlane {
			t.Fatalf("%s", w.dump())
		}
	})
	t.Run("nobody takes the notice", func(t *testing.T) {
		w := newWorld(t)
		w.p.Receivers = true
		w.add("a", fleet.Stuck, stubborn)
		deaf := true
		w.answer = func(a Act) (Result, string) {
			if a.Kind == ActNotice && deaf {
				return FailedAct, "502"
			}
			return Done, ""
		}
		w.start(2 * time.Hour)
		w.until(20*time.Minute, "no receiver", w.reason("a", WaitNoReceiver))
		w.idle(10 * time.Minute)
		if _, here := w.procs[wk("a")]; !here {
			t.Fatal("killed although nobody took the notice")
		}
		deaf = false
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
	t.Run("a signal that was interrupted", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stuck)
		w.answer = func(a Act) (Result, string) {
			if a.Kind == ActSignal {
				return Interrupted, "agent died"
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(5*time.Minute, "term", func() bool { return !w.s.Items[wk("a")].SignalAt.IsZero() })
		w.crash(p)
		w.until(time.Minute, "lever", w.ended("a", LeftHost, "lever"))
	})
	t.Run("blind", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck, stubborn)
		w.start(2 * time.Hour)
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		term2 := w.s.Items[wk("a")].TermAt.Add(10 * time.Minute)
		w.driverGone = true
		w.tick(8 * time.Minute)
		w.take(8*time.Minute, false)
		w.until(10*time.Minute, "second term", func() bool { return slices.Contains(w.acted(wk("a")), StepTerm2) })
		if w.now.Before(term2.Add(8 * time.Minute)) {
			t.Fatal("blind time consumed grace")
		}
	})
	t.Run("blind between record and kill", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck, stubborn)
		away := true
		w.answer = func(a Act) (Result, string) {
			if a.Signal == "KILL" && away {
				return NotDone, "no link"
			}
			return Done, ""
		}
		w.start(2 * time.Hour)
		w.until(20*time.Minute, "tried", func() bool { return w.s.Items[wk("a")].Fails > 0 })
		away, w.driverGone = false, true
		w.tick(3 * time.Minute)
		w.take(3*time.Minute, false)
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
	t.Run("claims that do not agree", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", "", unclaimed, func(p *proc) { p.says = fleet.Stuck })
		w.start(45 * time.Minute)
		w.unstable = true
		w.until(time.Minute, "not known", w.reason("a", WaitUnknown))
		w.s.MayDie = map[fleet.Key]bool{wk("a"): true}
		w.idle(10 * time.Minute)
		w.unstable = false
		w.until(time.Minute, "an orphan", w.reason("a", WaitUnclassified))
		if len(w.acted(wk("a"))) != 0 {
			t.Fatalf("%v", w.acted(wk("a")))
		}
	})
	t.Run("a long gap waits for a person", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(2 * time.Hour)
		w.until(time.Minute, "draining", w.phase(Draining))
		w.driverGone = true
		w.tick(20 * time.Minute)
		w.take(20*time.Minute, true)
		n := len(w.did)
		w.idle(5 * time.Minute)
		if len(w.did) != n || w.s.Waiting.Code != WaitBlind {
			t.Fatalf("%s", w.dump())
		}
		w.ask(AskRetry{})
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
	t.Run("an event that is too new", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(45 * time.Minute)
		w.log = append(w.log, Event{Num: uint64(len(w.log) + 1), Drain: "d1", Kind: "ask.pause", V: 3, At: w.now})
		w.s, _ = Apply(w.s, w.log[len(w.log)-1])
		n := len(w.did)
		w.idle(time.Minute)
		if len(w.did) != n || w.s.Waiting.Code != WaitNewer {
			t.Fatalf("%s", w.dump())
		}
	})
	t.Run("processes that come after the record", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stuck, stubborn)
		w.start(2 * time.Hour)
		w.until(20*time.Minute, "record", func() bool { return !w.s.Items[wk("a")].RecordAt.IsZero() })
		p.kids = []fleet.Run{{Boot: "b1", PID: 900, Start: 900}}
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
}

func TestLateArrival(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Ephemeral, ttl(10*time.Minute))
	w.start(45 * time.Minute)
	w.until(time.Minute, "draining", w.reason("a", WaitExpires))
	w.add("b", fleet.Stuck)
	w.until(time.Minute, "named, not killed", w.reason("b", WaitNotPlanned))
	if !w.s.Items[wk("b")].Late || w.s.Count().Late != 1 {
		t.Fatalf("%s", w.dump())
	}
}

func TestEmptyAndBack(t *testing.T) {
	w := newWorld(t)
	w.start(45 * time.Minute)
	w.until(time.Minute, "empty", w.phase(Empty))
	p := w.add("b", fleet.Ephemeral, ttl(5*time.Minute))
	w.until(time.Minute, "draining again", w.phase(Draining))
	w.end(p, 0)
	w.until(time.Minute, "empty", w.phase(Empty))
	w.issues = []fleet.Issue{{Check: fleet.CheckLeaks, Key: wk("leak"), Detail: "a leak"}}
	w.until(time.Minute, "verifying", w.phase(Verifying))
	w.issues = nil
	w.until(time.Minute, "empty", w.phase(Empty))
}

// TestStaleReading: a host is not empty by the reading that showed it so first,
// and a reading from before the last act does not count at all.
func TestStaleReading(t *testing.T) {
	w := newWorld(t)
	w.start(45 * time.Minute)
	for i := 0; w.s.Phase != Verifying && i < 1000; i++ {
		w.advance(w.now.Add(100 * time.Millisecond)) // no wakes: the phase must be seen before it passes
	}
	old := w.view()
	old.Source.Facts.Value.At = w.s.Seen
	for range 3 {
		if d := Next(w.s, old, w.p, w.now.Add(time.Minute)); len(d.Events) > 0 {
			t.Fatalf("decided on a stale reading: %+v", d.Events)
		}
	}
	w.until(time.Minute, "empty by a younger one", w.phase(Empty))
}
