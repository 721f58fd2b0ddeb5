package tui

import (
	"fmt"
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
)

// key routes a key: to the dialog on top, the line being typed, what is global,
// the screen. On a screen that is too small to read, keys do nothing.
func (m *Model) key(k tea.KeyPressMsg) tea.Cmd {
	if m.stopped {
		return nil
	}
	now := m.opt.Now()
	if m.note.kind != noteBad {
		m.note = note{}
	}
	if w, h := m.area(); widget.TooSmall(w, h) {
		if m.film != nil {
			return m.leaveBlind(k)
		}
		if k.String() == "ctrl+c" && len(m.frame.Driving) == 0 && !m.terminating() {
			return tea.Quit
		}
		return nil
	}
	if k.String() == "ctrl+z" {
		return m.suspend()
	}
	if m.over != nil {
		m.unsent(now)
		return m.overKey(k)
	}
	m.guard.Accept(k, now) // it wants to see every key, to tell repeats
	if m.line != nil {
		return m.lineKey(k)
	}
	if cmd, ok := m.filmKey(k); ok {
		return cmd
	}
	if cmd, ok := m.globalKey(k); ok {
		return cmd
	}
	return m.panes.all[m.cur].update(k)
}

// wheel moves the cursor, or what lies on top, by three lines. It is no key: it
// answers nothing.
func (m *Model) wheel(w tea.MouseWheelMsg) tea.Cmd {
	k := tea.KeyPressMsg{Code: tea.KeyDown}
	switch w.Button {
	case tea.MouseWheelUp:
		k.Code = tea.KeyUp
	case tea.MouseWheelDown:
	default:
		return nil
	}
	var cmds []tea.Cmd
	for range 3 {
		cmds = append(cmds, m.key(k))
	}
	return tea.Batch(cmds...)
}

func (m *Model) globalKey(k tea.KeyPressMsg) (tea.Cmd, bool) {
	g := m.env.Keys.Global
	for i, b := range g.Screen {
		if key.Matches(k, b) {
			return m.goTo(keys.Screens()[i]), true
		}
	}
	switch {
	case key.Matches(k, g.Quit):
		return m.quit(), true
	case key.Matches(k, g.Help):
		return m.show(m.help()), true
	case key.Matches(k, g.Command):
		m.line = m.commandLine()
		return nil, true
	case key.Matches(k, g.Filter):
		m.line = m.filterLine()
		return nil, true
	case key.Matches(k, g.Copy):
		return m.copy(), true
	case key.Matches(k, g.Back):
		return m.back(), true
	}
	return nil, false
}

// overKey hands a key to the dialog on top. When it closes, what waited for its
// place comes up.
func (m *Model) overKey(k tea.KeyPressMsg) tea.Cmd {
	over := m.over
	closed, cmd := over.key(m, k, m.opt.Now())
	if !closed {
		return cmd
	}
	if m.over == over {
		m.over = nil
	}
	if m.over == nil && m.later != nil {
		next := m.later
		m.later = nil
		return tea.Batch(cmd, m.show(next))
	}
	return cmd
}

// show lays something on top. What is open already stays there until it was
// answered: an answer must not land on another question.
func (m *Model) show(o overlay) tea.Cmd {
	if m.over != nil {
		m.later = o
		return nil
	}
	m.over = o
	m.line = nil
	return o.open(&m.guard, m.opt.Now())
}

func (m *Model) paste(p tea.PasteMsg) {
	switch {
	case m.stopped, widget.TooSmall(m.width, m.height):
	case m.over != nil:
		m.over.paste()
	case m.line != nil:
		m.line.prompt.Update(p)
		m.line.changed(m)
	}
}

// goTo follows one of the keys 1 to 7: the screens of one host show the host
// that the cursor is on.
func (m *Model) goTo(s keys.Scope) tea.Cmd {
	h := m.panes.all[m.cur].Host()
	switch {
	case s == keys.Log && (m.cur == keys.Fleet || m.cur == keys.Handover):
		h = "" // from a page of all hosts, the journal of all
	case s == keys.Log && m.cur == keys.Log:
		h = "" // again: all of it
	case h == "":
		h = m.host
	}
	if s == keys.Plan {
		return m.openPlan(h)
	}
	return m.open(s, h)
}

// openPlan shows the plan of the marked hosts of the fleet screen, or that of one;
// on the plan screen it has those that are shown made anew.
func (m *Model) openPlan(h fleet.HostID) tea.Cmd {
	if m.cur == keys.Plan && m.gone(h) == "" {
		return m.makePlans(feed.Request{Deadline: defaultDeadline})
	}
	if m.cur == keys.Fleet && m.panes.fleet.marks() > 0 {
		hosts, hidden := m.panes.fleet.now().Marked()
		if hidden > 0 {
			m.say(noteInfo, fmt.Sprintf("%d marked ones that the filter hides are not planned", hidden))
		}
		if len(hosts) > 0 {
			return m.planOf(hosts)
		}
	}
	return m.planOf([]fleet.HostID{h})
}

