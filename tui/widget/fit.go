package widget

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Fit is s in exactly width cells: padded on the right, or cut with an ellipsis.
// Styles in s survive both; line breaks and tabs become spaces. Nothing fits in
// no cells, so a width below one gives "".
func Fit(s string, width int) string { return fit(s, width, "…", false) }

// FitRight is Fit with the padding on the left, for numbers.
func FitRight(s string, width int) string { return fit(s, width, "…", true) }

// FitEnd is Fit that keeps the end of s, for paths.
func FitEnd(s string, width int) string {
	if width < 1 {
		return ""
	}
	s = oneLine(s)
	if w := ansi.StringWidth(s); w > width {
		s = ansi.TruncateLeft(s, w-width+1, "…")
	}
	return fit(s, width, "…", false)
}

// middle cuts what is too long in its middle: two parts of the room stay for its
// end, one for its beginning.
func middle(s string, width int, ellipsis string) string {
	s = oneLine(s)
	w := ansi.StringWidth(s)
	if w <= width || width < 4 {
		return s
	}
	head := ansi.Truncate(s, (width-1)/3, "")
	room := width - ansi.StringWidth(head)
	cut := w - room + 1
	tail := ansi.TruncateLeft(s, cut, ellipsis)
	for ansi.StringWidth(tail) > room { // a wide sign stands across the cut
		cut++
		tail = ansi.TruncateLeft(s, cut, ellipsis)
	}
	return head + tail
}

// fit does it with any ellipsis of one cell.
func fit(s string, width int, ellipsis string, right bool) string {
	if width < 1 {
		return ""
	}
	if n, ok := asciiWidth(s); ok && n <= width {
		return pad(s, width-n, right)
	}
	s = oneLine(s)
	w := ansi.StringWidth(s)
	if w > width {
		s = ansi.Truncate(s, width, ellipsis)
		w = ansi.StringWidth(s)
	}
	if w == width {
		return s // as most lines are, and measuring is what costs
	}
	out := pad(s, width-w, right)
	if ansi.StringWidth(out) != width {
		// An unfinished escape sequence swallows what follows it. Text like that
		// was not cleaned.
		return fit(escapeAll(Clean(s)), width, ellipsis, right)
	}
	return out
}

func pad(s string, n int, right bool) string {
	switch {
	case n <= 0:
		return s
	case right:
		return strings.Repeat(" ", n) + s
	}
	return s + strings.Repeat(" ", n)
}

// asciiWidth is the width of s if that is easy to tell.
func asciiWidth(s string) (int, bool) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return 0, false
		}
	}
	return len(s), true
}

var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ", "\v", " ", "\f", " ")

func oneLine(s string) string { return breaks.Replace(s) }

// Sides puts left and right at the two ends of a line of exactly width cells.
// Where both don't fit, left gives way down to a third of the line, then right.
func Sides(left, right string, width int) string {
	if width < 1 {
		return ""
	}
	left, right = oneLine(left), oneLine(right)
	l, r := ansi.StringWidth(left), ansi.StringWidth(right)
	if r == 0 {
		return Fit(left, width)
	}
	if l+2+r <= width {
		return left + strings.Repeat(" ", width-l-r) + right
	}
	room := min(l, max(width-r-2, width/3))
	if rest := width - room - 2; rest >= 3 {
		return Fit(left, room) + "  " + fit(right, rest, "…", true)
	}
	return Fit(left, width)
}

// Wrap breaks cleaned text into lines of at most width cells, at spaces where it
// can. Nothing but the spaces at a break is left out.
func Wrap(s string, width int) []string {
	if width < 1 {
		return nil
	}
	var out []string
	for s = oneLine(s); ansi.StringWidth(s) > width; {
		line := ansi.Truncate(s, width, "")
		rest := s[len(line):]
		if at := strings.LastIndexByte(line, ' '); at > 0 && rest[0] != ' ' {
			line, rest = line[:at], s[at:]
		}
		if line == "" { // a wide character in a single cell
			first, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
			line, rest = "…", s[len(first):]
		}
		out = append(out, strings.TrimRight(line, " "))
		s = strings.TrimLeft(rest, " ")
	}
	return append(out, s)
}
