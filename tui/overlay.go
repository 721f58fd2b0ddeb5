package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// overlay takes all keys while it is on top.
type overlay interface {
	open(g *widget.Guard, now time.Time) tea.Cmd
	key(m *Model, k tea.KeyPressMsg, now time.Time) (closed bool, cmd tea.Cmd)
	paste()
	view(width, height int, now time.Time, th themes.Theme) []string
}

// question is a dialog that is answered with yes or no. What yes does reads the
// state again: it was asked about what was true when it opened.
type question struct {
	q   widget.Question
	c   *widget.Confirm
	yes func(*Model) tea.Cmd
}

func (d *question) open(g *widget.Guard, now time.Time) (cmd tea.Cmd) {
	d.c, cmd = widget.NewConfirm(d.q, g, now)
	return cmd
}

func (d *question) key(m *Model, k tea.KeyPressMsg, now time.Time) (bool, tea.Cmd) {
	switch d.c.Key(k, now) {
	case widget.Yes:
		m.over = nil
		return true, d.yes(m)
	case widget.No:
		m.say(noteInfo, "not done: "+d.q.Title)
		return true, nil
	}
	return false, nil
}

func (d *question) paste() { d.c.Paste() }

func (d *question) view(w, h int, now time.Time, th themes.Theme) []string {
	return d.c.View(w, h, now, th)
}

// ask opens a question.
func (m *Model) ask(q widget.Question, yes func(*Model) tea.Cmd) tea.Cmd {
	return m.show(&question{q: q, yes: yes})
}

// choice is a question with several answers.
type choice struct {
	title   string
	options []widget.Option
	menu    *widget.Menu
	chosen  func(*Model, widget.Option) tea.Cmd
}

func (d *choice) open(g *widget.Guard, now time.Time) (cmd tea.Cmd) {
	d.menu, cmd = widget.NewMenu(d.title, d.options, g, now)
	return cmd
}

func (d *choice) key(m *Model, k tea.KeyPressMsg, now time.Time) (bool, tea.Cmd) {
	o, v := d.menu.Key(k, now)
	switch v {
	case widget.Yes:
		m.over = nil
		return true, d.chosen(m, o)
	case widget.No:
		m.say(noteInfo, "not done: nothing was changed")
		return true, nil
	}
	return false, nil
}

func (d *choice) paste() {}

func (d *choice) view(w, h int, now time.Time, th themes.Theme) []string {
	return d.menu.View(w, h, now, th)
}

// page is text to be read: details, or every reason of a refusal. One that came
// by itself is deaf until it was painted, so that a key meant for the screen
// does not close it unread.
type page struct {
	title   string
	lines   []string
	guarded bool
	guard   *widget.Guard
	top     int
	room    int
	total   int
}

func newPage(title string, lines []string) *page { return &page{title: title, lines: lines} }

func (p *page) open(g *widget.Guard, now time.Time) tea.Cmd {
	p.guard = g
	if p.guarded {
		return g.Open(now)
	}
	return nil
}

func (p *page) key(m *Model, k tea.KeyPressMsg, now time.Time) (bool, tea.Cmd) {
	counts := p.guard.Accept(k, now) || !p.guarded
	switch k.String() {
	case "up", "k":
		p.top--
	case "down", "j":
		p.top++
	case "pgup", "ctrl+b":
		p.top -= max(1, p.room-1)
	case "pgdown", "ctrl+f", "space":
		p.top += max(1, p.room-1)
	case "g", "home":
		p.top = 0
	case "G", "end":
		p.top = p.total
	case "esc", "ctrl+c":
		p.guard.Close()
		return true, nil
	case "enter", "q":
		if counts {
			p.guard.Close()
			return true, nil
		}
	}
	p.top = max(0, min(p.top, p.total-p.room))
	return false, nil
}

func (p *page) paste() {}

