package agent

import (
	"sync"

	"ebb/fleet"
	"ebb/probes/wire"
)

// store holds the latest facts, and the changes that led to them. Facts are
// immutable once stored: whoever reads them keeps a value, and a slow reader
// misses generations instead of holding anybody up.
type store struct {
	mu      sync.Mutex
	facts   fleet.Facts
	changed chan struct{} // closed and replaced at each new generation
	past    []wire.Change // each follows the one before; the last leads to facts
	weight  int           // of past
}

// pastMax bounds the changes that are kept, in things that they name: enough for
// a reader who was away for some minutes of an ordinary day.
const pastMax = 4096

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

// since returns the facts with the changes that lead to them from a generation,
// and whether they are known: none where the facts are still that.
func (s *store) since(generation uint64) (f fleet.Facts, changed <-chan struct{}, changes []wire.Change, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, changed = s.facts, s.changed
	if generation == f.Generation {
		return f, changed, nil, true
	}
	for i, c := range s.past {
		if c.Since == generation {
			return f, changed, s.past[i:len(s.past):len(s.past)], true
		}
	}
	return f, changed, nil, false
}

// update replaces the facts; the generation grows where they say something new.
func (s *store) update(f func(*fleet.Facts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.facts
	f(&next)
	if wire.Differs(s.facts, next) {
		next.Generation = s.facts.Generation + 1
		s.keep(next)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.facts = next
}

// keep remembers the change to next, and forgets old ones.
func (s *store) keep(next fleet.Facts) {
	p := wire.Diff(s.facts, next)
	s.past = append(s.past, wire.Change{Generation: next.Generation, Since: s.facts.Generation, At: next.At, Patch: &p})
	s.weight += weight(p)
	drop := 0
	for ; s.weight > pastMax && drop < len(s.past); drop++ {
		s.weight -= weight(*s.past[drop].Patch)
	}
	if drop > 0 { // a new array: the old one may be in a reader's hands
		s.past = append([]wire.Change(nil), s.past[drop:]...)
	}
}

// weight is about how many things a patch names.
func weight(p wire.Patch) int {
	n := 8 + len(p.Set) + len(p.Gone)
	for _, r := range []*fleet.Reading[[]fleet.Resource]{p.Netns, p.Loops, p.Dirs} {
		if r != nil {
			n += len(r.Value)
		}
	}
	for _, d := range []*wire.Delta[fleet.Resource]{p.NetnsBy, p.LoopsBy, p.DirsBy} {
		if d != nil {
			n += len(d.Set) + len(d.Gone)
		}
	}
	if p.Workloads != nil {
		n += len(p.Workloads.Value)
	}
	if p.WorkloadsBy != nil {
		n += len(p.WorkloadsBy.Set) + len(p.WorkloadsBy.Gone)
	}
	if p.State != nil {
		n += len(p.State.Tickets) + len(p.State.Accepted)
	}
	return n
}
