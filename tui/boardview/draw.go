package boardview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// drawing is what the cells are drawn from.
type drawing struct {
	env   feed.Env
	frame feed.Frame
	host  fleet.HostID
	view  fleet.HostView
	state *drain.State // nil without a drain
	known bool         // the host is listed
	gone  string       // when it was terminated, and by whom
	rows  []line

	parked    map[fleet.Key]drain.Item // what a drain has left at rest, also one that was lifted
	atRest    string                   // the same in words
	stuck     bool                     // and that some of it does not come back by itself
	mayResume bool

	devices map[fleet.Key]int // GPUs of each workload

	now    time.Time // this process's clock, at this view
	clock  time.Time // the journal's
	narrow bool
	room   int // for what a row says, where nothing is due
}

// columns in their order; gpus says whether any workload here has one.
func columns(narrow, gpus bool) []widget.Column {
	if narrow {
		return []widget.Column{
			{Min: 1},
			{Min: 10, Weight: 2, Max: 22},
			{Min: 10, Weight: 3, Priority: 1},
			{Min: 8, Priority: 4},
			{Min: 7, Right: true, Priority: 2},
			{Min: 11, Priority: 3},
		}
	}
	c := []widget.Column{
		{Min: 14, Weight: 2, Max: 26},
		{Min: 8, Weight: 1, Max: 14, Priority: 3},
		{Min: 20, Weight: 5, Priority: 1},
		{Min: 10, Priority: 4},
		{Min: 7, Right: true},
		{Min: 12, Priority: 2},
	}
	if gpus {
		c = slices.Insert(c, 2, widget.Column{Min: 5, Right: true, Priority: 5})
	}
	return c
}

// anyGPU says whether any workload on the board has a GPU.
func (d *drawing) anyGPU() bool {
	return slices.ContainsFunc(d.rows, func(l line) bool { return d.gpus(l.it) != "" })
}

func (d *drawing) section(l line) string { return l.section }

func (d *drawing) heading(section string, n int) widget.Cell {
	s := d.env.Theme.Styles
	note := ""
	for _, c := range fleet.Classes {
		if words.Class(c) == section {
			note = words.Strategy(c)
		}
	}
	return widget.Cell{Drawn: s.Title.Render(strings.ToUpper(section)) + s.Dim.Render(fmt.Sprintf("  %d   %s", n, note))}
}

func (d *drawing) sign(l line) widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	switch {
	case l.kind == issue:
		return widget.T(g.Cross, s.State(themes.NeedsYou))
	case l.it.End == drain.Lost:
		return widget.T(g.Lost, s.State(themes.Lost))
	case l.needsYou():
		return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
	}
	return widget.Cell{}
}

func (d *drawing) cells(l line) []widget.Cell {
	s := d.env.Theme.Styles
	var out []widget.Cell
	if d.narrow {
		out = append(out, widget.T(words.Letter(l.it.Class), s.Dim))
	}
	if l.kind == issue {
		if d.narrow {
			out[0] = widget.Cell{}
		}
		return append(out, widget.N(cmp.Or(l.label, "the host"), lipgloss.Style{}),
			widget.Cell{Text: words.CheckFails(l.issue.Check) + ": " + words.Text(l.issue.Detail), Style: s.Warn, Rest: true})
	}
	base := lipgloss.Style{}
	switch {
	case l.it.End == drain.Lost:
		base = s.State(themes.Lost)
	case !l.it.Open():
		base = s.Dim
	}
	out = append(out, widget.N(l.label, base))
	if !d.narrow {
		out = append(out, widget.T(ownerOf(l.it, d.env.Theme.Glyphs), s.Dim))
		if d.anyGPU() {
			out = append(out, widget.T(d.gpus(l.it), s.Dim))
		}
	}
	doing, due := d.doing(l)
	doing = d.withKeys(l, doing)
	if due.IsZero() {
		return append(out, widget.Cell{Text: doing, Style: d.doingStyle(l), Rest: true})
	}
	left, when := d.countdown(due)
	return append(out, widget.T(doing, d.doingStyle(l)), d.bar(due, 10), left, when)
}

