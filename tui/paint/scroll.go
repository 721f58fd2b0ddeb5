package paint

import (
	"fmt"
	"slices"
)

// scrollCost is about what it takes to scroll a part of the screen, in cells.
const scrollCost = 20

// scroll finds the part of the screen that has moved up or down as a whole, and
// says how the terminal moves it and what it shows then. It is nil where nothing
// is gained by that.
func scroll(have, want *Screen) (string, *Screen) {
	h := want.height
	still := make([]int, h) // what each line costs without scrolling
	moving := 0
	for y := range h {
		if still[y] = cost(have.row(y), want.row(y)); still[y] > 0 {
			moving++
		}
	}
	if moving < 3 {
		return "", nil
	}
	best, gain := shift{}, 0
	for by := -(h - 1); by < h; by++ {
		if by == 0 {
			continue
		}
		s, ok := matching(have, want, still, by)
		if !ok {
			continue
		}
		if g := s.gain(have, want, still); g > gain {
			best, gain = s, g
		}
	}
	if gain <= 0 {
		return "", nil
	}
	return best.sequence(), best.apply(have)
}

// shift moves the lines top to bottom, both included, up by a number of lines,
// or down where that is negative.
type shift struct{ top, bottom, by int }

// matching is the part of the screen in which lines are found again by lines
// further up or down.
func matching(have, want *Screen, still []int, by int) (s shift, ok bool) {
	first, last := -1, -1
	n := 0
	for y := range want.height {
		if from := y + by; from < 0 || from >= want.height || still[y] == 0 || !slices.Equal(have.row(from), want.row(y)) {
			continue
		}
		if first < 0 {
			first = y
		}
		last = y
		n++
	}
	if n < 2 {
		return s, false
	}
	if by > 0 {
		return shift{first, last + by, by}, true
	}
	return shift{first + by, last, by}, true
}

// gain is how many cells need not be written because of it.
func (s shift) gain(have, want *Screen, still []int) int {
	g := -scrollCost
	none := slices.Repeat([]cell{blank}, want.width)
	for y := s.top; y <= s.bottom; y++ {
		g += still[y]
		if from := y + s.by; from < s.top || from > s.bottom {
			g -= cost(none, want.row(y))
		} else {
			g -= cost(have.row(from), want.row(y))
		}
	}
	return g
}

// sequence bounds the part, removes or inserts lines at its top, and lifts the
// bounds.
func (s shift) sequence() string {
	op, n := 'M', s.by
	if s.by < 0 {
		op, n = 'L', -s.by
	}
	return fmt.Sprintf("\x1b[%d;%dr\x1b[%dH\x1b[%d%c\x1b[r", s.top+1, s.bottom+1, s.top+1, n, op)
}

func (s shift) apply(have *Screen) *Screen {
	out := empty(have.width, have.height)
	for y := range have.height {
		from := y
		if y >= s.top && y <= s.bottom {
			if from = y + s.by; from < s.top || from > s.bottom {
				continue // came in, blank
			}
		}
		copy(out.row(y), have.row(from))
	}
	return out
}

// cost is about what it takes to change one line into another, in cells.
func cost(old, now []cell) int {
	n, last := 0, -9
	for x := range now {
		if old[x] == now[x] {
			continue
		}
		if n++; x-last > bridge {
			n += 6 // the way there
		}
		last = x
	}
	return n
}
