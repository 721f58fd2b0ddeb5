package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// Time in which nobody drives consumes no grace.
func TestBlindTimeConsumesNoGrace(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		id := start(t, e, 3*time.Hour)
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return !s.Items[vm("old")].TermAt.IsZero() })
		time.Sleep(time.Minute)
		d.stop()
		_, _ = d.end()
		before := w.until(e, func(s drain.State) bool { return s.Driver == "" })
		time.Sleep(8 * time.Minute)
		// An ask in the gap, or one that takes the drain up again, is no sign of a driver.
		now, _ := w.log.Now(t.Context())
		if err := e.Ask(t.Context(), source, id, drain.AskExtend{Until: now.Add(3 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		next := w.engine(bob)
		d = beside(t, next, nil)
		s := w.until(e, func(s drain.State) bool { return s.Driver == bob.Console })
		moved := s.Items[vm("old")].TermAt.Sub(before.Items[vm("old")].TermAt)
		if moved < 8*time.Minute || moved > 8*time.Minute+5*time.Second {
			t.Errorf("the grace moved by %v", moved)
		}
		if s, err := d.end(); err != nil || s.Phase != drain.Empty {
			t.Errorf("%v, %s", err, s.Phase)
		}
		w.held()
	})
}

// After a gap of more than ten minutes nothing is done until a person says so;
// one who has said so after the gap is not asked again.
func TestLongGapWaitsForAPerson(t *testing.T) {
	for _, said := range []bool{false, true} {
		play(t, func(t *testing.T, w *world) {
			w.add("old", fleet.Stuck, stubborn)
			e := w.engine(ann)
			id := start(t, e, 5*time.Hour)
			d := beside(t, e, nil)
			w.until(e, func(s drain.State) bool { return !s.Items[vm("old")].TermAt.IsZero() })
			d.stop()
			_, _ = d.end()
			acts := len(w.boxes[source].acted())
			time.Sleep(11 * time.Minute)
			if said {
				_ = e.Ask(t.Context(), source, id, drain.AskRetry{})
			}
			d = beside(t, w.engine(bob), nil)
			w.until(e, func(s drain.State) bool { return s.Driver == bob.Console })
			time.Sleep(30 * time.Minute)
			if waits := len(w.boxes[source].acted()) == acts; waits == said {
				t.Errorf("a person had said so: %v; it waits: %v", said, waits)
			}
			_ = e.Ask(t.Context(), source, id, drain.AskRetry{})
			if s, err := d.end(); err != nil || s.Phase != drain.Empty {
				t.Errorf("%v, %s", err, s.Phase)
			}
			w.held()
		})
	}
}

// A hold that somebody lifted in mid-drain is set again by no driver, also not
// by one that has just begun; a person can have it set again.
func TestLiftedHoldStaysLifted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		id := start(t, e, 5*time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		b := w.boxes[source]
		b.mu.Lock()
		b.holds.Drain = nil
		acts := len(b.ran)
		b.mu.Unlock()
		w.until(e, func(s drain.State) bool { return s.Waiting.Code == drain.WaitHold })
		d.stop()
		_, _ = d.end()
		d = beside(t, w.engine(bob), nil)
		time.Sleep(5 * time.Minute)
		b.mu.Lock()
		if b.holds.Drain != nil || len(b.ran) != acts {
			t.Errorf("set again: %+v, acts %v", b.holds.Drain, b.ran)
		}
		if b.epochs[id] != 2 {
			t.Errorf("the host has seen epoch %d", b.epochs[id])
		}
		b.mu.Unlock()
		if err := e.Ask(t.Context(), source, id, drain.AskRetry{}); err != nil {
			t.Fatal(err)
		}
		if s, err := d.end(); err != nil || s.Phase != drain.Empty {
			t.Fatalf("%v, %s, waiting %v", err, s.Phase, s.Waiting)
		}
		w.held()
	})
}

// What an operator says between a decision and its intents is taken into
// account: the decision is void.
func TestAskInMidPass(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		w.add("older", fleet.Stuck, stubborn)
		e := w.engine(ann)
		id := start(t, e, 5*time.Hour)
		var once sync.Once
		armed := false
		other := w.open()
		w.hand(func(call string) {
			if s, _ := w.state(); call != "journal append drive.intent" || s.Phase != drain.Draining {
				return
			}
			if !armed {
				armed = true // the first intent is on its way; the second is decided upon
				return
			}
			once.Do(func() {
				w.hand(nil)
				ev, _ := drain.NewEvent(source, "hold-it", id, 0, bob, drain.AskHold{Key: vm("older"), Reason: "mine"})
				if _, err := other.Append(t.Context(), drain.Batch{Stream: string(source), Events: []drain.Event{ev}}); err != nil {
					t.Error(err)
				}
			})
		})
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return s.Items[vm("old")].End == drain.LeftHost })
		for _, act := range w.boxes[source].acted() {
			if strings.Contains(act, "/older/") {
				t.Errorf("act %s on what was to be left alone", act)
			}
		}
		for _, ev := range w.events() {
			if b, err := ev.Decode(); err == nil {
				if in, ok := b.(drain.DriveIntent); ok && in.Act.Key == vm("older") {
					t.Errorf("intent %s after the word to leave it alone", in.Act.ID)
				}
			}
		}
		d.stop()
		_, _ = d.end()
		w.held()
	})
}

