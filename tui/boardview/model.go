// Package boardview is the screen of one host's drain: every workload by name,
// with what it waits for, how long it has, and what happens next.
//
// It draws a [feed.Frame]; times run by the journal's clock. Keys become
// [feed.Want] messages in which the workload is frozen by key and run. A host
// without a drain shows what runs there, as a drain would classify it.
package boardview

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// From these widths on sections have headings, and stand side by side.
const (
	sectionsFrom = 100
	sideBySide   = 160
)

// Model is the screen.
type Model struct {
	env   feed.Env
	host  fleet.HostID
	table *widget.Table[line]
	d     *drawing
	shift *widget.Shift // of the rows under the cursor
}

// nothing is what stands where no row does.
const nothing = "nothing here has to leave"

// New makes the screen.
func New(env feed.Env) Model {
	d := &drawing{env: env}
	m := Model{env: env, d: d, shift: &widget.Shift{}}
	m.table = widget.NewTable(env.Theme, columns(false, false), widget.Rows[line]{
		ID:      line.id,
		Cells:   d.cells,
		Match:   d.filterable,
		Section: d.section,
		Heading: d.heading,
		Sign:    d.sign,
		Empty:   nothing,
	})
	return m
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.env.Theme, m.d.env.Theme = th, th
	m.table.SetTheme(th)
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.d.frame = f
	m.refresh()
	return m
}

// SetHost changes the host that is shown.
func (m Model) SetHost(h fleet.HostID) Model {
	if h != m.host {
		m.host = h
		m.table.ClearMarks()
		m.refresh()
		m.table.First()
		m.shift.Settle()
	}
	return m
}

func (m Model) refresh() {
	m.d.host = m.host
	m.d.view, m.d.state, m.d.known = m.d.frame.Host(m.host)
	m.d.gone = words.Terminated(&m.d.view, m.d.state)
	m.d.leftParked(m.d.state)
	if m.d.state != nil && (m.d.state.Drain == "" || m.d.state.Undone && m.d.gone == "") {
		m.d.state = nil
	}
	switch {
	case m.d.frame.Replay != "":
		m.table.SetEmpty("the journal has not said what runs here")
	case m.d.state == nil && m.d.view.Facts.Status != fleet.OK:
		m.table.SetEmpty("what runs here is not known: the host has not been read")
	default:
		m.table.SetEmpty(nothing)
	}
	m.d.devices = gpusOf(m.d.view)
	before := m.table.Place()
	m.table.SetRows(m.d.lines())
	m.shift.See(before, m.table.Place(), m.env.Now())
}

// SetFilter shows only the workloads that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	return m
}

// Host is the host that is shown.
func (m Model) Host() fleet.HostID { return m.host }

// Focus lists the hosts whose full facts the screen draws.
func (m Model) Focus() []fleet.HostID {
	if m.host == "" {
		return nil
	}
	return []fleet.HostID{m.host}
}

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return m.d.known }

// Marks is how many rows are marked.
func (m Model) Marks() int { return m.table.MarkCount() }

// ClearMarks takes all marks away.
func (m Model) ClearMarks() { m.table.ClearMarks() }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Board }

// Line is the keys that work now, those first that are needed most.
func (m Model) Line() []key.Binding {
	g, b := m.env.Keys.Global, m.env.Keys.Board
	var own []key.Binding
	switch {
	case m.d.gone != "" || m.host == "":
		own = []key.Binding{b.Details}
	case m.d.state == nil && m.d.mayResume:
		own = []key.Binding{b.Resume, b.Drain, g.Screen[4], b.Details, b.Diff}
	case m.d.state == nil:
		own = []key.Binding{b.Drain, g.Screen[4], b.Details, b.Diff}
	case m.d.state.Phase == drain.Parked:
		own = []key.Binding{b.Resume, g.Mark, b.Details, b.HandOver, b.Stop, b.Diff}
	case m.d.state.Phase == drain.Empty:
		own = []key.Binding{g.Screen[3], b.Details, b.Diff, b.Undrain}
	case m.d.state.Phase == drain.Stopped:
		own = append(own, g.Mark, b.Drain, b.Undrain, b.Class, b.Hold, b.Keep, b.Retry, b.HandOver, b.Details, b.NextNeedsYou, b.Diff)
	case m.d.idle():
		own = append(own, g.Mark, b.Drain, b.Escalate, b.MoreTime, b.Class, b.Hold, b.Keep, b.Retry, b.Extend, b.HandOver, b.Details, b.NextNeedsYou, b.Diff)
	default:
		own = append(own, g.Mark, b.Escalate, b.MoreTime, b.Class, b.Hold, b.Keep, b.Retry, b.Extend, b.Stop, b.HandOver, b.NextNeedsYou, b.Diff, b.Details)
	}
	return append(append([]key.Binding{g.Help}, m.answers(own)...), g.Filter, g.Back)
}

