package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"ebb/tui/widget"
	"ebb/tui/words"
)

// line is a line being typed at the foot of the screen: a filter, a command, a
// reason.
type line struct {
	prompt  *widget.Prompt
	entered func(*Model, string) tea.Cmd // false: it stays
	follow  func(*Model, string)         // each change
	gaveUp  func(*Model)
	check   func(string) error
	behind  job  // what was done already, and is only being explained: it closes if that fails
	palette bool // it is a command: what it could be is listed above it
}

func (l *line) changed(m *Model) {
	if l.follow != nil {
		l.follow(m, l.prompt.Value())
	}
}

func (m *Model) lineKey(k tea.KeyPressMsg) tea.Cmd {
	l := m.line
	switch l.prompt.Update(k) {
	case widget.GivenUp:
		m.line = nil
		if l.gaveUp != nil {
			l.gaveUp(m)
		}
	case widget.Entered:
		text := strings.TrimSpace(l.prompt.Value())
		if l.check != nil {
			if err := l.check(text); err != nil {
				l.prompt.SetError(err)
				return nil
			}
		}
		m.line = nil
		return l.entered(m, text)
	default:
		l.changed(m)
	}
	return nil
}

// input asks for a line of text. It is only a line: what can't be undone is
// asked again.
func (m *Model) input(title, value string, entered func(*Model, string) tea.Cmd) *line {
	p := widget.NewPrompt(title+": ", nil, m.env.Theme)
	p.Offer(value)
	return &line{prompt: p, entered: entered, gaveUp: func(m *Model) { m.say(noteInfo, "not done: nothing was changed") }}
}

// readable is the check of a line that takes a duration.
func readable(text string) error {
	_, err := words.ReadDuration(text)
	return err
}

// filterLine narrows the screen while it is typed. The filter that is there is
// offered: what is typed takes its place, any other key edits it.
func (m *Model) filterLine() *line {
	at, before := m.cur, m.filter[m.cur]
	p := widget.NewPrompt("/", nil, m.env.Theme)
	p.Offer(before)
	set := func(m *Model, text string) {
		m.filter[at] = text
		m.refilter(at)
	}
	return &line{
		prompt: p, follow: set,
		check:   func(s string) error { _, err := widget.ParseFilter(s); return err },
		entered: func(m *Model, text string) tea.Cmd { set(m, text); return nil },
		gaveUp:  func(m *Model) { set(m, before) },
	}
}