// open shows a screen, about a host where it is about one, and remembers where
// esc leads back to. One that lies on the way back is gone back to.
func (m *Model) open(s keys.Scope, h fleet.HostID) tea.Cmd {
	here := place{m.cur, m.panes.all[m.cur].Host()}
	before := slices.IndexFunc(m.trail, func(p place) bool { return p.screen == s && (p.host == h || !ofOneHost(s)) })
	switch {
	case s == keys.Fleet:
		m.trail = nil
	case before >= 0:
		m.trail = m.trail[:before]
	case here.screen != s:
		m.trail = append(m.trail, here)
	}
	if n := len(m.trail); n > 20 {
		m.trail = m.trail[n-20:]
	}
	return m.enter(place{s, h})
}

func (m *Model) enter(p place) tea.Cmd {
	if p.screen != m.cur {
		m.leaveNote()
	}
	m.cur = p.screen
	if p.host != "" && p.screen != keys.Log {
		m.host = p.host
	}
	s := m.panes.all[p.screen]
	switch {
	case ofOneHost(p.screen):
		s.setHost(m.host)
	case p.screen == keys.Log:
		s.setHost(p.host)
	case p.screen == keys.Fleet && p.host != "":
		s.setHost(p.host)
	}
	return m.entered(p.screen)
}

// entered reads what a screen can't draw from a frame.
func (m *Model) entered(s keys.Scope) tea.Cmd {
	if m.film != nil {
		m.unknown()
		return nil
	}
	if m.host == "" || m.gone(m.host) != "" {
		return nil
	}
	switch s {
	case keys.Gate:
		return m.readGate(feed.Check, m.host)
	case keys.Plan:
		if m.panes.plan.now().Stale() {
			return m.makePlans(feed.Request{Deadline: defaultDeadline})
		}
	}
	return nil
}

// back closes what is narrowest: a filter, then marks, then the screen.
func (m *Model) back() tea.Cmd {
	if m.filter[m.cur] != "" {
		delete(m.filter, m.cur)
		m.refilter(m.cur)
		return nil
	}
	if m.panes.all[m.cur].marks() > 0 {
		m.panes.all[m.cur].clearMarks()
		return nil
	}
	n := len(m.trail)
	if n == 0 && m.film != nil && (m.cur == m.film.first || m.cur == keys.Fleet) {
		return m.leaveOrSay()
	}
	if n == 0 {
		if m.cur != keys.Fleet {
			return m.enter(place{keys.Fleet, m.host})
		}
		m.note = note{}
		return nil
	}
	p := m.trail[n-1]
	m.trail = m.trail[:n-1]
	return m.enter(p)
}

// refilter applies a screen's filter as it was typed last.
func (m *Model) refilter(s keys.Scope) {
	f, err := widget.ParseFilter(m.filter[s])
	if err == nil {
		m.panes.all[s].setFilter(f)
	}
}

// quit ends the console. Where it drives drains it asks, and says what becomes
// of each; while a host is being terminated it waits.
func (m *Model) quit() tea.Cmd {
	if m.film != nil {
		return m.leave()
	}
	if m.terminating() {
		m.say(noteBad, "a terminate is under way: its outcome must be written down first")
		return nil
	}
	var lines []string
	for _, v := range m.frame.Snapshot.Hosts {
		if m.frame.Driving[v.Host.ID] {
			name := v.Host.ID.Name()
			switch s := m.frame.Drains[v.Host.ID]; {
			case m.frame.Config.Demo > 0:
				lines = append(lines, widget.Name(name)+": its drain ends with it")
				continue
			case s.Resumes():
				lines = append(lines, fmt.Sprintf("%s: what was parked is being resumed; ebb resume %s goes on with that", widget.Name(name), widget.Name(name)))
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: the drain stays, held; ebb drain %s takes it up", widget.Name(name), widget.Name(name)))
		}
	}
	stop := func(m *Model) tea.Cmd {
		verbs := m.opt.Verbs
		return tea.Sequence(func() tea.Msg { verbs.Stop(); return nil }, tea.Quit)
	}
	if len(lines) == 0 {
		return stop(m)
	}
	q := widget.Question{Title: "quit, while this console drives drains", Lines: lines, Act: "quit, and release them", Undoable: true}
	if n := m.frame.Config.Demo; n > 0 {
		q.Title, q.Act = "quit the demo", "quit, and end it all"
		q.Lines = append([]string{fmt.Sprintf("its %d hosts, and what runs on them, end with this console,", n), "and nothing of them can be taken up afterwards"}, lines...)
	}
	return m.ask(q, stop)
}

func (m *Model) terminating() bool {
	for j := range m.running {
		if j.verb == feed.Terminate {
			return true
		}
	}
	return false
}
