package planview

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// wideFrom is the width from which a heading has room for all that it says.
const wideFrom = 100

// drawing is what cells need besides their row.
type drawing struct {
	env     feed.Env
	plans   map[fleet.HostID]made
	several bool
	narrow  bool
}

// row is one workload of a plan, or a note about a host's plan as a whole.
type row struct {
	host fleet.HostID
	it   drain.PlanItem
	note string
	bad  bool // the note is about something in the way
	late bool // its budget ends after the deadline
}

func (r row) id() string { return string(r.host) + "\x00" + r.it.Key.String() + "\x00" + r.note }

// lines are the rows of all plans. Of one host alone the head says what is noted
// here of several.
func (d *drawing) lines(hosts []fleet.HostID) []row {
	var out []row
	for _, h := range hosts {
		p := d.plans[h]
		if d.several {
			out = append(out, notes(h, p)...)
		}
		if p.plan != nil {
			for _, it := range p.plan.Items {
				out = append(out, row{host: h, it: it, late: p.plan.LateBy(it)})
			}
		}
	}
	return out
}

// notes are what there is to say of one plan among several before its workloads.
func notes(h fleet.HostID, p made) []row {
	note := func(text string, bad bool) row { return row{host: h, note: text, bad: bad} }
	switch {
	case p.busy && p.plan == nil:
		return []row{note("the plan is being made", false)}
	case p.problem != "":
		return []row{note("no plan: "+words.Text(p.problem), true)}
	case p.plan == nil:
		return []row{note("waits for its turn", false)}
	}
	var out []row
	for _, b := range p.plan.Blocks {
		out = append(out, note("blocks: "+words.Text(b), true))
	}
	if len(p.plan.Items) == 0 && len(out) == 0 {
		out = append(out, note("nothing has to leave", false))
	}
	return out
}

func columns(several bool) []widget.Column {
	c := []widget.Column{
		{Title: "WORKLOAD", Min: 12, Weight: 2, Max: 30},
		{Title: "OWNER", Min: 7, Weight: 1, Max: 14, Priority: 3},
		{Title: "LEAVES BY", Min: 14, Weight: 3, Max: 44},
		{Title: "TO", Min: 7, Weight: 1, Max: 16, Priority: 2},
		{Title: "GONE BY", Min: 7, Right: true},
		{Title: "", Min: 15, Weight: 1, Priority: 1},
	}
	if several { // classes have no headings of their own then
		c = append([]widget.Column{{Min: 1}}, c...)
	}
	return c
}

func (d *drawing) section(r row) string {
	if d.several {
		return string(r.host)
	}
	return words.Class(r.it.Class)
}

// heading is that of a class, or of one host among several.
func (d *drawing) heading(section string, n int) widget.Cell {
	s := d.env.Theme.Styles
	if !d.several {
		return widget.Cell{Drawn: s.Title.Render(strings.ToUpper(section)) + s.Dim.Render(fmt.Sprintf("  %d", n))}
	}
	h := fleet.HostID(section)
	text := s.Title.Render(widget.Name(h.Name()))
	if p := d.plans[h]; p.plan != nil {
		text += "   " + d.totals(*p.plan) + "   " + d.end(*p.plan) + "   " + d.age(p)
	}
	return widget.Cell{Drawn: text}
}

func (d *drawing) sign(r row) widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	switch {
	case r.bad, !r.it.Reason.IsZero():
		return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
	case r.late:
		return widget.T(g.NeedsYou, s.Warn)
	case r.it.MayDie && !r.it.ExpiresInTime():
		return widget.T(g.Cross, s.Danger)
	}
	return widget.Cell{}
}

func (d *drawing) cells(r row) []widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	it := r.it
	var out []widget.Cell
	if r.note != "" {
		style := s.Dim
		if r.bad {
			style = s.Warn
		}
		return []widget.Cell{{Text: r.note, Style: style, Rest: true}}
	}
	if d.several {
		out = append(out, widget.T(words.Letter(it.Class), s.Dim))
	}
	owner, to, by := g.None, g.None, "not by itself"
	if it.Owner != "" {
		owner = widget.Name(it.Owner)
	}
	if it.Target != "" {
		to = widget.Name(it.Target.Name())
	} else if it.Parks {
		to = "parked"
	}
	out = append(out, widget.N(widget.Name(it.Key.ID), lipgloss.Style{}), widget.T(owner, s.Dim))
	if !it.Reason.IsZero() {
		return append(out, widget.Cell{Text: "stays: " + words.Reason(it.Reason), Style: s.Warn, Rest: true})
	}
	if !it.GoneBy.IsZero() {
		by = words.HM(it.GoneBy)
	}
	gone := widget.T(by, lipgloss.Style{})
	if r.late {
		gone.Style = s.Warn
	}
	return append(out, widget.T(words.Text(it.Strategy), lipgloss.Style{}), widget.T(to, s.Dim), gone, d.risk(r))
}

