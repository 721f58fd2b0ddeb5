package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// journalStale is how old the journal's last word may be before it is marked.
const journalStale = 20 * time.Second

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView(" ") // the canvas draws
	if m.canvas.out != nil {
		m.draw()
	} else {
		v.SetContent(m.Screen())
	}
	v.AltScreen = true
	v.KeyboardEnhancements.ReportEventTypes = true
	if m.opt.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// Screen draws everything, in exactly the size of the terminal.
func (m *Model) Screen() string {
	w, h := m.area()
	if w < 1 || h < 1 {
		return m.framed("")
	}
	now := m.opt.Now()
	var header []string
	if h >= 10 {
		header = []string{m.head(w, m.env.Now())}
	}
	text, ok := widget.Frame(w, h, header, m.body, m.foot(w, h, now))
	if !ok || m.over == nil {
		return m.framed(text)
	}
	width := min(w, 84)
	if w < 92 {
		width = w // no ragged edge of what lies under it
	}
	return m.framed(widget.Overlay(text, m.over.view(width, max(1, h-4), now, m.env.Theme), w, h, m.env.Theme))
}

func (m *Model) body(w, h int) string {
	if !m.have {
		return widget.Exact([]string{"", " " + m.env.Theme.Styles.Dim.Render("reading the fleet"+m.env.Theme.Glyphs.Ellipsis)}, w, h)
	}
	if room := m.paletteRoom(h); room > 0 {
		return m.withPalette(w, h, room)
	}
	return m.panes.all[m.cur].View(w, h)
}

// head is the line on top: where one is, what time it is, and how old what is
// shown is.
func (m *Model) head(w int, now time.Time) string {
	s := m.env.Theme.Styles
	if m.film != nil {
		return m.filmHead(w)
	}
	left := " " + s.Title.Render("ebb") + "  "
	tail := ""
	if f := m.filter[m.cur]; f != "" && m.cur != keys.Fleet { // that one says it beside its counts
		tail += "  " + s.Input.Render("/"+widget.Clean(f))
	}
	if m.frame.Config.ReadOnly {
		tail += "  " + s.Warn.Render("READ-ONLY")
	}
	if n := m.panes.all[m.cur].marks(); n > 0 {
		tail += "  " + s.Mark.Render(fmt.Sprintf("%d marked", n))
	}
	clock := m.frame.Clock(now)
	right := clock.UTC().Format("15:04") + s.Dim.Render(" UTC")
	if w >= 100 {
		right += s.Dim.Render(" "+m.env.Theme.Glyphs.Dot+" ") + clock.In(m.env.Local).Format("15:04") + s.Dim.Render(" here")
	}
	if w >= 60 && m.have {
		right += "   " + m.freshness("journal", m.frame.Journal, journalStale, now)
		right += "   " + m.planes(now)
	}
	room := w - lipgloss.Width(left) - lipgloss.Width(tail) - lipgloss.Width(right) - 4
	return widget.Sides(left+s.Dim.Render(m.crumbs(max(room, 12)))+tail, right+" ", w)
}

// crumbs say where one is, and how one came there: each screen on the way that
// esc leads back through, a host where another begins. Where there is no room the
// beginning goes first.
func (m *Model) crumbs(room int) string {
	g := m.env.Theme.Glyphs
	sep := " > "
	if !g.ASCII {
		sep = " › "
	}
	var parts []string
	var last fleet.HostID
	for _, p := range append(slices.Clone(m.trail), place{m.cur, m.panes.all[m.cur].Host()}) {
		if h := p.host; ofOneHost(p.screen) && h != "" && h != last {
			name := plain(widget.Name(h.Name()), g)
			if len(m.frame.Snapshot.Planes) > 1 {
				name = plain(widget.Name(h.Plane()), g) + "/" + name
			}
			parts, last = append(parts, name), h
		}
		if len(parts) == 0 || parts[len(parts)-1] != string(p.screen) {
			parts = append(parts, string(p.screen))
		}
	}
	if parts[0] != string(keys.Fleet) {
		parts = append([]string{string(keys.Fleet)}, parts...)
	}
	if n := len(m.panes.plan.now().Hosts()); m.cur == keys.Plan && n > 1 {
		parts[len(parts)-1] += fmt.Sprintf(" of %d", n)
	}
	text := strings.Join(parts, sep)
	for len(parts) > 2 && lipgloss.Width(text) > room {
		parts = parts[1:]
		text = g.Ellipsis + sep + strings.Join(parts, sep)
	}
	return text
}

