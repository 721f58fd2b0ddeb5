package widget

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/themes"
)

// Option is one answer of a menu. Its key is one typed character.
type Option struct {
	Key   string
	Label string
	Note  string // what follows from it
}

// Menu is a question with several answers, such as a choice of class. Nothing is
// chosen when it opens, so Enter alone chooses nothing; a choice is made by its
// key, or by moving onto it and pressing Enter. What can't be undone is asked
// again by a [Confirm].
type Menu struct {
	title   string
	options []Option
	guard   *Guard
	at      int    // -1 while nothing is chosen
	wrong   string // a key that is no answer
	drawn   bool
}

// NewMenu asks a question. The command that comes back has to be run.
func NewMenu(title string, options []Option, g *Guard, now time.Time) (*Menu, tea.Cmd) {
	return &Menu{title: title, options: options, guard: g, at: -1}, g.Open(now)
}

// Key takes a key. With Yes comes the option that was chosen.
func (m *Menu) Key(k tea.KeyPressMsg, now time.Time) (Option, Verdict) {
	counts := m.guard.Accept(k, now)
	name := k.String()
	if name == "esc" || name == "ctrl+c" {
		m.guard.Close()
		return Option{}, No
	}
	if !counts || !m.drawn || len(m.options) == 0 {
		return Option{}, Open
	}
	m.wrong = ""
	switch name {
	case "down":
		m.at = min(m.at+1, len(m.options)-1)
		return Option{}, Open
	case "up":
		m.at = max(m.at-1, 0)
		return Option{}, Open
	case "enter":
		if m.at < 0 {
			return Option{}, Open
		}
		m.guard.Close()
		return m.options[m.at], Yes
	}
	for _, o := range m.options {
		if name == o.Key || strings.ToLower(k.Text) == o.Key { // help and boards write some as capitals
			m.guard.Close()
			return o, Yes
		}
	}
	m.wrong = k.Text
	return Option{}, Open
}

// possible are the keys of all answers.
func (m *Menu) possible() string {
	keys := make([]string, len(m.options))
	for i, o := range m.options {
		keys[i] = o.Key
	}
	return strings.Join(keys, ", ")
}

// View draws the menu in at most height lines of exactly width cells. A screen
// that has no room for all options takes no answer.
func (m *Menu) View(width, height int, now time.Time, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	line := func(text string) string { return fit(" "+text, width, g.Ellipsis, false) }
	if m.drawn = width >= MinWidth && height >= len(m.options)+4; !m.drawn {
		return []string{line("too small")}[:max(0, min(1, height))]
	}
	label := 0
	for _, o := range m.options {
		label = max(label, len([]rune(o.Label)))
	}
	out := []string{line(s.Title.Render(draw(m.title, g))), line("")}
	for i, o := range m.options {
		cursor, text := " ", s.Text
		if i == m.at {
			cursor, text = g.Cursor, s.Selected.Inherit(s.Text)
		}
		out = append(out, line(s.Cursor.Render(cursor)+" "+s.KeyHint.Render(draw(o.Key, g))+"  "+
			text.Render(Fit(draw(o.Label, g), label))+"  "+s.Dim.Render(draw(o.Note, g))))
	}
	hint := s.KeyHint.Render("esc") + s.Dim.Render(" no")
	if !m.guard.Painted(now) {
		hint = s.Dim.Render("wait" + g.Ellipsis)
	}
	if m.wrong != "" {
		hint = s.Warn.Render(draw(Name(m.wrong)+" is none of them: "+m.possible()+", or esc", g))
	}
	return append(out, line(""), line(hint))
}
