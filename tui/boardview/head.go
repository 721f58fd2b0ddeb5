package boardview

import (
	"fmt"
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

// head is what stands above the workloads: whose host, for how long, what is
// left, and what is wrong with what is shown.
func (d *drawing) head(width, height int) []string {
	var out []string
	if !d.known {
		text := " no host is chosen: pick one on the fleet screen"
		if d.host != "" {
			text = " " + widget.Name(d.host.Name()) + " is not listed by any plane"
		}
		return []string{text, widget.Rule(width, d.env.Theme)}
	}
	if width < sectionsFrom || height < 12 {
		out = append(out, d.short(width))
	} else {
		out = append(out, d.who(width))
		switch {
		case d.state == nil && d.gone == "":
			out = append(out, d.resting(width))
		case d.state != nil:
			out = append(out, d.numbers(width, height))
		}
		if course := d.courseLine(width, height); course != "" {
			out = append(out, course)
		}
	}
	if height >= 28 && d.state != nil {
		if names := d.named(); names != "" {
			out = append(out, widget.Fit(" "+names, width))
		}
	}
	if w := d.warning(); w != "" && height >= 8 {
		out = append(out, " "+w)
	}
	return append(out, widget.Rule(width, d.env.Theme))
}

// stateWord is the sign and word of the host, where there is room with what it
// is drained for.
func (d *drawing) stateWord(long bool) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	role, word := words.State(&d.view, d.state)
	if long && d.state != nil && d.state.For != "" && d.state.Phase == drain.Draining {
		word += " for " + words.Name(string(d.state.For))
	}
	return s.State(role).Render(g.State(role) + " " + word)
}

// who is the first line where there is room: place, state, holds, driver.
func (d *drawing) who(width int) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	place := []string{widget.Name(d.host.Plane())}
	for _, l := range []string{"pool", "rack"} {
		if v := d.view.Host.Labels[l]; v != "" {
			place = append(place, widget.Name(v))
		}
	}
	left := " " + s.Title.Render(widget.Name(d.host.Name())) + "   " + s.Dim.Render(strings.Join(place, " "+g.Dot+" ")) + "   " + d.stateWord(true)
	if holds, _, ok := d.view.Holds(); ok && holds.Cordon != nil {
		c := holds.Cordon
		left += "   " + s.Dim.Render("cordoned ") + words.HM(c.Since) + s.Dim.Render(" by ") + widget.Name(c.Who)
		if c.Why != "" {
			left += " " + s.Dim.Render(g.QuoteOpen+words.Text(c.Why)+g.QuoteClose)
		}
	}
	return widget.Sides(left, d.driver()+" ", width)
}

func (d *drawing) driver() string {
	s := d.env.Theme.Styles
	switch {
	case d.gone != "":
		return s.Dim.Render(d.gone)
	case d.state == nil:
		return s.Dim.Render("no drain")
	case d.frame.Driving[d.host]:
		return s.Dim.Render("driven by ") + "this console"
	case d.state.Driver != "":
		return s.Dim.Render("driven by ") + widget.Name(d.state.Driver)
	case d.state.Phase.Ended():
		return s.Dim.Render("nobody drives")
	}
	return s.Warn.Render("nobody drives")
}

// idle says whether the drain would go on if somebody drove it.
func (d *drawing) idle() bool {
	return d.state != nil && d.state.Undriven() && !d.frame.Driving[d.host]
}

