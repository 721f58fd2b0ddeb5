package drain

import (
	"errors"
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

// parked is a workload that a lever parks.
func parked(mode int) func(*proc) {
	return func(p *proc) { p.lever, p.mode, p.park = true, mode, true }
}

// parkedWorld is a host on which one workload is parked.
func parkedWorld(t *testing.T, mode int) *world {
	t.Helper()
	w := newWorld(t)
	w.compat = map[string]string{"engine": "1.5"}
	w.add("vm", fleet.Pausable, parked(mode))
	w.start(45 * time.Minute)
	w.until(5*time.Minute, "parked", w.phase(Parked))
	return w
}

var (
	parking    = []Step{StepSnapshot, StepPark}
	resumption = []Step{StepResume, StepClock, StepAnswers, StepWake}
)

func TestParkAndResume(t *testing.T) {
	for mode := range 3 {
		w := parkedWorld(t, mode)
		w.add("ci", fleet.Stateless)
		if got := w.tags(wk("vm")); !slices.Equal(got, parking) {
			t.Fatalf("mode %d: %v\n%s", mode, got, w.dump())
		}
		if it := w.s.Items[wk("vm")]; !it.Parked() || it.Target != "" || len(w.s.Lost) > 0 || !slices.Equal(w.s.Parked(), []fleet.Key{wk("vm")}) {
			t.Fatalf("mode %d: %+v\n%s", mode, it, w.dump())
		}
		if n := w.s.Count(); n.Left != 0 || n.Parked != 1 || n.Late != 0 || !w.phase(Parked)() {
			t.Fatalf("mode %d: %+v in phase %s", mode, n, w.s.Phase)
		}
		w.crash(w.procs[wk("ci")])
		w.reboot("b2")
		w.idle(10 * time.Minute)
		if got := w.tags(wk("vm")); !slices.Equal(got, parking) {
			t.Fatalf("mode %d: it was resumed by itself: %v", mode, got)
		}
		w.ask(AskResume{})
		w.until(5*time.Minute, "resumed", w.reason("vm", WaitResumed))
		if got := w.tags(wk("vm")); !slices.Equal(got, slices.Concat(parking, resumption)) {
			t.Fatalf("mode %d: %v\n%s", mode, got, w.dump())
		}
		if it := w.s.Items[wk("vm")]; w.s.Unsettled() || w.s.Phase != Stopped || it.Resumed.By != "ann" || it.Move.Park || !w.holds.Both() {
			t.Fatalf("mode %d: phase %s, %+v", mode, w.s.Phase, it)
		}
		if ph, _, _ := w.claimOf(wk("vm")); ph != fleet.Running || w.procs[wk("vm")].rests {
			t.Fatalf("mode %d: claimed %s, %+v", mode, ph, w.procs[wk("vm")])
		}
		checkAgain(t, w)
	}
}

// checkAgain folds the whole history once more.
func checkAgain(t *testing.T, w *world) {
	t.Helper()
	again, err := Fold(State{}, w.log)
	if err != nil || !again.Items[wk("vm")].Resumed.At.Equal(w.s.Items[wk("vm")].Resumed.At) {
		t.Fatalf("folded again: %v", err)
	}
}

// A host that was given back has no hold any more; its drain is over, and what it
// parked is still to be resumed, on word only.
func TestResumeOnAHostThatWasGivenBack(t *testing.T) {
	w := parkedWorld(t, 0)
	w.ask(RecUndrain{})
	w.holds, w.cordon = fleet.Holds{}, fleet.Uncordoned
	w.idle(5 * time.Minute)
	if got := w.tags(wk("vm")); !slices.Equal(got, parking) || w.s.Unsettled() {
		t.Fatalf("without a word: %v", got)
	}
	w.ask(AskResume{Key: wk("vm")})
	w.until(5*time.Minute, "resumed", w.reason("vm", WaitResumed))
}

func TestResumeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, parked(0))
	w.add("db", fleet.Durable)
	w.start(45 * time.Minute)
	w.until(5*time.Minute, "parked", func() bool { return w.s.Items[wk("vm")].Parked() })
	if err := w.append(0, AskResume{Key: wk("vm")}); !errors.Is(err, ErrIllegal) {
		t.Fatalf("while the drain is at work: %v", err)
	}
	w.ask(AskStop{})
	if err := w.append(0, AskResume{Key: wk("db")}); !errors.Is(err, ErrIllegal) {
		t.Fatalf("of what is not parked: %v", err)
	}
	if err := w.append(w.epoch, DriveIntent{Act: Act{ID: "x", Kind: ActLever, Op: OpDo, Key: wk("vm"), Step: StepResume, Lever: "lev"}}); !errors.Is(err, ErrIllegal) {
		t.Fatalf("without a word: %v", err)
	}
	w.ask(AskResume{Key: wk("vm")})
	w.until(5*time.Minute, "resumed", w.reason("vm", WaitResumed))
}

