package fleetview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// The columns, by their place.
const (
	colHost = iota
	colState
	colSince
	colBy
	colWhy
	colClasses
	colGPU
	colDiff
	colAgent
	colDrain
)

const gutter = 4 // what the table puts before the columns

// columns in their order. Where room is short, what is only looked up leaves
// first; the host and its state never do.
func columns(width int) []widget.Column {
	c := []widget.Column{
		colHost:    {Title: "HOST", Min: 8, Weight: 1, Max: 28},
		colState:   {Title: "STATE", Min: 13, Weight: 1, Max: 17},
		colSince:   {Title: "SINCE", Min: 6, Priority: 2, Right: true},
		colBy:      {Title: "BY", Min: 5, Weight: 1, Max: 14, Priority: 6},
		colWhy:     {Title: "WHY", Min: 8, Weight: 3, Max: 48, Priority: 7},
		colClasses: {Title: "  E  S  P  D  X  ?", Min: 18, Priority: 8},
		colGPU:     {Title: "GPU", Min: 5, Priority: 9, Right: true},
		colDiff:    {Title: "DIFF", Min: 4, Priority: 4, Right: true},
		colAgent:   {Title: "AGENT", Min: 5, Priority: 5, Right: true},
		colDrain:   {Title: "DRAIN", Min: 13, Weight: 6, Max: 36, Priority: 3},
	}
	if width < wideFrom { // what is left goes to the reason
		c[colState].Weight, c[colBy].Weight, c[colWhy].Weight, c[colDrain].Weight = 0, 0, 8, 1
	}
	return c
}

// wideFrom is the width from which there is room for the larger gaps.
const wideFrom = 100

// drawing is what cells need besides their row.
type drawing struct {
	env   feed.Env
	frame feed.Frame
	drain int  // width of the last column
	by    int  // and of that of persons
	load  bool // whether there is no column for what runs

	line [colDrain + 1]widget.Cell // of the row that is drawn: the next one is drawn over it

	as     Arrangement
	all    tally             // of all hosts
	groups map[string]*tally // and of each group
}

// measure notes how wide the column of drains is, since its bar depends on it.
func (d *drawing) measure(width int) {
	w := widget.Widths(columns(width), width-gutter, gap(width))
	d.drain, d.by, d.load = w[colDrain], w[colBy], w[colClasses] == 0 || w[colGPU] == 0
}

// gap is the room between two columns: on narrow screens reasons need it more.
func gap(width int) int {
	if width < wideFrom {
		return 1
	}
	return 2
}

// person is who acts, the name first: where there is no room, the name alone.
func person(who string, width int) string {
	if name, _, at := strings.Cut(who, "@"); at && name != "" && lipgloss.Width(who) > width {
		return widget.Name(name)
	}
	return widget.Name(who)
}

func (d *drawing) sign(r *row) widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	if r.needs || r.forgotten {
		return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
	}
	return widget.Cell{}
}

