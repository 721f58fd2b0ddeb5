// Package gateview is the screen between a host and terminate: every check with
// what it found, how old that is, and what terminate would run.
//
// What it shows was read by Check or Verify and comes from the root; the screen
// counts its age and the proof's remaining life. Its keys become [feed.Want]
// messages; whether an act is allowed is decided where it is carried out, from
// what is true then.
package gateview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// Model is the screen.
type Model struct {
	env     feed.Env
	host    fleet.HostID
	frame   feed.Frame
	gate    *feed.Gate
	got     time.Time // by this process's clock
	busy    string    // the verb that is reading
	problem string
	table   *widget.Table[row]
	self    *Model // as it is drawn: what the cells of the table look at
}

// row is a check, or one thing that it found.
type row struct {
	check string
	issue *fleet.Issue
	n     int // issues of the check

	accepted *fleet.Accepted // an exception that stands, instead of a check
}

func (r row) id() string {
	if r.accepted != nil {
		return "accepted/" + r.accepted.Key.String()
	}
	if r.issue == nil {
		return r.check
	}
	return r.check + "/" + r.issue.Key.String() + "/" + r.issue.Detail
}

var columns = []widget.Column{{Min: 24, Weight: 2, Max: 40}, {Min: 12, Weight: 3}, {Min: 7, Right: true, Priority: 1}}

// New makes the screen.
func New(env feed.Env) Model {
	m := Model{env: env, self: &Model{}}
	now := m.self
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[row]{
		ID:    row.id,
		Cells: func(r row) []widget.Cell { return now.cells(r) },
		Match: func(r row) widget.Filterable {
			switch {
			case r.accepted != nil:
				return widget.Filterable{Text: r.accepted.Key.String() + " " + said(*r.accepted)}
			case r.issue == nil:
				return widget.Filterable{Text: words.Check(r.check)}
			}
			return widget.Filterable{Text: words.Check(r.check) + " " + words.Issue(*r.issue)}
		},
		Sign: func(r row) widget.Cell {
			s, g := now.env.Theme.Styles, now.env.Theme.Glyphs
			switch {
			case r.accepted != nil:
				return widget.T(g.Dot, s.Warn)
			case r.issue != nil:
				return widget.Cell{}
			case r.n > 0:
				return widget.T(g.Cross, s.Danger)
			case now.notKnown(r) != "":
				return widget.T(g.Unknown, s.Warn)
			}
			return widget.T(g.Check, s.Ok)
		},
	})
	return m
}

func (m *Model) cells(r row) []widget.Cell {
	s := m.env.Theme.Styles
	switch {
	case r.accepted != nil:
		return []widget.Cell{widget.N("  "+words.Key(r.accepted.Key), lipgloss.Style{}), {Text: said(*r.accepted), Style: s.Warn, Rest: true}}
	case r.issue == nil:
		text, at := m.evidence(r.check)
		name, style := widget.T(words.Check(r.check), lipgloss.Style{}), s.Dim
		if r.n > 0 {
			name, text, style = widget.T(words.Check(r.check), s.Danger), fmt.Sprintf("%d named below", r.n), s.Warn
		}
		if why := m.notKnown(r); why != "" {
			return []widget.Cell{widget.T(words.Check(r.check), s.Warn), {Text: why, Style: s.Warn, Rest: true}}
		}
		return []widget.Cell{name, widget.T(text, style), widget.T(age(m.env.Now(), at), s.Dim)}
	}
	hint := ""
	switch {
	case r.check == fleet.CheckLeaks:
		hint = "   c cleans it"
	case r.issue.Acceptable:
		hint = "   a accepts it"
	}
	name := words.Key(r.issue.Key)
	if name == "" {
		name = words.CheckFails(r.check)
	}
	return []widget.Cell{widget.N("    "+name, lipgloss.Style{}), {Text: words.Text(strings.TrimPrefix(r.issue.Detail, r.issue.Key.String()+" ")) + hint, Style: s.Warn, Rest: true}}
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.env.Theme = th
	m.table.SetTheme(th)
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.frame = f
	m.refresh()
	return m
}

