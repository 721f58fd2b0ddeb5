package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// commandLine takes any verb and any screen by its name.
func (m *Model) commandLine() *line {
	l := &line{
		prompt: widget.NewPrompt(":", nil, m.env.Theme), palette: true,
		check: func(text string) error {
			if text == "" {
				return nil
			}
			_, err := m.parse(text)
			return err
		},
		entered: (*Model).command,
		follow:  func(m *Model, text string) { m.line.prompt.Suggest(m.completions(text)) },
	}
	l.prompt.Suggest(commandNames())
	return l
}

func (m *Model) command(text string) tea.Cmd {
	if text == "" {
		return nil
	}
	t, err := m.parse(text)
	if err != nil {
		m.say(noteBad, err.Error())
		return nil
	}
	t.text = strings.TrimSpace(strings.TrimPrefix(t.text, "--"))
	return t.do(m, t)
}

// mostOffered bounds what is completed to: nobody looks through more.
const mostOffered = 50

// completions are the lines that what was typed can become.
func (m *Model) completions(text string) []string {
	name, _, args := strings.Cut(text, " ")
	if !args {
		return commandNames()
	}
	c, ok := commandNamed(name)
	if !ok {
		return nil
	}
	at := strings.LastIndexByte(text, ' ') + 1
	lead, word := text[:at], strings.ToLower(text[at:])
	var out []string
	for _, w := range m.nextWords(c, strings.Fields(lead)[1:]) {
		if len(out) < mostOffered && strings.HasPrefix(strings.ToLower(w), word) && typable(w) {
			out = append(out, lead+w)
		}
	}
	return out
}

// nextWords are the words that can stand behind those that were typed.
func (m *Model) nextWords(c command, before []string) []string {
	switch {
	case c.takes == value && len(before) == 0:
		return c.values(m)
	case c.takes == nothing, c.takes == value:
		return nil
	}
	t := typed{command: c, host: m.underCursor()}
	hosts := m.hostNames()
	if len(before) == 0 {
		if c.takes == anItem {
			return append(itemNames(m.fitting(t)), hosts...)
		}
		return hosts
	}
	h, _ := m.hostNamed(before[0])
	switch {
	case c.takes == someHosts:
		return hosts
	case c.takes == anItem && h != "" && len(before) == 1:
		t.host = h
		return itemNames(m.fitting(t))
	case feed.Verb(c.name) == feed.Reclass:
		return classNames()
	}
	return nil
}

// fitting are the items to which a choice that is written in the drain applies; of
// other verbs it is all.
func (m *Model) fitting(t typed) []fleet.Key {
	s := m.frame.Drains[t.host]
	return slices.DeleteFunc(m.items(t), func(k fleet.Key) bool {
		var ask drain.Body
		switch feed.Verb(t.name) {
		case feed.Park, feed.Ship:
			return len(m.againstPark(s, drain.AskPark{Key: k, Ship: feed.Verb(t.name) == feed.Ship})) > 0
		case feed.Resume:
			ask = drain.AskResume{Key: k}
		case feed.TargetGone:
			target, _ := s.InDoubt(k)
			ask = drain.AskTargetGone{Key: k, Target: target}
		}
		return ask != nil && len(drain.Against(s, ask)) > 0
	})
}

func itemNames(all []fleet.Key) []string {
	var out []string
	for _, k := range all {
		out = append(out, k.String())
	}
	return out
}

// palette lists what can be typed, or what can stand behind it, in at most n
// lines: each verb with what it does, or why it can't be done now.
func (m *Model) palette(width, n int) []string {
	th := m.env.Theme
	s := th.Styles
	text := m.line.prompt.Value()
	name, _, args := strings.Cut(text, " ")
	chosen := m.line.prompt.Suggested()
	var out []string
	if c, ok := commandNamed(name); args && ok {
		out = append(out, " "+s.KeyHint.Render(":"+c.name)+" "+s.Text.Render(c.args)+s.Dim.Render("   "+m.sayOf(c)))
		all := m.completions(text)
		if len(all) == 0 {
			out = append(out, m.nothingFits(c, text))
		}
		if i := slices.Index(all, chosen); i >= n-1 {
			all = all[i-n+2:]
		}
		for _, l := range all[:min(len(all), max(0, n-1))] {
			out = append(out, m.offer(strings.TrimPrefix(l, name+" "), m.aboutWord(l), l == chosen, width))
		}
		return out
	}
	var fit []command
	for _, c := range commands() {
		if strings.HasPrefix(c.name, strings.ToLower(name)) {
			fit = append(fit, c)
		}
	}
	from := 0
	for i, c := range fit {
		if c.name == chosen && i >= n {
			from = i - n + 1
		}
	}
	for _, c := range fit[from:min(len(fit), from+n)] {
		out = append(out, m.offer(c.name+" "+c.args, m.sayOf(c), c.name == chosen, width))
	}
	return out
}