// numbers is the second line: how long, how many, who needs whom.
func (d *drawing) numbers(width, height int) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	c := d.state.Count()
	parts := []string{d.ends()}
	parts = append(parts, words.StillLeft(*d.state))
	if c.Parked > 0 {
		parts = append(parts, fmt.Sprintf("%d parked here", c.Parked))
	}
	if c.NeedsYou > 0 {
		verb := "need you"
		if c.NeedsYou == 1 {
			verb = "needs you"
		}
		parts = append(parts, s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d %s", g.NeedsYou, c.NeedsYou, verb)))
	}
	if n := len(d.blocked()); n > 0 {
		parts = append(parts, s.Warn.Render(fmt.Sprintf("%d blocked", n)))
	}
	if c.Overdue > 0 {
		parts = append(parts, s.Warn.Render(fmt.Sprintf("%d over budget", c.Overdue)))
	}
	parts = append(parts, s.Dim.Render(fmt.Sprintf("%d arrived late", c.Late)))
	lost := s.Dim
	if c.Lost > 0 {
		lost = s.State(themes.Lost)
	}
	parts = append(parts, lost.Render(fmt.Sprintf("%d lost", c.Lost)))
	if at := words.Expected(*d.state, d.frame.Policy, d.clock); !at.IsZero() {
		parts = append(parts, s.Dim.Render("expected ")+words.HM(at))
	} else if c.Left > 0 && !d.state.Phase.Ended() && d.frame.Replay == "" {
		parts = append(parts, s.Dim.Render("expected: not by itself"))
	}
	left := " " + strings.Join(parts, "   ")
	chart := ""
	if room := width - lipgloss.Width(left) - 4; d.courseLine(width, height) == "" && room >= 6 {
		chart = burn(*d.state, d.clock, min(room, 24), d.env.Theme)
	}
	return widget.Sides(left, chart+" ", width)
}

// courseLine is the burn-down on a line of its own, on screens that are high
// enough for it.
func (d *drawing) courseLine(width, height int) string {
	if d.state == nil || d.gone != "" || height < 28 {
		return ""
	}
	return d.course(width)
}

// blocked names what waits for something that no time and no person is set to
// end; those that need somebody are counted apart.
func (d *drawing) blocked() []string {
	return d.labels(func(it drain.Item) bool {
		return words.Blocked(it, *d.state, d.frame.Policy, d.clock) && !drain.NeedsPerson(it.Reason.Code)
	})
}

// labels names the workloads for which ok holds, in the order of the board.
func (d *drawing) labels(ok func(drain.Item) bool) []string {
	var out []string
	for _, l := range d.rows {
		if l.kind == item && ok(l.it) {
			out = append(out, l.label)
		}
	}
	return out
}

// named are those behind the numbers, by name: a screen may not have room for
// their rows.
func (d *drawing) named() string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	var parts []string
	add := func(style lipgloss.Style, what string, names []string) {
		const most = 4
		if len(names) == 0 {
			return
		}
		text := strings.Join(names[:min(len(names), most)], ", ")
		if n := len(names) - most; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		parts = append(parts, style.Render(what)+" "+text)
	}
	add(s.State(themes.NeedsYou), g.NeedsYou+" need you:", d.labels(func(it drain.Item) bool { return it.Open() && drain.NeedsPerson(it.Reason.Code) }))
	add(s.Warn, "blocked:", d.blocked())
	add(s.Dim, "parked here:", d.labels(drain.Item.Parked))
	add(s.Dim, "arrived late:", d.labels(func(it drain.Item) bool { return it.Late && it.Open() }))
	add(s.State(themes.Lost), g.Lost+" lost:", d.labels(func(it drain.Item) bool { return it.End == drain.Lost }))
	return strings.Join(parts, "   ")
}

// resting is the second line of a host that is not drained: what runs there, and
// how it would go.
func (d *drawing) resting(width int) string {
	s := d.env.Theme.Styles
	n := map[fleet.Class]int{}
	for _, l := range d.rows {
		n[l.it.Class]++
	}
	var parts []string
	for _, c := range fleet.Classes {
		if n[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c], words.Class(c)))
		}
	}
	text := "nothing that would have to leave"
	if d.view.Facts.Status != fleet.OK {
		text = "what runs here is not known"
	}
	if len(parts) > 0 {
		text = strings.Join(parts, "   ")
	}
	if sum, ok := d.view.Summary.Get(); ok && sum.GPUs[1] > 0 {
		text += fmt.Sprintf("   GPUs %d/%d", sum.GPUs[0], sum.GPUs[1])
	}
	at := feed.ReadAt(&d.view)
	right := ""
	if !at.IsZero() {
		right = s.Dim.Render("read " + widget.Heard(max(d.now.Sub(at), 0)) + " ago ")
	}
	return widget.Sides(" "+text, right, width)
}

