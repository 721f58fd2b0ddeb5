package replay

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

func tape(t *testing.T, events []drain.Event) *Tape {
	t.Helper()
	tp, err := Of(events)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

func TestPlayerPassesTime(t *testing.T) {
	p := NewPlayer("j", tape(t, story(t).events))
	at := func(want time.Duration, n int) {
		t.Helper()
		if got, _ := p.At(); !p.Now().Equal(t0.Add(want)) || got != n {
			t.Errorf("at %v with %d events, want %v with %d", p.Now().Sub(t0), got, want, n)
		}
	}
	at(0, 1)
	p = p.Advance(1500 * time.Millisecond)
	at(1500*time.Millisecond, 2)
	p = p.Faster().Faster()
	if p.Speed() != 8 {
		t.Errorf("speed %d", p.Speed())
	}
	p = p.Advance(time.Second)
	at(9500*time.Millisecond, 10)
	p = p.Pause()
	p = p.Advance(time.Hour)
	at(9500*time.Millisecond, 10)
	p = p.Step(1)
	at(10*time.Second, 11)
	p = p.Step(-2)
	at(8*time.Second, 9)
	p = p.Seek(t0.Add(5 * time.Minute))
	at(5*time.Minute, 12)
	p = p.Pause().Faster().Faster().Faster()
	if p.Speed() != 60 {
		t.Errorf("speed %d", p.Speed())
	}
	p = p.Advance(time.Hour)
	at(12*time.Minute, 15)
	if p.Playing() || !p.Over() {
		t.Error("it goes on behind its end")
	}
	if p = p.Pause(); !p.Playing() {
		t.Error("it can't be played again")
	}
	at(0, 1)
	p = p.Seek(t0.Add(-time.Hour)).Step(-5)
	at(0, 1)
	for range 9 {
		p = p.Slower()
	}
	if p.Speed() != 1 {
		t.Errorf("speed %d", p.Speed())
	}
}

func TestPlayerFindsWhereAPersonWasNeeded(t *testing.T) {
	p, ok := NewPlayer("j", tape(t, story(t).events)).NextPerson()
	if n, _ := p.At(); !ok || n != 12 || p.Playing() {
		t.Errorf("at event %d, %v", n, ok)
	}
	if _, ok := p.NextPerson(); ok {
		t.Error("somebody is needed after the stop")
	}
}

// Wherever one comes from, a moment looks the same.
func TestEveryWayLeadsToTheSameFold(t *testing.T) {
	h := story(t)
	for i := range 3 * markEvery {
		h.add(20*time.Minute+time.Duration(i)*time.Second, h2, "lena", drain.AskHandover{Note: fmt.Sprint(i)})
		if i%7 == 0 {
			h.add(20*time.Minute+time.Duration(i)*time.Second, h1, "mira", drain.RecCordoned{State: []fleet.CordonState{fleet.Cordoned, fleet.Uncordoned}[i%2]})
		}
	}
	tp := tape(t, h.events)
	straight := NewPlayer("j", tp)
	for n := 1; n <= tp.Len(); n++ {
		straight = straight.Step(1).Step(0)
		if n%97 != 0 && n > 20 {
			continue
		}
		at, _ := straight.At()
		back := NewPlayer("j", tp).End().Step(at - tp.Len())
		want, got := straight.Frame(), back.Frame()
		want.At, got.At = time.Time{}, time.Time{}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("event %d looks different from behind", at)
		}
	}
}

// What a journal does not say is not known: no facts, no claims, no summary, no
// gap that it does not show.
func TestFrameInventsNothing(t *testing.T) {
	tp := tape(t, story(t).events)
	for n := range tp.Len() {
		f := NewPlayer("j", tp).Step(n).Frame()
		if len(f.Snapshot.Planes) > 0 || len(f.Driving) > 0 || f.Replay != "j" || f.Policy.TermGap != 0 || f.Policy.Notice != 0 {
			t.Fatalf("event %d: %+v", n+1, f)
		}
		for _, v := range f.Snapshot.Hosts {
			if v.Facts.Known() || v.Summary.Known() || v.Claims.Known() || v.Findings != nil || v.Host.Labels != nil || !v.Unreachable.IsZero() {
				t.Fatalf("event %d: %s is known: %+v", n+1, v.Host.ID, v)
			}
		}
	}
}

func TestFrameTellsTheHolds(t *testing.T) {
	tp := tape(t, story(t).events)
	see := func(n int, h fleet.HostID) (fleet.Holds, fleet.CordonState, bool) {
		v, _ := NewPlayer("j", tp).Step(n - 1).Frame().Snapshot.Host(h)
		holds, _, ok := v.Holds()
		return holds, v.Cordon, ok
	}
	if _, _, ok := see(1, h1); ok {
		t.Error("a cordon that is only asked for is told")
	}
	if _, _, ok := see(8, h2); ok {
		t.Error("a host of which nothing was said is known")
	}
	if h, c, _ := see(2, h1); h.Cordon == nil || h.Cordon.Who != "mira" || h.Cordon.Why != "CVE" || !h.Cordon.Since.Equal(t0) || h.Drain != nil || c != fleet.Cordoned {
		t.Errorf("cordoned: %+v %s", h, c)
	}
	if h, _, _ := see(7, h1); !h.Both() || h.Drain.Drain != "d-gpu-041" || h.Cordon.Who != "mira" {
		t.Errorf("drained: %+v", h)
	}
	if h, _, ok := see(14, h1); !ok || h.Drain != nil || h.Cordon == nil {
		t.Errorf("undrained: %+v", h)
	}
	if h, c, _ := see(11, h2); h.Cordon == nil || c != fleet.HostOnly {
		t.Errorf("host only: %+v %s", h, c)
	}
	if h, c, ok := see(15, h2); !ok || h.Any() || c != fleet.Uncordoned {
		t.Errorf("uncordoned: %+v %s", h, c)
	}
}

func TestLearnsOnlyWhatTheJournalShows(t *testing.T) {
	h := story(t)
	at := 2 * time.Minute
	h.add(at, h1, "bastion", drain.DriveIntent{Act: drain.Act{ID: "n", Kind: drain.ActNotice, At: t0.Add(at + 3*time.Second)}})
	h.add(at, h1, "bastion", drain.DriveOutcome{Act: "n", Result: drain.Done})
	h.add(at+20*time.Second, h1, "bastion", drain.DriveRecord{Key: etl, Term: t0.Add(at), Term2: t0.Add(at + 18500*time.Millisecond)})
	p := NewPlayer("j", tape(t, h.events)).Frame().Policy
	if p.Notice != 3*time.Second || p.TermGap != 1500*time.Millisecond || !p.Receivers || p.CacheWindow != 0 || p.Margin != 0 {
		t.Errorf("learned %+v", p)
	}
}
