package agent

import (
	"sync"

	"ebb/fleet"
	"ebb/probes/wire"
)

// store holds the latest facts. Facts are immutable once stored: whoever reads
// them keeps a value, and a slow reader misses generations instead of holding
// anybody up.
type store struct {
	mu      sync.Mutex
	facts   fleet.Facts
	changed chan struct{} // closed and replaced at each new generation
}

// newStore starts generations at the wall clock's milliseconds, so that they go
// on growing over a restart.
func newStore(f fleet.Facts) *store {
	f.Generation = uint64(f.At.UnixMilli())
	return &store{facts: f, changed: make(chan struct{})}
}

// get returns the latest facts and a channel that is closed when they change.
func (s *store) get() (fleet.Facts, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts, s.changed
}

// update replaces the facts; the generation grows where they say something new.
func (s *store) update(f func(*fleet.Facts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.facts
	f(&next)
	if wire.Differs(s.facts, next) {
		next.Generation = s.facts.Generation + 1
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.facts = next
}