// answers puts first the keys that are about the workload under the cursor alone:
// what takes back a person's word on it, what brings it back, where else it can go.
func (m Model) answers(own []key.Binding) []key.Binding {
	l, ok := m.table.Selected()
	if !ok || m.d.gone != "" {
		return own
	}
	b, it := m.env.Keys.Board, l.it
	var first []key.Binding
	if m.d.mayResume && m.d.isParked(it.Key) {
		first = append(first, b.Resume)
	}
	if l.kind == item && it.Open() {
		switch {
		case it.Keep:
			first = append(first, saying(b.Retry, "end the keep"))
		case it.Held:
			first = append(first, saying(b.Retry, "end the hold"))
		}
		if it.Reason.Code == drain.WaitTargetGone {
			first = append(first, b.TargetGone)
		}
		switch s := m.d.state; {
		case it.Park && s.Refuses(drain.AskPark{Key: it.Key, Ship: true}) == "":
			first = append(first, b.Ship)
		case !it.Park && s.Refuses(drain.AskPark{Key: it.Key}) == "" && s.WouldNotPark(it.Key, m.d.view, m.d.frame.Policy).IsZero():
			first = append(first, b.Park)
		}
	}
	for _, f := range first {
		own = slices.DeleteFunc(slices.Clone(own), func(o key.Binding) bool { return o.Help().Key == f.Help().Key })
	}
	return append(first, own...)
}

// saying is a binding with another help.
func saying(b key.Binding, help string) key.Binding {
	b.SetHelp(b.Help().Key, help)
	return b
}

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	own := m.env.Keys.Board
	switch {
	case key.Matches(k, own.NextNeedsYou):
		if !m.table.SelectNext(line.needsYou) {
			return m, feed.Send(feed.Say{Text: "nothing here needs you"})
		}
		return m, nil
	case key.Matches(k, own.NextClass):
		m.jump(1)
		return m, nil
	case key.Matches(k, own.PrevClass):
		m.jump(-1)
		return m, nil
	case key.Matches(k, own.Diff):
		return m, feed.Send(feed.Open{Screen: keys.Diff, Host: m.host})
	case key.Matches(k, own.Extend):
		return m, m.ofDrain(feed.Want{Verb: feed.Extend, Host: m.host})
	case key.Matches(k, own.Drain) && m.host != "":
		return m, feed.Send(feed.Want{Verb: feed.Drain, Host: m.host}) // begins one, or takes up what is there
	case key.Matches(k, own.Stop):
		return m, m.ofDrain(feed.Want{Verb: feed.Stop, Host: m.host})
	case key.Matches(k, own.Undrain):
		return m, m.ofDrain(feed.Want{Verb: feed.Undrain, Host: m.host})
	case key.Matches(k, own.HandOver):
		return m, m.ofDrain(feed.Want{Verb: feed.HandOver, Host: m.host, Edit: true})
	case key.Matches(k, m.env.Keys.Gate.Verify, m.env.Keys.Gate.Terminate):
		return m, feed.Send(feed.Say{Text: words.OnGate(k.String())}) // they belong to the way on from an empty host
	}
	l, ok := m.table.Selected()
	switch {
	case !ok && key.Matches(k, own.Resume):
		return m, m.resume(l)
	case !ok:
		return m, nil
	case key.Matches(k, own.Details):
		return m, feed.Send(m.d.details(l))
	}
	return m, m.ofItem(k, l)
}

// ofDrain asks for something about the drain as a whole.
func (m Model) ofDrain(w feed.Want) tea.Cmd {
	if m.d.gone != "" {
		return feed.Send(feed.Say{Text: widget.Name(m.host.Name()) + " was " + m.d.gone})
	}
	if m.d.state == nil {
		return feed.Send(feed.Say{Text: "no drain runs on " + widget.Name(m.host.Name()) + ": d begins one"})
	}
	return feed.Send(w)
}

// verbs of one workload, by their bindings.
func (m Model) verb(k tea.KeyPressMsg) (feed.Verb, bool) {
	own := m.env.Keys.Board
	for _, b := range []struct {
		on   key.Binding
		verb feed.Verb
	}{
		{own.Escalate, feed.Escalate}, {own.MoreTime, feed.MoreTime}, {own.Class, feed.Reclass},
		{own.Hold, feed.Hold}, {own.Keep, feed.Keep}, {own.Retry, feed.Retry},
		{own.Park, feed.Park}, {own.Ship, feed.Ship}, {own.Resume, feed.Resume}, {own.TargetGone, feed.TargetGone},
	} {
		if key.Matches(k, b.on) {
			return b.verb, true
		}
	}
	return "", false
}

// ofItem asks for something about the workload under the cursor, or about the
// marked ones. An escalation is always about one.
func (m Model) ofItem(k tea.KeyPressMsg, l line) tea.Cmd {
	verb, ok := m.verb(k)
	if !ok {
		return nil
	}
	if m.Marks() == 0 && m.shift.Refuses(m.env.Now()) {
		return feed.Send(feed.Say{Text: "the rows have just moved: the cursor is on " + l.label + ", press again"})
	}
	return m.ask(verb, l)
}

// Ask asks for something about the workload under the cursor, or about the marked
// ones, as its key would.
func (m Model) Ask(verb feed.Verb) tea.Cmd {
	l, ok := m.table.Selected()
	if !ok && verb != feed.Resume {
		return feed.Send(feed.Say{Text: string(verb) + ": there is no workload here"})
	}
	return m.ask(verb, l)
}