func (p *page) view(width, height int, _ time.Time, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	var body []string
	for _, l := range p.lines {
		body = append(body, widget.Wrap(plain(l, g), max(1, width-2))...)
	}
	p.total, p.room = len(body), max(1, min(len(body), height-4))
	p.top = max(0, min(p.top, p.total-p.room))
	out := []string{widget.Fit(" "+s.Title.Render(plain(p.title, g)), width), widget.Fit("", width)}
	for _, l := range body[p.top:min(p.top+p.room, len(body))] {
		out = append(out, widget.Fit(" "+s.Text.Render(l), width))
	}
	foot := s.KeyHint.Render("esc") + s.Dim.Render(" close")
	if p.total > p.room {
		foot += s.Dim.Render(fmt.Sprintf("   %d of %d lines, pgdn", p.top+p.room, p.total))
	}
	return append(out, widget.Fit("", width), widget.Fit(" "+foot, width))
}

// plain is any text as the terminal can show it.
func plain(s string, g themes.Glyphs) string {
	s = widget.Clean(s)
	if g.ASCII {
		return widget.ASCII(s)
	}
	return s
}

// help lists the keys that work on a screen, from the bindings themselves.
type help struct {
	groups []widget.HelpGroup
	top    int
	below  int
	room   int
}

func newHelp(m keys.Map, scope keys.Scope) *help {
	h := &help{}
	for _, g := range m.Help(scope) {
		h.groups = append(h.groups, widget.HelpGroup{Title: g.Title, Bindings: g.Bindings})
	}
	switch scope {
	case keys.Board:
		h.groups = slices.Insert(h.groups, 1, legend(true))
	case keys.Fleet: // before the keys: on a small screen both are to be seen
		h.groups = slices.Insert(h.groups, 0, legend(false))
	}
	return h
}

// legend says what the letters of the classes mean, and how each leaves.
func legend(leaves bool) widget.HelpGroup {
	g := widget.HelpGroup{Title: "classes"}
	for _, c := range fleet.Classes {
		l, text := words.Letter(c), words.Class(c)
		if leaves {
			text += ": " + words.Strategy(c)
		}
		g.Bindings = append(g.Bindings, key.NewBinding(key.WithKeys(l), key.WithHelp(l, text)))
	}
	return g
}

func (h *help) open(*widget.Guard, time.Time) tea.Cmd { return nil }

func (h *help) key(_ *Model, k tea.KeyPressMsg, _ time.Time) (bool, tea.Cmd) {
	top := h.top
	switch k.String() {
	case "down", "j":
		h.top++
	case "up", "k":
		h.top--
	case "pgdown", "ctrl+f", "space":
		h.top += max(1, h.room-1)
	case "pgup", "ctrl+b":
		h.top -= max(1, h.room-1)
	case "g", "home":
		h.top = 0
	case "G", "end":
		h.top += h.below
	case "esc", "q", "?", "enter", "ctrl+c":
		return true, nil
	}
	last := top + h.below
	h.top = max(0, min(h.top, last))
	h.below = last - h.top // until it is drawn again
	return false, nil
}

func (h *help) paste() {}

func (h *help) view(width, height int, _ time.Time, th themes.Theme) []string {
	s := th.Styles
	lines := 0
	for _, g := range h.groups {
		lines += len(g.Bindings) + 2
	}
	h.room = max(1, min(height-2, lines))
	text, below := widget.Help(h.groups, width, h.room, h.top, th)
	h.below = below
	foot := s.KeyHint.Render("esc") + s.Dim.Render(" close")
	switch {
	case below > 0:
		foot += "   " + s.KeyHint.Render("pgdn") + s.Dim.Render(fmt.Sprintf(" %d more below", below))
	case h.top > 0:
		foot += "   " + s.KeyHint.Render("pgup") + s.Dim.Render(fmt.Sprintf(" %d above", h.top))
	}
	return append(strings.Split(text, "\n"), widget.Fit("", width), widget.Fit(" "+foot, width))[:min(height, len(strings.Split(text, "\n"))+2)]
}
