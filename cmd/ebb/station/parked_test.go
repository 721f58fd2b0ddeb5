package station

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

var nb = fleet.Key{Kind: "vm", ID: "nb-7"}

// parkOn writes the history of a drain that has parked a workload on its host, and was
// stopped then.
func parkOn(t *testing.T, s *Station, host fleet.HostID) {
	t.Helper()
	startDrain(t, s, host)
	st, err := s.Engine.State(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Journal.Acquire(t.Context(), st.Drain, "other", 0)
	if err != nil {
		t.Fatal(err)
	}
	run := fleet.Run{Boot: "b", PID: 7, Start: 70}
	act := func(step drain.Step, kind drain.ActKind) drain.Act {
		return drain.Act{ID: st.Drain + "/" + string(step), Kind: kind, Op: drain.OpDo, Key: nb, Step: step, Lever: "lev",
			Class: fleet.Pausable, Park: true, Steps: []drain.Step{drain.StepSnapshot, drain.StepPark, drain.StepResume, drain.StepWake}}
	}
	snapshot, park := act(drain.StepSnapshot, drain.ActLever), act(drain.StepPark, drain.ActRest)
	var events []drain.Event
	for i, body := range []drain.Body{
		drain.DriveTook{Driver: "other"},
		drain.DrivePhase{Phase: drain.Cordoning},
		drain.DrivePhase{Phase: drain.Draining},
		drain.DriveFound{Items: []drain.Found{{Key: nb, Run: run, Runs: []fleet.Run{run}, Class: fleet.Pausable, Owner: "lena", Lever: "lev", Park: true, Verdict: fleet.Agreed, Phase: fleet.Running}}},
		drain.DriveIntent{Act: snapshot}, drain.DriveOutcome{Act: snapshot.ID, Key: nb, Result: drain.Done},
		drain.DriveIntent{Act: park}, drain.DriveOutcome{Act: park.ID, Key: nb, Result: drain.Done},
	} {
		ev, err := drain.NewEvent(host, fmt.Sprintf("e%d", i), st.Drain, l.Epoch, s.Actor, body)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	if _, err := s.Journal.Append(t.Context(), drain.Batch{Stream: string(host), Lease: &l, Events: events}); err != nil {
		t.Fatal(err)
	}
	if err := s.Journal.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if err := s.Engine.Ask(t.Context(), host, st.Drain, drain.AskStop{}); err != nil {
		t.Fatal(err)
	}
	if st, err = s.Engine.State(t.Context(), host); err != nil || len(st.Parked()) != 1 {
		t.Fatalf("parked %v: %v", st.Parked(), err)
	}
}

// silent is a host that says nothing for as long as somebody waits.
type silent struct{ still }

func (silent) Look(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	<-ctx.Done()
	return fleet.HostView{}, ctx.Err()
}

// A hold that is lifted says what is parked behind another one; the last one brings it
// back, driven by this console, which says on leaving how that goes on.
func TestGiveBack(t *testing.T) {
	s := testStation(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := NewConsole(ctx, s, false)
	defer func() { cancel(); c.Wait() }()
	const host = fleet.HostID("p/a")
	if got := c.giveBack(ctx, host, fleet.Holds{}); got != "" {
		t.Errorf("nothing is parked: %q", got)
	}
	parkOn(t, s, host)
	if got := c.giveBack(ctx, host, fleet.Holds{Cordon: &fleet.Hold{}}); got != "; parked until it is resumed: vm/nb-7" {
		t.Errorf("behind another hold: %q", got)
	}
	if st, err := s.Engine.State(ctx, host); err != nil || st.Resumes() {
		t.Fatalf("it is resumed although the host is held: %v", err)
	}
	s.Engine = engine.New(engine.Config{Journal: s.Journal, Look: silent{}, Agents: nobody{}, Actor: s.Actor, Holder: "c:1"})
	if got := c.giveBack(ctx, host, fleet.Holds{}); got != "; resuming vm/nb-7" {
		t.Errorf("the last hold: %q", got)
	}
	st, err := s.Engine.State(ctx, host)
	if err != nil || !st.Resumes() || st.Items[nb].Resume.By != s.Actor.Name {
		t.Fatalf("asked for by %+v: %v", st.Items[nb].Resume, err)
	}
	c.mu.Lock()
	_, on := c.driving[host]
	c.mu.Unlock()
	if !on {
		t.Error("nobody drives it")
	}
	if lines := c.HandOver(ctx); len(lines) != 1 || !strings.Contains(lines[0], "ebb resume a goes on with that") {
		t.Errorf("on leaving it says %q", lines)
	}
}
