// Package planview is the screen of what a drain would do to each workload, what
// would block it, and who may die, before anything is done.
//
// The plan comes from the root as a value, with what it was made for; the screen
// counts its age and offers to drain as planned, with that very plan.
package planview

import (
	"fmt"
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

// oldAfter is how old a plan may get before it is marked: the host goes on.
const oldAfter = time.Minute

// Model is the screen.
type Model struct {
	env     feed.Env
	host    fleet.HostID
	plan    *drain.Plan
	got     time.Time // by this process's clock
	request feed.Request
	problem string
	busy    bool
	table   *widget.Table[drain.PlanItem]
}

var columns = []widget.Column{
	{Title: "WORKLOAD", Min: 12, Weight: 2, Max: 30},
	{Title: "OWNER", Min: 7, Weight: 1, Max: 14, Priority: 3},
	{Title: "LEAVES BY", Min: 14, Weight: 3, Max: 44},
	{Title: "TO", Min: 7, Weight: 1, Max: 16, Priority: 2},
	{Title: "GONE BY", Min: 7, Right: true},
	{Title: "", Min: 8, Weight: 2, Priority: 1},
}

// New makes the screen.
func New(env feed.Env) Model {
	m := Model{env: env}
	s, g := env.Theme.Styles, env.Theme.Glyphs
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[drain.PlanItem]{
		ID:      func(it drain.PlanItem) string { return it.Key.String() },
		Cells:   func(it drain.PlanItem) []widget.Cell { return cells(env, it) },
		Section: func(it drain.PlanItem) string { return words.Class(it.Class) },
		Heading: func(section string, n int) widget.Cell {
			return widget.Cell{Drawn: s.Title.Render(strings.ToUpper(section)) + s.Dim.Render(fmt.Sprintf("  %d", n))}
		},
		Match: func(it drain.PlanItem) widget.Filterable {
			return widget.Filterable{Text: it.Key.String() + " " + it.Owner + " " + it.Strategy,
				Fields: map[string]string{"class": words.Class(it.Class), "owner": it.Owner, "kind": it.Key.Kind}}
		},
		Sign: func(it drain.PlanItem) widget.Cell {
			switch {
			case !it.Reason.IsZero():
				return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
			case it.MayDie:
				return widget.T(g.Cross, s.Danger)
			}
			return widget.Cell{}
		},
		Empty: "nothing has to leave",
	})
	return m
}

func cells(env feed.Env, it drain.PlanItem) []widget.Cell {
	s, g := env.Theme.Styles, env.Theme.Glyphs
	owner, to, by := g.None, g.None, "not by itself"
	if it.Owner != "" {
		owner = widget.Name(it.Owner)
	}
	if it.Target != "" {
		to = widget.Name(it.Target.Name())
	}
	out := []widget.Cell{widget.N(widget.Name(it.Key.ID), lipgloss.Style{}), widget.T(owner, s.Dim)}
	if !it.Reason.IsZero() {
		return append(out, widget.Cell{Text: "stays: " + words.Reason(it.Reason), Style: s.Warn, Rest: true})
	}
	if !it.GoneBy.IsZero() {
		by = words.HM(it.GoneBy)
	}
	note := widget.Cell{}
	if it.MayDie {
		note = widget.T("may die", s.Danger)
	}
	return append(out, widget.T(words.Text(it.Strategy), lipgloss.Style{}), widget.T(to, s.Dim), widget.T(by, lipgloss.Style{}), note)
}

// SetFrame takes nothing: a plan is made once.
func (m Model) SetFrame(feed.Frame) Model { return m }

// SetHost forgets the plan of another host.
func (m Model) SetHost(h fleet.HostID) Model {
	if h != m.host {
		m.host, m.plan, m.problem, m.busy = h, nil, "", false
		m.table.SetRows(nil)
	}
	return m
}

// SetBusy says that a plan is being made.
func (m Model) SetBusy() Model {
	m.busy, m.problem = true, ""
	return m
}

// SetPlan takes a plan that was made for a request, or why it could not be made.
func (m Model) SetPlan(p drain.Plan, r feed.Request, err error) Model {
	m.busy = false
	if err != nil {
		m.problem = err.Error()
		return m
	}
	m.plan, m.request, m.problem, m.got = &p, r, "", m.env.Now()
	m.table.SetRows(p.Items)
	return m
}