func ownerOf(it drain.Item, g themes.Glyphs) string {
	if it.Owner == "" {
		return g.None
	}
	return widget.Name(it.Owner)
}

// doing says what a workload does or waits for, and until when.
func (d *drawing) doing(l line) (string, words.Due) {
	if it, parked := d.parked[l.it.Key]; parked && l.kind == runs {
		return words.Doing(it, d.frame.Policy, d.narrow), words.Due{}
	}
	if l.kind == runs {
		text := words.Strategy(l.it.Class)
		switch at := l.it.Expires; {
		case !l.stays.IsZero():
			text = "stays: " + words.Reason(l.stays)
		case l.it.Park:
			text = "snapshot, parked here until somebody resumes it"
		case at.IsZero():
		case l.it.Class == fleet.Ephemeral:
			text = "expires by itself at " + words.HM(at)
		default:
			text += ", expires " + words.HM(at)
		}
		return text, words.Due{}
	}
	text := words.DoingIn(l.it, *d.state, d.frame.Policy, d.narrow)
	if l.it.Late && l.it.Open() {
		text = "arrived late; " + text
	}
	return text, words.DueOf(l.it, *d.state, d.frame.Policy, d.clock)
}

// withKeys puts the keys that answer a row behind what it says. They are worth
// more than the whole sentence.
func (d *drawing) withKeys(l line, text string) string {
	own := d.keysFor(l)
	if own == "" {
		return text
	}
	if lipgloss.Width(text+own) > d.room {
		text = words.Doing(l.it, d.frame.Policy, true)
	}
	if room := d.room - lipgloss.Width(own); room > 12 && lipgloss.Width(text) > room {
		text = widget.Fit(text, room)
	}
	return text + own
}

// keysFor names the keys that answer a workload that needs somebody, or that
// somebody has answered.
func (d *drawing) keysFor(l line) string {
	parked := d.isParked(l.it.Key)
	switch {
	case d.frame.Replay != "" || d.gone != "":
		return ""
	case parked && d.mayResume:
		return "   R resume"
	case l.kind != item || !l.it.Open():
		return ""
	case l.it.Reason.Code == drain.WaitTargetGone:
		return "   T target gone"
	case parked && l.needsYou():
		return "   s stop, then R resume"
	case l.it.Keep:
		return "   r ends that"
	case !l.needsYou():
		return ""
	case l.it.Held:
		return "   r retry · e escalate · K keep"
	}
	if drain.Claimless(l.it) {
		return "   e escalate · K keep"
	}
	return "   e escalate · K keep · c class"
}

func (d *drawing) doingStyle(l line) lipgloss.Style {
	s := d.env.Theme.Styles
	switch {
	case l.it.End == drain.Lost:
		return s.State(themes.Lost)
	case !l.stays.IsZero():
		return s.Warn
	case !l.it.Open(), l.kind == runs:
		return s.Dim
	case l.needsYou(), l.it.Overdue, l.it.Reason.Code == drain.WaitFailed:
		return s.Warn
	}
	return lipgloss.Style{}
}

func (d *drawing) bar(due words.Due, width int) widget.Cell {
	if d.narrow {
		width = 8
	}
	return widget.Cell{Drawn: widget.Bar(width, due.Done(d.clock), d.env.Theme.Styles, d.env.Theme.Glyphs)}
}

// countdown is how long a step has, and what happens then at which wall time.
func (d *drawing) countdown(due words.Due) (left, when widget.Cell) {
	s := d.env.Theme.Styles
	in := due.At.Sub(d.clock)
	style := lipgloss.Style{}
	if in < time.Minute && due.What != "expires" && due.What != "retry" {
		style = s.Warn
	}
	text, whenStyle := words.HM(due.At), s.Dim
	switch due.What {
	case "expires", "late":
	case "KILL":
		text, whenStyle, style = "KILL "+text, s.Danger, s.Danger.Inherit(style)
	default:
		text = due.What + " " + text
	}
	return widget.T(widget.Clock(max(in, 0)), style), widget.T(text, whenStyle)
}
