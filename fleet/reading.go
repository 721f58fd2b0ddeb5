package fleet

import "time"

// Status says how far a Reading can be relied on.
type Status string

// The zero Status is unknown, so that a Reading nobody filled in is never
// mistaken for an empty one.
const (
	Unknown       Status = ""
	OK            Status = "ok"
	Failed        Status = "failed"
	NotApplicable Status = "not_applicable" // proved: this host has no such subsystem
)

// Reading is a value with its provenance. Only Status OK makes Value
// meaningful; OK with an empty Value is the only thing that means "empty".
type Reading[T any] struct {
	Value  T             `json:"value,omitempty"`
	Status Status        `json:"status,omitempty"`
	Source string        `json:"source,omitempty"` // file, command or endpoint it was read from
	At     time.Time     `json:"at,omitzero"`
	Took   time.Duration `json:"took,omitempty"` // nanoseconds
	Error  string        `json:"error,omitempty"`
}

// Read makes an OK reading.
func Read[T any](v T, source string, at time.Time, took time.Duration) Reading[T] {
	return Reading[T]{Value: v, Status: OK, Source: source, At: at, Took: took}
}

// ReadFailed makes a failed reading; the value stays zero and means nothing.
func ReadFailed[T any](source string, at time.Time, took time.Duration, err error) Reading[T] {
	return Reading[T]{Status: Failed, Source: source, At: at, Took: took, Error: err.Error()}
}

// ReadNotApplicable makes a reading of a subsystem that the host provably does
// not have; why names the proof ("no /proc/net/dev").
func ReadNotApplicable[T any](source string, at time.Time, why string) Reading[T] {
	return Reading[T]{Status: NotApplicable, Source: source, At: at, Error: why}
}

// Known reports whether the reading can be used to conclude that something is
// absent: it was read, or it can't exist here.
func (r Reading[T]) Known() bool { return r.Status == OK || r.Status == NotApplicable }

// Get returns the value and whether it can be relied on.
func (r Reading[T]) Get() (T, bool) { return r.Value, r.Status == OK }

// ProbeStatus is a Reading without its value, for lists of "what answered".
type ProbeStatus struct {
	Name   string        `json:"name"`
	Status Status        `json:"status,omitempty"`
	Source string        `json:"source,omitempty"`
	At     time.Time     `json:"at,omitzero"`
	Took   time.Duration `json:"took,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Probe strips a reading down to its status under a name.
func Probe[T any](name string, r Reading[T]) ProbeStatus {
	return ProbeStatus{Name: name, Status: r.Status, Source: r.Source, At: r.At, Took: r.Took, Error: r.Error}
}