func (d *drawing) cells(r *row) []widget.Cell {
	s, g, now := d.env.Theme.Styles, d.env.Theme.Glyphs, d.env.Now()
	none := widget.T(g.None, s.Dim)
	out := d.line[:]
	for i := range out {
		out[i] = none
	}
	out[colHost] = widget.T(widget.Name(r.v.Host.ID.Name()), lipgloss.Style{})
	out[colState] = widget.Cell{Drawn: s.State(r.role).Render(g.State(r.role) + " " + r.word)}
	if !r.since.IsZero() {
		out[colSince] = widget.T(widget.Age(now.Sub(r.since)), lipgloss.Style{})
	}
	if r.hold != nil {
		who := person(r.hold.Who, d.by)
		if r.also != "" {
			who += ", " + person(r.also, d.by)
		}
		out[colBy] = widget.T(who, s.Dim)
		out[colWhy] = widget.T(words.Text(r.hold.Why), s.Dim)
	}
	if r.gone != "" {
		out[colWhy] = widget.Cell{Text: r.gone, Style: s.State(themes.Terminated), Rest: true}
		return out
	}
	if !r.v.Unreachable.IsZero() {
		out[colWhy] = widget.Cell{Text: d.silence(r, now), Style: s.State(themes.Unreachable), Rest: true}
		return out
	}
	if r.hold == nil && d.load {
		out[colWhy] = widget.T(r.loadText(), s.Dim)
	}
	out[colClasses] = widget.Cell{Drawn: d.classes(r)}
	if busy, all, ok := r.gpus(); ok && all > 0 {
		out[colGPU] = widget.T(fmt.Sprintf("%d/%d", busy, all), lipgloss.Style{})
	} else if !ok {
		out[colGPU] = widget.T("?", s.Stale)
	}
	switch {
	case r.dirty > 0:
		out[colDiff] = widget.T(g.NeedsYou+" "+strconv.Itoa(r.dirty), s.Warn)
	}
	out[colAgent] = d.agent(r, now)
	out[colDrain] = d.progress(r, now)
	return out
}

// silence says since when an unreachable host is that, and what the plane still
// hears of it: the two are different things.
func (d *drawing) silence(r *row, now time.Time) string {
	plane := "its plane has not heard it"
	if hb := r.v.Host.Heartbeat; !hb.IsZero() {
		plane = "plane heard it " + widget.Ago(now.Sub(hb))
	}
	text := plane + "; " + cmp.Or(words.Text(r.v.Problem), "no answer")
	if at := feed.ReadAt(r.v); !at.IsZero() {
		text += "; last read " + widget.Ago(now.Sub(at))
	}
	return text
}

// classes draws the numbers of workloads by class in six narrow columns.
func (d *drawing) classes(r *row) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	n, ok := r.classes()
	var b strings.Builder
	for i, c := range n {
		text, style := strconv.Itoa(c), s.Text
		switch {
		case !ok:
			text, style = "?", s.Stale
		case c == 0:
			text, style = g.None, s.Dim
		case c > 999:
			text = "1k+"
		case i == len(n)-1:
			style = s.Warn
		}
		b.WriteString(style.Render(widget.FitRight(text, 3)))
	}
	return b.String()
}

// agent is how long ago the agent was heard.
func (d *drawing) agent(r *row, now time.Time) widget.Cell {
	s := d.env.Theme.Styles
	at := feed.ReadAt(r.v)
	if at.IsZero() {
		return widget.T("?", s.Stale)
	}
	age := now.Sub(at)
	if age > feed.StaleAfter {
		return widget.T(widget.Heard(age)+"!", s.Warn)
	}
	return widget.T(widget.Heard(age), s.Dim)
}

// progress is a drain in one cell: what is left, how long there is, and a bar of
// what has gone where there is room for one.
func (d *drawing) progress(r *row, now time.Time) widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	if r.s == nil {
		if r.forgotten {
			return widget.Cell{Text: d.forgotten(r, now), Style: s.State(themes.NeedsYou), Rest: true}
		}
		if r.parked != "" {
			return widget.Cell{Text: r.parked, Style: s.Warn, Rest: true}
		}
		return widget.T(g.None, s.Dim)
	}
	if r.idle {
		text := "nobody drives, " + words.StillLeft(*r.s)
		if d.drain < len(text) {
			text = "nobody drives"
		}
		return widget.T(text, s.Warn)
	}
	if r.s.Phase == drain.Parked {
		text := r.parked
		if d.drain < lipgloss.Width(text) {
			text = fmt.Sprintf("%d parked", r.counts.Parked)
		}
		return widget.T(text, lipgloss.Style{})
	}
	style := lipgloss.Style{}
	tail := ""
	switch left := r.s.Deadline.Sub(d.frame.Clock(now)); {
	case r.s.Phase == drain.Empty, r.s.Phase == drain.Stopped:
		style = s.Dim
	case left < 0 || r.s.Phase == drain.DeadlineReached:
		tail, style = " over", s.Danger
	default:
		tail = " " + widget.Clock(left)
	}
	if r.counts.Lost > 0 {
		tail += fmt.Sprintf(" %s%d", g.Lost, r.counts.Lost)
	}
	done := 0.0
	if r.counts.Total > 0 {
		done = float64(r.counts.Total-r.counts.Left) / float64(r.counts.Total)
	} else if r.s.First {
		done = 1
	}
	if r.parked != "" {
		tail = ", " + r.parked + tail
	}
	text := words.StillLeft(*r.s) + tail
	if d.drain < lipgloss.Width(text)+9 {
		text = strings.TrimSuffix(words.StillLeft(*r.s), " left") + tail
		if !r.s.First {
			text = "reading" + tail
		}
	}
	bar := min(10, d.drain-16) // the same in every row, so that bars compare
	if bar < 4 || d.drain < lipgloss.Width(text)+bar+1 {
		return widget.T(text, style)
	}
	return widget.Cell{Drawn: widget.Bar(bar, done, s, g) + " " + style.Inherit(s.Text).Render(text)}
}

