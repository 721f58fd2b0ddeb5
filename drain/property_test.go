package drain

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
)

// TestMustNever plays random histories on the world; what must never happen is
// checked with each event and act (see invariants_test.go). At the end faults
// stop, everything is let go, and the drain must reach empty.
func TestMustNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.p.Receivers = rapid.Bool().Draw(t, "receivers")
		w.latency = time.Duration(rapid.SampledFrom([]int{0, 300, 4000, 12000}).Draw(t, "latency")) * time.Millisecond
		w.slow = time.Duration(rapid.SampledFrom([]int{0, 8, 40, 200}).Draw(t, "slow")) * time.Second
		for i := range rapid.IntRange(0, 6).Draw(t, "n") {
			drawProc(t, w, fmt.Sprintf("w%d", i))
		}
		flaky := rapid.IntRange(0, 4).Draw(t, "flaky")
		seed := 0
		w.answer = func(Act) (Result, string) {
			seed++
			if flaky == 0 || (seed*2654435761)%10 >= flaky {
				return Done, ""
			}
			return []Result{FailedAct, Refused, Interrupted, NotDone}[seed%4], "flaky"
		}
		w.start(time.Duration(rapid.IntRange(2, 90).Draw(t, "deadline")) * time.Minute)
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			meddle(t, w, i)
			w.tick(time.Duration(rapid.SampledFrom([]int{1, 5, 5, 30, 120, 600}).Draw(t, "dt")) * time.Second)
		}
		checkFolds(t, w)
		settle(t, w)
		checkFolds(t, w)
	})
}

func drawProc(t *rapid.T, w *world, id string) {
	class := rapid.SampledFrom(fleet.Classes).Draw(t, "class")
	w.add(id, class, func(p *proc) {
		p.stubborn = rapid.Bool().Draw(t, "stubborn")
		p.overstays = rapid.Bool().Draw(t, "overstays")
		p.declared = rapid.Bool().Draw(t, "declared")
		p.lever, p.mode = rapid.Bool().Draw(t, "lever"), rapid.IntRange(0, 2).Draw(t, "mode")
		p.park = class == fleet.Pausable && rapid.Bool().Draw(t, "park")
		p.says = rapid.SampledFrom(fleet.Classes).Draw(t, "says")
		switch rapid.IntRange(0, 9).Draw(t, "odd") {
		case 0:
			p.unclaimed = true
		case 1:
			p.stray = true
		case 2:
			p.rests = true
		case 3:
			p.health = ""
		}
		if rapid.Bool().Draw(t, "ttl") {
			p.expires = w.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "ttl minutes")) * time.Minute)
		}
	})
}

// pick draws one of the workloads that are there.
func pick(t *rapid.T, w *world) *proc {
	var keys []fleet.Key
	items := map[fleet.Key]Item{}
	for k := range w.procs {
		items[k] = Item{}
	}
	if keys = sortedKeys(items); len(keys) == 0 {
		return nil
	}
	return w.procs[rapid.SampledFrom(keys).Draw(t, "who")]
}

