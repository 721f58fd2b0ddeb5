package station

import (
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// A console shows a driver that was killed as one that drives no more, although no
// event says so, and the next one again.
func TestConsoleSeesASilentDriver(t *testing.T) {
	s := testStation(t)
	startDrain(t, s, "p/a")
	st, err := s.Engine.State(t.Context(), "p/a")
	if err != nil {
		t.Fatal(err)
	}
	took := func(by string) drain.Lease {
		l, err := s.Journal.Acquire(t.Context(), st.Drain, by, 0)
		if err != nil {
			t.Fatal(err)
		}
		ev, err := drain.NewEvent("p/a", "took-"+by, st.Drain, l.Epoch, s.Actor, drain.DriveTook{Driver: by})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal.Append(t.Context(), drain.Batch{Stream: "p/a", Lease: &l, Events: []drain.Event{ev}}); err != nil {
			t.Fatal(err)
		}
		if st, err = s.State(t.Context(), "p/a"); err != nil || st.Driver != by {
			t.Fatalf("driven by %q: %v", st.Driver, err)
		}
		return l
	}
	c := &Console{Station: s, drains: map[fleet.HostID]drain.State{}}
	shown := func() drain.State {
		if st, err = s.Engine.State(t.Context(), "p/a"); err != nil {
			t.Fatal(err)
		}
		c.drains["p/a"] = st
		return c.frame(fleet.Snapshot{}).Drains["p/a"]
	}
	first := took("killed")
	leases, err := s.Journal.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later := first.Until.Add(drain.TakeoverTime + time.Second)
	if got := shown(); got.Driver != "killed" || got.Forsaken(later) {
		t.Errorf("while its lease runs: %q", got.Driver)
	}
	c.silent = drain.SilentOf(leases, later)
	if got := shown(); got.Driver != "" || !got.Forsaken(later) {
		t.Errorf("after its lease ran out: driven by %q", got.Driver)
	}
	if err := s.Journal.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	took("next")
	if got := shown(); got.Driver != "next" {
		t.Errorf("after it was taken up: driven by %q", got.Driver)
	}
}
