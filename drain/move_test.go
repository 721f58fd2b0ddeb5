package drain

import (
	"errors"
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

var (
	pausableWay = []Step{StepSnapshot, StepShip, StepRestore, StepClock, StepAnswers, StepFlip, StepRemove}
	durableWay  = []Step{StepAnnounce, StepFence, StepArchive, StepReplay, StepPromote, StepRepoint, StepProve, StepRemove}
)

// tags lists the lever's acts on a workload, undo and status as such.
func (w *world) tags(k fleet.Key) []Step {
	var out []Step
	for _, d := range w.did {
		if d.act.Key == k && d.act.Op != OpStatus {
			out = append(out, d.act.tag())
		}
	}
	return out
}

func TestMoves(t *testing.T) {
	for mode := range 3 {
		w := newWorld(t)
		w.add("vm", fleet.Pausable, levered(mode))
		w.add("db", fleet.Durable, levered(0))
		w.start(45 * time.Minute)
		w.until(5*time.Minute, "empty", w.phase(Empty))
		if got := w.tags(wk("vm")); !slices.Equal(got, pausableWay) || !w.ended("vm", LeftHost, "lever")() {
			t.Fatalf("mode %d: %v\n%s", mode, got, w.dump())
		}
		if got := w.tags(wk("db")); !slices.Equal(got, durableWay) || !w.ended("db", LeftHost, "lever")() {
			t.Fatalf("mode %d: %v", mode, got)
		}
	}
}

func TestMoveThatTakesLong(t *testing.T) {
	w := newWorld(t)
	w.p.LeverEvery = 5 * time.Second
	w.add("vm", fleet.Pausable, levered(0))
	w.answer = func(a Act) (Result, string) { return Done, "" }
	w.slow = time.Minute
	w.start(45 * time.Minute)
	w.until(20*time.Minute, "empty", w.phase(Empty))
	var last time.Time
	polls := 0
	for _, d := range w.did {
		if d.act.Op == OpStatus {
			if polls++; d.at.Sub(last) < w.p.LeverEvery {
				t.Fatalf("asked twice within %s", d.at.Sub(last))
			}
			last = d.at
		}
	}
	if polls == 0 {
		t.Fatal("nothing was asked about")
	}
}

func TestRestoreFails(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(1))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepRestore && a.Op == OpDo && a.Target == "prod/t1" {
			return Refused, "engine 1.4, wanted 1.5"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "empty", w.phase(Empty))
	want := append([]Step{StepSnapshot, StepShip, StepRestore, "undo-restore", "undo-ship", "undo-snapshot"}, pausableWay...)
	if got := w.tags(wk("vm")); !slices.Equal(got, want) {
		t.Fatalf("%v\n%s", got, w.dump())
	}
}

func TestRestoreFailsEverywhere(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(2))
	bad := true
	w.answer = func(a Act) (Result, string) {
		if bad && a.Step == StepRestore && a.Op == OpDo {
			return FailedAct, "no space"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "rolled back", w.reason("vm", WaitRolledBack))
	if w.site(wk("vm")).paused || w.procs[wk("vm")] == nil {
		t.Fatalf("it does not run here any more\n%s", w.dump())
	}
	w.idle(time.Minute)
	if n := len(w.did); w.did[n-1].at.After(w.now.Add(-30 * time.Second)) {
		t.Fatal("it is tried again without a word")
	}
	bad = false
	w.ask(AskRetry{Key: wk("vm")})
	w.until(5*time.Minute, "empty", w.phase(Empty))
}

// The target can't be asked to give its copy up: the source stays paused, and is
// named, at the deadline too.
func TestTwoCopiesAreNamed(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(0))
	down := true
	w.answer = func(a Act) (Result, string) {
		if down && a.Target != "" && (a.Step == StepAnswers || a.Op == OpUndo && a.Step != StepSnapshot) {
			return FailedAct, "no route"
		}
		return Done, ""
	}
	w.start(10 * time.Minute)
	w.until(9*time.Minute, "two copies", w.reason("vm", WaitTwoCopies))
	w.until(20*time.Minute, "deadline", w.phase(DeadlineReached))
	if !w.site(wk("vm")).paused || w.s.Left[0].Key != wk("vm") {
		t.Fatalf("%+v\n%s", w.s.Left, w.dump())
	}
	w.until(20*time.Minute, "given up", func() bool { return !w.s.Unsettled() })
	down = false
	w.ask(AskExtend{Until: w.now.Add(time.Hour)})
	w.ask(AskRetry{Key: wk("vm")})
	w.until(30*time.Minute, "empty", w.phase(Empty))
}