// meddle does one thing to the world, to its observation, or to the drain.
func meddle(t *rapid.T, w *world, i int) {
	p := pick(t, w)
	what := rapid.IntRange(0, 32).Draw(t, "what")
	switch {
	case what == 0:
		drawProc(t, w, fmt.Sprintf("late%d", i))
	case what == 1:
		w.factsDown = !w.factsDown
	case what == 2:
		w.planeDown = !w.planeDown
	case what == 3:
		w.unstable = !w.unstable
	case what == 4:
		w.probe = rapid.SampledFrom([]string{"", "processes", "workloads", "netns"}).Draw(t, "probe")
	case what == 5 && !w.driverGone:
		w.driverGone = true
		w.inflight = nil // whatever it waited for, nobody is told
	case what == 6 && w.driverGone:
		blind := w.now.Sub(w.s.LastAt)
		w.take(blind, blind > 10*time.Minute || w.now.After(w.s.Deadline))
	case what == 7 && w.holds.Drain != nil:
		w.holds.Cordon, w.cordon = nil, fleet.Uncordoned
	case what == 8:
		w.askAny(AskExtend{Until: w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "by")) * time.Minute)})
	case what == 9:
		w.askAny(AskRetry{})
	case what == 10 && rapid.IntRange(0, 3).Draw(t, "stop") == 0:
		w.askAny(AskStop{})
	case what == 11 && w.s.Phase == Stopped && !w.factsDown:
		w.start(time.Hour)
	case what == 12:
		w.machine = rapid.SampledFrom([]string{"m1", "m1", "m2"}).Draw(t, "machine")
	case what == 13 && rapid.IntRange(0, 3).Draw(t, "reboot") == 0:
		w.reboot(fmt.Sprintf("b%d", i+2))
	case what == 14:
		w.issues = nil
		if rapid.Bool().Draw(t, "issue") {
			w.issues = []fleet.Issue{{Check: fleet.CheckLeaks, Key: wk("leak"), Detail: "x"}}
		}
	case what == 15:
		w.targets = w.targets[:rapid.IntRange(0, len(w.targets)).Draw(t, "targets")]
	case what == 30:
		w.askAny(AskResume{})
	case p == nil:
	case what == 31:
		w.askAny(AskResume{Key: p.key})
	case what == 32:
		w.askAny(AskPark{Key: p.key, Ship: rapid.Bool().Draw(t, "ship")})
	case what == 16:
		w.crash(p)
	case what == 17:
		w.end(p, time.Duration(rapid.IntRange(0, 90).Draw(t, "lag"))*time.Second)
	case what == 18 && !p.stray:
		w.respawn(p)
	case what == 19:
		p.kids = append(p.kids, fleet.Run{Boot: w.boot, PID: 5000 + i, Start: uint64(i)})
	case what == 20:
		p.class = rapid.SampledFrom(fleet.Classes).Draw(t, "class")
	case what == 21:
		p.expires = w.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "renew")) * time.Minute)
	case what == 22:
		w.askAny(AskHold{Key: p.key})
	case what == 23:
		w.askAny(AskKeep{Key: p.key})
	case what == 24:
		w.askAny(AskRetry{Key: p.key})
	case what == 25:
		w.askAny(AskEscalate{Key: p.key, Run: p.run})
	case what == 26:
		w.askAny(AskClass{Key: p.key, Class: rapid.SampledFrom(fleet.Classes).Draw(t, "as")})
	case what == 27:
		w.askAny(AskMoreTime{Key: p.key, By: time.Duration(rapid.IntRange(1, 30).Draw(t, "more")) * time.Minute})
	case what == 28:
		w.askAny(RecAccepted{Key: p.key, Reason: "r"})
	}
}

// askAny asks; a refusal is an answer.
func (w *world) askAny(b Body) {
	before := w.s
	err := w.append(0, b)
	if a, ok := b.(AskEscalate); ok && err == nil && !a.Run.IsZero() {
		w.named[a.Run] = true
	}
	if err != nil {
		before.Num = w.s.Num
		if !reflect.DeepEqual(before, w.s) {
			w.t.Fatalf("a refused %s changed the state: %v", b.Kind(), err)
		}
	}
}

// checkFolds folds the whole history again, at once and in two parts with the
// state written and read in between.
func checkFolds(t *rapid.T, w *world) {
	all, _ := Fold(State{}, w.log)
	if !reflect.DeepEqual(clone(t, all), clone(t, w.s)) {
		t.Fatalf("folding the history again gives another state")
	}
	cut := rapid.IntRange(0, len(w.log)).Draw(t, "cut")
	head, _ := Fold(State{}, w.log[:cut])
	tail, _ := Fold(clone(t, head), w.log[cut:])
	if !reflect.DeepEqual(clone(t, tail), clone(t, w.s)) {
		t.Fatalf("folding in two parts gives another state")
	}
}

// settle ends all faults and lets everything go: the drain must come to its end.
func settle(t *rapid.T, w *world) {
	w.factsDown, w.planeDown, w.unstable, w.probe, w.issues, w.machine = false, false, false, "", nil, "m1"
	w.answer = func(Act) (Result, string) { return Done, "" }
	w.targets = []fleet.HostID{"prod/t1"}
	w.slow = 0
	for _, r := range w.runs {
		if r.at.After(w.now) {
			r.at = w.now
		}
	}
	if w.driverGone {
		w.take(0, false)
	}
	if w.s.Phase == Stopped {
		w.start(time.Hour)
	} else {
		w.askAny(AskExtend{Until: w.now.Add(time.Hour)})
	}
	for k, p := range w.procs {
		_ = k
		w.end(p, 0)
	}
	for k, s := range w.sites {
		if !s.ended { // a rollback brings nothing back that everybody wants gone
			s.ended = true
			w.claims[k] = append(w.claims[k], claim{fleet.Gone, w.now})
		}
	}
	for range 60 {
		w.tick(5 * time.Second)
		if w.s.Phase == Empty {
			return
		}
		for k, it := range w.s.Items { // what is left here was saved, by hand
			if it.Open() && it.Reason.Code == WaitCopyGone {
				w.askAny(AskKeep{Key: k})
				w.askAny(RecAccepted{Key: k, Reason: "saved"})
			}
		}
		for _, l := range w.s.Lost {
			if _, ok := w.s.Accepted[l.Key]; !ok {
				w.askAny(RecAccepted{Key: l.Key, Reason: "known"})
			}
		}
		if w.s.Waiting.Code != "" && NeedsPerson(w.s.Waiting.Code) || w.s.Person {
			w.askAny(AskRetry{})
		}
	}
	t.Fatalf("never empty although everything left\n%s", w.dump())
}
