package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
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

// filterLine narrows the screen while it is typed.
func (m *Model) filterLine() *line {
	at, before := m.cur, m.filter[m.cur]
	p := widget.NewPrompt("/", nil, m.env.Theme)
	p.SetValue(before)
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

// verbsTyped are the verbs that can be typed, with what they take.
var verbsTyped = []feed.Verb{feed.Cordon, feed.Uncordon, feed.Plan, feed.Drain, feed.Undrain, feed.Extend, feed.Stop,
	feed.Retry, feed.HandOver, feed.Verify, feed.Terminate}

// commandLine takes any verb and any screen by its name.
func (m *Model) commandLine() *line {
	var all []string
	for _, s := range keys.Screens() {
		all = append(all, string(s))
	}
	for _, v := range verbsTyped {
		all = append(all, string(v))
		for _, h := range m.frame.Snapshot.Hosts[:min(len(m.frame.Snapshot.Hosts), 200)] {
			if n := h.Host.ID.Name(); typable(n) {
				all = append(all, string(v)+" "+n)
			}
		}
	}
	for _, t := range themes.Builtin() {
		all = append(all, "theme "+t)
	}
	all = append(all, "help", "quit")
	return &line{prompt: widget.NewPrompt(":", all, m.env.Theme), check: m.checkCommand, entered: (*Model).command}
}

// parsed is a command: its name, the host it is about, the rest.
func (m *Model) parse(text string) (name string, host fleet.HostID, rest string, err error) {
	name, rest, _ = strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	host = m.panes.all[m.cur].Host()
	if host == "" {
		host = m.host
	}
	first, after, _ := strings.Cut(rest, " ")
	var found []fleet.HostID
	for _, v := range m.frame.Snapshot.Hosts {
		if first != "" && (string(v.Host.ID) == first || v.Host.ID.Name() == first) {
			found = append(found, v.Host.ID)
		}
	}
	switch {
	case len(found) > 1:
		return "", "", "", fmt.Errorf("%s is a host of several planes: write PLANE/HOST", words.Name(first))
	case len(found) == 1:
		host, rest = found[0], strings.TrimSpace(after)
	case first != "" && mustBeHost(name):
		return "", "", "", fmt.Errorf("no host is called %s", words.Name(first))
	}
	return name, host, rest, nil
}

// mustBeHost are the commands that take nothing but a host: a typing error in
// its name must not fall back to the host under the cursor.
func mustBeHost(name string) bool {
	return slices.Contains([]string{"uncordon", "plan", "undrain", "verify", "terminate", "retry", "board", "diff", "gate", "log", "fleet"}, name)
}

func (m *Model) checkCommand(text string) error {
	name, host, _, err := m.parse(text)
	if err != nil {
		return err
	}
	verb := slices.Contains(verbsTyped, feed.Verb(name))
	switch {
	case name == "", name == "help", name == "quit", name == "q", name == "theme", slices.Contains(keys.Screens(), keys.Scope(name)):
		return nil
	case verb && host == "":
		return fmt.Errorf("%s what? no host is chosen", name)
	case verb:
		return nil
	}
	return fmt.Errorf("no command is called %s", words.Name(name))
}

func (m *Model) command(text string) tea.Cmd {
	name, host, rest, err := m.parse(text)
	if err != nil || name == "" {
		return nil
	}
	switch {
	case name == "quit", name == "q":
		return m.quit()
	case name == "help":
		return m.show(m.help())
	case name == "theme":
		if err := m.rebuild(rest, m.env.Theme.Dark); err != nil {
			m.say(noteBad, words.Text(err.Error()))
		}
		return nil
	case name == string(keys.Handover) && rest != "":
		return m.want(feed.Want{Verb: feed.HandOver, Host: host, Text: rest})
	case slices.Contains(keys.Screens(), keys.Scope(name)):
		if !strings.Contains(text, " ") && name == string(keys.Log) {
			host = ""
		}
		return m.open(keys.Scope(name), host)
	}
	w := feed.Want{Verb: feed.Verb(name), Host: host, Text: rest}
	if w.Verb == feed.Cordon {
		w.Hosts = []fleet.HostID{host}
	}
	return m.want(w)
}
