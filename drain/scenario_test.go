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

// A manifest that is removed, as a graceful stop does it first, says nothing of
// the process: nothing has left while its Run is there, whoever it is said to
// belong to by now.
func TestManifestRemovedAndItsProcessLingers(t *testing.T) {
	for name, tt := range map[string]struct {
		class fleet.Class
		by    string
	}{"by its owner": {fleet.Durable, "owner"}, "after our TERM": {fleet.Stuck, "lever"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.add("a", tt.class, declared, stubborn)
			w.start(45 * time.Minute)
			w.until(5*time.Minute, "is found", func() bool { return w.s.First })
			if tt.by == "lever" {
				w.until(5*time.Minute, "TERM", func() bool { return !w.s.Items[p.key].SignalAt.IsZero() })
			}
			w.strip(p)
			for range 60 {
				w.tick(5 * time.Second)
				if it := w.s.Items[p.key]; !it.Open() {
					t.Fatalf("%s, by %s, while its process runs\n%s", it.End, it.EndBy, w.dump())
				}
			}
			if it := w.s.Items[p.key]; it.Reason.Code != WaitUnknown {
				t.Errorf("it waits, and says %v", it.Reason)
			}
			w.crash(w.procs[fleet.Process{Run: p.run}.Key()])
			w.until(5*time.Minute, "it has left", w.ended("a", LeftHost, tt.by))
		})
	}
}
