// Package diffview is the screen that lays what the control plane claims beside
// what the host shows: agreed, claimed only, on the host only, leaks, unknown.
//
// It draws a [feed.Frame]. Evidence for each finding is one key away. Cleaning is
// asked for with a [feed.Want] that carries the resource's identity as it was on
// the screen. Where a reading is missing, the screen says which, since nothing
// it does not show has been shown to be absent.
package diffview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// Model is the screen.
type Model struct {
	env   feed.Env
	host  fleet.HostID
	table *widget.Table[fleet.Finding]
	d     *drawing
}

type drawing struct {
	env   feed.Env
	frame feed.Frame
	view  fleet.HostView
	known bool
	rows  []fleet.Finding
}

// The sections, in their order: what needs explaining first.
var sections = []struct {
	name, note string
	has        []fleet.Verdict
}{
	{"on the host only", "runs, and nobody claims it", []fleet.Verdict{fleet.Orphan, fleet.Unattributed}},
	{"claimed only", "claimed, and not on the host", []fleet.Verdict{fleet.Ghost}},
	{"leaks", "resources whose owner is gone", []fleet.Verdict{fleet.Leak}},
	{"unknown", "what would decide it can't be read", []fleet.Verdict{fleet.UnknownV}},
	{"agreed", "claim and host say the same", []fleet.Verdict{fleet.Agreed, fleet.Resting}},
}

// place is the section of a verdict; one that is not known counts as unknown.
func place(v fleet.Verdict) int {
	for i, s := range sections {
		if slices.Contains(s.has, v) {
			return i
		}
	}
	return 3
}

// New makes the screen.
func New(env feed.Env) Model {
	d := &drawing{env: env}
	m := Model{env: env, d: d}
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[fleet.Finding]{
		ID:      identity,
		Cells:   d.cells,
		Match:   filterable,
		Section: func(f fleet.Finding) string { return sections[place(f.Verdict)].name },
		Heading: d.heading,
		Sign:    d.sign,
		Empty:   "nothing is claimed, and nothing was found",
	})
	return m
}

// identity is what a row is followed by: the key, and for a resource what can't
// be used twice.
func identity(f fleet.Finding) string {
	if f.Resource != nil {
		return f.Key.String() + "\x00" + f.Resource.Identity
	}
	return f.Key.String()
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
	}
	return m
}

func (m Model) refresh() {
	m.d.view, _, m.d.known = m.d.frame.Host(m.host)
	m.d.rows = slices.Clone(m.d.view.Findings)
	slices.SortStableFunc(m.d.rows, func(a, b fleet.Finding) int {
		return cmp.Or(cmp.Compare(place(a.Verdict), place(b.Verdict)), a.Key.Compare(b.Key))
	})
	m.table.SetRows(m.d.rows)
}

// SetFilter shows only the findings that match.
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

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Diff }

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	if key.Matches(k, m.env.Keys.Diff.NextNeedsYou) {
		if !m.table.SelectNext(func(f fleet.Finding) bool { return !f.Verdict.Clean() }) {
			return m, feed.Send(feed.Say{Text: "nothing here has to be explained"})
		}
		return m, nil
	}
	f, ok := m.table.Selected()
	if !ok {
		return m, nil
	}
	if key.Matches(k, m.env.Keys.Diff.Clean) && m.Marks() > 0 {
		return m, m.cleanMarked()
	}
	switch {
	case key.Matches(k, m.env.Keys.Diff.Evidence):
		return m, feed.Send(evidence(f))
	case key.Matches(k, m.env.Keys.Diff.Clean):
		if _, moved := m.table.Moved(); moved {
			m.table.Settle()
			return m, feed.Send(feed.Say{Text: "that row is gone: the cursor is on " + words.Key(f.Key) + " now, press again"})
		}
		if f.Verdict != fleet.Leak || f.Resource == nil {
			return m, feed.Send(feed.Say{Text: words.Key(f.Key) + " is no leak: only a resource whose owner is gone is cleaned"})
		}
		return m, feed.Send(feed.Want{Verb: feed.Clean, Host: m.host, Key: f.Key, Resource: *f.Resource})
	}
	return m, nil
}

// cleanMarked asks for all marked leaks at once. What is marked and no leak is
// named instead.
func (m Model) cleanMarked() tea.Cmd {
	marked, hidden := m.table.Marked()
	w := feed.Want{Verb: feed.Clean, Host: m.host, Hidden: hidden}
	for _, f := range marked {
		if f.Verdict != fleet.Leak || f.Resource == nil {
			return feed.Send(feed.Say{Text: words.Key(f.Key) + " is marked and is no leak: only a resource whose owner is gone is cleaned"})
		}
		w.Resources = append(w.Resources, *f.Resource)
	}
	if len(w.Resources) == 0 {
		return feed.Send(feed.Say{Text: "the filter hides what is marked"})
	}
	m.table.ClearMarks()
	return feed.Send(w)
}

// Marks is how many rows are marked.
func (m Model) Marks() int { return m.table.MarkCount() }

// ClearMarks takes all marks away.
func (m Model) ClearMarks() { m.table.ClearMarks() }

// evidence is what a finding rests on.
func evidence(f fleet.Finding) feed.Show {
	out := []string{words.Verdict(f.Verdict)}
	for _, e := range f.Evidence {
		line := words.Text(e.Source) + " says: " + words.Text(e.Says)
		if !e.At.IsZero() {
			line += " (" + words.HMS(e.At) + ")"
		}
		out = append(out, line)
	}
	if len(f.Evidence) == 0 {
		out = append(out, "no evidence was kept")
	}
	if c := f.Claim; c != nil {
		out = append(out, "claim: "+words.Name(string(c.Phase))+", the plane's word "+words.Name(c.Status)+", owner "+words.Name(c.Owner))
	}
	if w := f.Workload; w != nil {
		out = append(out, "workload: "+words.Name(string(w.Phase))+" by rule "+words.Text(w.Rule)+", "+words.Name(w.Run.String()))
	}
	if p := f.Process; p != nil {
		out = append(out, fmt.Sprintf("process: %s, pid %d, user %d, %s", words.Name(p.Comm), p.Run.PID, p.UID, words.Text(p.Exe)))
	}
	if r := f.Resource; r != nil {
		out = append(out, "resource: "+words.Name(r.Identity)+", owner "+words.Key(r.Owner)+", "+words.Text(r.Detail))
		for _, u := range r.Users {
			out = append(out, fmt.Sprintf("used by pid %d", u.PID))
		}
	}
	return feed.Show{Title: words.Key(f.Key), Lines: out}
}

func filterable(f fleet.Finding) widget.Filterable {
	return widget.Filterable{
		Text:   f.Key.String() + " " + f.Owner + " " + words.Verdict(f.Verdict) + " " + says(f),
		Fields: map[string]string{"kind": f.Key.Kind, "verdict": string(f.Verdict), "owner": f.Owner, "class": words.Class(f.Class)},
	}
}

// says is the first thing that stands behind a finding.
func says(f fleet.Finding) string {
	if len(f.Evidence) > 0 {
		return words.Text(f.Evidence[0].Source) + ": " + words.Text(f.Evidence[0].Says)
	}
	if f.Resource != nil {
		return words.Text(f.Resource.Detail)
	}
	return ""
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	head := m.d.head(width, m.host)
	if height < 6 {
		head = nil
	}
	body := m.table.View(width, height-len(head))
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}
