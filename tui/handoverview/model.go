// Package handoverview is the page between two shifts, which a tired person
// reads in a minute: what needs somebody, drains and what blocks them, holds and
// why, deadlines, notices sent, what the last shift wrote.
//
// It draws a [feed.Frame]. Each line names who, and since when.
package handoverview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// The sections, in the order in which they are read.
var sections = [...]string{"needs somebody", "drains", "next hours", "holds", "notices sent", "terminated", "last words"}

const (
	secNeeds = iota
	secDrains
	secNext
	secHolds
	secNotices
	secGone
	secWords
)

// ahead is how far the page looks.
const ahead = 4 * time.Hour

// row is one line of the page.
type row struct {
	section int
	id      string
	host    fleet.HostID
	at      time.Time
	when    string
	who     string
	text    string
	style   lipgloss.Style
}

// Model is the screen.
type Model struct {
	env   feed.Env
	frame feed.Frame
	table *widget.Table[row]
	count [len(sections)]int // lines of each section
}

var columns = []widget.Column{
	{Min: 8, Weight: 1, Max: 20},
	{Min: 7, Right: true, Priority: 1},
	{Min: 6, Weight: 1, Max: 14, Priority: 2},
	{Min: 12, Weight: 20},
}

// New makes the screen.
func New(env feed.Env) Model {
	m := Model{env: env}
	s, g := env.Theme.Styles, env.Theme.Glyphs
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[row]{
		ID: func(r row) string { return r.id },
		Cells: func(r row) []widget.Cell {
			return []widget.Cell{widget.T(widget.Name(r.host.Name()), lipgloss.Style{}), widget.T(r.when, s.Dim),
				widget.T(widget.Name(r.who), s.Dim), widget.T(r.text, r.style)}
		},
		Section: func(r row) string { return sections[r.section] },
		Match: func(r row) widget.Filterable {
			return widget.Filterable{Text: string(r.host) + " " + r.who + " " + r.text, Fields: map[string]string{"host": r.host.Name(), "by": r.who}}
		},
		Sign: func(r row) widget.Cell {
			if r.section == secNeeds {
				return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
			}
			return widget.Cell{}
		},
		Empty: "nothing is held, nothing is drained, nobody left word",
	})
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.frame = f
	rows := m.rows()
	m.table.SetRows(rows)
	m.count = [len(sections)]int{}
	for _, r := range rows {
		m.count[r.section]++
	}
	return m
}

// SetHost changes nothing: the page is about all hosts.
func (m Model) SetHost(fleet.HostID) Model { return m }

// SetFilter shows only the lines that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	return m
}

// Host is the host under the cursor.
func (m Model) Host() fleet.HostID {
	r, _ := m.table.Selected()
	return r.host
}

// Focus lists no host: what the journal and the summaries say is enough.
func (m Model) Focus() []fleet.HostID { return nil }

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return len(m.frame.Drains) > 0 }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Handover }

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	r, ok := m.table.Selected()
	if !ok {
		return m, nil
	}
	switch {
	case key.Matches(k, m.env.Keys.Handover.Open):
		return m, feed.Send(feed.Open{Screen: keys.Board, Host: r.host})
	case key.Matches(k, m.env.Keys.Handover.Accept):
		return m, feed.Send(feed.Want{Verb: feed.HandOver, Host: r.host})
	}
	return m, nil
}

func (m Model) rows() []row {
	now := m.env.Now()
	clock := m.frame.Clock(now)
	var out []row
	for i := range m.frame.Snapshot.Hosts {
		v := &m.frame.Snapshot.Hosts[i]
		s, has := m.frame.Drains[v.Host.ID]
		if has && words.Terminated(*v, &s) != "" {
			out = append(out, m.goneRow(v, s, clock))
			continue
		}
		if has = has && s.Drain != "" && !s.Undone; has {
			out = append(out, m.ofDrain(v, s, clock)...)
		}
		out = append(out, m.ofHost(v, has, now)...)
	}
	for _, e := range m.frame.Events {
		if e.Kind != (drain.AskHandover{}).Kind() {
			continue
		}
		b, err := e.Decode()
		if h, ok := b.(drain.AskHandover); err == nil && ok {
			id := fleet.HostID(e.Stream)
			out = append(out, row{section: secWords, id: "word/" + e.ID, host: id, at: e.At, when: words.HM(e.At), who: e.By.Name, text: words.Body(h)})
		}
	}
	slices.SortStableFunc(out, func(a, b row) int {
		if a.section != b.section {
			return cmp.Compare(a.section, b.section)
		}
		if a.section == secWords { // the last word first
			return b.at.Compare(a.at)
		}
		if a.section == secNext {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.id, b.id))
	})
	return out
}

// goneRow is a host that was terminated: its holds and its silence need nobody.
func (m Model) goneRow(v *fleet.HostView, s drain.State, clock time.Time) row {
	return row{section: secGone, id: "gone/" + string(v.Host.ID), host: v.Host.ID, when: widget.Age(clock.Sub(s.Terminated)),
		who: s.TerminatedBy, text: words.Terminated(*v, &s), style: m.env.Theme.Styles.State(themes.Terminated)}
}

