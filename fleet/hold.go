package fleet

import "time"

// HoldKind is one of the two independent reasons why a host takes no work.
type HoldKind string

// The two kinds of hold. Lifting one never lifts the other.
const (
	CordonHold HoldKind = "cordon"
	DrainHold  HoldKind = "drain"
)

// Hold is why a host takes no work: who said so, why, and since when. The
// fields below Since belong to drain holds only.
type Hold struct {
	Kind  HoldKind  `json:"kind"`
	Who   string    `json:"who"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`

	Drain    string    `json:"drain,omitempty"`   // the drain's id
	Journal  string    `json:"journal,omitempty"` // where its journal is, for whoever finds the hold
	Epoch    uint64    `json:"epoch,omitempty"`   // highest epoch seen for the drain
	Deadline time.Time `json:"deadline,omitzero"` // outer deadline: existing work is renewed no further
	Evacuate bool      `json:"evacuate,omitempty"`
	For      Purpose   `json:"for,omitempty"`
}

// Holds are the holds of one host; nil means that one is not there.
type Holds struct {
	Cordon *Hold `json:"cordon,omitempty"`
	Drain  *Hold `json:"drain,omitempty"`
}

// Any reports whether anything holds the host.
func (h Holds) Any() bool { return h.Cordon != nil || h.Drain != nil }

// Both reports whether both holds are there, as a proof demands.
func (h Holds) Both() bool { return h.Cordon != nil && h.Drain != nil }

// Equal compares by value.
func (h Holds) Equal(o Holds) bool {
	return equalHold(h.Cordon, o.Cordon) && equalHold(h.Drain, o.Drain)
}

func equalHold(a, b *Hold) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	sameTimes := x.Since.Equal(y.Since) && x.Deadline.Equal(y.Deadline)
	x.Since, y.Since, x.Deadline, y.Deadline = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return sameTimes && x == y
}
