package gateview

import (
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/words"
)

// terminating says since when a terminate runs, as the journal has it: an intent
// without an outcome. "" where none does. It is never begun twice.
func (m Model) terminating() string {
	open := map[string]time.Time{}
	for _, e := range m.frame.Events {
		if fleet.HostID(e.Stream) != m.host || (e.Kind != (drain.RecTerminateIntent{}).Kind() && e.Kind != (drain.RecTerminateOutcome{}).Kind()) {
			continue
		}
		b, err := e.Decode()
		if err != nil {
			continue
		}
		switch r := b.(type) {
		case drain.RecTerminateIntent:
			open[r.Act] = e.At
		case drain.RecTerminateOutcome:
			delete(open, r.Act)
		}
	}
	var since time.Time
	for _, at := range open {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	if since.IsZero() {
		return ""
	}
	return "terminating since " + words.HMS(since)
}
