package boardview

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// rowsPerItem is what one workload takes where classes stand side by side: its
// name, what it does, how long it has.
const rowsPerItem = 3

// wide draws the classes side by side, and what is in the way or has ended below
// them in a line each. The cursor is the table's: it goes through the same rows.
func (m Model) wide(width, height int) string {
	shown := m.shown()
	var cols []string
	for _, c := range fleet.Classes {
		if c != fleet.Unclassified || len(shown[words.Class(c)]) > 0 {
			cols = append(cols, words.Class(c))
		}
	}
	tail := append(append([]line{}, shown[secIssues]...), shown[secEnded]...)
	low := min(len(tail), max(height/3, 1))
	room := height - low
	if low > 0 {
		room-- // its rule
	}
	each := (width - 1) / len(cols)
	blocks := make([][]string, len(cols))
	for i, c := range cols {
		blocks[i] = m.column(c, shown[c], each-2, room)
	}
	var out []string
	for i := range room {
		text := " "
		for _, b := range blocks {
			text += widget.Fit(b[i], each)
		}
		out = append(out, text)
	}
	if low > 0 {
		out = append(out, widget.Rule(width, m.env.Theme))
		out = append(out, m.tail(tail, width, low)...)
	}
	return widget.Exact(out, width, height)
}

// shown are the rows that pass the filter, by section.
func (m Model) shown() map[string][]line {
	out := map[string][]line{}
	f := m.table.Filter()
	for _, l := range m.d.rows {
		if f.Empty() || f.Match(m.d.filterable(l)) {
			out[l.section] = append(out[l.section], l)
		}
	}
	return out
}

// column draws one class in a block of exactly height lines, scrolled so that
// the cursor is in it.
func (m Model) column(section string, all []line, width, height int) []string {
	s := m.env.Theme.Styles
	out := []string{s.Title.Render(strings.ToUpper(section)) + s.Dim.Render(fmt.Sprintf("  %d", len(all)))}
	if height > 4 {
		note := ""
		for _, c := range fleet.Classes {
			if words.Class(c) == section {
				note = words.Strategy(c)
			}
		}
		out = append(out, s.Dim.Render(widget.Fit(note, width)), "")
	}
	fit := max(1, (height-len(out)-1)/(rowsPerItem+1))
	from := window(m.cursorIn(all), len(all), fit)
	for _, l := range all[from:min(from+fit, len(all))] {
		out = append(out, m.block(l, width)...)
		out = append(out, "")
	}
	if rest := len(all) - from - fit; rest > 0 && len(out) > 0 {
		out = append(out[:min(len(out), height-1)], s.Dim.Render(fmt.Sprintf("%d more", rest)))
	}
	for len(out) < height {
		out = append(out, "")
	}
	return out[:height]
}

// window is the first of n rows to draw so that row cur is among the fit ones.
func window(cur, n, fit int) int {
	if cur < fit {
		return 0
	}
	return min(cur-fit+1, max(0, n-fit))
}

func (m Model) cursorIn(all []line) int {
	sel, ok := m.table.Selected()
	for i, l := range all {
		if ok && l.id() == sel.id() {
			return i
		}
	}
	return 0
}

// lead is the cursor, the mark and the sign before a row.
func (m Model) lead(l line) (string, lipgloss.Style) {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	style := lipgloss.Style{}
	cursor, mark, sign := " ", " ", " "
	if sel, ok := m.table.Selected(); ok && sel.id() == l.id() {
		cursor, style = s.Cursor.Render(g.Cursor), s.Selected
	}
	if m.table.IsMarked(l.id()) {
		mark = s.Mark.Render(g.Mark)
	}
	if c := m.d.sign(l); c.Text != "" {
		sign = c.Style.Render(c.Text)
	}
	return cursor + mark + sign + " ", style
}

// block is one workload in three lines.
func (m Model) block(l line, width int) []string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	lead, style := m.lead(l)
	owner := ownerOf(l.it, g)
	room := width - 4
	name := style.Inherit(s.Text).Render(widget.Fit(l.label, max(room-lipgloss.Width(owner)-2, room/2)))
	doing, due := m.d.doing(l)
	out := []string{
		lead + widget.Sides(name, s.Dim.Render(owner), room),
		"    " + m.d.doingStyle(l).Inherit(s.Text).Render(widget.Fit(doing, room)),
		"",
	}
	if !due.IsZero() {
		left, when := m.d.countdown(due)
		out[2] = "    " + m.d.bar(due, 8).Drawn + " " + left.Style.Inherit(s.Text).Render(widget.FitRight(left.Text, 7)) + "  " + when.Style.Render(when.Text)
	} else if lines := widget.Wrap(doing, room); len(lines) > 1 {
		out[1] = "    " + m.d.doingStyle(l).Inherit(s.Text).Render(lines[0])
		out[2] = "    " + m.d.doingStyle(l).Inherit(s.Text).Render(widget.Fit(strings.Join(lines[1:], " "), room))
	}
	return out
}

// tail draws what is in the way and what has ended, a line each.
func (m Model) tail(all []line, width, height int) []string {
	s := m.env.Theme.Styles
	from := window(m.cursorIn(all), len(all), height)
	var out []string
	for _, l := range all[from:min(from+height, len(all))] {
		lead, style := m.lead(l)
		text := words.CheckFails(l.issue.Check) + ": " + words.Text(l.issue.Detail)
		if l.kind != issue {
			text, _ = m.d.doing(l)
		}
		out = append(out, " "+lead+style.Inherit(s.Dim).Render(widget.Fit(l.label, 28))+"  "+
			m.d.doingStyle(l).Render(widget.Fit(text, max(1, width-40))))
	}
	return out
}