// What keeps a workload from being resumed is named, and the driver is done; asked
// again once it is no more, it comes back.
func TestResumeWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		code string
		fail func(*world)
		mend func(*world)
	}{
		"no claim": {WaitUnclassified, func(w *world) { w.claims[wk("vm")] = nil },
			func(w *world) { w.claims[wk("vm")] = []claim{{fleet.AtRest, w.now}} }},
		"runs already": {WaitNotResumed, func(w *world) { w.procs[wk("vm")].rests = false },
			func(w *world) { w.procs[wk("vm")].rests = true }},
		"no lever": {WaitNoLever, func(w *world) { w.p.Levers["lev"] = LeverSpec{Name: "lev", Steps: []Step{StepSnapshot}} },
			func(w *world) { w.p.Levers["lev"] = LeverSpec{Name: "lev"} }},
		"another engine": {WaitOtherHere, func(w *world) { w.compat = map[string]string{"engine": "1.6"} },
			func(w *world) { w.compat = map[string]string{"engine": "1.5"} }},
		"the lever refuses": {WaitNotResumed, func(w *world) {
			w.answer = func(a Act) (Result, string) {
				if a.Step == StepResume {
					return Refused, "no such snapshot"
				}
				return Done, ""
			}
		}, func(w *world) { w.answer = func(Act) (Result, string) { return Done, "" } }},
		"the lever fails": {WaitNotResumed, func(w *world) {
			w.answer = func(a Act) (Result, string) {
				if a.Step == StepAnswers {
					return WaitAct, "it does not answer"
				}
				if a.Step == StepClock {
					return FailedAct, "no clock"
				}
				return Done, ""
			}
		}, func(w *world) { w.answer = func(Act) (Result, string) { return Done, "" } }},
	} {
		t.Run(name, func(t *testing.T) {
			w := parkedWorld(t, 0)
			tc.fail(w)
			w.ask(AskResume{})
			w.until(10*time.Minute, "named", w.reason("vm", tc.code))
			if w.s.Unsettled() || !NeedsPerson(tc.code) {
				t.Fatalf("it is named (%s) and still driven", tc.code)
			}
			tc.mend(w)
			w.idle(5 * time.Minute)
			if w.reason("vm", WaitResumed)() {
				t.Fatal("it was resumed without being asked again")
			}
			w.ask(AskResume{})
			w.until(10*time.Minute, "resumed", w.reason("vm", WaitResumed))
		})
	}
}

// An act of which nothing is known is asked about before anything else is done.
func TestResumeIsTakenOverAtEveryStep(t *testing.T) {
	for _, at := range resumption {
		w := parkedWorld(t, 0)
		w.slow = 40 * time.Second
		w.ask(AskResume{})
		w.until(10*time.Minute, string(at), func() bool {
			_, begun := w.s.Items[wk("vm")].Move.Begun[at]
			return begun
		})
		w.driverGone, w.inflight = true, nil
		w.idle(30 * time.Second)
		w.take(30*time.Second, false)
		w.until(10*time.Minute, "resumed", w.reason("vm", WaitResumed))
		for _, s := range resumption {
			if n := w.s.Items[wk("vm")].Tries[s]; n != 1 {
				t.Fatalf("taken over in %s: %s was done %d times\n%s", at, s, n, w.dump())
			}
		}
	}
}

// A snapshot that is gone is lost, by name, whether a drain is at work or somebody
// asks for it.
func TestASnapshotThatVanishedIsLost(t *testing.T) {
	for _, resume := range []bool{true, false} {
		w := parkedWorld(t, 0)
		w.crash(w.procs[wk("vm")])
		if resume {
			w.ask(AskResume{})
		}
		w.until(5*time.Minute, "lost", func() bool {
			return len(w.s.Lost) == 1 && w.s.Lost[0].Key == wk("vm") && w.s.Items[wk("vm")].End == Lost
		})
		if w.s.Unsettled() || len(w.s.Parked()) > 0 {
			t.Fatalf("lost, and %+v", w.s.Items[wk("vm")])
		}
	}
}

