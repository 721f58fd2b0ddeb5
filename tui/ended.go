package tui

import (
	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// endedElsewhere says who ended a drain that this console drove, and when: it
// would otherwise only seem to have gone quiet.
func (m *Model) endedElsewhere() {
	for h, id := range m.drove {
		s, ok := m.frame.Drains[h]
		switch {
		case !ok || s.Drain != id:
			delete(m.drove, h)
		case over(s):
			delete(m.drove, h)
			if !m.mine[h] {
				m.say(noteBad, whoEnded(m.frame, h, s))
			}
			delete(m.mine, h)
		}
	}
	for h, on := range m.frame.Driving {
		s, ok := m.frame.Drains[h]
		if on && ok && !over(s) {
			m.drove[h] = s.Drain
		}
	}
}

// over says whether a drain was ended by somebody, not by its own work.
func over(s drain.State) bool {
	return s.Drain == "" || s.Undone || s.Phase == drain.Stopped || !s.Terminated.IsZero()
}

// whoEnded names the last act that ended a drain.
func whoEnded(f feed.Frame, h fleet.HostID, s drain.State) string {
	host := widget.Name(h.Name()) + ": "
	verbs := map[drain.Kind]string{
		drain.AskStop{}.Kind():             "stopped this drain",
		drain.AskResume{}.Kind():           "asked for what is parked here, with which this drain ended,",
		drain.RecUndrain{}.Kind():          "ended this drain and lifted its hold",
		drain.RecTerminateOutcome{}.Kind(): "terminated this host",
	}
	for i := len(f.Events) - 1; i >= 0; i-- {
		e := f.Events[i]
		verb, ends := verbs[e.Kind]
		if ends && fleet.HostID(e.Stream) == h && (e.Drain == "" || e.Drain == s.Drain) {
			return host + words.Name(e.By.Name) + " " + verb + " at " + words.HM(e.At)
		}
	}
	return host + "this drain was ended elsewhere at " + words.HM(s.LastAt)
}
