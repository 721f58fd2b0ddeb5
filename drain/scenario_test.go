package drain

import (
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

func TestExpiryLetsGo(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Ephemeral, ttl(10*time.Minute))
	w.start(45 * time.Minute)
	w.until(time.Minute, "waits for its expiry", w.reason("a", WaitExpires))
	w.until(15*time.Minute, "empty", w.phase(Empty))
	if !w.ended("a", LeftHost, "ttl")() || len(w.acted(wk("a"))) != 0 {
		t.Fatalf("%v\n%s", w.acted(wk("a")), w.dump())
	}
}

func TestTTLIgnored(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Ephemeral, ttl(10*time.Minute), overstays, stubborn)
	w.add("b", fleet.Ephemeral, stubborn) // has no expiry at all
	w.start(45 * time.Minute)
	w.until(time.Hour, "empty", w.phase(Empty))
	if w.now.After(noon.Add(45 * time.Minute)) {
		t.Fatalf("after the deadline: %s", w.dump())
	}
	for _, k := range []fleet.Key{wk("a"), wk("b")} {
		if got := w.acted(k); !slices.Equal(got, []Step{StepNotice, StepTerm, StepTerm2, StepKill}) {
			t.Fatalf("%s: %v", k, got)
		}
		if first := w.did[1].at; first.Before(noon.Add(40 * time.Minute)) {
			t.Fatalf("escalated at %s, long before it had to be", first)
		}
	}
}

func TestStuckThatObeys(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stuck)
	w.start(45 * time.Minute)
	w.until(5*time.Minute, "empty", w.phase(Empty))
	if got := w.acted(wk("a")); !slices.Equal(got, []Step{StepNotice, StepTerm}) || !w.ended("a", LeftHost, "lever")() {
		t.Fatalf("%v\n%s", got, w.dump())
	}
}

func TestStuckThatSurvivesKill(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stuck, stubborn, func(p *proc) { p.immortal = true })
	w.start(45 * time.Minute)
	w.until(20*time.Minute, "says that it survived", w.reason("a", WaitSurvived))
	w.until(45*time.Minute, "deadline", w.phase(DeadlineReached))
	if len(w.s.Left) != 1 || w.s.Left[0].Reason.Code != WaitSurvived {
		t.Fatalf("%+v", w.s.Left)
	}
}

func TestNoTimeForTheGrace(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stuck)
	w.start(5 * time.Minute)
	w.until(time.Minute, "no time", w.reason("a", WaitNoTime))
	w.until(10*time.Minute, "deadline", w.phase(DeadlineReached))
	if len(w.acted(wk("a"))) != 0 || len(w.s.Left) != 1 || w.s.Left[0].Key != wk("a") || w.s.Left[0].Owner != "team" {
		t.Fatalf("%+v", w.s.Left)
	}
	w.ask(AskExtend{Until: w.now.Add(30 * time.Minute)})
	w.until(10*time.Minute, "empty", w.phase(Empty))
}

func TestRedeploy(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stateless)
	w.start(45 * time.Minute)
	w.until(5*time.Minute, "empty", w.phase(Empty))
	if got := w.acted(wk("a")); !slices.Equal(got, []Step{StepStart, StepHealth, StepFlip, StepTerm}) {
		t.Fatalf("%v\n%s", got, w.dump())
	}
}

func TestRedeployOfOneThatIgnoresTerm(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stateless, stubborn)
	w.start(45 * time.Minute)
	w.until(45*time.Minute, "empty", w.phase(Empty))
	want := []Step{StepStart, StepHealth, StepFlip, StepTerm, StepNotice, StepTerm, StepTerm2, StepKill}
	if got := w.acted(wk("a")); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
}