func TestDeadlineInAMove(t *testing.T) {
	for _, c := range []struct {
		class fleet.Class
		hangs Step
		want  Phase
		back  bool
	}{
		{fleet.Pausable, StepShip, DeadlineReached, true},
		{fleet.Pausable, StepClock, DeadlineReached, true},
		{fleet.Pausable, StepFlip, DeadlineReached, false},
		{fleet.Durable, StepReplay, DeadlineReached, true},
		{fleet.Durable, StepPromote, DeadlineReached, false},
		{fleet.Durable, StepProve, DeadlineReached, false},
	} {
		for _, stop := range []bool{false, true} {
			t.Run(string(c.class)+" "+string(c.hangs), func(t *testing.T) {
				w := newWorld(t)
				w.add("x", c.class, levered(1))
				hangs := true
				w.answer = func(a Act) (Result, string) {
					if hangs && a.Step == c.hangs && a.Op == OpDo {
						return WaitAct, "not yet"
					}
					return Done, ""
				}
				w.start(10 * time.Minute)
				w.until(5*time.Minute, "waits", w.reason("x", WaitLeverWaits))
				if stop {
					w.ask(AskStop{})
				} else {
					w.until(12*time.Minute, "deadline", w.phase(DeadlineReached))
					if len(w.s.Left) != 1 || w.s.Left[0].Reason.IsZero() {
						t.Fatalf("%+v", w.s.Left)
					}
				}
				hangs = false
				w.until(10*time.Minute, "settled", func() bool { return !w.s.Unsettled() })
				s := w.site(wk("x"))
				if c.back && (s.paused || s.fenced || s.up || w.procs[wk("x")] == nil) {
					t.Fatalf("not as it was: %+v\n%s", s, w.dump())
				}
				if !c.back && (w.procs[wk("x")] != nil || !s.up) {
					t.Fatalf("not finished: %+v\n%s", s, w.dump())
				}
			})
		}
	}
}

// A move that a drain has left half done is taken back by the next one, or
// finished, also where that one's deadline has come before its own cordon was
// shown to have taken.
func TestDeadlineBeforeTheCordonSettlesMoves(t *testing.T) {
	for _, c := range []struct {
		class fleet.Class
		hangs Step
		back  bool
	}{
		{fleet.Pausable, StepShip, true}, {fleet.Pausable, StepFlip, false}, {fleet.Durable, StepReplay, true}, {fleet.Durable, StepProve, false},
	} {
		w := newWorld(t)
		w.add("x", c.class, levered(1))
		w.add("y", fleet.Stuck)
		hangs := true
		w.answer = func(a Act) (Result, string) {
			if hangs && a.Step == c.hangs && a.Op == OpDo {
				return WaitAct, "not yet"
			}
			return Done, ""
		}
		w.start(20 * time.Minute)
		w.until(5*time.Minute, "waits", w.reason("x", WaitLeverWaits))
		w.driverGone, w.inflight = true, nil
		before := len(w.acted(wk("y")))
		w.ask(AskStop{})
		w.ask(AskStart{Deadline: w.now.Add(time.Minute)})
		w.idle(2 * time.Minute)
		hangs = false
		w.take(2*time.Minute, false)
		w.until(time.Minute, "deadline", w.phase(DeadlineReached))
		w.until(10*time.Minute, "settled", func() bool { return !w.s.Unsettled() })
		if w.s.Proved || len(w.acted(wk("y"))) != before {
			t.Fatalf("something else was done before the cordon had taken\n%s", w.dump())
		}
		s := w.site(wk("x"))
		if c.back && (s.paused || s.fenced || s.up || w.procs[wk("x")] == nil) || !c.back && (w.procs[wk("x")] != nil || !s.up) {
			t.Fatalf("%s %s is left half done: %+v\n%s", c.class, c.hangs, s, w.dump())
		}
	}
}

