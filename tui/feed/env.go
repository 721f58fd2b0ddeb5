package feed

import (
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/keys"
)

// Env is what every screen is made with.
type Env struct {
	Theme themes.Theme
	Keys  keys.Map
	Now   func() time.Time // this process's clock: ages of readings run by it
	Local *time.Location   // where the person is
}

// StaleAfter is how old a reading of a host may be before it is marked, and
// before it refuses what can't be undone.
const StaleAfter = 10 * time.Second

// Clock is the journal's clock at a moment of this process's clock. Countdowns
// run by it, so that two consoles show the same second.
func (f Frame) Clock(now time.Time) time.Time {
	if f.Made.IsZero() {
		return now
	}
	return now.Add(f.At.Sub(f.Made))
}

// Host finds a host and its newest drain; the drain is nil where it has none.
func (f Frame) Host(id fleet.HostID) (fleet.HostView, *drain.State, bool) {
	v, ok := f.Snapshot.Host(id)
	if s, has := f.Drains[id]; has {
		return v, &s, ok
	}
	return v, nil, ok
}

// ReadAt is when the host's agent was last heard; zero if it never was.
func ReadAt(v *fleet.HostView) time.Time {
	at := time.Time{}
	if v.Facts.Status == fleet.OK {
		at = v.Facts.At
	}
	if v.Summary.Status == fleet.OK && v.Summary.At.After(at) {
		at = v.Summary.At
	}
	return at
}

// Fresh says whether what is known of a host is young enough to act on, and why
// not.
func Fresh(v fleet.HostView, now time.Time) (ok bool, why string) {
	at := ReadAt(&v)
	switch {
	case !v.Unreachable.IsZero():
		why = "unreachable since " + v.Unreachable.UTC().Format("15:04:05")
		if v.Problem != "" {
			why += ": " + v.Problem
		}
		return false, why
	case at.IsZero():
		return false, "it has not been read yet"
	case now.Sub(at) > StaleAfter:
		return false, fmt.Sprintf("last read %s ago, more than %s", now.Sub(at).Round(time.Second), StaleAfter)
	}
	return true, ""
}