// The driver counts by the journal's clock, which may be an hour away from ours.
func TestJournalClockCounts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.skew = time.Hour
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		start(t, e, 10*time.Minute)
		began := time.Now()
		s := drive(t, e)
		if s.Phase != drain.DeadlineReached || time.Since(began).Round(time.Minute) != 10*time.Minute {
			t.Errorf("phase %s after %v", s.Phase, time.Since(began))
		}
	})
}

// A journal whose clock is set back in the middle of an escalation cuts neither
// the notice nor the grace short.
func TestJournalClockSetBack(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("job", fleet.Stuck, stubborn)
		var told, termed []time.Time
		w.hand(func(call string) {
			switch {
			case strings.HasPrefix(call, "notice"):
				told = append(told, time.Now())
			case strings.Contains(call, "/term"):
				termed = append(termed, time.Now())
			}
		})
		e := w.engine(ann)
		start(t, e, 3*time.Hour)
		s, err := e.Drive(t.Context(), source, func(ev drain.Event) {
			if ev.Kind == (drain.DriveFound{}).Kind() {
				w.mu.Lock()
				w.skew = -time.Hour
				w.mu.Unlock()
			}
		})
		if err != nil || s.Phase != drain.Empty || len(told) == 0 || len(termed) < 2 {
			t.Fatalf("%v, phase %s, told %v, TERM %v", err, s.Phase, told, termed)
		}
		if gap := termed[0].Sub(told[0]); gap < 20*time.Second {
			t.Errorf("TERM came %v after the notice", gap)
		}
		if gap := termed[1].Sub(termed[0]); gap < 90*time.Second {
			t.Errorf("the second TERM came %v after the first", gap)
		}
	})
}

// Whoever undrains while a driver runs ends it, and the hold stays lifted. A
// drain that somebody else began takes an explicit word.
func TestUndrainEndsTheDriver(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		time.Sleep(3 * time.Second) // it is still cordoning
		var refused *engine.Refused
		if _, err := w.engine(bob).Undrain(t.Context(), source, false); !errors.As(err, &refused) {
			t.Fatalf("bob lifted ann's drain without a word: %v", err)
		}
		left, err := w.engine(bob).Undrain(t.Context(), source, true)
		if err != nil || left.Drain != nil || left.Cordon == nil {
			t.Fatalf("%v, left %+v", err, left)
		}
		if _, err := d.end(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		b := w.boxes[source]
		if b.holds.Drain != nil || b.holds.Cordon == nil || !w.plane.flags[source].Set {
			t.Errorf("holds %+v, flag %+v", b.holds, w.plane.flags[source])
		}
		// A new drain is a new one.
		if id := start(t, e, time.Hour); id == d.s.Drain {
			t.Error("the lifted drain was taken up again")
		}
	})
}

// The answer to an act is lost and its host can't be asked: nothing is guessed,
// and nothing is started again, until it can.
func TestLostAnswerIsAskedFor(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		e := w.engine(ann)
		start(t, e, 2*time.Hour)
		w.hand(func(call string) {
			if strings.HasPrefix(call, string(target)+" act ") && strings.Contains(call, "/start/") {
				w.hand(nil)
				b := w.boxes[target]
				b.mu.Lock()
				b.replicas[vm("web")]++
				b.acts[strings.TrimPrefix(call, string(target)+" act ")] = drain.Answer{Result: drain.Done}
				b.mu.Unlock()
				w.cut(string(target), time.Minute)
			}
		})
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return len(s.Open) > 0 && s.Phase == drain.Draining })
		time.Sleep(40 * time.Second)
		if s, _ := w.state(); len(s.Open) != 1 {
			t.Errorf("open acts %v: something was guessed", s.Open)
		}
		s, err := d.end()
		if err != nil || s.Phase != drain.Empty || w.boxes[target].replicas[vm("web")] != 1 {
			t.Errorf("%v, phase %s, %d replacements", err, s.Phase, w.boxes[target].replicas[vm("web")])
		}
		w.held()
	})
}