// freshness is the sign and age of a source.
func (m *Model) freshness(name string, p fleet.ProbeStatus, stale time.Duration, now time.Time) string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	age := "?"
	if !p.At.IsZero() {
		age = widget.Heard(now.Sub(p.At))
	}
	switch {
	case p.Status == fleet.Unknown:
		return s.Stale.Render(name + " " + g.Unknown)
	case p.Status != fleet.OK:
		return s.Danger.Render(name + " " + g.Unreachable + " " + age)
	case now.Sub(p.At) > stale:
		return s.Warn.Render(name + " " + g.Serving + " " + age + " old")
	}
	return s.Dim.Render(name+" ") + s.Ok.Render(g.Serving) + s.Dim.Render(" "+age)
}

// planes is the freshness of the control planes: of the worst one by name, where
// there are several.
func (m *Model) planes(now time.Time) string {
	all := m.frame.Snapshot.Planes
	if len(all) == 0 {
		return m.env.Theme.Styles.Dim.Render("no plane")
	}
	worst := all[0]
	for _, p := range all[1:] {
		bad, was := p.Status != fleet.OK, worst.Status != fleet.OK
		if bad && !was || bad == was && p.At.Before(worst.At) {
			worst = p
		}
	}
	name := "plane"
	if len(all) > 1 {
		name = "planes"
		if worst.Status != fleet.OK {
			name = "plane " + plain(widget.Name(worst.Name), m.env.Theme.Glyphs)
		}
	}
	return m.freshness(name, worst, 3*feed.StaleAfter, now)
}

// foot is the line of what was done or is being typed, and the keys.
func (m *Model) foot(w, h int, now time.Time) []string {
	if h < 8 {
		return m.status(w, 1, now)
	}
	most := 1
	if h >= 12 {
		most = 2
	}
	scope := m.cur
	if m.line != nil {
		scope = keys.Input
	}
	line := m.env.Keys.Line(scope)
	if now := m.panes.all[m.cur].line(); m.line == nil && now != nil {
		line = now
	}
	if m.film != nil && m.line == nil {
		line = m.filmLine()
	}
	help := widget.HelpLine(line, w, m.env.Theme)
	if m.over != nil {
		help = "" // what is on top has its own line of keys
	}
	return append(m.status(w, most, now), help)
}

// status is the line being typed, or else the last word on what was done with
// what is under way beside it. Where nothing is to be said and a plane or the
// journal fails, it says that. A word that one line is too short for gets another,
// where there are most lines for it.
func (m *Model) status(w, most int, now time.Time) []string {
	if m.line != nil {
		return []string{m.line.prompt.View(w)}
	}
	s := m.env.Theme.Styles
	right := ""
	if run := m.runningText(now); run != "" {
		right = s.Info.Render(plain(run, themes.Glyphs{ASCII: m.env.Theme.Glyphs.ASCII})) + " "
	}
	left := ""
	if m.note.stands(now) {
		return m.noteLines(w, most, right)
	}
	switch trouble := m.trouble(); {
	case m.film != nil:
		left = m.lastEvent()
	case trouble != "":
		left = s.Warn.Render(plain(trouble, m.env.Theme.Glyphs))
	case m.have:
		left = s.Dim.Render(plain(m.panes.all[m.cur].hint(), m.env.Theme.Glyphs))
	}
	return []string{widget.Sides(" "+left, right, w)}
}

// noteLines are the last word on what was done, with what is under way beside it.
func (m *Model) noteLines(w, most int, right string) []string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	lead, style := "", s.Text
	switch m.note.kind {
	case noteBad:
		style = s.Warn
	case noteOK:
		lead = s.Ok.Render(g.Check) + " "
	}
	text := plain(m.note.text, g)
	in := 1 + lipgloss.Width(lead)
	room := w - in - 1
	if right != "" {
		room -= lipgloss.Width(right) + 1
	}
	lines := []string{text}
	if most > 1 && lipgloss.Width(text) > room && room >= 20 {
		lines = widget.Wrap(text, room)
	}
	if len(lines) > most {
		lines = append(lines[:most-1], strings.Join(lines[most-1:], " "))
	}
	out := []string{widget.Sides(" "+lead+style.Render(lines[0]), right, w)}
	for _, l := range lines[1:] {
		out = append(out, widget.Fit(strings.Repeat(" ", in)+style.Render(l), w))
	}
	return out
}

// trouble names a source that can't be read.
func (m *Model) trouble() string {
	if !m.have {
		return ""
	}
	if j := m.frame.Journal; j.Status == fleet.Failed {
		return "the journal can't be read, what is shown may be old: " + words.Text(j.Error)
	}
	for _, p := range m.frame.Snapshot.Planes {
		if p.Status == fleet.Failed {
			return fmt.Sprintf("plane %s can't be read: %s", words.Name(p.Name), words.Text(p.Error))
		}
	}
	return ""
}