func (d *drawing) ends() string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	left := d.state.Deadline.Sub(d.clock)
	switch {
	case d.state.Phase == drain.DeadlineReached:
		return s.Danger.Render("deadline " + words.HM(d.state.Deadline) + " reached")
	case d.state.Phase.Ended():
		return s.Dim.Render(words.Phase(d.state.Phase) + " since " + words.HM(d.state.Since))
	case left < 5*time.Minute:
		return s.Warn.Render("ends " + words.HM(d.state.Deadline) + " " + g.Dot + " " + widget.Left(left))
	}
	return s.Dim.Render("ends ") + words.HM(d.state.Deadline) + s.Dim.Render(" "+g.Dot+" ") + widget.Left(left)
}

// short is the one line of narrow or low screens.
func (d *drawing) short(width int) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	text := " " + s.Title.Render(widget.Name(d.host.Name())) + " " + d.stateWord(false)
	if d.state == nil {
		return widget.Fit(text+"   "+s.Dim.Render("no drain"), width)
	}
	c := d.state.Count()
	if width < 64 {
		return widget.Fit(d.shortest(c), width)
	}
	if d.idle() {
		text += "   " + s.Warn.Render("nobody drives")
	}
	if left := d.state.Deadline.Sub(d.clock); !d.state.Phase.Ended() {
		text += "   " + widget.Left(left) + s.Dim.Render(" ("+words.HM(d.state.Deadline)+")")
	}
	text += "   " + words.StillLeft(*d.state)
	if c.NeedsYou > 0 {
		text += "   " + s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d", g.NeedsYou, c.NeedsYou))
	}
	text += s.Dim.Render(fmt.Sprintf("   late %d", c.Late))
	lost := s.Dim
	if c.Lost > 0 {
		lost = s.State(themes.Lost)
	}
	return widget.Fit(text+lost.Render(fmt.Sprintf("   lost %d", c.Lost)), width)
}

// shortest keeps to signs and numbers: what needs somebody, how long there is,
// what is left.
func (d *drawing) shortest(c drain.Counts) string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	role, word := words.State(&d.view, d.state)
	text := " " + s.Title.Render(widget.Name(d.host.Name())) + " " + s.State(role).Render(g.State(role))
	if d.state.Phase != drain.Draining {
		text += " " + s.State(role).Render(word)
	}
	if c.NeedsYou > 0 {
		text += "  " + s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d", g.NeedsYou, c.NeedsYou))
	}
	if c.Lost > 0 {
		text += "  " + s.State(themes.Lost).Render(fmt.Sprintf("%s %d", g.Lost, c.Lost))
	}
	if d.idle() {
		text += "  " + s.Warn.Render("nobody drives")
	} else if !d.state.Phase.Ended() {
		text += "  " + widget.Left(d.state.Deadline.Sub(d.clock))
	}
	return text + "  " + words.StillLeft(*d.state)
}

// warning is the one line that says why what is shown can't be relied on, or why
// nothing moves.
func (d *drawing) warning() string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	if d.gone != "" {
		return s.State(themes.Terminated).Render(d.gone + ": this is what was last known")
	}
	if on := words.Terminating(d.state); on != "" {
		return s.State(themes.Terminated).Render(on + ": that it falls silent is part of it; the gate (4) has the outcome")
	}
	if d.frame.Replay != "" {
		return d.recorded()
	}
	if ok, why := feed.Fresh(d.view, d.now); !ok {
		return s.State(themes.Unreachable).Render(g.Unreachable + " this is what was last known: " + words.Text(why))
	}
	switch {
	case d.state == nil && d.stuck:
		return s.Warn.Render(d.atRest + ": " + words.BringsBack)
	case d.state == nil && d.atRest != "":
		return s.Ok.Render(d.atRest + ": " + words.BringsBack)
	case d.state == nil:
		return ""
	case d.idle():
		return s.Warn.Render("nobody drives this drain: d takes it up here (or ebb drain " + words.Host(d.host) + ")")
	case !d.state.Waiting.IsZero():
		return s.Warn.Render("waits: " + words.Reason(d.state.Waiting))
	case d.state.Phase == drain.DeadlineReached:
		return s.Danger.Render("the deadline is reached, the host stays held: extend (x), escalate by name (e), or stop (s)")
	case d.state.Phase == drain.Verifying:
		return s.Dim.Render(fmt.Sprintf("all have left; verified when nothing is in the way: %d to clear (4 gate)", len(d.state.Issues)))
	case d.state.Phase == drain.Parked:
		return s.Ok.Render("nothing is left but what is parked here: it may be rebooted; " + words.BringsBack)
	case d.state.Phase == drain.Empty:
		return s.Ok.Render("empty: " + words.AfterEmpty)
	}
	return ""
}

