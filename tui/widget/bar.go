package widget

import (
	"math"
	"strings"

	"ebb/themes"
)

// Bar is a bar of exactly width cells. It is full only when all is there and
// empty only when nothing is; what is not a number counts as nothing.
func Bar(width int, fraction float64, s themes.Styles, g themes.Glyphs) string {
	if width < 1 {
		return ""
	}
	n := barCells(width, fraction)
	full, empty := strings.Repeat(g.BarFull, n), strings.Repeat(g.BarEmpty, width-n)
	out := ""
	if full != "" {
		out = s.BarFull.Render(full)
	}
	if empty != "" {
		out += s.BarEmpty.Render(empty)
	}
	return out
}

func barCells(width int, fraction float64) int {
	switch {
	case math.IsNaN(fraction) || fraction <= 0:
		return 0
	case fraction >= 1:
		return width
	}
	n := int(math.Round(fraction * float64(width)))
	if width > 1 {
		n = min(max(n, 1), width-1)
	} else {
		n = 0
	}
	return n
}

// Spark draws how values went, oldest on the left, in exactly width cells. The
// highest value is the full height. More values than cells are averaged; fewer
// start at the left. A value that is not a number is a gap, since unknown is not
// nothing.
func Spark(values []float64, width int, g themes.Glyphs) string {
	if width < 1 {
		return ""
	}
	points := squeeze(values, width)
	top := 0.0
	for _, v := range points {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	var b strings.Builder
	for _, v := range points {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case v <= 0 || top == 0:
			b.WriteString(g.Levels[0])
		case math.IsInf(v, 1):
			b.WriteString(g.Levels[7])
		default:
			b.WriteString(g.Levels[min(7, int(v/top*7+0.5))])
		}
	}
	b.WriteString(strings.Repeat(" ", width-len(points)))
	return b.String()
}

// squeeze averages values into at most n points, skipping what is unknown.
func squeeze(values []float64, n int) []float64 {
	if len(values) <= n {
		return values
	}
	out := make([]float64, n)
	for i := range out {
		sum, count := 0.0, 0
		for _, v := range values[i*len(values)/n : (i+1)*len(values)/n] {
			if !math.IsNaN(v) {
				sum += v
				count++
			}
		}
		out[i] = sum / float64(count) // none known: not a number
	}
	return out
}