func TestRedeployFaults(t *testing.T) {
	t.Run("health never answers", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stateless)
		w.answer = func(a Act) (Result, string) {
			if a.Step == StepHealth {
				return FailedAct, "503"
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(30*time.Minute, "late", func() bool { return w.s.Items[wk("a")].Overdue })
		w.until(45*time.Minute, "deadline", w.phase(DeadlineReached))
		if slices.Contains(w.acted(wk("a")), StepTerm) || w.s.Left[0].Reason.Args["detail"] != "503" {
			t.Fatalf("%v %+v", w.acted(wk("a")), w.s.Left)
		}
	})
	t.Run("start fails on one target", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stateless)
		w.answer = func(a Act) (Result, string) {
			if a.Step == StepStart && a.Target == "prod/t1" {
				return Refused, "full"
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(5*time.Minute, "empty", w.phase(Empty))
	})
	t.Run("no target", func(t *testing.T) {
		w := newWorld(t)
		w.targets = nil
		w.add("a", fleet.Stateless)
		w.start(45 * time.Minute)
		w.until(time.Minute, "no target", w.reason("a", WaitNoTarget))
		w.targets = []fleet.HostID{"prod/t9"}
		w.until(time.Minute, "empty", w.phase(Empty))
	})
	t.Run("no health command, then one", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stateless, func(p *proc) { p.health = "" })
		w.start(45 * time.Minute)
		w.until(time.Minute, "no command", w.reason("a", WaitNoCommand))
		p.health = "health"
		w.until(2*time.Minute, "healthy after it was written", w.phase(Empty))
	})
	t.Run("the old one crashes while the new one comes up", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stateless)
		up := false
		w.answer = func(a Act) (Result, string) {
			if a.Step == StepHealth && !up {
				return FailedAct, "starting"
			}
			return Done, ""
		}
		w.start(45 * time.Minute)
		w.until(time.Minute, "started", func() bool { return !w.s.Items[wk("a")].StartedAt.IsZero() })
		w.crash(p)
		w.until(2*time.Minute, "gone", func() bool { return !w.s.Items[wk("a")].MissingAt.IsZero() })
		up = true
		w.until(2*time.Minute, "lost", w.ended("a", Lost, "before its replacement"))
		if !slices.Contains(w.acted(wk("a")), StepFlip) {
			t.Fatalf("the claim never moved to the replacement: %s", w.dump())
		}
	})
	t.Run("the supervisor restarts it while its replacement comes up", func(t *testing.T) {
		w := newWorld(t)
		p := w.add("a", fleet.Stateless)
		w.start(45 * time.Minute)
		w.until(time.Minute, "started", func() bool { return !w.s.Items[wk("a")].StartedAt.IsZero() })
		w.respawn(p)
		w.until(5*time.Minute, "empty", w.phase(Empty))
		if n := len(slices.DeleteFunc(w.acted(wk("a")), func(s Step) bool { return s != StepStart })); n != 1 {
			t.Fatalf("%d replacements", n)
		}
	})
}

func TestNotActedUpon(t *testing.T) {
	w := newWorld(t)
	w.add("none", fleet.Unclassified)
	w.add("orphan", fleet.Stuck, unclaimed)
	w.add("vm", fleet.Pausable)
	w.add("db", fleet.Durable)
	long := w.add("x", "", stray)
	w.start(30 * time.Minute)
	short := w.add("y", "", stray, func(p *proc) { p.born = w.now })
	w.tick(5 * time.Second)
	w.crash(short)
	w.until(40*time.Minute, "deadline", w.phase(DeadlineReached))
	if len(w.did) != 1 || len(w.s.Left) != 5 {
		t.Fatalf("%v\n%+v", w.did, w.s.Left)
	}
	if _, known := w.s.Items[short.key]; known {
		t.Fatal("a transient process became an item")
	}
	for id, code := range map[string]string{"none": WaitUnclassified, "orphan": WaitUnclassified, "vm": WaitNoStrategy, "db": WaitNoStrategy} {
		if !w.reason(id, code)() {
			t.Errorf("%s: %v", id, w.s.Items[wk(id)].Reason)
		}
	}
	if it := w.s.Items[long.key]; !it.Open() || it.Verdict != fleet.Unattributed {
		t.Errorf("the lasting one: %+v", it)
	}
}

