package drain

import (
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

func TestAsks(t *testing.T) {
	t.Run("hold before the first inventory", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(45 * time.Minute)
		w.ask(AskHold{Key: wk("a"), Reason: "not this one"})
		w.until(time.Minute, "held", w.reason("a", WaitHeld))
		for range 100 {
			w.tick(5 * time.Second)
		}
		if len(w.acted(wk("a"))) != 0 {
			t.Fatal("acted upon although held")
		}
		w.ask(AskRetry{Key: wk("a")})
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
	t.Run("hold in the middle, then retry: the whole escalation again", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck, stubborn)
		w.start(2 * time.Hour)
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		w.ask(AskHold{Key: wk("a")})
		w.idle(30 * time.Minute)
		w.ask(AskRetry{Key: wk("a")})
		w.until(30*time.Minute, "empty", w.phase(Empty))
		if got := w.acted(wk("a")); !slices.Equal(got, []Step{StepNotice, StepTerm, StepNotice, StepTerm, StepTerm2, StepKill}) {
			t.Fatalf("%v", got)
		}
	})
	t.Run("hold cancels an escalation by name", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Pausable, stubborn)
		w.start(2 * time.Hour)
		w.until(time.Minute, "draining", w.reason("a", WaitNoStrategy))
		w.ask(AskEscalate{Key: wk("a")})
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		w.ask(AskHold{Key: wk("a")})
		n := len(w.did)
		w.idle(30 * time.Minute)
		if len(w.did) != n {
			t.Fatal("went on although held")
		}
	})
	t.Run("a held one stays held when it restarts", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stuck)
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.phase(Draining))
		w.ask(AskHold{Key: wk("a")})
		w.tick(5 * time.Second)
		n := len(w.did)
		w.respawn(p)
		w.idle(10 * time.Minute)
		if len(w.did) != n || !w.s.Items[wk("a")].Held {
			t.Fatal("a restart lifted the hold")
		}
	})
	t.Run("keep needs acceptance", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Durable)
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.phase(Draining))
		w.tick(5 * time.Second)
		w.ask(AskKeep{Key: wk("a")})
		w.until(time.Minute, "verifying", w.phase(Verifying))
		w.idle(5 * time.Minute)
		if w.s.Phase != Verifying || len(w.s.Issues) != 1 {
			t.Fatalf("%s", w.dump())
		}
		w.ask(RecAccepted{Key: wk("a"), Reason: "stays"})
		w.until(time.Minute, "empty", w.phase(Empty))
	})
	t.Run("escalate by name", func(t *testing.T) {
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			p := w.add("a", fleet.Durable, stubborn)
			w.start(5 * time.Minute)
			w.until(time.Minute, "draining", w.reason("a", WaitNoStrategy))
			if after {
				w.until(10*time.Minute, "deadline", w.phase(DeadlineReached))
			}
			w.ask(AskEscalate{Key: wk("a"), Run: p.run})
			w.until(30*time.Minute, "empty", w.phase(Empty))
			if got := w.acted(wk("a")); !slices.Equal(got, []Step{StepNotice, StepTerm, StepTerm2, StepKill}) {
				t.Fatalf("%v", got)
			}
			if gap := w.did[3].at.Sub(w.did[2].at); gap < 10*time.Minute {
				t.Fatalf("grace of %s", gap)
			}
		}
	})
	t.Run("escalate names one incarnation", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Durable)
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.reason("a", WaitNoStrategy))
		w.ask(AskEscalate{Key: wk("a"), Run: p.run})
		w.respawn(p)
		w.tick(5 * time.Second)
		n := len(w.did)
		w.idle(10 * time.Minute)
		if len(w.did) != n {
			t.Fatal("another incarnation was escalated")
		}
		if err := w.append(0, AskEscalate{Key: wk("a"), Run: p.run}); err == nil {
			t.Fatal("a run that is gone was escalated")
		}
	})
	t.Run("class", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Unclassified, stubborn)
		w.start(45 * time.Minute)
		w.until(time.Minute, "unclassified", w.reason("a", WaitUnclassified))
		w.ask(AskClass{Key: wk("a"), Class: fleet.Stuck})
		w.until(time.Minute, "not in the plan", w.reason("a", WaitNotPlanned))
		w.tick(5 * time.Second)
		if g := w.s.Items[wk("a")].Budget.Grace; g != 10*time.Minute {
			t.Fatalf("its grace is %s", g)
		}
	})
	t.Run("more time lengthens a running grace only", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck, stubborn)
		w.add("b", fleet.Ephemeral, stubborn)
		w.start(2 * time.Hour)
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		w.ask(AskMoreTime{Key: wk("a"), By: 20 * time.Minute})
		w.ask(AskMoreTime{Key: wk("b"), By: 20 * time.Minute})
		if g := w.s.Items[wk("b")].Budget.Grace; g != time.Minute {
			t.Fatalf("more time would make it go sooner: grace %s", g)
		}
		w.idle(25 * time.Minute)
		if !w.reason("a", WaitGrace)() {
			t.Fatalf("%s", w.dump())
		}
	})
	t.Run("stop, and start again", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck, stubborn)
		w.start(2 * time.Hour)
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		w.ask(AskStop{})
		n := len(w.did)
		w.idle(time.Hour)
		if len(w.did) != n || !w.holds.Both() {
			t.Fatal("a stopped drain acted")
		}
		w.start(time.Hour)
		w.until(30*time.Minute, "empty", w.phase(Empty))
		if got := w.acted(wk("a")); !slices.Equal(got, []Step{StepNotice, StepTerm, StepNotice, StepTerm, StepTerm2, StepKill}) {
			t.Fatalf("%v", got)
		}
	})
	t.Run("a hold that was lifted is set again on word only", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Ephemeral, ttl(20*time.Minute))
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.reason("a", WaitExpires))
		w.holds.Cordon, w.cordon = nil, fleet.Uncordoned
		w.add("late", fleet.Pausable)
		w.idle(time.Minute)
		if w.s.Waiting.Code != WaitHold || w.holds.Cordon != nil || !w.s.Items[wk("late")].Late {
			t.Fatalf("%s", w.dump())
		}
		w.ask(AskRetry{})
		w.until(time.Minute, "cordoned again", func() bool { return w.holds.Both() && w.s.Phase == Draining })
	})
}