// recorded is the warning of a replay: nothing but what the journal says is
// known, and nothing can be done about it.
func (d *drawing) recorded() string {
	s := d.env.Theme.Styles
	switch {
	case d.idle():
		return s.Warn.Render("nobody drove this drain")
	case d.state != nil && !d.state.Waiting.IsZero():
		return s.Warn.Render("waits: " + words.Reason(d.state.Waiting))
	case d.state != nil && d.state.Phase == drain.DeadlineReached:
		return s.Danger.Render("the deadline was reached, the host stayed held")
	}
	return s.Dim.Render("as the journal tells it: the host itself is not known in a replay")
}

// foot is what happens next and what happened last.
func (d *drawing) foot(width, height int) []string {
	if !d.known || height < 10 {
		return nil
	}
	n := 1
	switch {
	case height >= 40:
		n = 6
	case height >= 28:
		n = 3
	}
	last := d.last(n)
	room := width/2 - 6
	if width < sectionsFrom && n == 1 {
		last, room = nil, width-8
	}
	next := d.next(n, room)
	out := []string{widget.Rule(width, d.env.Theme)}
	for i := range n {
		l, r := "", ""
		if i < len(next) {
			l = next[i]
		}
		if i < len(last) {
			r = last[i]
		}
		out = append(out, widget.Sides(" "+l, r+" ", width))
	}
	return out
}

// next lines up what happens next: on one line as much as fits, on several the
// soonest first.
func (d *drawing) next(n, room int) []string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	if d.state == nil || d.gone != "" {
		return d.rest(n)
	}
	all := words.Coming(*d.state, d.frame.Policy, d.clock)
	if len(all) == 0 {
		return []string{s.Dim.Render("nothing happens by itself")}
	}
	var out []string
	per := 1
	if n == 1 {
		per = 3
	}
	for i := 0; i < len(all) && len(out) < n; i += per {
		text, used := "", 5
		for k, due := range all[i:min(i+per, len(all))] {
			style, part := s.Text, words.ComingText(due)
			if due.What == "KILL" {
				style = s.Danger
			}
			if k > 0 {
				part = " " + g.Dot + " " + part
			}
			if used += lipgloss.Width(part); used > room && k > 0 {
				break
			}
			text += style.Render(part)
		}
		lead := "     "
		if i == 0 {
			lead = "next "
		}
		out = append(out, s.Dim.Render(lead)+text)
	}
	return out
}

// rest is what can come next of a host that is not drained.
func (d *drawing) rest(n int) []string {
	s := d.env.Theme.Styles
	if d.gone != "" || d.frame.Replay != "" {
		return nil
	}
	out := []string{s.Dim.Render("next ") + "nothing by itself: no drain runs here"}
	if n == 1 {
		return []string{s.Dim.Render("no drain runs here: ") + "5 shows what one would do, d begins it"}
	}
	return append(out, s.Dim.Render("     5 shows what a drain would do, d begins one"))
}

// last are the newest events of this host, newest first.
func (d *drawing) last(n int) []string {
	s := d.env.Theme.Styles
	var out []string
	for i := len(d.frame.Events) - 1; i >= 0 && len(out) < n; i-- {
		e := d.frame.Events[i]
		if fleet.HostID(e.Stream) == d.host {
			out = append(out, s.Dim.Render(words.HMS(e.At)+" ")+s.Dim.Render(words.Event(e)))
		}
	}
	return out
}
