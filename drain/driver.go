package drain

import "time"

// TakeoverTime is how long a drain may be without a driver before that is worth
// a word: one driver hands it to the next, or takes up what another has left.
const TakeoverTime = 5 * time.Second

// Undriven reports whether the drain would go on if somebody drove it.
func (s State) Undriven() bool {
	return s.Drain != "" && s.Driver == "" && !s.Over() && !s.Phase.Ended()
}

// NeedsPerson reports whether the drain as a whole goes on only when somebody acts.
func (s State) NeedsPerson() bool {
	return !s.Phase.Ended() && (s.Person || NeedsPerson(s.Waiting.Code))
}

// Forsaken reports whether nobody drives a drain that would go on, for longer
// than a change of drivers takes: somebody has to take it up.
func (s State) Forsaken(now time.Time) bool {
	since := s.Since // begun, or given more time, with nobody there
	if s.Released.After(since) {
		since = s.Released
	}
	return s.Undriven() && now.Sub(since) > TakeoverTime
}

// Silent are drivers that have gone without a word, by drain: no event says so,
// their leases ran out.
type Silent map[string]Lease

// SilentOf picks those leases that ran out, and were not taken over since. now is
// the journal's clock.
func SilentOf(leases []Lease, now time.Time) Silent {
	out := Silent{}
	for _, l := range leases {
		if now.Sub(l.Until) > TakeoverTime {
			out[l.Drain] = l
		}
	}
	return out
}

// Of is a state in which a silent driver drives no more. One that took the drain
// since has a higher epoch.
func (x Silent) Of(s State) State {
	if l, ok := x[s.Drain]; ok && s.Driver != "" && s.Epoch <= l.Epoch {
		s.Driver, s.Released = "", l.Until
	}
	return s
}
