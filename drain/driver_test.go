package drain

import (
	"testing"
	"time"
)

func TestForsaken(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	begun := State{Drain: "d-1", Phase: Draining, Since: at.Add(-time.Hour), Epoch: 3, Driver: "bastion"}
	with := func(change func(*State)) State {
		s := begun
		change(&s)
		return s
	}
	for name, x := range map[string]struct {
		s    State
		want bool
	}{
		"driven":          {begun, false},
		"never taken":     {with(func(s *State) { s.Driver = "" }), true},
		"just begun":      {with(func(s *State) { s.Driver, s.Since = "", at.Add(-time.Second) }), false},
		"just released":   {with(func(s *State) { s.Driver, s.Released = "", at.Add(-TakeoverTime) }), false},
		"left":            {with(func(s *State) { s.Driver, s.Released = "", at.Add(-TakeoverTime-1) }), true},
		"stopped":         {with(func(s *State) { s.Driver, s.Phase = "", Stopped }), false},
		"lifted":          {with(func(s *State) { s.Driver, s.Undone = "", true }), false},
		"host terminated": {with(func(s *State) { s.Driver, s.Terminated = "", at }), false},
		"no drain":        {State{}, false},
	} {
		if got := x.s.Forsaken(at); got != x.want {
			t.Errorf("%s: forsaken is %v", name, got)
		}
	}
}

// A driver that was killed says nothing: its lease does, once it ran out and
// nobody took it.
func TestSilentDriver(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	s := State{Drain: "d-1", Phase: Draining, Since: at.Add(-time.Hour), Epoch: 3, Driver: "bastion"}
	for name, x := range map[string]struct {
		lease Lease
		want  bool
	}{
		"alive":            {Lease{Drain: "d-1", Holder: "bastion", Epoch: 3, Until: at.Add(time.Second)}, false},
		"being taken over": {Lease{Drain: "d-1", Holder: "bastion", Epoch: 3, Until: at.Add(-TakeoverTime)}, false},
		"gone":             {Lease{Drain: "d-1", Holder: "bastion", Epoch: 3, Until: at.Add(-TakeoverTime - 1)}, true},
		"of an older turn": {Lease{Drain: "d-1", Holder: "laptop", Epoch: 2, Until: at.Add(-time.Minute)}, false},
		"another's drain":  {Lease{Drain: "d-2", Holder: "bastion", Epoch: 3, Until: at.Add(-time.Minute)}, false},
	} {
		got := SilentOf([]Lease{x.lease}, at).Of(s)
		if got.Forsaken(at) != x.want || (got.Driver == "") != x.want {
			t.Errorf("%s: driven by %q, forsaken is %v", name, got.Driver, got.Forsaken(at))
		}
	}
}