// A takeover makes its epoch known to the targets before anything is done there.
func TestTakeoverAnnounces(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		e := w.engine(ann)
		start(t, e, 2*time.Hour)
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return s.Items[vm("web")].Target != "" })
		d.stop()
		_, _ = d.end()
		var mu sync.Mutex
		first := map[string]string{}
		w.hand(func(call string) {
			mu.Lock()
			defer mu.Unlock()
			host, what, _ := strings.Cut(call, " ")
			kind, _, _ := strings.Cut(what, " ")
			if _, had := first[host]; !had && (kind == "announce" || kind == "hold" || kind == "act" || kind == "outcome") {
				first[host] = kind
			}
		})
		if s := drive(t, w.engine(bob)); s.Phase != drain.Empty {
			t.Errorf("phase %s", s.Phase)
		}
		if first[string(source)] != "hold" || first[string(target)] != "announce" {
			t.Errorf("first %v", first)
		}
	})
}

// Eight hours in which nobody drives, in the middle of a grace: nothing happens to
// what is there until a person says that the drain goes on, and then the countdown
// resumes where it stood.
func TestEightHoursOfDowntime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		id := start(t, e, 20*time.Hour)
		d := beside(t, e, nil)
		before := w.until(e, func(s drain.State) bool { return !s.Items[vm("old")].TermAt.IsZero() })
		time.Sleep(30 * time.Second)
		d.stop()
		_, _ = d.end()
		b := w.boxes[source]
		acts := len(b.acted())
		time.Sleep(8 * time.Hour)
		d = beside(t, w.engine(bob), nil)
		s := w.until(e, func(s drain.State) bool { return s.Driver == bob.Console })
		moved := s.Items[vm("old")].TermAt.Sub(before.Items[vm("old")].TermAt)
		if moved < 8*time.Hour || moved > 8*time.Hour+10*time.Second {
			t.Errorf("the grace moved by %v", moved)
		}
		time.Sleep(time.Hour)
		if s, _ = w.state(); len(b.acted()) != acts || !s.Person || s.Waiting.Code != drain.WaitBlind {
			t.Fatalf("acts %v without a person, waiting %v", b.acted(), s.Waiting)
		}
		if err := e.Ask(t.Context(), source, id, drain.AskRetry{}); err != nil {
			t.Fatal(err)
		}
		if s, err := d.end(); err != nil || s.Phase != drain.Empty || len(s.Lost) > 0 {
			t.Errorf("%v, %s, lost %v", err, s.Phase, s.Lost)
		}
		w.held()
	})
}

// unrenewed is the journal of a process that stands still: its lease runs out.
type unrenewed struct {
	*faulty
	paused chan struct{}
}

func (j *unrenewed) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	select {
	case <-j.paused:
		return l, errFault
	default:
		return j.faulty.Renew(ctx, l)
	}
}

// A driver that is paused past its lease, and then runs on in the belief that it
// drives: another one has the drain by then, and nothing that the first does takes
// effect, wherever it was paused.
func TestPausedDriverIsFenced(t *testing.T) {
	for _, at := range []string{"journal append drive.intent", "journal append drive.outcome", "journal append drive.waits", "prod/h1 facts", "plane claims"} {
		t.Run(at, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.add("web", fleet.Stateless)
				w.add("old", fleet.Stuck, stubborn)
				paused := make(chan struct{})
				e := w.engine(ann, func(c *engine.Config) { c.Journal = &unrenewed{&faulty{w.log, w}, paused} })
				start(t, e, 5*time.Hour)
				var once sync.Once
				asleep := 0
				w.hand(func(call string) {
					if s, _ := w.state(); !strings.HasPrefix(call, at) || s.Phase != drain.Draining {
						return
					}
					once.Do(func() {
						close(paused)
						asleep++
						w.hand(nil)
						time.Sleep(4 * time.Minute)
						w.mu.Lock()
						w.deaf = true // it has not noticed yet that its time is over
						w.mu.Unlock()
					})
				})
				first := beside(t, e, nil)
				<-paused
				time.Sleep(2 * drain.LeaseTTL)
				second := beside(t, w.engine(bob), nil)
				if s, err := second.end(); err != nil || s.Phase != drain.Empty || len(s.Lost) > 0 {
					t.Fatalf("the second driver: %v, %s, lost %v, items %+v", err, s.Phase, s.Lost, s.Items)
				}
				time.Sleep(5 * time.Minute) // the first one wakes, and goes on with what it was at
				first.stop()
				_, _ = first.end()
				if n := copies(w); n != 1 || asleep != 1 {
					t.Errorf("%d replacements, paused %d times", n, asleep)
				}
				if bad := w.judge(); bad != "" {
					t.Error(bad)
				}
				w.held()
			})
		})
	}
}