// On a host that may not come back with its disk nothing is parked; and what an
// earlier drain has parked there is named until it has been resumed, and then leaves.
func TestNothingIsParkedForRetire(t *testing.T) {
	w := parkedWorld(t, 0)
	w.ask(AskStop{})
	w.ask(AskStart{Deadline: w.now.Add(time.Hour), For: fleet.ForRetire})
	w.take(0, false)
	w.until(5*time.Minute, "named", w.reason("vm", WaitParkedStays))
	w.idle(time.Minute)
	if w.s.Phase != Draining || w.s.Count().NeedsYou != 1 {
		t.Fatalf("phase %s, %+v", w.s.Phase, w.s.Count())
	}
	w.ask(AskStop{})
	w.ask(AskResume{})
	w.until(5*time.Minute, "resumed", w.reason("vm", WaitResumed))
	if err := w.append(0, AskPark{Key: wk("vm")}); !errors.Is(err, ErrIllegal) {
		t.Fatalf("parked by name: %v", err)
	}
	w.ask(AskStart{Deadline: w.now.Add(time.Hour), For: fleet.ForRetire})
	w.take(0, false)
	w.until(5*time.Minute, "empty", w.phase(Empty))
	if got := w.tags(wk("vm")); !slices.Equal(got, slices.Concat(parking, resumption, pausableWay)) {
		t.Fatalf("%v", got)
	}
}

// Whoever asks for a workload to be parked is told at once what would have it shipped
// all the same: what its snapshot depends on, or a lever that can't.
func TestWouldNotPark(t *testing.T) {
	host := fleet.HostView{Summary: fleet.Read(fleet.Summary{Offer: fleet.Offer{Compat: map[string]string{"engine": "1.4"}}}, "ebbd", noon, 0)}
	all := Policy{Levers: map[string]LeverSpec{"lev": {Name: "lev"}}}
	short := Policy{Levers: map[string]LeverSpec{"lev": {Name: "lev", Steps: []Step{StepSnapshot}}}}
	for name, c := range map[string]struct {
		purpose fleet.Purpose
		lever   string
		p       Policy
		want    string
	}{
		"nothing":       {fleet.ForKernel, "lev", all, ""},
		"to be retired": {fleet.ForRetire, "lev", all, NotParkedFor},
		"its engine":    {fleet.ForEngine, "lev", all, NotParkedOn},
		"no lever":      {fleet.ForKernel, "", all, WaitNoStrategy},
		"short of one":  {fleet.ForKernel, "lev", short, WaitNoLever},
	} {
		s := State{For: c.purpose, Items: map[fleet.Key]Item{wk("vm"): {Found: Found{Key: wk("vm"), Class: fleet.Pausable, Lever: c.lever}}}}
		if got := s.WouldNotPark(wk("vm"), host, c.p); got.Code != c.want {
			t.Errorf("%s: %+v, not %q", name, got, c.want)
		}
	}
}

// A workload that somebody starts anew beside its snapshot is not parked: its park
// is taken back.
func TestParkedAndStartedAnew(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, parked(1))
	w.add("db", fleet.Durable)
	w.start(45 * time.Minute)
	w.until(5*time.Minute, "parked", func() bool { return w.s.Items[wk("vm")].Parked() })
	n := *w.procs[wk("vm")]
	w.site(n.key).paused, n.rests = false, false
	w.respawn(&n)
	w.until(time.Minute, "taken back", func() bool { return slices.Contains(w.tags(wk("vm")), "undo-park") })
	w.until(10*time.Minute, "parked again", func() bool { return w.s.Items[wk("vm")].Parked() })
}

func TestParkThatFailsIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.add("vm", fleet.Pausable, parked(2))
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepPark && a.Op == OpDo {
			return Refused, "no space"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	w.until(10*time.Minute, "rolled back", w.reason("vm", WaitRolledBack))
	if p := w.procs[wk("vm")]; p == nil || p.rests || w.site(wk("vm")).paused {
		t.Fatalf("it does not run here any more\n%s", w.dump())
	}
}

// Whoever drains the host next knows what is parked on it.
func TestTheNextDrainKnowsWhatIsParked(t *testing.T) {
	w := parkedWorld(t, 0)
	w.ask(RecUndrain{})
	w.holds, w.cordon = fleet.Holds{}, fleet.Uncordoned
	w.ask(AskStart{Deadline: w.now.Add(time.Hour)})
	w.take(0, false)
	w.until(5*time.Minute, "parked", w.phase(Parked))
	if got := w.tags(wk("vm")); !slices.Equal(got, parking) {
		t.Fatalf("%v", got)
	}
	w.ask(AskResume{})
	w.until(5*time.Minute, "resumed", w.reason("vm", WaitResumed))
}