// refresh lines up the checks with what they found, and below them what was
// accepted.
func (m Model) refresh() {
	if m.gate != nil {
		m.table.SetRows(rows(*m.gate, m.exceptions()))
	}
}

// SetHost forgets what was read of another host.
func (m Model) SetHost(h fleet.HostID) Model {
	if h != m.host {
		m.host, m.gate, m.problem, m.busy = h, nil, "", ""
		m.table.SetRows(nil)
	}
	return m
}

// SetBusy says that the gate is being read.
func (m Model) SetBusy(verb feed.Verb) Model {
	m.busy, m.problem = string(verb), ""
	return m
}

// SetGate takes what Check or Verify read, or why they could not. A proof that
// was made before stays in sight until it expires or the gate shuts.
func (m Model) SetGate(g feed.Gate, err error) Model {
	m.busy = ""
	if err != nil {
		m.problem = err.Error()
		return m
	}
	if g.Proof == nil && m.gate != nil && len(g.Issues) == 0 {
		g.Proof = m.gate.Proof
	}
	m.gate, m.got, m.problem = &g, m.env.Now(), ""
	m.refresh()
	return m
}

// Gate is what was read last, and when by this process's clock.
func (m Model) Gate() (g feed.Gate, at time.Time, ok bool) {
	if m.gate == nil {
		return feed.Gate{}, time.Time{}, false
	}
	return *m.gate, m.got, true
}

func rows(g feed.Gate, accepted []fleet.Accepted) []row {
	var out []row
	known := map[string]bool{}
	for _, c := range fleet.Checks {
		known[c] = true
		out = append(out, rowsOf(c, g.Issues)...)
	}
	for _, is := range g.Issues { // a check that this program has no place for
		if !known[is.Check] {
			known[is.Check] = true
			out = append(out, rowsOf(is.Check, g.Issues)...)
		}
	}
	for i := range accepted {
		out = append(out, row{accepted: &accepted[i]})
	}
	return out
}

func rowsOf(check string, issues []fleet.Issue) []row {
	out := []row{{check: check}}
	for i := range issues {
		if issues[i].Check == check {
			out[0].n++
			out = append(out, row{check: check, issue: &issues[i]})
		}
	}
	return out
}

// SetFilter shows only the lines that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	return m
}

// Host is the host that is shown.
func (m Model) Host() fleet.HostID { return m.host }

// Focus lists the host.
func (m Model) Focus() []fleet.HostID {
	if m.host == "" {
		return nil
	}
	return []fleet.HostID{m.host}
}

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return m.gate != nil }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Gate }

// Line is the keys that work now.
func (m Model) Line() []key.Binding {
	k := m.env.Keys
	if m.gone() != "" {
		return []key.Binding{k.Global.Help, k.Gate.Look, k.Global.Filter, k.Global.Back}
	}
	line := k.Line(keys.Gate)
	if m.terminating() == "" {
		return line
	}
	return slices.DeleteFunc(line, func(b key.Binding) bool { return slices.Equal(b.Keys(), k.Gate.Terminate.Keys()) })
}

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	own := m.env.Keys.Gate
	switch {
	case m.host == "":
		return m, nil
	case m.gone() != "" && (key.Matches(k, own.Verify) || key.Matches(k, own.Terminate)):
		return m, feed.Send(feed.Say{Text: widget.Name(m.host.Name()) + " was " + m.gone()})
	case m.terminating() != "" && key.Matches(k, own.Terminate):
		return m, feed.Send(feed.Say{Text: widget.Name(m.host.Name()) + ": " + m.terminating() + ", it has no outcome yet"})
	case key.Matches(k, own.Verify):
		return m, feed.Send(feed.Want{Verb: feed.Verify, Host: m.host})
	case key.Matches(k, own.Terminate):
		return m, feed.Send(feed.Want{Verb: feed.Terminate, Host: m.host})
	}
	r, ok := m.table.Selected()
	if !ok {
		return m, nil
	}
	if key.Matches(k, own.Look) {
		return m, feed.Send(m.look(r))
	}
	accept, clean := key.Matches(k, own.Accept), key.Matches(k, own.Clean)
	if !accept && !clean {
		return m, nil
	}
	if _, moved := m.table.Moved(); moved {
		m.table.Settle()
		return m, feed.Send(feed.Say{Text: "that line is gone: the cursor is on another one now, press again"})
	}
	return m, m.ofIssue(r, accept)
}

