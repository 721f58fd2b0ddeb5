package gateview

import (
	"fmt"
	"strings"
	"time"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	head, foot := m.head(width), m.foot(width)
	if height < 8 {
		foot = foot[len(foot)-1:]
	}
	room := height - len(head) - len(foot)
	if room < 1 {
		head, room = nil, height-len(foot)
	}
	*m.self = m
	body := ""
	if m.gate != nil {
		body = m.table.View(width, max(room, 1))
	}
	lines := strings.Split(body, "\n")
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(append(head, lines[:max(room, 0)]...), foot...)
	return widget.Exact(lines, width, height)
}

func (m Model) head(width int) []string {
	th := m.env.Theme
	s, g := th.Styles, th.Glyphs
	if m.host == "" {
		return []string{" no host is chosen: pick one on the fleet screen", widget.Rule(width, th)}
	}
	now := m.env.Now()
	right := "not read yet"
	if m.gate != nil {
		age := max(now.Sub(m.got), 0)
		right = "read " + widget.Ago(age)
		if age > feed.StaleAfter {
			right += ", before what happened since (v)"
		}
	}
	if m.busy != "" {
		right = m.busy + " is reading host and claims" + g.Ellipsis
	}
	question := "can it be terminated?"
	if on := m.terminating(); on != "" {
		question = on
	}
	out := []string{widget.Sides(" "+s.Title.Render(widget.Name(m.host.Name()))+"   "+question, s.Dim.Render(right+" "), width)}
	if m.problem != "" {
		out = append(out, " "+s.Warn.Render("could not be read: "+words.Text(m.problem)))
	}
	if m.gone() != "" {
		out[0] = " " + s.Title.Render(widget.Name(m.host.Name())) + "   " + m.gone()
	} else if v, known := m.frame.Snapshot.Host(m.host); known {
		if ok, why := feed.Fresh(v, now); !ok {
			out = append(out, " "+s.State(themes.Unreachable).Render(g.Unreachable+" "+words.Text(why)))
		}
	}
	return append(out, widget.Rule(width, th))
}

// foot says whether the gate is open, for how long, and what would run.
func (m Model) foot(width int) []string {
	th := m.env.Theme
	s := th.Styles
	out := []string{widget.Rule(width, th)}
	if m.gone() != "" {
		return append(out, " "+m.verdict())
	}
	if m.frame.Replay != "" {
		return append(out, " "+s.Dim.Render("what a gate found, and what terminate ran, stands in the log (7)"))
	}
	command := ""
	if m.gate != nil {
		command = m.gate.Command
	}
	if command == "" {
		command = m.frame.Config.Terminator
	}
	if command == "" {
		out = append(out, " "+s.Dim.Render("terminate would run: ")+s.Warn.Render("nothing is configured"))
	} else {
		out = append(out, " "+s.Dim.Render("terminate would run: ")+words.Text(command))
	}
	if m.gate != nil && m.gate.Proof != nil {
		p := m.gate.Proof
		text := "proof " + words.Name(p.Digest[:min(len(p.Digest), 12)]) + " in " + words.Text(p.Path)
		if p.Scope != "" {
			text += ", scope " + words.Name(p.Scope)
		}
		out = append(out, " "+s.Dim.Render(text))
	}
	return append(out, " "+m.verdict())
}

// gone says when the host was terminated, and by whom.
func (m Model) gone() string {
	v, s, _ := m.frame.Host(m.host)
	return words.Terminated(&v, s)
}

// verdict is the last word: locked by how many, or open for how long.
func (m Model) verdict() string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	if gone := m.gone(); gone != "" {
		return s.State(themes.Terminated).Render(g.Terminated + " " + gone)
	}
	if on := m.terminating(); on != "" {
		return s.Warn.Render(on+": it has no outcome yet") + "   " + s.Dim.Render("what it ran stands in the log (7)")
	}
	if m.gate == nil {
		return s.Dim.Render("v reads host and claims anew")
	}
	if shut := m.shut(); shut > 0 {
		return s.Danger.Render(fmt.Sprintf("%s locked: %d of %d", g.Cross, shut, len(fleet.Checks))) + "   " + s.Warn.Render(m.locks())
	}
	if m.gate.Proof == nil {
		return s.Warn.Render("nothing stands in the way, and there is no proof yet: v has the host sign one")
	}
	left := m.Life(m.env.Now())
	if left <= 0 {
		return s.Danger.Render(g.Cross + " locked: the proof has expired: v makes a new one")
	}
	life := ""
	if whole := m.gate.Proof.Expires.Sub(m.gate.Proof.Made); whole > 0 {
		life = widget.Bar(10, float64(left)/float64(whole), s, g) + " "
	}
	clock := s.Text
	if left < time.Minute {
		clock = s.Warn
	}
	return s.Ok.Render(g.Check+" open") + "   the proof holds " + life + clock.Render(widget.Clock(left)) + " more, until " + words.HMS(m.gate.Proof.Expires) + "   " + s.KeyHint.Render("t") + " terminate"
}

// Life is how long the proof still holds.
func (m Model) Life(now time.Time) time.Duration {
	if m.gate == nil || m.gate.Proof == nil {
		return 0
	}
	return m.gate.Proof.Expires.Sub(now)
}
