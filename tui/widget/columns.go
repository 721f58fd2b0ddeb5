package widget

import "charm.land/lipgloss/v2"

// Column is one column of a table.
type Column struct {
	Title    string
	Min      int  // cells it needs at least; below that it is not shown
	Weight   int  // share of the room that is left; 0 keeps it at Min
	Max      int  // cells it never grows beyond; 0 is no limit
	Priority int  // where room is short, the highest number leaves first; 0 never leaves
	Right    bool // numbers
}

// Cell is what stands in one column of one row.
type Cell struct {
	Text  string         // any text; it is cleaned before it is drawn
	Style lipgloss.Style // unset parts come from the row
	Drawn string         // instead of Text: what this package drew, such as a bar
	Rest  bool           // takes the room of all columns after it as well
	Name  bool           // where it is cut, its beginning and its end stay: names differ at their ends
}

// N is a cell of a name in a style.
func N(name string, style lipgloss.Style) Cell { return Cell{Text: name, Style: style, Name: true} }

// T is a cell of text in a style.
func T(text string, style lipgloss.Style) Cell { return Cell{Text: text, Style: style} }

// Widths says how wide each column is in a line of width cells with gap cells
// between two columns; 0 is a column that is not shown. The widths and gaps fill
// the line exactly if any column has a weight.
func Widths(cols []Column, width, gap int) []int {
	out := make([]int, len(cols))
	show := make([]bool, len(cols))
	for i := range show {
		show[i] = true
	}
	for need(cols, show, gap) > width {
		i := leaves(cols, show)
		if i < 0 {
			break
		}
		show[i] = false
	}
	left := width
	for i, c := range cols {
		if !show[i] {
			continue
		}
		if left < width {
			left -= gap
		}
		// Columns that never leave share what there is, first come first served.
		out[i] = max(0, min(max(c.Min, 1), left))
		left -= out[i]
	}
	share(cols, out, left)
	return out
}

func need(cols []Column, show []bool, gap int) int {
	n := 0
	for i, c := range cols {
		if show[i] {
			n += max(c.Min, 1) + gap
		}
	}
	return n - gap
}

// leaves is the column to drop next: the highest priority, the last of equals.
func leaves(cols []Column, show []bool) int {
	worst := -1
	for i, c := range cols {
		if show[i] && c.Priority > 0 && (worst < 0 || c.Priority >= cols[worst].Priority) {
			worst = i
		}
	}
	return worst
}

// share gives what is left to the columns by weight, and what rounding leaves to
// the last. A column that reaches its Max leaves its part to the others.
func share(cols []Column, out []int, left int) {
	for left > 0 {
		total, last := 0, -1
		for i, c := range cols {
			if grows(c, out[i]) {
				total += c.Weight
				last = i
			}
		}
		if last < 0 {
			return
		}
		given := 0
		for i, c := range cols[:last+1] {
			if !grows(c, out[i]) {
				continue
			}
			n := left * c.Weight / total
			if given+n == 0 && i == last {
				n = left
			}
			if c.Max > 0 {
				n = min(n, c.Max-out[i])
			}
			out[i] += n
			given += n
		}
		left -= given
	}
}

// grows says whether a column of now cells takes more.
func grows(c Column, now int) bool {
	return now > 0 && c.Weight > 0 && (c.Max == 0 || now < c.Max)
}
