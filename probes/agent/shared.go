package agent

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// watchesMax is how many watches there may be at once.
const watchesMax = 1024

// shared is what many readers are answered with, encoded once for all of them:
// a crowd that watches a full host must cost no more than a few that do.
type shared struct {
	mu      sync.Mutex
	watches int
	facts   map[factsOf][]byte
	changes [16]change // the last ones, the oldest overwritten
	next    int
}

type factsOf struct {
	generation uint64
	at, read   time.Time // of the facts, and of their processes
	role       wire.Role
}

type change struct {
	from, to factsOf
	byKey    bool
	line     []byte
}

func versionOf(f fleet.Facts, role wire.Role) factsOf {
	return factsOf{f.Generation, f.At, f.Processes.At, role}
}

// encoded returns facts as JSON for a role.
func (s *shared) encoded(f fleet.Facts, role wire.Role) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := versionOf(f, role)
	if b, ok := s.facts[key]; ok {
		return b, nil
	}
	f.Agent.Role = string(role)
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	for old := range s.facts {
		if old.generation != f.Generation || !old.at.Equal(f.At) || !old.read.Equal(f.Processes.At) {
			delete(s.facts, old)
		}
	}
	s.facts[key] = append(b, '\n')
	return s.facts[key], nil
}

// line returns the line of a watch that leads from one state to the next; byKey
// for a reader that knows deltas.
func (s *shared) line(from, to fleet.Facts, byKey bool) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := versionOf(from, ""), versionOf(to, "")
	for _, c := range s.changes {
		if c.line != nil && c.from == a && c.to == b && c.byKey == byKey {
			return c.line, nil
		}
	}
	patch := wire.Diff(from, to)
	if !byKey {
		patch = patch.Whole(to)
	}
	c := wire.Change{Generation: to.Generation, Since: from.Generation, At: to.At, Patch: &patch}
	if patch.IsZero() {
		c.Patch, c.Idle = nil, true
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	line := append(raw, '\n')
	s.changes[s.next] = change{a, b, byKey, line}
	s.next = (s.next + 1) % len(s.changes)
	return line, nil
}

// begin takes a place among the watches.
func (s *shared) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches >= watchesMax {
		return refuse(wire.CodeFull, "too many watches")
	}
	s.watches++
	return nil
}

func (s *shared) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches--
}

func writeEncoded(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // else the caller is gone
}
