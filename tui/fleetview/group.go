package fleetview

import (
	"cmp"
	"fmt"
	"strings"

	"ebb/drain"
	"ebb/themes"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// group is the value by which a host stands under a heading; "" where it has
// none.
func (r *row) groupBy(by string) string {
	switch by {
	case "":
		return ""
	case "state":
		return r.word
	case "plane":
		return r.v.Host.ID.Plane()
	}
	return r.v.Host.Labels[by]
}

// compareGroups puts those last that have no value.
func compareGroups(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// tally is what is counted of a group of hosts, and of all of them.
type tally struct {
	hosts, needs                               int
	serving, holding, draining, silent, unread int
	terminated, lost                           int
	holds                                      map[string]int // the holding ones by their state
	busy, gpus                                 int
}

func (t *tally) add(r *row) {
	t.hosts++
	if r.needs || r.forgotten {
		t.needs++
	}
	if busy, all, ok := r.gpus(); ok && r.gone == "" {
		t.busy, t.gpus = t.busy+busy, t.gpus+all
	}
	switch r.kind() {
	case isTerminated:
		t.terminated++
	case isUnreachable:
		t.silent++
	case isUnread:
		t.unread++
	case isDraining:
		t.draining++
	case isServing:
		t.serving++
	default:
		t.holding++
		if t.holds == nil {
			t.holds = map[string]int{}
		}
		t.holds[r.role]++
	}
	if r.role == themes.Lost {
		t.lost++
	}
}

// The kinds of the line of counts: each host is one of them.
const (
	isServing     = "serving"
	isHolding     = "holding"
	isDraining    = "draining"
	isUnreachable = "unreachable"
	isUnread      = "not read yet"
	isTerminated  = "terminated"
)

func (r *row) kind() string {
	switch {
	case r.word == "terminating":
		return isDraining // its last act is under way
	case r.gone != "":
		return isTerminated
	case r.role == themes.Unreachable:
		return isUnreachable
	case r.role == "":
		return isUnread
	case r.s != nil && r.s.Phase != drain.Empty && r.s.Phase != drain.Parked && r.s.Phase != drain.Stopped, r.role == themes.Draining:
		return isDraining
	case r.role == themes.Serving:
		return isServing
	}
	return isHolding
}

// counts draws a tally: what needs somebody first, what is as it should be last.
func (d *drawing) counts(t tally) []string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	var out []string
	add := func(n int, role, text string) {
		if n > 0 {
			out = append(out, s.State(role).Render(fmt.Sprintf(text, n)))
		}
	}
	verb := " need you"
	if t.needs == 1 {
		verb = " needs you"
	}
	add(t.needs, themes.NeedsYou, g.NeedsYou+" %d"+verb)
	add(t.lost, themes.Lost, g.Lost+" %d lost")
	add(t.draining, themes.Draining, "%d draining")
	add(t.holding, themes.Cordoned, "%d holding")
	add(t.silent, themes.Unreachable, "%d unreachable")
	add(t.unread, "", "%d not read yet")
	add(t.terminated, themes.Terminated, "%d terminated")
	add(t.serving, themes.Serving, "%d serving")
	return out
}

// heading is the line above a group: its name, how many, what they do, and what
// of their GPUs is used.
func (d *drawing) heading(group string, shown int) widget.Cell {
	s := d.env.Theme.Styles
	t := tally{}
	if g := d.groups[group]; g != nil {
		t = *g
	}
	name := "no " + d.as.Group
	if group != "" {
		name = words.Name(group)
	}
	text := s.Title.Render(name)
	if d.as.Group != "state" {
		text = s.Dim.Render(widget.Name(d.as.Group)+" ") + text
	}
	n := fmt.Sprintf("  %d", shown)
	if shown < t.hosts {
		n = fmt.Sprintf("  %d of %d", shown, t.hosts)
	}
	parts := d.counts(t)
	if d.as.Group == "state" {
		parts = nil
	}
	if t.gpus > 0 {
		parts = append(parts, s.Dim.Render(fmt.Sprintf("GPUs %d/%d", t.busy, t.gpus)))
	}
	return widget.Cell{Drawn: text + s.Dim.Render(n) + "   " + strings.Join(parts, "   ")}
}