// risk is what a plan can't promise of a workload, in few words.
func (d *drawing) risk(r row) widget.Cell {
	s := d.env.Theme.Styles
	switch {
	case r.late && r.it.MayDie:
		return widget.T("late, may die", s.Danger)
	case r.late:
		return widget.T("too late", s.Warn)
	case r.it.ExpiresInTime():
		return widget.T("expires in time", s.Dim)
	case r.it.MayDie:
		return widget.T("may die", s.Danger)
	case !r.it.NotParked.IsZero():
		return widget.T("not parked", s.Warn)
	}
	return widget.Cell{}
}

func filterable(r row) widget.Filterable {
	dies, stays := "", ""
	if r.it.MayDie {
		dies = "yes"
	}
	if !r.it.Reason.IsZero() {
		stays = "yes"
	}
	late := ""
	if r.late {
		late = "yes"
	}
	return widget.Filterable{Text: r.it.Key.String() + " " + r.it.Owner + " " + r.it.Strategy + " " + r.note + " " + r.host.Name(),
		Fields: map[string]string{"class": words.Class(r.it.Class), "owner": r.it.Owner, "kind": r.it.Key.Kind, "host": r.host.Name(), "dies": dies, "stays": stays, "late": late}}
}

// totals are a plan in numbers: how many leave by themselves, stay, may die.
func (d *drawing) totals(p drain.Plan) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	stay, die, late := 0, 0, 0
	for _, it := range p.Items {
		if !it.Reason.IsZero() {
			stay++
		}
		if it.MayDie && !it.ExpiresInTime() {
			die++
		}
		if p.LateBy(it) {
			late++
		}
	}
	parts := []string{fmt.Sprintf("%d leave", len(p.Items)-stay)}
	if len(p.Items) == 0 {
		parts = []string{"nothing has to leave"}
		if p.Unread != "" {
			parts[0] = "what runs there is not known"
		}
	}
	if p.Parks > 0 {
		parts[0] = fmt.Sprintf("%d leave", len(p.Items)-stay-p.Parks)
		parts = append(parts, fmt.Sprintf("%d parked here", p.Parks))
	}
	if stay > 0 {
		parts = append(parts, s.Warn.Render(fmt.Sprintf("%d stay", stay)))
	}
	if die > 0 {
		parts = append(parts, s.Danger.Render(fmt.Sprintf("%s %d may die", g.Cross, die)))
	}
	if late > 0 {
		parts = append(parts, s.Warn.Render(fmt.Sprintf("%s %d too late", g.NeedsYou, late)))
	}
	if n := len(p.Blocks); n > 0 {
		parts = append(parts, s.Warn.Render(fmt.Sprintf("%d in the way", n)))
	}
	return strings.Join(parts, s.Dim.Render(" "+g.Dot+" "))
}

// end is when the last workload should be gone.
func (d *drawing) end(p drain.Plan) string {
	s := d.env.Theme.Styles
	switch {
	case p.Expected.IsZero() && len(p.Items) > 0:
		return s.Warn.Render("would not end by itself")
	case len(p.Items) == 0:
		return ""
	}
	return s.Dim.Render("expected ") + words.HM(p.Expected)
}

// age is how long ago a plan was made, and that an old one may be wrong.
func (d *drawing) age(p made) string {
	s := d.env.Theme.Styles
	age := max(d.env.Now().Sub(p.got), 0)
	switch {
	case p.busy:
		return s.Dim.Render("being made anew" + d.env.Theme.Glyphs.Ellipsis)
	case age > oldAfter:
		return s.Warn.Render("made " + widget.Ago(age) + ": 5 makes it anew")
	}
	return s.Dim.Render("made " + widget.Ago(age))
}

// details is all that a plan says of one workload.
func details(r row) feed.Show {
	it := r.it
	out := []string{
		"owner     " + words.Text(it.Owner),
		"class     " + words.Class(it.Class) + " by " + words.Text(it.Rule),
		"leaves by " + words.Text(it.Strategy),
	}
	if len(it.Steps) > 0 {
		names := make([]string, len(it.Steps))
		for i, step := range it.Steps {
			names[i] = words.Step(step)
		}
		out = append(out, "steps     "+strings.Join(names, ", "))
	}
	if it.Lever != "" {
		out = append(out, "lever     "+words.Name(it.Lever))
	}
	out = append(out, "budget    move "+words.Duration(it.Budget.Move)+", grace "+words.Duration(it.Budget.Grace))
	if !it.Expires.IsZero() {
		out = append(out, "expires   "+words.HMS(it.Expires))
	}
	if it.Target != "" {
		out = append(out, "to        "+words.Name(string(it.Target)))
	}
	if it.Parks {
		out = append(out, "to        parked here, at rest: on word it comes back")
	}
	if !it.NotParked.IsZero() {
		out = append(out, "not parked: "+words.Reason(it.NotParked))
	}
	if !it.GoneBy.IsZero() {
		text := "gone by   " + words.HMS(it.GoneBy)
		if r.late {
			text += ", after the deadline: extend that, or it may be named instead"
		}
		out = append(out, text)
	}
	if !it.Reason.IsZero() {
		out = append(out, "stays     "+words.Reason(it.Reason))
	}
	switch {
	case it.ExpiresInTime():
		out = append(out, "it expires in time; if it outlives that it may be killed: notice, TERM, its full grace, TERM, 30 s, then KILL")
	case it.MayDie:
		out = append(out, "it may be killed: notice, TERM, its full grace, TERM, 30 s, then KILL")
	}
	return feed.Show{Title: words.Key(it.Key), Lines: out}
}

