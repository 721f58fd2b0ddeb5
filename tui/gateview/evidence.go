package gateview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// evidence is what a check that holds rests on, in few words, and when that was
// read. The gate's own reading is newer than the frame: it has the last word on
// what is not there.
func (m Model) evidence(check string) (text string, at time.Time) {
	v, s, _ := m.frame.Host(m.host)
	at = m.got
	switch check {
	case fleet.CheckReach:
		if f, ok := v.Facts.Get(); ok {
			text = "machine " + words.Name(f.Machine) + ", boot " + words.Name(f.Boot)
		}
	case fleet.CheckHolds:
		text = m.holds()
	case fleet.CheckProbes:
		text, at = m.probes()
	case fleet.CheckLeft:
		text = "nothing is kept"
		if len(m.gate.Kept) > 0 {
			text = "kept: " + words.Text(strings.Join(m.gate.Kept, ", "))
		}
	case fleet.CheckLeaks:
		text = "0 leaks"
	case fleet.CheckTickets:
		text = "0 open"
	case fleet.CheckClaims:
		text = "its plane claims nothing of its own: the host's word stands"
		if !v.SelfClaims {
			at = cmp.Or(v.Claims.At, at)
			text = "0 ghosts, 0 orphans"
		}
	case fleet.CheckLost:
		text = lost(s)
	}
	return text, at
}

func lost(s *drain.State) string {
	if s == nil || len(s.Lost) == 0 {
		return "0 lost"
	}
	names := make([]string, len(s.Lost))
	for i, l := range s.Lost {
		names[i] = words.Key(l.Key)
	}
	return "accepted: " + strings.Join(names, ", ")
}

func (m Model) holds() string {
	var out []string
	for _, h := range []*fleet.Hold{m.gate.Holds.Cordon, m.gate.Holds.Drain} {
		if h == nil {
			continue
		}
		text := string(h.Kind) + " " + words.Name(h.Who) + " " + words.HM(h.Since)
		if h.Drain != "" {
			text += " (" + words.Name(h.Drain) + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// probes counts them by their answers, and says when the oldest answer was read.
func (m Model) probes() (string, time.Time) {
	n := map[fleet.Status]int{}
	var off []string
	var oldest time.Time
	for _, p := range m.gate.Probes {
		n[p.Status]++
		if p.Status == fleet.NotApplicable {
			off = append(off, words.Name(p.Name))
		}
		if !p.At.IsZero() && (oldest.IsZero() || p.At.Before(oldest)) {
			oldest = p.At
		}
	}
	text := fmt.Sprintf("%d ok", n[fleet.OK])
	if len(off) > 0 {
		text += fmt.Sprintf(", %d not applicable (%s)", len(off), strings.Join(off, ", "))
	}
	if bad := n[fleet.Failed] + n[fleet.Unknown]; bad > 0 {
		text += fmt.Sprintf(", %d without an answer", bad)
	}
	return text, cmp.Or(oldest, m.got)
}

// exceptions are what a person has accepted, with who and why: as the host keeps
// it, and what of it only the journal knows.
func (m Model) exceptions() []fleet.Accepted {
	v, s, _ := m.frame.Host(m.host)
	var out []fleet.Accepted
	known := map[fleet.Key]bool{}
	if f, ok := v.Facts.Get(); ok {
		for _, a := range f.Accepted {
			known[a.Key] = true
			out = append(out, a)
		}
	}
	if s != nil {
		for k, why := range s.Accepted {
			if !known[k] {
				a := fleet.Accepted{Key: k, Reason: why}
				a.Who, a.At = m.accepter(k)
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, func(a, b fleet.Accepted) int { return cmp.Or(a.At.Compare(b.At), a.Key.Compare(b.Key)) })
	return out
}

// accepter is who accepted something, and when, as the newest events say.
func (m Model) accepter(k fleet.Key) (who string, at time.Time) {
	for _, e := range slices.Backward(m.frame.Events) {
		if e.Kind != (drain.RecAccepted{}).Kind() || fleet.HostID(e.Stream) != m.host {
			continue
		}
		if b, err := e.Decode(); err == nil {
			if r, ok := b.(drain.RecAccepted); ok && r.Key == k {
				return e.By.Name, e.At
			}
		}
	}
	return "", time.Time{}
}

func said(a fleet.Accepted) string {
	text := "accepted"
	if a.Who != "" {
		text += " by " + words.Name(a.Who)
	}
	if !a.At.IsZero() {
		text += " " + words.HM(a.At)
	}
	if a.Reason != "" {
		text += ": " + words.Text(a.Reason)
	}
	return text
}

// shut counts the checks that fail, and those of which nothing is known.
func (m Model) shut() int {
	n := 0
	for _, r := range rows(*m.gate, nil) {
		if r.issue == nil && (r.n > 0 || m.notKnown(r) != "") {
			n++
		}
	}
	return n
}

// locks names what keeps the gate shut: the checks, and what each found.
func (m Model) locks() string {
	var out []string
	dark := 0
	for _, r := range rows(*m.gate, nil) {
		if m.notKnown(r) != "" {
			dark++
		}
		if r.issue != nil || r.n == 0 {
			continue
		}
		text := words.CheckFails(r.check)
		var names []string
		for _, is := range m.gate.Issues {
			if is.Check == r.check && !is.Key.IsZero() {
				names = append(names, words.Key(is.Key))
			}
		}
		if n := len(names); n > 2 {
			names = append(names[:2], fmt.Sprintf("and %d more", n-2))
		}
		if len(names) > 0 {
			text += " " + strings.Join(names, ", ")
		}
		out = append(out, text)
	}
	if dark > 0 {
		out = append(out, fmt.Sprintf("%d not known", dark))
	}
	return strings.Join(out, "; ")
}

func age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return widget.Heard(max(now.Sub(at), 0))
}
