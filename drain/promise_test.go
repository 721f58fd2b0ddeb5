package drain

import (
	"testing"
	"time"

	"ebb/fleet"
)

// What a drain has chosen counts from its intent on until it is refused, rolled
// back, or has arrived; an act that stands back leaves nothing behind.
func TestPromises(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome Result
		holds   bool
	}{
		{"on its way", "", true},
		{"started", Done, true},
		{"nobody knows", Interrupted, true},
		{"refused", Refused, false},
		{"stood back", Withdrawn, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.add("web", fleet.Stateless)
			w.add("vm", fleet.Pausable, levered(0))
			w.latency = time.Minute
			w.start(45 * time.Minute)
			w.until(5*time.Minute, "on their way", func() bool { return w.s.Items[wk("web")].Target != "" && w.s.Items[wk("vm")].Target != "" })
			for _, a := range w.s.Open {
				if !a.Places() {
					continue
				}
				if w.s.Items[a.Key].Placed != 0 { // the journal's numbers are not kept here
					t.Fatalf("%+v", a)
				}
				if c.outcome == "" {
					continue
				}
				if err := w.append(w.epoch, DriveOutcome{Act: a.ID, Key: a.Key, Result: c.outcome}); err != nil {
					t.Fatal(err)
				}
			}
			for _, k := range []fleet.Key{wk("web"), wk("vm")} {
				it := w.s.Items[k]
				if it.Target == "" {
					t.Fatalf("%s was not placed\n%s", k, w.dump())
				}
				holds := c.holds || c.outcome == Refused && k == wk("vm") // until it is rolled back
				if got := len(w.s.Promises(0)[it.Target]) > 0 && w.s.coming(it); got != holds {
					t.Errorf("%s: promised %v, want %v", k, got, holds)
				}
			}
			if c.outcome == Withdrawn && len(w.s.Items[wk("vm")].Move.Steps) > 0 {
				t.Errorf("a move is left: %+v", w.s.Items[wk("vm")].Move)
			}
		})
	}
}