func TestLeftAndLost(t *testing.T) {
	cases := []struct {
		name string
		opts []func(*proc)
		do   func(*world, *proc)
		end  End
		by   string
	}{
		{"claim gone within the window", nil, func(w *world, p *proc) { w.end(p, 20*time.Second) }, LeftHost, "owner"},
		{"claim gone after the window", nil, func(w *world, p *proc) { w.end(p, 2*time.Minute) }, Lost, "vanished"},
		{"claim stays", nil, func(w *world, p *proc) { w.crash(p) }, Lost, "vanished"},
		{"manifest removed", []func(*proc){declared}, func(w *world, p *proc) { w.crash(p) }, LeftHost, "owner"},
		{"ttl", []func(*proc){ttl(time.Minute)}, func(w *world, p *proc) { w.tick(2 * time.Minute) }, LeftHost, "ttl"},
		{"before its ttl", []func(*proc){ttl(30 * time.Minute)}, func(w *world, p *proc) { w.crash(p) }, Lost, "vanished"},
		{"before its ttl, seen after a gap", []func(*proc){ttl(3 * time.Minute)}, func(w *world, p *proc) {
			w.crash(p)
			w.tick(5 * time.Second)
			w.driverGone = true
			w.tick(4 * time.Minute)
			w.take(4*time.Minute, false)
		}, Lost, "vanished"},
		{"claim turned gone in the gap, long after", nil, func(w *world, p *proc) {
			w.tick(5 * time.Second)
			w.end(p, 3*time.Minute)
			w.tick(5 * time.Second)
			w.driverGone = true
			w.tick(4 * time.Minute)
			w.take(4*time.Minute, false)
		}, Lost, "vanished"},
		{"reboot", nil, func(w *world, p *proc) { w.crash(p); w.boot = "b2" }, Lost, "rebooted"},
		{"plane down while it vanishes", nil, func(w *world, p *proc) {
			w.planeDown = true
			w.end(p, 10*time.Second)
			for range 30 {
				w.tick(5 * time.Second)
			}
			if !w.s.Items[p.key].Open() {
				w.t.Fatalf("decided without the plane")
			}
			w.planeDown = false
		}, LeftHost, "owner"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.add("a", fleet.Pausable, c.opts...)
			w.start(45 * time.Minute)
			w.until(time.Minute, "draining", w.phase(Draining))
			w.tick(5 * time.Second)
			c.do(w, p)
			w.until(2*time.Minute, "ended "+string(c.end)+" "+c.by, w.ended("a", c.end, c.by))
			if c.end == LeftHost {
				w.until(time.Minute, "empty", w.phase(Empty))
				return
			}
			for range 10 {
				w.tick(5 * time.Second)
			}
			if w.s.Phase == Empty || len(w.s.Lost) != 1 {
				t.Fatalf("a loss that counts as a success: %s", w.dump())
			}
			if w.boot != "b1" {
				w.ask(AskRetry{}) // the person says that the drain goes on with the new boot
			}
			w.ask(RecAccepted{Key: p.key, Reason: "known"})
			w.until(time.Minute, "empty once accepted", w.phase(Empty))
		})
	}
}

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
		p := w.add("a", fleet.Stuck, stubborn)
		w.start(2 * time.Hour)
		w.until(5*time.Minute, "term", w.reason("a", WaitGrace))
		w.ask(AskHold{Key: wk("a")})
		w.respawnNot(p, 30*time.Minute)
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
		w.respawnNot(nil, 30*time.Minute)
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
		w.respawnNot(nil, 10*time.Minute)
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
		w.respawnNot(nil, 5*time.Minute)
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
		w.respawnNot(nil, 10*time.Minute)
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
		w.respawnNot(nil, 25*time.Minute)
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
		w.respawnNot(nil, time.Hour)
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
		w.respawnNot(nil, time.Minute)
		if w.s.Waiting.Code != WaitHold || w.holds.Cordon != nil || !w.s.Items[wk("late")].Late {
			t.Fatalf("%s", w.dump())
		}
		w.ask(AskRetry{})
		w.until(time.Minute, "cordoned again", func() bool { return w.holds.Both() && w.s.Phase == Draining })
	})
}

// respawnNot only lets time pass.
func (w *world) respawnNot(_ *proc, d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.tick(5 * time.Second)
	}
}

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
}

func TestFaults(t *testing.T) {
	t.Run("another machine", func(t *testing.T) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.phase(Draining))
		n := len(w.did)
		w.machine = "m2"
		w.respawnNot(nil, 5*time.Minute)
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
			w.respawnNot(nil, 10*time.Minute)
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
		w.respawnNot(nil, 5*time.Minute)
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
		w.respawnNot(nil, 10*time.Minute)
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
		w.start(2 * time.Hour)
		w.until(20*time.Minute, "record", func() bool { return !w.s.Items[wk("a")].RecordAt.IsZero() })
		w.driverGone = true
		w.tick(3 * time.Minute)
		w.take(3*time.Minute, false)
		w.until(5*time.Minute, "empty", w.phase(Empty))
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
		w.respawnNot(nil, 5*time.Minute)
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
		w.respawnNot(nil, time.Minute)
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
