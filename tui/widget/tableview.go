package widget

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
)

// View draws the table in exactly height lines of exactly width cells. It calls
// Cells for the rows that are visible and for no others.
func (t *Table[R]) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	out := make([]string, 0, height)
	gutter := t.gutter()
	widths := Widths(t.cols, width-gutter, t.gap)
	if t.headers && height >= 3 {
		out = append(out, t.header(widths, width))
	}
	body := height - len(out)
	t.page = body
	t.scroll(body)
	still := t.blanks(t.theme.Styles.Text)
	for line := t.top; line < t.lines() && len(out) < height; line++ {
		row, heading := t.at(line)
		if heading >= 0 {
			out = append(out, t.heading(t.sections[heading], width))
			continue
		}
		out = append(out, t.row(row, widths, width, still))
	}
	if len(t.shown) == 0 {
		out = append(out, t.nothing(width))
	}
	blank := strings.Repeat(" ", width)
	for len(out) < height {
		out = append(out, blank)
	}
	return strings.Join(out[:height], "\n")
}

// Position says which rows the last view showed, for "12–40 of 50000".
func (t *Table[R]) Position() string {
	n := len(t.shown)
	if n == 0 || t.page >= t.lines() {
		return ""
	}
	return fmt.Sprintf("%d of %d", t.cur+1, n)
}

// gutter is the cells before the columns: cursor, mark, sign, and a space.
func (t *Table[R]) gutter() int {
	if t.of.Sign != nil {
		return 4
	}
	return 3
}

// scroll moves the window as little as needed for the cursor to be in it, with
// its heading where that is right above.
func (t *Table[R]) scroll(body int) {
	if t.cur >= 0 {
		line := t.lineOf(t.cur)
		first := line
		if _, heading := t.at(line - 1); line > 0 && heading >= 0 && body > 1 {
			first--
		}
		t.top = min(t.top, first)
		t.top = max(t.top, line-body+1)
	}
	t.top = max(0, min(t.top, t.lines()-body))
}

func (t *Table[R]) header(widths []int, width int) string {
	cells := make([]Cell, len(t.cols))
	for i, c := range t.cols {
		cells[i] = Cell{Text: c.Title}
	}
	style := t.theme.Styles.Head
	return t.exact(style.Render(strings.Repeat(" ", t.gutter()))+t.line(cells, widths, t.blanks(style)), width)
}

// blanks is what stands between the cells of a row of one style.
type blanks struct {
	style            lipgloss.Style
	lead, space, gap string // where no cursor and no mark is, before the first cell, between two
}

func (t *Table[R]) blanks(style lipgloss.Style) blanks {
	s := t.theme.Styles
	return blanks{style: style, lead: s.Cursor.Inherit(style).Render(" ") + s.Mark.Inherit(style).Render(" "),
		space: style.Render(" "), gap: style.Render(strings.Repeat(" ", t.gap))}
}

func (t *Table[R]) heading(s section, width int) string {
	c := Cell{Text: fmt.Sprintf("%s  %d", strings.ToUpper(s.name), s.n), Style: t.theme.Styles.Title}
	if t.of.Heading != nil {
		c = t.of.Heading(s.name, s.n)
	}
	return t.exact(" "+t.cell(c, width-1, false, t.theme.Styles.Title), width)
}

func (t *Table[R]) nothing(width int) string {
	text := t.of.Empty
	if len(t.rows) > 0 {
		text = fmt.Sprintf("none of %d matches /%s", len(t.rows), t.filter)
	}
	return t.exact(t.cell(Cell{Text: strings.Repeat(" ", t.gutter()) + text}, width, false, t.theme.Styles.Dim), width)
}

func (t *Table[R]) row(i int, widths []int, width int, in blanks) string {
	r := t.rows[t.shown[i]]
	s, g := t.theme.Styles, t.theme.Glyphs
	cursor, mark := " ", " "
	if i == t.cur {
		in = t.blanks(s.Selected.Inherit(s.Text))
		cursor = g.Cursor
	}
	if t.marks[t.of.ID(r)] {
		mark = g.Mark
	}
	line := in.lead
	if cursor != " " || mark != " " {
		line = s.Cursor.Inherit(in.style).Render(cursor) + s.Mark.Inherit(in.style).Render(mark)
	}
	if t.of.Sign != nil {
		line += t.cell(t.of.Sign(r), 1, false, in.style)
	}
	line += in.space + t.line(t.of.Cells(r), widths, in)
	return t.exactIn(line, width, in.style)
}

// line draws cells in their columns.
func (t *Table[R]) line(cells []Cell, widths []int, in blanks) string {
	var b strings.Builder
	used, first := 0, true
	total := t.span(widths, 0)
	for i, w := range widths {
		rest := i < len(cells) && cells[i].Rest
		if w == 0 {
			if !rest || t.span(widths, i+1) == 0 {
				continue
			}
		}
		if !first {
			b.WriteString(in.gap)
			used += t.gap
		}
		first = false
		if rest {
			b.WriteString(t.cell(cells[i], total-used, false, in.style))
			break
		}
		var c Cell
		if i < len(cells) {
			c = cells[i]
		}
		b.WriteString(t.cell(c, w, t.cols[i].Right, in.style))
		used += w
	}
	return b.String()
}

// span is how many cells the visible columns from i on take with their gaps.
func (t *Table[R]) span(widths []int, i int) int {
	n := 0
	for _, w := range widths[min(i, len(widths)):] {
		if w > 0 {
			n += w + t.gap
		}
	}
	return max(0, n-t.gap)
}

func (t *Table[R]) cell(c Cell, width int, right bool, row lipgloss.Style) string {
	if c.Drawn != "" {
		return fit(c.Drawn, width, t.theme.Glyphs.Ellipsis, right)
	}
	drawn := draw(c.Text, t.theme.Glyphs)
	if c.Name {
		drawn = middle(drawn, width, t.theme.Glyphs.Ellipsis)
	}
	text := fit(drawn, width, t.theme.Glyphs.Ellipsis, right)
	if text == "" {
		return ""
	}
	return c.Style.Inherit(row).Render(text)
}

func (t *Table[R]) exact(line string, width int) string {
	return fit(line, width, t.theme.Glyphs.Ellipsis, false)
}

// exactIn is exact with the padding in the style of the row.
func (t *Table[R]) exactIn(line string, width int, style lipgloss.Style) string {
	switch n := width - lipgloss.Width(line); {
	case n == 0:
		return line
	case n > 0:
		return line + style.Render(strings.Repeat(" ", n))
	}
	return t.exact(line, width)
}
