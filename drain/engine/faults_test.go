package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/journal"
	"ebb/fleet"
)

// A journal that is away for a moment costs nothing; one that is away for longer
// than the lease costs the turn, and nothing is done meanwhile.
func TestJournalAway(t *testing.T) {
	for _, c := range []struct {
		away  time.Duration
		turns int
	}{{3 * time.Second, 1}, {30 * time.Second, 2}, {20 * time.Minute, 2}} {
		t.Run(c.away.String(), func(t *testing.T) {
			playOnFile(t, func(t *testing.T, w *world) {
				w.add("old", fleet.Stuck, stubborn)
				e := w.engine(ann)
				id := start(t, e, 3*time.Hour)
				d := beside(t, e, nil)
				w.until(e, func(s drain.State) bool { return s.Items[vm("old")].Step == drain.StepTerm })
				time.Sleep(2 * time.Second)
				b := w.boxes[source]
				w.cut("journal", c.away)
				time.Sleep(min(c.away, drain.LeaseTTL))
				acts := len(b.acted())
				time.Sleep(max(0, c.away-drain.LeaseTTL-time.Second)) // the journal is about to come back
				if len(b.acted()) != acts {
					t.Errorf("acts without a lease: %v", b.acted())
				}
				if c.away > 10*time.Minute { // a gap like that waits for a person
					s := w.until(e, func(s drain.State) bool { return s.Person })
					time.Sleep(20 * time.Minute)
					if len(b.acted()) != acts {
						t.Errorf("went on without a person: %v, waiting %v", b.acted(), s.Waiting)
					}
					if err := e.Ask(t.Context(), source, id, drain.AskRetry{}); err != nil {
						t.Fatal(err)
					}
				}
				s, err := d.end()
				if err != nil || s.Phase != drain.Empty {
					t.Fatalf("%v, phase %s, items %+v", err, s.Phase, s.Items)
				}
				if n := w.count("drive.took"); n != c.turns {
					t.Errorf("%d turns, want %d", n, c.turns)
				}
				w.held()
			})
		})
	}
}

// While the journal was away for us, another driver took the drain.
func TestLeaseTakenMeanwhile(t *testing.T) {
	playOnFile(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		other := w.engine(bob, func(c *engine.Config) { c.Journal = w.open() })
		w.cut("journal", 40*time.Second)
		time.Sleep(16 * time.Second)
		second := beside(t, other, nil)
		_, err := d.end()
		var held *journal.HeldError
		if !errors.As(err, &held) || held.Lease.Holder != bob.Console {
			t.Fatalf("the first driver: %v", err)
		}
		if s, err := second.end(); err != nil || s.Phase != drain.Empty {
			t.Fatalf("the second driver: %v, %s", err, s.Phase)
		}
		w.held()
	})
}

// A hanging journal does not outlast the lease.
func TestJournalHangs(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		until := time.Now().Add(25 * time.Second)
		w.hand(func(call string) {
			if strings.HasPrefix(call, "journal renew") && time.Now().Before(until) {
				time.Sleep(time.Until(until)) // deaf to its context, too
			}
		})
		s := w.until(e, func(s drain.State) bool { return s.Epoch == 2 })
		if s.Phase != drain.Draining {
			t.Errorf("phase %s", s.Phase)
		}
		if _, err := d.end(); err != nil {
			t.Error(err)
		}
		w.held()
	})
}

func TestAgentAwayAndBack(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		start(t, e, 2*time.Hour)
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return s.Items[vm("old")].Step == drain.StepTerm })
		w.cut(string(source), 5*time.Minute)
		s := w.until(e, func(s drain.State) bool { return s.Waiting.Code == drain.WaitUnreachable })
		if len(s.Open) > 1 {
			t.Errorf("open acts %v", s.Open)
		}
		s, err := d.end()
		if err != nil || s.Phase != drain.Empty || len(s.Lost) > 0 {
			t.Fatalf("%v, phase %s, lost %v", err, s.Phase, s.Lost)
		}
		w.held()
	})
}

