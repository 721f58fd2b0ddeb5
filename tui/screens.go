package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/boardview"
	"ebb/tui/diffview"
	"ebb/tui/feed"
	"ebb/tui/fleetview"
	"ebb/tui/gateview"
	"ebb/tui/handoverview"
	"ebb/tui/keys"
	"ebb/tui/logview"
	"ebb/tui/planview"
	"ebb/tui/widget"
)

// model is what every screen is.
type model[M any] interface {
	Update(tea.Msg) (M, tea.Cmd)
	View(width, height int) string
	SetFrame(feed.Frame) M
	SetTheme(themes.Theme) M
	SetHost(fleet.HostID) M
	SetFilter(widget.Filter) M
	Host() fleet.HostID
	Focus() []fleet.HostID
	Counting() bool
	Scope() keys.Scope
}

// screen is a model of any type in its place.
type screen interface {
	update(tea.Msg) tea.Cmd
	setFrame(feed.Frame)
	setLater(*feed.Frame)
	setTheme(themes.Theme)
	setHost(fleet.HostID)
	setFilter(widget.Filter)
	View(width, height int) string
	Host() fleet.HostID
	Focus() []fleet.HostID
	Counting() bool
	marks() int
	clearMarks()
	model() any
	line() []key.Binding
	hint() string
}

// hinter is what a screen is that says what comes next while there is nothing
// else to say.
type hinter interface{ Hint() string }

// liner is what a screen is on which not every key works at any time.
type liner interface{ Line() []key.Binding }

// marked is what a screen is on which rows can be marked.
type marked interface {
	Marks() int
	ClearMarks()
}

// pane keeps the current value of a screen. One that is not shown takes a frame
// when it is asked for something next, and then only the latest: most of them are
// never looked at, and each costs as much as the one that is.
type pane[M model[M]] struct {
	m    M
	late *feed.Frame // what it has still to take
}

// now is the screen as of the latest frame.
func (p *pane[M]) now() M {
	if f := p.late; f != nil {
		p.late = nil
		p.m = p.m.SetFrame(*f)
	}
	return p.m
}

func (p *pane[M]) update(msg tea.Msg) (cmd tea.Cmd) {
	p.m, cmd = p.now().Update(msg)
	return cmd
}
func (p *pane[M]) setFrame(f feed.Frame)         { p.m, p.late = p.m.SetFrame(f), nil }
func (p *pane[M]) setLater(f *feed.Frame)        { p.late = f }
func (p *pane[M]) setTheme(th themes.Theme)      { p.m = p.now().SetTheme(th) }
func (p *pane[M]) setHost(h fleet.HostID)        { p.m = p.now().SetHost(h) }
func (p *pane[M]) setFilter(f widget.Filter)     { p.m = p.now().SetFilter(f) }
func (p *pane[M]) View(width, height int) string { return p.now().View(width, height) }
func (p *pane[M]) Host() fleet.HostID            { return p.now().Host() }
func (p *pane[M]) Focus() []fleet.HostID         { return p.now().Focus() }
func (p *pane[M]) Counting() bool                { return p.now().Counting() }

func (p *pane[M]) model() any { return p.now() }

func (p *pane[M]) marks() int {
	if m, ok := any(p.now()).(marked); ok {
		return m.Marks()
	}
	return 0
}

func (p *pane[M]) clearMarks() {
	if m, ok := any(p.now()).(marked); ok {
		m.ClearMarks()
	}
}

// line is the bindings for the line at the foot: those that work now.
func (p *pane[M]) line() []key.Binding {
	if m, ok := any(p.now()).(liner); ok {
		return m.Line()
	}
	return nil
}

// hint is what comes next, where the screen knows.
func (p *pane[M]) hint() string {
	if m, ok := any(p.now()).(hinter); ok {
		return m.Hint()
	}
	return ""
}

// panes are all screens. Those that take an answer of their own are named.
type panes struct {
	all   map[keys.Scope]screen
	fleet *pane[fleetModel]
	board *pane[boardview.Model]
	gate  *pane[gateview.Model]
	plan  *pane[planview.Model]
}

type fleetModel = fleetview.Model

func newPanes(env feed.Env) panes {
	p := panes{fleet: &pane[fleetModel]{m: fleetview.New(env)}, board: &pane[boardview.Model]{m: boardview.New(env)},
		gate: &pane[gateview.Model]{m: gateview.New(env)}, plan: &pane[planview.Model]{m: planview.New(env)}}
	p.all = map[keys.Scope]screen{
		keys.Fleet:    p.fleet,
		keys.Board:    p.board,
		keys.Diff:     &pane[diffview.Model]{m: diffview.New(env)},
		keys.Gate:     p.gate,
		keys.Plan:     p.plan,
		keys.Handover: &pane[handoverview.Model]{m: handoverview.New(env)},
		keys.Log:      &pane[logview.Model]{m: logview.New(env)},
	}
	return p
}

// ofOneHost says whether a screen is about one host.
func ofOneHost(s keys.Scope) bool {
	return s == keys.Board || s == keys.Diff || s == keys.Gate || s == keys.Plan
}

// hand gives a frame to the screen that is shown, and to the gate, which is asked
// for what it has read wherever one is; the others take it when they are shown.
func (p panes) hand(f feed.Frame, shown keys.Scope) {
	for s, pane := range p.all {
		if s == shown || s == keys.Gate {
			pane.setFrame(f)
			continue
		}
		pane.setLater(&f)
	}
}
