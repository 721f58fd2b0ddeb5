// Package handoverview is the page between two shifts, which a tired person
// reads in a minute: what needs somebody, drains and what blocks them, holds and
// why, deadlines, notices sent, what the last shift wrote.
//
// It draws a [feed.Frame]. Each line names who, and since when.
package handoverview

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
)

// row is one line of the page under its section.
type row struct {
	Line
	section string
	when    string
	style   lipgloss.Style
}

const needs = "needs somebody"

// Model is the screen.
type Model struct {
	env   feed.Env
	frame feed.Frame
	table *widget.Table[row]
	page  Page
	look  *feed.Env // what cells are drawn with
}

var columns = []widget.Column{
	{Min: 8, Weight: 1, Max: 20},
	{Min: 7, Right: true, Priority: 1},
	{Min: 6, Weight: 1, Max: 14, Priority: 2},
	{Min: 12, Weight: 20},
}

// New makes the screen.
func New(env feed.Env) Model {
	look := &env
	m := Model{env: env, look: look}
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[row]{
		ID: func(r row) string { return r.section + "/" + string(r.Host) + "/" + r.id },
		Cells: func(r row) []widget.Cell {
			s := look.Theme.Styles
			return []widget.Cell{widget.T(widget.Name(r.Host.Name()), lipgloss.Style{}), widget.T(r.when, s.Dim),
				widget.T(widget.Name(r.Who), s.Dim), widget.T(r.Text, r.style)}
		},
		Section: func(r row) string { return r.section },
		Match: func(r row) widget.Filterable {
			return widget.Filterable{Text: string(r.Host) + " " + r.Who + " " + r.Text, Fields: map[string]string{"host": r.Host.Name(), "by": r.Who}}
		},
		Sign: func(r row) widget.Cell {
			s, g := look.Theme.Styles, look.Theme.Glyphs
			if r.section == needs {
				return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
			}
			return widget.Cell{}
		},
		Empty: nothing,
	})
	return m
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.env.Theme, m.look.Theme = th, th
	m.table.SetTheme(th)
	if m.page.At.IsZero() {
		return m // no frame yet
	}
	m.fill()
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.frame = f
	m.page = Make(f, m.env.Now(), m.env.Local)
	m.fill()
	return m
}

// fill has the table show the page.
func (m Model) fill() {
	st := m.env.Theme.Styles
	var rows []row
	for _, sec := range m.page.Sections() {
		for _, l := range sec.Lines {
			r := row{Line: l, section: sec.Title, when: l.When(m.page.At, sec.Title)}
			switch {
			case l.silent:
				r.style = st.State(themes.Unreachable)
			case sec.Title == needs:
				r.style = st.Warn
			case sec.Title == "terminated":
				r.style = st.State(themes.Terminated)
			}
			rows = append(rows, r)
		}
	}
	m.table.SetRows(rows)
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
	return r.Host
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
	own := m.env.Keys.Handover
	r, at := m.table.Selected()
	switch {
	case key.Matches(k, own.Open) && at && r.Host != "":
		return m, feed.Send(feed.Open{Screen: keys.Board, Host: r.Host})
	case key.Matches(k, own.Accept):
		return m, feed.Send(feed.Want{Verb: feed.HandOver, Host: feed.Shift, Hosts: m.open()})
	case key.Matches(k, own.Write):
		return m, feed.Send(feed.Want{Verb: feed.HandOver, Host: feed.Shift, Edit: true})
	}
	return m, nil
}

// open are the hosts whose drains can be taken over.
func (m Model) open() []fleet.HostID {
	var out []fleet.HostID
	for _, l := range m.page.Drains {
		out = append(out, l.Host)
	}
	return out
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	th := m.env.Theme
	s, g := th.Styles, th.Glyphs
	p := m.page
	text := s.Ok.Render(g.Check + " nothing needs you")
	if n := len(p.Needs); n > 0 {
		text = s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d to look at", g.NeedsYou, n))
	}
	left := " " + s.Title.Render("handover") + "   " + text + "   " + count(len(p.Drains), "drain") + "   " + fmt.Sprintf("%d held", len(p.Holds))
	right := ""
	if p.For != "" {
		right = s.Dim.Render("on shift: " + widget.Name(p.For) + " ")
	}
	head := []string{widget.Sides(left, right, width), widget.Rule(width, th)}
	if height < 6 {
		head = nil
	}
	body := m.table.View(width, height-len(head))
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