func TestParks(t *testing.T) {
	here := fleet.Offer{Compat: map[string]string{"engine": "1.5", "kernel": "6.8", "driver": "570"}}
	named := func(name string) fleet.Needs { return fleet.Needs{Compat: map[string]string{name: ""}} }
	for _, tc := range []struct {
		name    string
		needs   fleet.Needs
		purpose fleet.Purpose
		not     string
		what    string
	}{
		{"nothing is said", fleet.Needs{}, fleet.ForUnstated, "", ""},
		{"kernel", fleet.Needs{}, fleet.ForKernel, "", ""},
		{"kernel, which it names", named("kernel"), fleet.ForKernel, NotParkedOn, "kernel"},
		{"driver", fleet.Needs{}, fleet.ForDriver, "", ""},
		{"driver, and it has a GPU", fleet.Needs{GPUs: 1}, fleet.ForDriver, NotParkedOn, "driver"},
		{"engine", fleet.Needs{}, fleet.ForEngine, NotParkedOn, "engine"},
		{"retire", fleet.Needs{}, fleet.ForRetire, NotParkedFor, ""},
		{"hardware", fleet.Needs{}, fleet.ForHardware, NotParkedFor, ""},
	} {
		for _, offer := range []fleet.Offer{here, {}} {
			f := Found{Class: fleet.Pausable, Park: true, Needs: tc.needs}
			park, why := Parks(f, tc.purpose, offer)
			if park != (tc.not == "") || why.Code != tc.not || why.Args["what"] != tc.what {
				t.Errorf("%s: %v, %+v", tc.name, park, why)
			}
			f.Park = false
			if park, why := Parks(f, tc.purpose, offer); park || !why.IsZero() {
				t.Errorf("%s: not asked for, and %v %+v", tc.name, park, why)
			}
		}
	}
	on := dependsOn(Found{Needs: fleet.Needs{GPUs: 1, Compat: map[string]string{"kernel": ""}}}, here)
	if len(on) != 3 || on["engine"] != "1.5" || on["kernel"] != "6.8" || on["driver"] != "570" {
		t.Errorf("it depends on %v", on)
	}
}

func TestPlanParks(t *testing.T) {
	w := newWorld(t)
	w.compat = map[string]string{"engine": "1.5"}
	w.add("vm", fleet.Pausable, parked(0))
	w.add("old", fleet.Pausable, parked(0), func(p *proc) { p.rests = true })
	v := w.view()
	v.Parked = map[fleet.Key]time.Time{wk("old"): noon.Add(-time.Hour)}
	plan := func(purpose fleet.Purpose) (vm, old PlanItem, p Plan) {
		p = MakePlan(v, w.p, noon.Add(time.Hour), purpose, noon)
		return p.Items[1], p.Items[0], p
	}
	vm, old, p := plan(fleet.ForKernel)
	if !vm.Parks || vm.Target != "" || !slices.Equal(vm.Steps, parking) || !slices.Equal(vm.After, resumption) || vm.GoneBy.IsZero() || !vm.Reason.IsZero() {
		t.Errorf("%+v", vm)
	}
	if !old.Parks || !old.Reason.IsZero() || p.Parks != 2 || p.Stay != 0 || p.Expected.IsZero() {
		t.Errorf("%+v, %d parked, %d stay", old, p.Parks, p.Stay)
	}
	if q := p.Questions(); len(q) != 1 || q[0].Act.Target != "" || !slices.Equal(q[0].Act.Steps, slices.Concat(parking, resumption)) {
		t.Errorf("its lever is asked %+v", q)
	}
	for purpose, why := range map[fleet.Purpose]string{fleet.ForRetire: NotParkedFor, fleet.ForEngine: NotParkedOn} {
		vm, _, _ := plan(purpose)
		if vm.Parks || vm.NotParked.Code != why || !slices.Equal(vm.Steps, pausableWay) {
			t.Errorf("for %s: %+v", purpose, vm)
		}
	}
	if _, old, p := plan(fleet.ForRetire); old.Reason.Code != WaitParkedStays || !old.GoneBy.IsZero() || p.Stay != 1 {
		t.Errorf("parked on a host that is to be retired: %+v", old)
	}
}

// What was to be kept, and is brought back all the same, comes back in the next
// drain too, where that has begun before it was done.
func TestResumeGoesOnInTheNextDrain(t *testing.T) {
	w := parkedWorld(t, 0)
	w.ask(AskKeep{Key: wk("vm")})
	w.slow = time.Minute
	w.ask(AskResume{})
	w.until(5*time.Minute, "begun", func() bool { return w.s.Items[wk("vm")].Move.Resuming() })
	w.ask(AskStart{Deadline: w.now.Add(time.Hour)})
	w.until(20*time.Minute, "resumed", func() bool { return !w.s.Items[wk("vm")].Resumed.IsZero() && !w.s.Resumes() })
}
