package drain

import (
	"errors"
	"testing"
	"time"

	"ebb/fleet"
)

// starts lists the targets on which a replacement of a workload was asked for.
func (w *world) starts(k fleet.Key) []fleet.HostID {
	var out []fleet.HostID
	for _, d := range w.did {
		if d.act.Key == k && d.act.Step == StepStart {
			out = append(out, d.act.Target)
		}
	}
	return out
}

// A start whose end nobody knows: what it has left on its target is adopted, and
// nothing is started meanwhile.
func TestInterruptedStartIsAdopted(t *testing.T) {
	for _, result := range []Result{Interrupted, NotDone, FailedAct} {
		w := newWorld(t)
		w.add("web", fleet.Stateless)
		w.answer = func(a Act) (Result, string) {
			if a.Step == StepStart {
				w.started(a)
				return result, "the agent died"
			}
			if a.Step == StepHealth && (w.s.Items[wk("web")].Unsure.IsZero() || w.s.Promises(0)["prod/t1"] == nil) {
				t.Error("nothing is in doubt, or promised to the target")
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.code = TimedOut
		w.until(5*time.Minute, "empty", w.phase(Empty))
		if got := w.starts(wk("web")); len(got) != 1 {
			t.Errorf("%s: started on %v\n%s", result, got, w.dump())
		}
	}
}

// While the target can't be read nothing is started, and it says so by name; what
// is proved absent is started anew.
func TestInterruptedStartWaitsForItsTarget(t *testing.T) {
	w := newWorld(t)
	w.add("web", fleet.Stateless)
	w.mute = map[fleet.HostID]bool{}
	dead := true
	w.answer = func(a Act) (Result, string) {
		switch {
		case a.Step == StepStart && dead:
			dead, w.mute[a.Target] = false, true
			return Interrupted, "the agent died"
		case a.Step == StepHealth && !w.copies[a.Target][a.Key]:
			return FailedAct, "connection refused"
		}
		return Done, ""
	}
	w.lost = true
	w.start(2 * time.Hour)
	w.until(time.Minute, "unsure", w.reason("web", WaitUnsure))
	w.idle(20 * time.Minute)
	if got := w.starts(wk("web")); len(got) != 1 || w.s.Items[wk("web")].Reason.Args["target"] != "t1" {
		t.Fatalf("started on %v\n%s", got, w.dump())
	}
	w.ask(AskRetry{Key: wk("web")}) // changes nothing about what is not known
	w.idle(5 * time.Minute)
	if got := w.starts(wk("web")); len(got) != 1 {
		t.Fatalf("started on %v by a retry\n%s", got, w.dump())
	}
	w.mute["prod/t1"] = false
	began := w.now
	w.until(5*time.Minute, "started", func() bool { return len(w.starts(wk("web"))) > 1 })
	if w.now.Sub(began) > time.Minute {
		t.Errorf("started %v later", w.now.Sub(began))
	}
	w.until(5*time.Minute, "empty", w.phase(Empty))
}

// Something answers that the target's rules don't recognise: the start is
// repeated there, and nowhere else.
func TestUnrecognisedReplacement(t *testing.T) {
	w := newWorld(t)
	w.add("web", fleet.Stateless)
	n := 0
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepStart {
			if n++; n == 1 {
				return Interrupted, "the agent died"
			}
		}
		return Done, ""
	}
	w.lost = true
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "empty", w.phase(Empty))
	if got := w.starts(wk("web")); len(got) != 2 || got[0] != got[1] {
		t.Fatalf("started on %v\n%s", got, w.dump())
	}
}

// The source vanishes while a start is in doubt: its replacement is looked after.
func TestVanishedWhileUnsure(t *testing.T) {
	w := newWorld(t)
	p := w.add("web", fleet.Stateless)
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepStart {
			w.started(a)
			w.mute["prod/t1"] = true
			return Interrupted, "the agent died"
		}
		return Done, ""
	}
	w.mute, w.targets = map[fleet.HostID]bool{}, w.targets[:1]
	w.start(45 * time.Minute)
	w.until(time.Minute, "in doubt", func() bool { return !w.s.Items[wk("web")].Unsure.IsZero() })
	w.crash(p)
	w.idle(2 * time.Minute)
	w.mute["prod/t1"] = false
	w.until(5*time.Minute, "flipped", func() bool { return !w.s.Items[wk("web")].FlippedAt.IsZero() })
	if len(w.starts(wk("web"))) != 1 {
		t.Fatal(w.dump())
	}
}

// The last look before an act: no start while an earlier one is in doubt.
func TestNoStartInDoubt(t *testing.T) {
	w := newWorld(t)
	w.add("web", fleet.Stateless)
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepStart {
			w.mute = map[fleet.HostID]bool{a.Target: true}
			return Interrupted, ""
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(time.Minute, "in doubt", func() bool { return !w.s.Items[wk("web")].Unsure.IsZero() })
	act := Act{ID: "x", Kind: ActExec, Step: StepStart, Key: wk("web"), Target: "prod/t2", Exec: "start"}
	if err := w.append(w.epoch, DriveIntent{Act: act}); !errors.Is(err, ErrIllegal) {
		t.Errorf("a start elsewhere: %v", err)
	}
}
