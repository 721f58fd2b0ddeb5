package fleet

import "time"

// CordonState is how far a cordon has been shown to hold at plane and host.
type CordonState string

// The states of a cordon, from nothing to proved.
const (
	Uncordoned CordonState = ""
	Cordoning  CordonState = "cordoning"  // both told; the scheduler may still act on a stale view
	Cordoned   CordonState = "cordoned"   // read back after the scheduler's cache window
	HostOnly   CordonState = "host_only"  // the plane does not know: schedulers still send work, the host refuses it
	PlaneOnly  CordonState = "plane_only" // the host does not know: whatever is sent lands
)

// HostView is one host as last observed: the claims about it, the facts from it,
// and what comparing them found. It is immutable once published.
type HostView struct {
	Host    Host             `json:"host"`
	Claims  Reading[[]Claim] `json:"claims"`
	Facts   Reading[Facts]   `json:"facts"`
	Summary Reading[Summary] `json:"summary"`

	// Unreachable is since when the agent could not be reached; zero while it
	// can. Problem says what went wrong, as the link reports it.
	Unreachable time.Time   `json:"unreachable,omitzero"`
	Problem     string      `json:"problem,omitempty"`
	Cordon      CordonState `json:"cordon,omitempty"`
	Findings    []Finding   `json:"findings,omitempty"`
	// Stable reports that two readings of the claims around one of the facts
	// agreed: without it, ghosts and orphans are only suspected.
	Stable bool `json:"stable,omitempty"`
	// Told is what a journal says of the holds, where there is nothing but a
	// journal: in a replay.
	Told Reading[Holds] `json:"-"`
	// SelfClaims says that the plane claims nothing of its own: what the host
	// recognises is what is claimed.
	SelfClaims bool `json:"self_claims,omitempty"`
}

// Holds returns the holds as the host itself last told them, and when.
func (v *HostView) Holds() (Holds, time.Time, bool) { // readings are large: none is copied
	f, s := &v.Facts, &v.Summary
	switch {
	case v.byFacts():
		return f.Value.Holds, f.At, true
	case s.Status == OK:
		return s.Value.Holds, s.At, true
	case v.Told.Status == OK:
		return v.Told.Value, v.Told.At, true
	}
	return Holds{}, time.Time{}, false
}

// Machine is the machine that last answered as the host, which may be long ago: see
// Unreachable.
func (v *HostView) Machine() (string, bool) {
	switch {
	case v.byFacts():
		return v.Facts.Value.Machine, true
	case v.Summary.Status == OK:
		return v.Summary.Value.Machine, true
	}
	return "", false
}

// byFacts reports whether the facts are the newest that the host itself told.
func (v *HostView) byFacts() bool {
	f, s := &v.Facts, &v.Summary
	return f.Status == OK && (s.Status != OK || !s.Value.At.After(f.Value.At))
}

// Count returns how many findings have the verdict.
func (v HostView) Count(verdict Verdict) int {
	n := 0
	for _, f := range v.Findings {
		if f.Verdict == verdict {
			n++
		}
	}
	return n
}

// Snapshot is a whole fleet at one moment. It is immutable.
type Snapshot struct {
	Seq    uint64        `json:"seq"`
	At     time.Time     `json:"at"`
	Hosts  []HostView    `json:"hosts"`  // ordered by id
	Planes []ProbeStatus `json:"planes"` // freshness of each control plane
}

// Host finds a host by id.
func (s Snapshot) Host(id HostID) (HostView, bool) {
	lo, hi := 0, len(s.Hosts)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.Hosts[mid].Host.ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.Hosts) && s.Hosts[lo].Host.ID == id {
		return s.Hosts[lo], true
	}
	return HostView{}, false
}
