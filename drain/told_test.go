package drain

import (
	"slices"
	"testing"
	"time"

	"ebb/fleet"
)

// A notice that its driver did not come to send tells nobody: no TERM follows
// until one has been sent.
func TestAnUnsentNoticeIsSentAgain(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stuck, stubborn)
	w.answer = func(a Act) (Result, string) {
		if a.Step == StepNotice {
			return NotDone, "driver_ended"
		}
		return Done, ""
	}
	w.start(45 * time.Minute)
	for range 120 {
		w.tick(5 * time.Second)
	}
	notices := 0
	for _, d := range w.did {
		if d.act.Step == StepTerm {
			t.Fatalf("TERM without a notice\n%s", w.dump())
		}
		if d.act.Step == StepNotice {
			notices++
		}
	}
	if notices < 2 {
		t.Fatalf("%d notices were tried", notices)
	}
}

// Nothing is done on a host whose cordon has not taken, not even to what a person
// names after the deadline.
func TestNothingIsEscalatedBeforeTheCordonHasTaken(t *testing.T) {
	w := newWorld(t)
	w.add("a", fleet.Stuck)
	w.answer = func(a Act) (Result, string) {
		if a.Kind == ActCordon {
			return FailedAct, "the plane is away"
		}
		return Done, ""
	}
	w.start(2 * time.Minute)
	w.holds = fleet.Holds{Cordon: &fleet.Hold{Kind: fleet.CordonHold}, Drain: &fleet.Hold{Kind: fleet.DrainHold, Drain: "d1"}}
	w.cordon = fleet.HostOnly
	w.until(3*time.Minute, "deadline", w.phase(DeadlineReached))
	w.ask(AskEscalate{Key: wk("a")})
	for range 60 {
		w.tick(5 * time.Second)
	}
	if slices.ContainsFunc(w.did, func(d done) bool { return d.act.Kind != ActCordon }) || w.s.Waiting.Code != WaitCordon {
		t.Fatalf("waiting for %v\n%s", w.s.Waiting, w.dump())
	}
}

// A host is empty by a second reading; the same one again is none.
func TestTheSameReadingAgainIsNoSecondOne(t *testing.T) {
	w := newWorld(t)
	w.start(45 * time.Minute)
	for range 600 {
		if w.tick(100 * time.Millisecond); w.s.Phase == Draining {
			break
		}
	}
	v := w.view()
	s := w.s
	s.Open = nil // the answer to the cordon is in
	for _, b := range Next(s, v, w.p, w.now).Events {
		if e, err := NewEvent(source, "x", "d1", w.epoch, Actor{}, b); err == nil {
			e.At, e.Num = w.now, s.Num+1
			s, _ = Apply(s, e)
		}
	}
	empties := func(at time.Time) bool {
		v.Source.Facts.Value.At = at
		return slices.ContainsFunc(Next(s, v, w.p, w.now.Add(time.Second)).Events, func(b Body) bool {
			p, is := b.(DrivePhase)
			return is && p.Phase == Empty
		})
	}
	if s.Phase != Verifying || empties(s.Seen) || !empties(s.Seen.Add(time.Second)) {
		t.Fatalf("phase %s, empty by the same reading %v, by a later one %v", s.Phase, empties(s.Seen), empties(s.Seen.Add(time.Second)))
	}
}

// A host on which a leak was cleaned is empty by a second reading without it, also
// past the deadline: the driver stays for that one.
func TestAReadingWithIssuesIsNotTheFirstOfTwo(t *testing.T) {
	w := newWorld(t)
	w.start(45 * time.Minute)
	w.until(time.Hour, "empty", w.phase(Empty))
	for _, phase := range []Phase{Verifying, DeadlineReached} {
		s := w.s
		s.Phase, s.Seen, s.Issues = phase, time.Time{}, []fleet.Issue{{Check: fleet.CheckLeaks, Key: wk("leak"), Detail: "a leak"}}
		pass := func(issues []fleet.Issue) {
			w.now = w.now.Add(5 * time.Second)
			v := w.view()
			v.Issues = issues
			for _, b := range Next(s, v, w.p, w.now).Events {
				e, err := NewEvent(source, "x", "d1", w.epoch, Actor{}, b)
				if err != nil {
					t.Fatal(err)
				}
				e.At, e.Num = w.now, s.Num+1
				if s, err = Apply(s, e); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(s.Issues)
		if s.Phase != phase || !s.Seen.IsZero() || s.Clearing() {
			t.Fatalf("%s: with a leak it is %s, seen %v", phase, s.Phase, s.Seen)
		}
		pass(nil)
		if s.Phase != phase || s.Clearing() != (phase == DeadlineReached) {
			t.Fatalf("%s: by the first reading without it is %s, clearing %v", phase, s.Phase, s.Clearing())
		}
		if pass(nil); s.Phase != Empty {
			t.Fatalf("%s: by the second one it is %s", phase, s.Phase)
		}
	}
}

// Where there is no receiver the notice is done and its time runs, but the state
// says that nobody was told; a notice that is taken later says otherwise.
func TestANoticeWithoutAReceiverTellsNobody(t *testing.T) {
	act := Act{ID: "d1/a/notice/1", Kind: ActNotice, Step: StepNotice, Key: wk("a")}
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	s := State{Drain: "d1", Items: map[fleet.Key]Item{wk("a"): {Found: Found{Key: wk("a")}}}}
	for _, tc := range []struct {
		reason fleet.Reason
		untold bool
	}{{fleet.Because(Untold), true}, {fleet.Reason{}, false}} {
		s.Open = map[string]Act{act.ID: act}
		var err error
		s, err = applyOutcome(s, Event{At: at}, DriveOutcome{Act: act.ID, Key: act.Key, Result: Done, Reason: tc.reason})
		if it := s.Items[act.Key]; err != nil || it.Untold != tc.untold || !it.NoticeAt.Equal(at) || !it.Accepted {
			t.Errorf("after %q: %+v, %v", tc.reason.Code, it, err)
		}
	}
}

// Who escalates what the gate has accepted wants it gone: the host is not empty
// until it is, or is accepted again.
func TestWhatIsEscalatedIsNoException(t *testing.T) {
	key := wk("a")
	s := State{Drain: "d1", Phase: Draining, Items: map[fleet.Key]Item{key: {Found: Found{Key: key}}}}
	put := func(b Body) {
		t.Helper()
		e, err := NewEvent(source, "e", "d1", 0, Actor{Name: "ann"}, b)
		if err != nil {
			t.Fatal(err)
		}
		e.Num, e.At = s.Num+1, noon
		if s, err = Apply(s, e); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func(accepted ...fleet.Accepted) bool {
		d := decider{s: s, facts: fleet.Facts{Accepted: accepted}}
		return d.blocking(s.Items[key])
	}
	onHost := fleet.Accepted{Key: key, At: noon.Add(time.Second)}
	put(RecAccepted{Key: key, Reason: "known"})
	if blocks() || blocks(onHost) {
		t.Fatal("what is accepted blocks")
	}
	put(AskEscalate{Key: key})
	if !blocks() || !blocks(onHost) {
		t.Fatal("what is escalated since does not block")
	}
	put(RecAccepted{Key: key, Reason: "after all"})
	if blocks() {
		t.Fatal("what is accepted again blocks")
	}
}