func TestPlaneAway(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("web", fleet.Stateless)
		e := w.engine(ann)
		start(t, e, 2*time.Hour)
		w.cut("plane", 5*time.Minute) // at the cordon
		d := beside(t, e, nil)
		time.Sleep(4 * time.Minute)
		s := w.phase(e, drain.Cordoning)
		if s.Waiting.Code != drain.WaitCordon || w.boxes[source].holds.Cordon == nil {
			t.Errorf("waiting %v, holds %+v", s.Waiting, w.boxes[source].holds)
		}
		w.phase(e, drain.Draining)
		w.cut("plane", 5*time.Minute) // in mid-drain
		s = w.until(e, func(s drain.State) bool { return s.Waiting.Code == drain.WaitPlane })
		if len(s.Lost) > 0 {
			t.Errorf("lost %v", s.Lost)
		}
		s, err := d.end()
		if err != nil || s.Phase != drain.Empty || len(s.Lost) > 0 {
			t.Fatalf("%v, phase %s, lost %v", err, s.Phase, s.Lost)
		}
		w.held()
	})
}

// A driver dies between an intent and its act, or between an act and its
// outcome. The next one asks where it ran, and nothing runs twice under one id.
func TestCrash(t *testing.T) {
	for _, step := range []string{"notice", "term", "term2", "kill", "start", "health", "flip"} {
		for _, when := range []string{"before the act", "after the act"} {
			t.Run(step+" "+when, func(t *testing.T) {
				play(t, func(t *testing.T, w *world) { crash(t, w, step, when == "after the act") })
			})
		}
	}
}

func crash(t *testing.T, w *world, step string, after bool) {
	w.add("web", fleet.Stateless)
	w.add("old", fleet.Stuck, stubborn)
	dead := make(chan struct{})
	e := w.engine(ann, func(c *engine.Config) {
		c.Levers = map[drain.ActKind]engine.Lever{}
		for kind, name := range map[drain.ActKind]string{drain.ActSignal: "signal", drain.ActExec: "exec", drain.ActFlip: "flip", drain.ActNotice: "notice"} {
			c.Levers[kind] = &dying{lever: lever{w, name}, w: w, step: step, after: after, dead: dead}
		}
		c.Journal = &mute{faulty: &faulty{w.log, w}, dead: dead}
	})
	start(t, e, 2*time.Hour)
	d := beside(t, e, nil)
	<-dead
	d.stop()
	_, _ = d.end()
	s := w.until(e, func(s drain.State) bool { return len(s.Open) > 0 })
	if len(s.Open) == 0 {
		t.Fatal("no intent is open")
	}
	time.Sleep(drain.LeaseTTL + time.Second)
	s = drive(t, w.engine(bob))
	if s.Phase != drain.Empty || len(s.Open) > 0 || len(s.Lost) > 0 {
		t.Fatalf("phase %s, open %v, lost %v, items %+v", s.Phase, s.Open, s.Lost, s.Items)
	}
	if n := w.boxes[target].replicas[vm("web")]; n != 1 {
		t.Errorf("%d replacements of web", n)
	}
	w.held()
}

// dying is a lever whose process dies in the act.
type dying struct {
	lever
	w     *world
	step  string
	after bool
	dead  chan struct{}
}

func (l *dying) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	select {
	case <-l.dead:
		return drain.Answer{}, errFault
	default:
	}
	if string(j.Act.Step) != l.step {
		return l.lever.Do(ctx, j)
	}
	if l.after {
		_, _ = l.lever.Do(ctx, j)
	}
	close(l.dead)
	return drain.Answer{}, errFault
}

func (l *dying) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, errFault
}

// mute is the journal of a process that has died.
type mute struct {
	*faulty
	dead chan struct{}
}

func (m *mute) gone() error {
	select {
	case <-m.dead:
		return errFault
	default:
		return nil
	}
}

func (m *mute) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.faulty.Append(ctx, b)
}

func (m *mute) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	if err := m.gone(); err != nil {
		return l, err
	}
	return m.faulty.Renew(ctx, l)
}

func (m *mute) Release(ctx context.Context, l drain.Lease) error {
	if err := m.gone(); err != nil {
		return err
	}
	return m.faulty.Release(ctx, l)
}