// A fence survives: what is fenced and started anew goes on being moved.
func TestDurableRestartsWhileFenced(t *testing.T) {
	w := newWorld(t)
	p := w.add("db", fleet.Durable, levered(0))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepArchive && w.now.Before(noon.Add(2*time.Minute)) {
			return WaitAct, "the archive is busy"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(time.Minute, "fenced", func() bool { return w.site(p.key).fenced })
	w.respawn(p)
	w.until(10*time.Minute, "empty", w.phase(Empty))
	if got := w.tags(p.key); slices.Contains(got, "undo-fence") {
		t.Fatalf("%v", got)
	}
}

func TestDriverDiesInAMove(t *testing.T) {
	for i := range 14 {
		w := newWorld(t)
		w.slow = 20 * time.Second
		w.add("vm", fleet.Pausable, levered(i%3))
		w.add("db", fleet.Durable, levered(0))
		w.start(45 * time.Minute)
		for range i {
			w.tick(700 * time.Millisecond)
		}
		w.driverGone, w.inflight = true, nil
		w.tick(15 * time.Second)
		w.take(15*time.Second, false)
		w.until(20*time.Minute, "empty", w.phase(Empty))
		for _, k := range []fleet.Key{wk("vm"), wk("db")} {
			seen := map[Step]int{}
			for _, s := range w.tags(k) {
				if seen[s]++; seen[s] > 2 {
					t.Fatalf("%s of %s %d times", s, k, seen[s])
				}
			}
		}
	}
}

func TestHoldRollsBack(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(0))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepShip && a.Op == OpDo {
			return WaitAct, "no bandwidth"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(time.Minute, "waits", w.reason("vm", WaitLeverWaits))
	w.ask(AskHold{Key: wk("vm"), Reason: "mine"})
	w.until(5*time.Minute, "back", func() bool { return !w.s.Items[wk("vm")].Move.Underway() })
	if w.site(wk("vm")).paused || w.s.Items[wk("vm")].Reason.Code != WaitHeld {
		t.Fatalf("%s", w.dump())
	}
}

func TestIllegalMoves(t *testing.T) {
	at := noon
	m := func(done ...Step) Move {
		m := Move{Steps: durableWay, Class: fleet.Durable}
		for _, s := range done {
			m.Begun, m.Done = set(m.Begun, s, at), set(m.Done, s, at)
		}
		return m
	}
	noReturn := m(StepAnnounce, StepFence, StepArchive, StepReplay, StepPromote)
	noReturn.NoReturn = true
	undoing := m(StepAnnounce, StepFence)
	undoing.Undoing = true
	for name, c := range map[string]struct {
		m     Move
		a     Act
		phase Phase
	}{
		"promote before fence":         {m(StepAnnounce), Act{Op: OpDo, Step: StepPromote}, Draining},
		"promote before replay":        {m(StepAnnounce, StepFence, StepArchive), Act{Op: OpDo, Step: StepPromote}, Draining},
		"undo of fence, replay stands": {m(StepAnnounce, StepFence, StepArchive, StepReplay), Act{Op: OpUndo, Step: StepFence}, Draining},
		"undo past the point":          {noReturn, Act{Op: OpUndo, Step: StepPromote}, Draining},
		"forward while undoing":        {undoing, Act{Op: OpDo, Step: StepArchive}, Draining},
		"forward when stopped":         {m(StepAnnounce, StepFence), Act{Op: OpDo, Step: StepArchive}, Stopped},
		"status of nothing":            {m(StepAnnounce), Act{Op: OpStatus, Of: "x"}, Draining},
		"no such step":                 {m(), Act{Op: OpDo, Step: StepShip}, Draining},
	} {
		if err := c.m.legal(c.a, c.phase); !errors.Is(err, ErrIllegal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := noReturn.legal(Act{Op: OpDo, Step: StepRepoint}, DeadlineReached); err != nil {
		t.Error(err)
	}
}

// What a lever says survives the journal, and what is too big is not kept.
func TestLeverStateInTheJournal(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(0))
	w.latency = 20 * time.Second
	w.start(45 * time.Minute)
	w.until(time.Minute, "begun", func() bool { return w.s.Items[wk("vm")].Move.Underway() })
	id := ""
	for open, a := range w.s.Open {
		if a.Key == wk("vm") {
			id = open
		}
	}
	w.driverGone, w.inflight = true, nil
	out := DriveOutcome{Act: id, Result: RunningAct, Progress: "1 of 7 GB", State: []byte(`{"at":"s3"}`), NoReturn: false}
	if err := w.append(w.epoch, out); err != nil {
		t.Fatal(err)
	}
	it := clone(t, w.s).Items[wk("vm")]
	if string(it.Move.State) != `{"at":"s3"}` || it.Move.Says != "1 of 7 GB" || it.Move.Asked != id || it.Reason.Code != WaitRunning || it.Reason.Args["detail"] != "1 of 7 GB" {
		t.Fatalf("%+v", it)
	}
	big := it.Move.answered(Act{Op: OpDo, Step: StepSnapshot}, DriveOutcome{Result: Done, State: make([]byte, MaxLeverState+1)}, noon)
	if string(big.State) != `{"at":"s3"}` {
		t.Fatalf("%d bytes are kept", len(big.State))
	}
}

// A hold that was lifted in mid-move is not forgotten: the next drain begins with
// what the last one left paused, and rolls it back or goes on.
func TestNextDrainKnowsWhatIsPaused(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(2))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepShip && w.now.Before(noon.Add(time.Minute)) {
			return WaitAct, "no bandwidth"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(time.Minute, "waits", w.reason("vm", WaitLeverWaits))
	w.ask(RecUndrain{})
	w.idle(time.Minute)
	w.start(45 * time.Minute)
	if !w.s.Items[wk("vm")].Move.Underway() {
		t.Fatal("it is forgotten")
	}
	w.until(10*time.Minute, "empty", w.phase(Empty))
	if s := w.site(wk("vm")); !s.up || !s.repoint || !w.ended("vm", LeftHost, "lever")() {
		t.Fatalf("%+v\n%s", s, w.dump())
	}
}

// What a move has left here goes only while the host that took it over is the one
// to which it was brought, and answers.
func TestRemoveWaitsForTheOtherCopy(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		code    string
		heals   func(*world)
	}{
		"no longer listed": {func(w *world) { w.targets = []fleet.HostID{"prod/t2"} }, WaitCopyGone, func(w *world) { w.targets = []fleet.HostID{"prod/t1", "prod/t2"} }},
		"another machine":  {func(w *world) { w.swapped = map[fleet.HostID]string{"prod/t1": "m9"} }, WaitCopyGone, func(w *world) { w.swapped = nil }},
		"fleet not read":   {func(w *world) { w.targets = nil }, WaitCopyUnread, func(w *world) { w.targets = []fleet.HostID{"prod/t1"} }},
		"answers no more":  {func(w *world) { w.away = map[fleet.HostID]bool{"prod/t1": true} }, WaitCopyUnread, func(w *world) { w.away = nil }},
		"silent":           {func(w *world) { w.mute = map[fleet.HostID]bool{"prod/t1": true} }, WaitCopyUnread, func(w *world) { w.mute = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("db", fleet.Durable, levered(0))
			w.answer = func(a Act) (Result, string) {
				if a.Step == StepProve {
					c.happens(w)
				}
				return Done, ""
			}
			w.start(45 * time.Minute)
			w.until(5*time.Minute, "it waits", w.reason("db", c.code))
			w.idle(time.Minute)
			if got := w.tags(wk("db")); slices.Contains(got, StepRemove) || w.s.Items[wk("db")].Target != "prod/t1" {
				t.Fatalf("%v\n%s", got, w.dump())
			}
			c.heals(w)
			w.until(5*time.Minute, "empty", w.phase(Empty))
		})
	}
}

// A person who has saved it lets the drain go on.
func TestKeepWhereTheOtherCopyIsGone(t *testing.T) {
	w := newWorld(t)
	w.add("db", fleet.Durable, levered(0))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepProve {
			w.targets = []fleet.HostID{"prod/t2"}
		}
		return Done, ""
	}
	w.start(10 * time.Minute)
	w.until(20*time.Minute, "the deadline", w.phase(DeadlineReached))
	if w.s.Unsettled() || len(w.s.Left) != 1 || w.s.Left[0].Reason.Code != WaitCopyGone {
		t.Fatalf("unsettled %v, left %v", w.s.Unsettled(), w.s.Left)
	}
	w.ask(AskExtend{Until: w.now.Add(time.Hour)})
	w.ask(AskKeep{Key: wk("db"), Reason: "saved"})
	w.ask(RecAccepted{Key: wk("db"), Reason: "saved"})
	w.until(5*time.Minute, "empty", w.phase(Empty))
}

// A move to a host that became another machine in its midst is rolled back.
func TestMoveToAHostThatIsAnotherMachine(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, levered(1))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepShip && a.Op == OpDo && w.swapped == nil {
			w.swapped = map[fleet.HostID]string{"prod/t1": "m9"}
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "empty", w.phase(Empty))
	want := append([]Step{StepSnapshot, StepShip, "undo-ship", "undo-snapshot"}, pausableWay...)
	if got := w.tags(wk("vm")); !slices.Equal(got, want) {
		t.Fatalf("%v\n%s", got, w.dump())
	}
}