// SetFilter shows only the workloads that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	return m
}

// Host is the host that is shown.
func (m Model) Host() fleet.HostID { return m.host }

// Focus lists the host, since the plan is about it.
func (m Model) Focus() []fleet.HostID {
	if m.host == "" {
		return nil
	}
	return []fleet.HostID{m.host}
}

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return m.plan != nil }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Plan }

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	switch {
	case key.Matches(k, m.env.Keys.Plan.Drain):
		if m.plan == nil {
			return m, feed.Send(feed.Say{Text: "there is no plan yet"})
		}
		return m, feed.Send(feed.Want{Verb: feed.Drain, Host: m.host, Plan: m.plan, Request: m.request})
	case key.Matches(k, m.env.Keys.Plan.Details):
		if it, ok := m.table.Selected(); ok {
			return m, feed.Send(details(it))
		}
	}
	return m, nil
}

func details(it drain.PlanItem) feed.Show {
	out := []string{
		"owner     " + words.Text(it.Owner),
		"class     " + words.Class(it.Class) + " by " + words.Text(it.Rule),
		"leaves by " + words.Text(it.Strategy),
		"budget    move " + words.Duration(it.Budget.Move) + ", grace " + words.Duration(it.Budget.Grace),
	}
	if !it.Expires.IsZero() {
		out = append(out, "expires   "+words.HMS(it.Expires))
	}
	if it.Target != "" {
		out = append(out, "to        "+words.Name(string(it.Target)))
	}
	if !it.Reason.IsZero() {
		out = append(out, "stays     "+words.Reason(it.Reason))
	}
	if it.MayDie {
		out = append(out, "it may be killed: notice, TERM, its full grace, TERM, 30 s, then KILL")
	}
	return feed.Show{Title: words.Key(it.Key), Lines: out}
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	head := m.head(width)
	if len(head) > height/2 {
		head = head[:height/2]
	}
	body := m.table.View(width, height-len(head))
	if m.plan == nil {
		body = strings.Repeat("\n", max(0, height-len(head)-1))
	}
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}

func (m Model) head(width int) []string {
	th := m.env.Theme
	s, g := th.Styles, th.Glyphs
	rule := widget.Rule(width, th)
	name := s.Title.Render(widget.Name(m.host.Name()))
	switch {
	case m.host == "":
		return []string{" no host is chosen: pick one on the fleet screen", rule}
	case m.busy:
		return []string{" " + name + "   " + s.Dim.Render("the plan is being made"+g.Ellipsis), rule}
	case m.problem != "":
		return []string{" " + name + "   " + s.Warn.Render("no plan: "+words.Text(m.problem)), rule}
	case m.plan == nil:
		return []string{" " + name + "   " + s.Dim.Render("no plan yet"), rule}
	}
	p := m.plan
	age := max(m.env.Now().Sub(m.got), 0)
	made := s.Dim.Render("made " + widget.Ago(age) + ", changes nothing ")
	if age > oldAfter {
		made = s.Warn.Render("made " + widget.Ago(age) + ": 5 makes it anew ")
	}
	left := " " + name + "   " + s.Dim.Render("a drain until ") + words.HM(p.Deadline)
	if p.For != "" {
		left += s.Dim.Render(" for ") + words.Name(string(p.For))
	}
	if p.Expected.IsZero() {
		left += s.Warn.Render("   would not end by itself")
	} else {
		left += s.Dim.Render("   expected ") + words.HM(p.Expected)
	}
	out := []string{widget.Sides(left, made, width)}
	for i, b := range p.Blocks {
		if i == 3 {
			out = append(out, " "+s.Warn.Render(fmt.Sprintf("%d more blocks", len(p.Blocks)-i)))
			break
		}
		out = append(out, " "+s.Warn.Render(g.NeedsYou+" blocks: "+words.Text(b)))
	}
	if die := p.MayDie(); len(die) > 0 {
		names := make([]string, len(die))
		for i, k := range die {
			names[i] = words.Key(k)
		}
		out = append(out, " "+s.Danger.Render(widget.Fit(fmt.Sprintf("%s may die (%d): %s", g.Cross, len(die), strings.Join(names, ", ")), max(width-2, 1))))
	}
	return append(out, rule)
}