// head is what stands above the workloads: of one host all that is said of its
// plan, of several the sum.
func (m Model) head(width int) []string {
	th := m.d.env.Theme
	rule := widget.Rule(width, th)
	switch {
	case len(m.hosts) == 0:
		return []string{" no host is chosen: pick one on the fleet screen", rule}
	case m.d.several:
		return append(m.sum(width), rule)
	}
	return append(m.d.one(m.hosts[0], width), rule)
}

// sum is the head of several plans.
func (m Model) sum(width int) []string {
	d, s := m.d, m.d.env.Theme.Styles
	var all drain.Plan
	var die []string
	done, bad := 0, 0
	for _, h := range m.hosts {
		p := d.plans[h]
		switch {
		case p.problem != "":
			bad++
		case p.plan != nil:
			done++
			all.Items = append(all.Items, p.plan.Items...)
			all.Blocks = append(all.Blocks, p.plan.Blocks...)
			all.Parks += p.plan.Parks
			all.Deadline = p.plan.Deadline
			for _, it := range p.plan.Items {
				if it.MayDie && !it.ExpiresInTime() {
					die = append(die, words.Key(it.Key)+" on "+words.Host(h))
				}
			}
		}
	}
	left := " " + s.Title.Render(fmt.Sprintf("%d hosts", len(m.hosts)))
	if !all.Deadline.IsZero() {
		left += "   " + s.Dim.Render("drains until ") + words.HM(all.Deadline)
	}
	left += "   " + d.totals(all)
	right := ""
	if n := len(m.hosts) - done - bad; n > 0 {
		right = s.Dim.Render(fmt.Sprintf("%d are being made ", n))
	}
	if bad > 0 {
		right = s.Warn.Render(fmt.Sprintf("%d could not be made ", bad)) + right
	}
	if right == "" {
		right = s.Dim.Render("each is for its host alone: they do not share room ")
	}
	out := []string{widget.Sides(left, right, width)}
	return append(out, d.death(die, width)...)
}

// one is the head of one host's plan.
func (d *drawing) one(h fleet.HostID, width int) []string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	name := " " + s.Title.Render(widget.Name(h.Name())) + "   "
	p := d.plans[h]
	switch {
	case p.busy && p.plan == nil:
		return []string{name + s.Dim.Render("the plan is being made"+g.Ellipsis)}
	case p.problem != "":
		return []string{name + s.Warn.Render("no plan: "+words.Text(p.problem))}
	case p.plan == nil:
		return []string{name + s.Dim.Render("no plan yet")}
	}
	until := s.Dim.Render("a drain until ") + words.HM(p.plan.Deadline)
	if p.plan.For != "" {
		until += s.Dim.Render(" for ") + words.Name(string(p.plan.For))
	}
	out := []string{widget.Sides(name+until, d.age(p)+s.Dim.Render(", changes nothing "), width)}
	line := " " + d.totals(*p.plan)
	if e := d.end(*p.plan); e != "" {
		line += "   " + e
	}
	out = append(out, line)
	for i, b := range p.plan.Blocks {
		if i == 3 {
			out = append(out, " "+s.Warn.Render(fmt.Sprintf("%d more blocks", len(p.plan.Blocks)-i)))
			break
		}
		out = append(out, " "+s.Warn.Render(g.NeedsYou+" blocks: "+words.Text(b)))
	}
	return append(out, d.dying(*p.plan, width)...)
}

// dying names who may die: never only how many.
func (d *drawing) dying(p drain.Plan, width int) []string {
	var names, late, outlive []string
	for _, it := range p.Items {
		switch {
		case it.ExpiresInTime():
			outlive = append(outlive, words.Key(it.Key))
		case it.MayDie:
			names = append(names, words.Key(it.Key))
		}
		if p.LateBy(it) {
			late = append(late, words.Key(it.Key))
		}
	}
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	out := d.death(names, width)
	line := func(style lipgloss.Style, text string, names []string) {
		if len(names) > 0 {
			out = append(out, " "+style.Render(widget.Fit(text+strings.Join(names, ", "), max(width-2, 1))))
		}
	}
	line(s.Warn, g.NeedsYou+" the budget ends after the deadline: ", late)
	line(s.Dim, "killed only if it outlives its own time: ", outlive)
	return out
}

func (d *drawing) death(names []string, width int) []string {
	if len(names) == 0 {
		return nil
	}
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	text := fmt.Sprintf("%s may die (%d): %s", g.Cross, len(names), strings.Join(names, ", "))
	return []string{" " + s.Danger.Render(widget.Fit(text, max(width-2, 1)))}
}