// nothingFits says so where a name was begun that nothing begins with, and what is
// near to it.
func (m *Model) nothingFits(c command, text string) string {
	f := strings.Fields(text)
	last := f[len(f)-1]
	if strings.HasSuffix(text, " ") || len(f) < 2 {
		return ""
	}
	names := m.nextWords(c, f[1:len(f)-1])
	if len(names) == 0 {
		return ""
	}
	return "   " + m.env.Theme.Styles.Dim.Render(plain("nothing is called "+words.Name(last)+words.Suggest(last, names), m.env.Theme.Glyphs))
}

// offer is one line of the list.
func (m *Model) offer(what, says string, chosen bool, width int) string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	lead, style := "   ", s.Text
	if chosen {
		lead, style = " "+s.Cursor.Render(g.Cursor)+" ", s.Title
	}
	says = plain(says, g)
	if why, no := strings.CutPrefix(says, "not now: "); no {
		says = s.Warn.Render(g.Cross + " " + why)
	} else {
		says = s.Dim.Render(says)
	}
	return lead + style.Render(widget.Fit(plain(what, g), min(32, max(8, width/2)))) + " " + says
}

// sayOf is what a command does, or why it can't be done to the host under the
// cursor.
func (m *Model) sayOf(c command) string {
	v := feed.Verb(c.name)
	verb := c.takes == anItem || v.Reads() || slices.Contains([]feed.Verb{feed.Cordon, feed.Uncordon, feed.Drain, feed.Undrain, feed.Extend, feed.Stop, feed.Verify, feed.Terminate}, v)
	if !verb {
		return c.says
	}
	h := m.underCursor()
	if l := m.line; l != nil { // the host that was named already
		if f := strings.Fields(l.prompt.Value()); len(f) > 1 {
			if named, _ := m.hostNamed(f[1]); named != "" {
				h = named
			}
		}
	}
	if why := m.whyNot(v, h); why != "" {
		if h != "" {
			why = words.Host(h) + ": " + why
		}
		return "not now: " + why
	}
	return c.says
}

// aboutWord says of a host or a workload in the list how it is.
func (m *Model) aboutWord(l string) string {
	f := strings.Fields(l)
	last := f[len(f)-1]
	if h, _ := m.hostNamed(last); h != "" {
		v, s, _ := m.frame.Host(h)
		_, word := words.State(&v, s)
		return word
	}
	h := m.underCursor()
	if len(f) > 2 {
		if named, _ := m.hostNamed(f[1]); named != "" {
			h = named
		}
	}
	s, _ := m.drainOf(h)
	for k, it := range s.Items {
		if k.String() == last {
			return words.Doing(it, m.frame.Policy, true)
		}
	}
	return ""
}

// paletteRoom is how many lines of a screen the list of commands takes.
func (m *Model) paletteRoom(h int) int {
	if m.line == nil || !m.line.palette || h < 12 {
		return 0
	}
	return min(10, h/2)
}

// withPalette draws the screen with the list of commands at its foot.
func (m *Model) withPalette(w, h, room int) string {
	lines := strings.Split(m.panes.all[m.cur].View(w, h-room), "\n")
	lines = append(lines, widget.Rule(w, m.env.Theme))
	lines = append(lines, m.palette(w, room-1)...)
	return widget.Exact(lines, w, h)
}

// arrange takes the hosts as they were arranged, and goes to them.
func (m *Model) arrange(f fleetModel, err error) tea.Cmd {
	if err != nil {
		m.say(noteBad, err.Error())
		return nil
	}
	m.panes.fleet.m = f
	if m.cur != keys.Fleet {
		return m.open(keys.Fleet, "")
	}
	return nil
}