// ofHost are the holds of a host, and its silence.
func (m Model) ofHost(v *fleet.HostView, drained bool, now time.Time) []row {
	s := m.env.Theme.Styles
	var out []row
	id := v.Host.ID
	holds, at, _ := v.Holds()
	if c := holds.Cordon; c != nil {
		text := "cordoned"
		if c.Why != "" {
			text += ": " + words.Text(c.Why)
		}
		if !drained {
			text += " (no drain)"
		}
		if now.Sub(at) > feed.StaleAfter {
			text += ", as read " + widget.Ago(now.Sub(at))
		}
		out = append(out, row{section: secHolds, id: "hold/" + string(id), host: id, when: widget.Age(now.Sub(c.Since)), who: c.Who, text: text})
	}
	if !v.Unreachable.IsZero() && (holds.Any() || drained) {
		out = append(out, row{section: secNeeds, id: "silent/" + string(id), host: id, when: widget.Age(now.Sub(v.Unreachable)),
			text: "held and unreachable since " + words.HM(v.Unreachable) + ": " + words.Text(v.Problem), style: s.State(themes.Unreachable)})
	}
	return out
}

// ofDrain are a drain, what blocks it by name, its deadline, and what its owners
// were told.
func (m Model) ofDrain(v *fleet.HostView, s drain.State, clock time.Time) []row {
	st := m.env.Theme.Styles
	id := s.Host
	if id == "" {
		id = v.Host.ID
	}
	c := s.Count()
	text := fmt.Sprintf("%s, %d of %d left", words.Phase(s.Phase), c.Left, c.Total)
	switch {
	case s.Driver != "":
		text += ", driven by " + words.Name(s.Driver)
	case !s.Phase.Ended():
		text += ", nobody drives"
	}
	if s.Reason != "" {
		text += ": " + words.Text(s.Reason)
	}
	out := []row{{section: secDrains, id: "drain/" + string(id), host: id, when: widget.Age(clock.Sub(s.Started)), who: s.By.Name, text: text}}
	add := func(name, text string) {
		out = append(out, row{section: secNeeds, id: "needs/" + string(id) + "/" + name, host: id, text: text, style: st.Warn})
	}
	switch {
	case s.Person:
		add("", "the drain waits for a person: "+words.Reason(s.Waiting))
	case s.Phase == drain.DeadlineReached:
		add("", "the deadline was reached at "+words.HM(s.Since)+": extend, escalate by name, or stop")
	}
	for _, is := range s.Issues {
		if _, listed := s.Items[is.Key]; !listed {
			add("issue/"+is.Check+"/"+is.Key.String(), "in the way: "+words.Issue(is))
		}
	}
	if !s.Phase.Ended() {
		if in := s.Deadline.Sub(clock); in < ahead {
			out = append(out, row{section: secNext, id: "deadline/" + string(id), host: id, at: s.Deadline, when: widget.Clock(max(in, 0)),
				who: s.By.Name, text: words.HM(s.Deadline) + " UTC, " + s.Deadline.In(m.env.Local).Format("15:04") + " here: the drain's deadline"})
		}
	}
	for _, k := range sorted(s.Items) {
		it := s.Items[k]
		switch {
		case it.End == drain.Lost:
			add("lost/"+k.String(), words.Key(k)+" "+words.Doing(it, m.frame.Policy, false))
		case it.Open() && drain.NeedsPerson(it.Reason.Code):
			name := words.Key(k)
			if it.Owner != "" {
				name += " of " + words.Name(it.Owner)
			}
			add(k.String(), name+": "+words.Doing(it, m.frame.Policy, false))
		}
		if it.Open() && !it.NoticeAt.IsZero() {
			due := words.DueOf(it, s, m.frame.Policy, clock)
			text := words.Key(k) + " told " + words.HM(it.NoticeAt)
			if !it.Accepted && !m.frame.Policy.Receivers {
				text = words.Key(k) + ": " + words.NoReceiver
			}
			if !due.IsZero() {
				text += ", " + due.What + " " + words.HM(due.At)
			}
			out = append(out, row{section: secNotices, id: "notice/" + string(id) + "/" + k.String(), host: id, when: widget.Age(clock.Sub(it.NoticeAt)), who: it.Owner, text: text})
		}
	}
	return out
}

func sorted(items map[fleet.Key]drain.Item) []fleet.Key {
	out := make([]fleet.Key, 0, len(items))
	for k := range items {
		out = append(out, k)
	}
	slices.SortFunc(out, fleet.Key.Compare)
	return out
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	th := m.env.Theme
	s, g := th.Styles, th.Glyphs
	n := m.count
	text := s.Ok.Render(g.Check + " nothing needs you")
	if n[secNeeds] > 0 {
		text = s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d to look at", g.NeedsYou, n[secNeeds]))
	}
	left := " " + s.Title.Render("handover") + "   " + text + fmt.Sprintf("   %d drains   %d held", n[secDrains], n[secHolds])
	head := []string{widget.Sides(left, s.Dim.Render("on shift: "+widget.Name(m.frame.Config.Operator)+" "), width), widget.Rule(width, th)}
	if height < 6 {
		head = nil
	}
	body := m.table.View(width, height-len(head))
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}
