package boardview

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// emptyColumn is the width of a class that has nothing: the others need the room.
const emptyColumn = 16

// wide draws the classes side by side, and what is in the way or has ended below
// them in a line each. The cursor is the table's: it goes through the same rows.
func (m Model) wide(width, height int) string {
	shown := m.shown()
	var cols []string
	full := 0
	for _, c := range fleet.Classes {
		name := words.Class(c)
		if c != fleet.Unclassified || len(shown[name]) > 0 {
			cols = append(cols, name)
		}
		if len(shown[name]) > 0 {
			full++
		}
	}
	tail := append(append([]line{}, shown[secIssues]...), shown[secEnded]...)
	low := min(len(tail), max(height/3, 1))
	room := height - low
	if low > 0 {
		room-- // its rule
	}
	each := (width - 1 - emptyColumn*(len(cols)-full)) / max(full, 1)
	blocks, widths := make([][]string, len(cols)), make([]int, len(cols))
	for i, c := range cols {
		if widths[i] = each; len(shown[c]) == 0 {
			widths[i] = min(emptyColumn, (width-1)/len(cols))
		}
		blocks[i] = m.column(c, shown[c], widths[i]-2, room)
	}
	var out []string
	for i := range room {
		text := " "
		for k, b := range blocks {
			text += widget.Fit(b[i], widths[k])
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
	if height < 1 {
		return nil
	}
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
	cards := m.cards(all, width, height-len(out)-1)
	from, to := window(cards, m.cursorIn(all), height-len(out)-1)
	for _, card := range cards[from:to] {
		out = append(out, card...)
		out = append(out, "")
	}
	if hidden := len(all) - (to - from); hidden > 0 {
		text := fmt.Sprintf("%d more below", len(all)-to)
		if from > 0 {
			text = fmt.Sprintf("%d above, %d below", from, len(all)-to)
		}
		out = append(out[:min(len(out), height-1)], s.Dim.Render(text))
	}
	for len(out) < height {
		out = append(out, "")
	}
	return out[:height]
}

// cards are the rows of a class, each with as many lines for what it says as all
// of them have room for.
func (m Model) cards(all []line, width, room int) [][]string {
	out := make([][]string, len(all))
	for most := 4; most >= 1; most-- {
		sum := 0
		for i, l := range all {
			out[i] = m.card(l, width, most)
			sum += len(out[i]) + 1
		}
		if sum <= room {
			break
		}
	}
	return out
}

// window is which cards are drawn, from and up to: the cursor's is among them, and
// as many before it as there is room for.
func window(cards [][]string, cur, room int) (from, to int) {
	used := 0
	for to < len(cards) && (used+len(cards[to])+1 <= room || to <= cur) {
		used += len(cards[to]) + 1
		to++
		for used > room && from < to-1 {
			used -= len(cards[from]) + 1
			from++
		}
	}
	return from, to
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

// card is one workload: its name with owner and GPUs, what it does or waits for on
// at most so many lines, and how long it has or which keys answer it.
func (m Model) card(l line, width, most int) []string {
	s, g := m.env.Theme.Styles, m.env.Theme.Glyphs
	lead, style := m.lead(l)
	room := max(width-4, 1)
	about := ownerOf(l.it, g)
	if gpus := m.d.gpus(l.it); gpus != "" && lipgloss.Width(about)+len(gpus)+3 < room/2 {
		about += " " + g.Dot + " " + gpus
	}
	name := style.Inherit(s.Text).Render(widget.Fit(l.label, max(room-lipgloss.Width(about)-2, room/2)))
	out := []string{lead + widget.Sides(name, s.Dim.Render(about), room)}
	doing, due := m.d.doing(l)
	text := widget.Wrap(doing, room)
	if len(text) > most {
		text = append(text[:most-1], widget.Fit(strings.Join(text[most-1:], " "), room))
	}
	for _, t := range text {
		out = append(out, "    "+m.d.doingStyle(l).Inherit(s.Text).Render(t))
	}
	if !due.IsZero() {
		out = append(out, "    "+m.due(due, room))
	} else if own := strings.TrimSpace(m.d.keysFor(l)); own != "" {
		out = append(out, "    "+s.KeyHint.Render(widget.Fit(own, room)))
	}
	return out
}

// due is a countdown with its bar, and what happens then, as far as it fits.
func (m Model) due(due words.Due, room int) string {
	left, when := m.d.countdown(due)
	tail := left.Style.Inherit(m.env.Theme.Styles.Text).Render(widget.FitRight(left.Text, 7)) + "  " + when.Style.Render(when.Text)
	bar := min(12, room-lipgloss.Width(tail)-1)
	if bar < 3 {
		return tail
	}
	return widget.Bar(bar, due.Done(m.d.clock), m.env.Theme.Styles, m.env.Theme.Glyphs) + " " + tail
}

// tail draws what is in the way and what has ended, a line each.
func (m Model) tail(all []line, width, height int) []string {
	s := m.env.Theme.Styles
	from := max(0, min(m.cursorIn(all)-height+1, len(all)-height))
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
