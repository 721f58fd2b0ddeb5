package gateview

import (
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/words"
)

// unread says why the checks of the host have no answer now; "" where the host
// was read, and lately. What a gate found before the host fell silent is no
// answer: a check without a reading never holds.
func (m Model) unread() string {
	v, known := m.frame.Snapshot.Host(m.host)
	if !known {
		return "not read: the host is not listed by any plane"
	}
	if !v.Unreachable.IsZero() {
		return words.Unreached + " since " + words.HMS(v.Unreachable)
	}
	if ok, why := feed.Fresh(v, m.env.Now()); !ok {
		return "not read: " + words.Text(why)
	}
	if v.Facts.Status != fleet.OK {
		return "not read: there are no facts of the host yet"
	}
	return ""
}

// notKnown is why it is not known whether a check holds; "" where it is known. A
// check that something stands against is known to fail.
func (m Model) notKnown(r row) string {
	if r.accepted != nil || r.issue != nil || r.n > 0 || !words.OfHost(r.check) {
		return ""
	}
	return m.unread()
}