// forgotten says what a cordon that nobody looks after costs.
func (d *drawing) forgotten(r *row, now time.Time) string {
	busy, all, ok := r.gpus()
	if !ok || all-busy <= 0 {
		return "forgotten?"
	}
	hours := int64(now.Sub(r.hold.Since).Hours()) * int64(all-busy)
	text := fmt.Sprintf("forgotten? %d GPU-h idle", hours)
	if d.drain < len(text) {
		return "forgotten?"
	}
	return text
}

// head is the line of counts, and the rule under it.
func (m Model) head(width int) []string {
	th := m.env.Theme
	s, d := th.Styles, m.draw
	left := " " + strings.Join(d.counts(d.all), "   ")
	if more := d.holding(); more != "" && lipgloss.Width(left)+lipgloss.Width(more) < width*2/3 {
		left += more
	}
	var right []string
	if f := m.table.Filter(); !f.Empty() {
		right = append(right, s.Input.Render("/"+widget.Clean(f.String())))
		if shown, all := m.table.Len(); shown < all {
			right = append(right, s.Dim.Render(fmt.Sprintf("%d of %d", shown, all)))
		}
	}
	said := len(right)
	if d.as.Group != "" {
		right = append(right, s.Dim.Render("by "+widget.Name(d.as.Group)))
	}
	if width >= wideFrom || d.as.sorted().name != orders[0].name || d.as.Reverse {
		right = append(right, s.Dim.Render(d.as.String()))
	}
	if pos := m.table.Position(); pos != "" {
		right = append(right, s.Dim.Render(pos))
	}
	fits := func() bool { return lipgloss.Width(left)+lipgloss.Width(strings.Join(right, "   "))+4 <= width }
	for len(right) > said && !fits() && d.as.sorted().name == orders[0].name { // counts are worth more
		right = right[:len(right)-1]
	}
	return []string{widget.Sides(left, strings.Join(right, "   ")+" ", width), widget.Rule(width, th)}
}

// holding says which holds the holding ones have, where they are not all the
// same.
func (d *drawing) holding() string {
	if len(d.all.holds) < 2 {
		return ""
	}
	s := d.env.Theme.Styles
	var parts []string
	for _, role := range themes.States() {
		if n := d.all.holds[role]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, themes.Word(role)))
		}
	}
	return s.Dim.Render("   (holding: " + strings.Join(parts, ", ") + ")")
}

// loadText is what runs on a host in few words, where there is no column for it.
func (r *row) loadText() string {
	text := "?"
	if n := r.work(); n >= 0 {
		text = fmt.Sprintf("%d run", n)
	}
	if busy, all, ok := r.gpus(); ok && all > 0 {
		text += fmt.Sprintf(" %d/%d GPU", busy, all)
	}
	return text
}

func split(s string) []string { return strings.Split(s, "\n") }
