package drain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

// byLever gives the world a stateless workload that a lever starts elsewhere.
func byLever(w *world) *proc {
	w.p.Levers["web"] = LeverSpec{Name: "web", Steps: []Step{StepStart, StepHealth, StepFlip}}
	w.p.Rules = append(w.p.Rules, fleet.ClassRule{Name: "web", Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Stateless, Lever: "web"})
	return w.add("a", fleet.Stateless, func(p *proc) { p.start, p.health = "", "" })
}

// A start that a lever calls failed may have left half a replacement: it is taken
// back on its target before one is started anywhere, also where its failure is
// only heard of later, and for as long as that takes.
func TestFailedStartIsTakenBack(t *testing.T) {
	for _, first := range []Result{FailedAct, Interrupted} {
		w := newWorld(t)
		p := byLever(w)
		starts, undos := 0, 0
		w.answer = func(a Act) (Result, string) {
			switch a.tag() {
			case StepStart:
				if starts++; starts == 1 {
					return first, "out of memory"
				}
				if undos < 3 {
					t.Errorf("start %d while something may be left: %+v", starts, w.s.Items[p.key].Remains)
				}
			case "undo-start":
				if undos++; undos < 3 {
					return FailedAct, "the target does not answer"
				}
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(2*time.Minute, "left something", func() bool { return !w.s.Items[p.key].Remains.IsZero() })
		if len(w.s.Promises(0)[w.s.Items[p.key].Target]) != 1 {
			t.Error("the room there is promised to others")
		}
		w.until(15*time.Minute, "empty", w.phase(Empty))
		got := slices.DeleteFunc(w.tags(p.key), func(s Step) bool { return s == StepTerm })
		if want := []Step{StepStart, "undo-start", "undo-start", "undo-start", StepStart, StepHealth, StepFlip}; !slices.Equal(got, want) {
			t.Errorf("%s: %v\n%s", first, got, w.dump())
		}
	}
}

// What was refused has not begun: nothing is taken back.
func TestRefusedStartLeavesNothing(t *testing.T) {
	w := newWorld(t)
	p := byLever(w)
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepStart && len(w.tags(p.key)) == 0 {
			return Refused, "no such image"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(15*time.Minute, "empty", w.phase(Empty))
	if got := w.tags(p.key); slices.Contains(got, "undo-start") {
		t.Error(got)
	}
}

// The last look before an act: no start where another may have left something,
// and nothing is undone that nobody began.
func TestNoStartBesideRemains(t *testing.T) {
	w := newWorld(t)
	p := byLever(w)
	there := w.targets
	w.targets = nil
	w.start(45 * time.Minute)
	undo := Act{ID: "u", Kind: ActLever, Op: OpUndo, Step: StepStart, Key: p.key, Lever: "web", Target: "prod/t1"}
	w.until(time.Minute, "no target", w.reason("a", WaitNoTarget))
	if err := w.append(w.epoch, DriveIntent{Act: undo}); !errors.Is(err, ErrIllegal) {
		t.Errorf("an undo of nothing: %v", err)
	}
	w.targets, w.answer = there, func(a Act) (Result, string) { return FailedAct, "broken" }
	w.until(2*time.Minute, "remains", func() bool { return !w.s.Items[p.key].Remains.IsZero() })
	start := Act{ID: "s", Kind: ActLever, Op: OpDo, Step: StepStart, Key: p.key, Lever: "web", Target: "prod/t2"}
	if err := w.append(w.epoch, DriveIntent{Act: start}); !errors.Is(err, ErrIllegal) {
		t.Errorf("a start beside it: %v", err)
	}
}

// A target that is gone for good does not keep a workload waiting for ever: what
// may have been started there is named until a person says that it can't run, and
// then a replacement is started elsewhere.
func TestTargetGone(t *testing.T) {
	for _, listed := range []bool{false, true} {
		w := newWorld(t)
		w.add("web", fleet.Stateless)
		w.mute = map[fleet.HostID]bool{}
		var lost fleet.HostID
		w.answer = func(a Act) (Result, string) {
			switch {
			case a.Step == StepStart && lost == "":
				if lost = a.Target; listed {
					w.mute[lost] = true
				} else {
					w.targets = slices.DeleteFunc(slices.Clone(w.targets), func(id fleet.HostID) bool { return id == lost })
				}
				return Interrupted, "the agent died"
			case a.Target == lost && lost != "":
				return FailedAct, "no route"
			}
			return Done, ""
		}
		w.lost = true
		w.start(2 * time.Hour)
		code := map[bool]string{false: WaitTargetGone, true: WaitUnsure}[listed]
		w.until(2*time.Minute, code, w.reason("web", code))
		w.idle(20 * time.Minute)
		if n := len(w.starts(wk("web"))); n != 1 || w.s.Items[wk("web")].Reason.Args["target"] != lost.Name() {
			t.Fatalf("%d starts\n%s", n, w.dump())
		}
		if err := w.append(0, AskTargetGone{Key: wk("web"), Target: "prod/elsewhere"}); !errors.Is(err, ErrIllegal) {
			t.Errorf("of another target: %v", err)
		}
		if issues := Against(w.s, AskTargetGone{Key: wk("web"), Target: lost}); len(issues) > 0 {
			t.Errorf("against it: %v", issues)
		}
		w.ask(AskTargetGone{Key: wk("web"), Target: lost})
		w.until(2*time.Minute, "empty", w.phase(Empty))
		if got := w.starts(wk("web")); len(got) != 2 || got[1] == lost {
			t.Errorf("started on %v\n%s", got, w.dump())
		}
		if err := w.append(0, AskTargetGone{Key: wk("web"), Target: lost}); !errors.Is(err, ErrIllegal) {
			t.Errorf("of what has left: %v", err)
		}
	}
}

// startedAway is a drain whose only act is a start without an outcome on a host that
// is not listed; there are the targets that there would be.
func startedAway(t *testing.T) (w *world, there []fleet.HostID) {
	t.Helper()
	w = newWorld(t)
	w.add("web", fleet.Stateless)
	there, w.targets = w.targets, nil
	w.start(2 * time.Hour)
	w.until(time.Minute, "no target", w.reason("web", WaitNoTarget))
	if _, open := w.s.InDoubt(wk("web")); open {
		t.Fatal("in doubt before anything began")
	}
	act := Act{ID: "x", Kind: ActExec, Step: StepStart, Key: wk("web"), Target: "prod/away", Exec: "start"}
	if err := w.append(w.epoch, DriveIntent{Act: act}); err != nil {
		t.Fatal(err)
	}
	return w, there
}

// The same where the start itself has no outcome and its target can't be asked
// any more: the act is settled with it.
func TestTargetGoneInTheAct(t *testing.T) {
	w, there := startedAway(t)
	w.until(2*time.Minute, "named", w.reason("web", WaitTargetGone))
	if w.s.Count().NeedsYou != 1 {
		t.Error("nobody is asked")
	}
	w.targets = there
	w.ask(AskTargetGone{Key: wk("web"), Target: "prod/away"})
	w.until(5*time.Minute, "empty", w.phase(Empty))
}

// A drain that was stopped in the middle of a move, on a host that was rebooted
// since, says why it does not go on with it; a person's word lets it.
func TestStoppedInMidMoveAndRebooted(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(0))
	stop := true
	w.answer = func(a Act) (Result, string) {
		if stop && a.Op == OpUndo {
			return FailedAct, "the target does not answer"
		}
		if a.Step == StepClock && a.Op == OpDo {
			return WaitAct, "not yet"
		}
		return Done, ""
	}
	w.start(2 * time.Hour)
	w.until(2*time.Minute, "restored", func() bool { return !w.s.Items[wk("vm")].Move.Done[StepRestore].IsZero() })
	w.ask(AskStop{})
	w.boot = "another"
	w.until(2*time.Minute, "named", func() bool { return w.s.Waiting.Code == WaitRebooted && w.s.Phase == Stopped })
	w.idle(10 * time.Minute)
	if got := w.tags(wk("vm")); slices.Contains(got, "undo-restore") {
		t.Errorf("undone on another boot without a word: %v", got)
	}
	stop = false
	w.ask(AskRetry{})
	w.until(5*time.Minute, "rolled back", func() bool { return !w.s.Items[wk("vm")].Move.Underway() })
	if w.s.Waiting.Code == WaitRebooted {
		t.Errorf("it still waits for %v", w.s.Waiting)
	}
}

// A replacement to which the claim has moved is asked once more whether it answers,
// and its host is gone for good: on a person's word another one is started, and the
// claim moves there.
func TestTargetGoneAfterTheFlip(t *testing.T) {
	w := newWorld(t)
	w.add("web", fleet.Stateless, stubborn)
	w.start(2 * time.Hour)
	w.until(2*time.Minute, "flipped", func() bool { return !w.s.Items[wk("web")].FlippedAt.IsZero() })
	w.idle(time.Minute)
	w.ask(AskHold{Key: wk("web")})
	w.targets = []fleet.HostID{"prod/t2"}
	delete(w.copies, "prod/t1")
	w.ask(AskRetry{Key: wk("web")})
	w.until(2*time.Minute, "named", w.reason("web", WaitTargetGone))
	w.ask(AskTargetGone{Key: wk("web"), Target: "prod/t1"})
	w.until(2*time.Minute, "flipped again", func() bool { return w.s.Items[wk("web")].FlippedTo == "prod/t2" })
	if it := w.s.Items[wk("web")]; it.Class != fleet.Stateless || it.Target != "prod/t2" || !it.Open() {
		t.Fatalf("%+v", it)
	}
}

// The workload has left while the act on its replacement's host is under way, and
// that host is gone: the act stands in the way of a proof until a person says so.
func TestTargetGoneOfWhatHasLeft(t *testing.T) {
	w, there := startedAway(t)
	if err := w.append(w.epoch, DriveEnded{Ends: []Ended{{Key: wk("web"), End: LeftHost, By: "ttl"}}}); err != nil {
		t.Fatal(err)
	}
	w.end(w.procs[wk("web")], 0)
	w.targets = there
	w.until(5*time.Minute, "in the way", func() bool {
		return slices.ContainsFunc(w.s.Issues, func(is fleet.Issue) bool { return strings.Contains(is.Detail, "away is no longer in the fleet") })
	})
	gone := AskTargetGone{Key: wk("web"), Target: "prod/away"}
	if issues := Against(w.s, gone); len(issues) > 0 {
		t.Fatal(issues)
	}
	w.ask(gone)
	w.until(5*time.Minute, "empty", w.phase(Empty))
}