func (m Model) ask(verb feed.Verb, l line) tea.Cmd {
	say := func(text string) tea.Cmd { return feed.Send(feed.Say{Text: text}) }
	if from, moved := m.table.Moved(); moved {
		m.table.Settle()
		m.shift.Settle()
		return say(fmt.Sprintf("%s is gone: the cursor is on %s now, press again", words.Name(strings.TrimPrefix(from, "item/")), l.label))
	}
	switch {
	case verb == feed.Retry && m.d.state != nil && (m.d.state.Person || m.d.state.NeedsPerson()):
		return feed.Send(feed.Want{Verb: verb, Host: m.host}) // the drain itself waits for this
	case m.d.gone != "":
		return say(widget.Name(m.host.Name()) + " was " + m.d.gone)
	case verb == feed.Resume:
		return m.resume(l)
	case m.d.state == nil:
		return say("no drain runs here: d begins one, 5 plans it first")
	case !m.takes(verb, l):
		return say("that is not a workload of the drain: see diff (3) and gate (4)")
	case !l.it.Open() && verb != feed.TargetGone:
		return say(l.label + " has " + string(l.it.End) + " already")
	}
	w := feed.Want{Verb: verb, Host: m.host, Key: l.it.Key, Run: l.it.Run, Keys: []fleet.Key{l.it.Key}}
	if verb != feed.Escalate {
		m.marked(&w, func(r line) bool { return m.takes(verb, r) && r.it.Open() })
	}
	return feed.Send(w)
}

// takes says whether a row is something that can be asked about: a workload of the
// drain or, of what is a choice and no act, one that the drain has still to find.
func (m Model) takes(verb feed.Verb, l line) bool {
	switch verb {
	case feed.Hold, feed.Keep, feed.Reclass, feed.MoreTime, feed.Park, feed.Ship:
		return l.kind == item || l.kind == runs && m.d.state != nil && !m.d.state.First
	}
	return l.kind == item
}

// marked makes a want one about the marked rows for which ok holds, where any are
// marked.
func (m Model) marked(w *feed.Want, ok func(line) bool) {
	marked, hidden := m.table.Marked()
	if len(marked) == 0 {
		return
	}
	w.Keys, w.Hidden = nil, hidden
	for _, r := range marked {
		if ok(r) {
			w.Keys = append(w.Keys, r.it.Key)
		}
	}
	m.table.ClearMarks()
}

// resume asks for what is parked to be brought back: the marked ones, the one under
// the cursor, or, where that is none, all of them.
func (m Model) resume(l line) tea.Cmd {
	if len(m.d.parked) == 0 {
		return feed.Send(feed.Say{Text: "nothing is parked on " + widget.Name(m.host.Name())})
	}
	w := feed.Want{Verb: feed.Resume, Host: m.host}
	if m.d.isParked(l.it.Key) {
		w.Key, w.Keys = l.it.Key, []fleet.Key{l.it.Key}
	}
	chosen := m.Marks() > 0
	m.marked(&w, func(r line) bool { return m.d.isParked(r.it.Key) })
	if chosen && len(w.Keys) == 0 {
		return feed.Send(feed.Say{Text: "none of the marked ones is parked"})
	}
	return feed.Send(w)
}

// jump moves the cursor to the first row of the next class that has any.
func (m Model) jump(by int) {
	cur, ok := m.table.Selected()
	if !ok {
		return
	}
	all := m.d.rows
	at := 0
	for i, l := range all {
		if l.id() == cur.id() {
			at = i
		}
	}
	for i := at; i >= 0 && i < len(all); i += by {
		if all[i].section == cur.section {
			continue
		}
		first := i
		for first > 0 && all[first-1].section == all[i].section {
			first--
		}
		if m.table.Select(all[first].id()) {
			return
		}
	}
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	now := m.d.env.Now()
	m.d.now, m.d.clock = now, m.d.frame.Clock(now)
	m.layout(width)
	head, foot := m.d.head(width, height), m.d.foot(width, height)
	room := height - len(head) - len(foot)
	if room < 3 {
		foot = nil
		if room = height - len(head); room < 1 {
			head, room = nil, height
		}
	}
	body := ""
	if width >= sideBySide && len(m.d.rows) > 0 {
		body = m.wide(width, room)
	} else {
		body = m.table.View(width, room)
	}
	lines := append(head, strings.Split(body, "\n")...)
	return widget.Exact(append(lines, foot...), width, height)
}

// layout changes columns and headings where the width asks for it.
func (m Model) layout(width int) {
	narrow, gpus := width < sectionsFrom, m.d.anyGPU()
	w := widget.Widths(columns(narrow, gpus), width-4, 2)
	m.d.room = width - 4 - w[0] - w[1] - 4
	if gpus && !narrow {
		m.d.room -= w[2] + 2
	}
	m.table.SetColumns(columns(narrow, gpus))
	if narrow != m.d.narrow {
		m.d.narrow = narrow
		if m.table.SetSection(nil); !narrow {
			m.table.SetSection(m.d.section)
		}
	}
}
