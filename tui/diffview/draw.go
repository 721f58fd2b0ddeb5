package diffview

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

var columns = []widget.Column{
	{Title: "WHAT", Min: 14, Weight: 3, Max: 44},
	{Title: "VERDICT", Min: 12, Weight: 1, Max: 20},
	{Title: "OWNER", Min: 8, Weight: 1, Max: 16, Priority: 3},
	{Title: "SINCE", Min: 6, Priority: 2, Right: true},
	{Title: "BECAUSE", Min: 16, Weight: 4, Priority: 1},
}

func (d *drawing) heading(section string, n int) widget.Cell {
	s := d.env.Theme.Styles
	note := ""
	for _, sec := range sections {
		if sec.name == section {
			note = sec.note
		}
	}
	return widget.Cell{Drawn: s.Title.Render(strings.ToUpper(section)) + s.Dim.Render(fmt.Sprintf("  %d   %s", n, note))}
}

func (d *drawing) sign(f fleet.Finding) widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	switch {
	case f.Verdict.Clean():
		return widget.T(g.Check, s.Ok)
	case place(f.Verdict) == 3:
		return widget.T(g.Unknown, s.Stale)
	}
	return widget.T(g.NeedsYou, s.State(themes.NeedsYou))
}

func (d *drawing) cells(f fleet.Finding) []widget.Cell {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	base, note := lipgloss.Style{}, s.Dim
	if !f.Verdict.Clean() {
		note = lipgloss.Style{}
	}
	owner, since := widget.T(g.None, s.Dim), widget.T(g.None, s.Dim)
	if f.Owner != "" {
		owner = widget.T(widget.Name(f.Owner), s.Dim)
	}
	if !f.Since.IsZero() {
		since = widget.T(widget.Age(d.env.Now().Sub(f.Since)), s.Dim)
	}
	return []widget.Cell{
		widget.N(widget.Name(f.Key.Kind)+"/"+label(f), base),
		widget.T(words.VerdictName(f.Verdict), note),
		owner, since,
		widget.T(says(f), s.Dim),
	}
}

// label is the id, and for a process its command too.
func label(f fleet.Finding) string {
	if f.Process != nil {
		return fmt.Sprintf("%d %s", f.Process.Run.PID, widget.Name(f.Process.Comm))
	}
	return widget.Name(f.Key.ID)
}

// head says how old both sides are and how many findings need explaining.
func (d *drawing) head(width int, host fleet.HostID) []string {
	th := d.env.Theme
	s, g := th.Styles, th.Glyphs
	if !d.known {
		return []string{" no host is chosen: pick one on the fleet screen", widget.Rule(width, th)}
	}
	now := d.env.Now()
	n := 0
	for _, f := range d.rows {
		if !f.Verdict.Clean() {
			n++
		}
	}
	verdict := s.Ok.Render(g.Check + " claims and host agree")
	if n > 0 {
		verdict = s.State(themes.NeedsYou).Render(fmt.Sprintf("%s %d to explain", g.NeedsYou, n))
	} else if d.view.Facts.Status != fleet.OK || d.view.Claims.Status != fleet.OK && !d.view.SelfClaims {
		verdict = s.Stale.Render(g.Unknown + " not known")
	}
	right := "claims " + d.age(d.view.Claims.Status, d.view.Claims.At, now)
	if d.view.SelfClaims {
		right = "its plane claims nothing: the host's word stands"
	}
	right += "   host " + d.age(d.view.Facts.Status, feed.ReadAt(&d.view), now)
	out := []string{widget.Sides(" "+s.Title.Render(widget.Name(host.Name()))+"   "+verdict, s.Dim.Render(right+" "), width)}
	if sum := d.sum(); sum != "" {
		out = append(out, " "+s.Dim.Render(sum))
	}
	out = append(out, d.warnings(now)...)
	return append(out, widget.Rule(width, th))
}

// sum counts each section, those without any too: that there is no leak is worth
// saying.
func (d *drawing) sum() string {
	if len(d.rows) == 0 {
		return ""
	}
	n := make([]int, len(sections))
	for _, f := range d.rows {
		n[place(f.Verdict)]++
	}
	var parts []string
	for i, sec := range sections {
		parts = append(parts, fmt.Sprintf("%d %s", n[i], sec.name))
	}
	return strings.Join(parts, "   ")
}

func (d *drawing) age(st fleet.Status, at, now time.Time) string {
	if st != fleet.OK || at.IsZero() {
		return words.Status(st)
	}
	text := widget.Age(now.Sub(at))
	if now.Sub(at) > feed.StaleAfter {
		text += " old!"
	}
	return text
}

// warnings name what the comparison could not rest on.
func (d *drawing) warnings(now time.Time) []string {
	s, g := d.env.Theme.Styles, d.env.Theme.Glyphs
	var out []string
	if ok, why := feed.Fresh(d.view, now); !ok {
		out = append(out, " "+s.State(themes.Unreachable).Render(g.Unreachable+" this is what was last known: "+words.Text(why)))
	}
	if st := d.view.Claims.Status; st != fleet.OK && !d.view.SelfClaims {
		out = append(out, " "+s.Warn.Render("the claims can't be read: "+words.Text(d.view.Claims.Error)))
	}
	if f, ok := d.view.Facts.Get(); ok {
		for _, p := range f.Probes() {
			if p.Status != fleet.OK && p.Status != fleet.NotApplicable {
				out = append(out, " "+s.Warn.Render("probe "+words.Name(p.Name)+" "+words.Status(p.Status)+": "+words.Text(p.Error)))
			}
		}
		if !d.view.Stable && len(d.rows) > 0 && !d.view.SelfClaims {
			out = append(out, " "+s.Dim.Render("the claims changed while the host was read: ghosts and orphans are only suspected"))
		}
	}
	return out[:min(len(out), 3)]
}