func (m Model) ofIssue(r row, accept bool) tea.Cmd {
	say := func(text string) tea.Cmd { return feed.Send(feed.Say{Text: text}) }
	switch {
	case r.accepted != nil:
		return say(words.Key(r.accepted.Key) + " is " + said(*r.accepted))
	case r.issue == nil:
		return say("put the cursor on one of the things named below a check")
	case accept && !r.issue.Acceptable:
		return say("that can't be accepted: " + words.Issue(*r.issue))
	case accept:
		return feed.Send(feed.Want{Verb: feed.Accept, Host: m.host, Key: r.issue.Key, Issue: *r.issue})
	}
	v, _ := m.frame.Snapshot.Host(m.host)
	for _, f := range v.Findings {
		if f.Key == r.issue.Key && f.Verdict == fleet.Leak && f.Resource != nil {
			return feed.Send(feed.Want{Verb: feed.Clean, Host: m.host, Key: f.Key, Resource: *f.Resource})
		}
	}
	return say(words.Key(r.issue.Key) + " is no leak: only a resource whose owner is gone is cleaned")
}

// look is what stands behind a line.
func (m Model) look(r row) feed.Show {
	if r.accepted != nil {
		return feed.Show{Title: words.Key(r.accepted.Key), Lines: []string{said(*r.accepted), "", "it stands in every proof from then on, with the name and the reason"}}
	}
	if r.issue != nil {
		out := []string{words.Check(r.check) + ": no", "", words.Issue(*r.issue)}
		v, _ := m.frame.Snapshot.Host(m.host)
		for _, f := range v.Findings {
			if f.Key != r.issue.Key {
				continue
			}
			for _, e := range f.Evidence {
				out = append(out, words.Text(e.Source)+" says: "+words.Text(e.Says))
			}
		}
		return feed.Show{Title: words.Key(r.issue.Key), Lines: out}
	}
	if why := m.notKnown(r); why != "" {
		return feed.Show{Title: words.Check(r.check) + ": not known", Lines: []string{why}}
	}
	return feed.Show{Title: words.Check(r.check), Lines: m.about(r.check)}
}

// about is what a check looked at, whether it holds or not.
func (m Model) about(check string) []string {
	var out []string
	for _, is := range m.gate.Issues {
		if is.Check == check {
			out = append(out, words.Issue(is))
		}
	}
	switch check {
	case fleet.CheckProbes:
		for _, p := range m.gate.Probes {
			out = append(out, strings.TrimSpace(widget.Fit(words.Name(p.Name), 12)+" "+words.Status(p.Status)+" "+words.HMS(p.At)+" "+words.Text(p.Error)))
		}
	case fleet.CheckHolds:
		out = append(out, hold("cordon", m.gate.Holds.Cordon), hold("drain", m.gate.Holds.Drain))
	case fleet.CheckLeft:
		for _, k := range m.gate.Kept {
			out = append(out, "kept: "+words.Text(k))
		}
	}
	if len(out) == 0 {
		out = []string{"nothing stands against it"}
		if text, _ := m.evidence(check); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func hold(kind string, h *fleet.Hold) string {
	if h == nil {
		return kind + ": not there"
	}
	text := kind + ": " + words.Name(h.Who) + " since " + words.HM(h.Since)
	if h.Why != "" {
		text += ", " + words.Text(h.Why)
	}
	if h.Drain != "" {
		text += ", drain " + words.Name(h.Drain)
	}
	return text
}
