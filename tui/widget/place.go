package widget

import "time"

// Place is where the cursor stands among the rows of the last view: the line of
// the window, and the rows around it. What a person aims at is a place; what a
// key acts on is a row.
type Place struct {
	Line             int
	Above, At, Below string // identities; "" where there is none
}

// Place says where the cursor stands now.
func (t *Table[R]) Place() Place {
	if t.cur < 0 || t.cur >= len(t.shown) {
		return Place{}
	}
	p := Place{Line: t.lineOf(t.cur) - t.top, At: t.id(t.cur)}
	if t.cur > 0 {
		p.Above = t.id(t.cur - 1)
	}
	if t.cur+1 < len(t.shown) {
		p.Below = t.id(t.cur + 1)
	}
	return p
}

// ShiftFor is how long a key that acts may still have been aimed at what stood
// under the cursor before the rows moved.
const ShiftFor = time.Second

// Shift notes when rows have moved under the cursor by themselves, so that a key
// that was aimed at the picture before is asked for again.
type Shift struct{ at time.Time }

// See compares the cursor's place before and after rows were replaced.
func (s *Shift) See(before, after Place, now time.Time) {
	if before.At != "" && after.At != "" && before != after {
		s.at = now
	}
}

// Refuses says whether the rows have just moved. It says so once: the key that
// comes next was pressed by somebody who has read it.
func (s *Shift) Refuses(now time.Time) bool {
	just := !s.at.IsZero() && now.Sub(s.at) < ShiftFor
	s.at = time.Time{}
	return just
}

// Settle forgets a shift that a person has made.
func (s *Shift) Settle() { s.at = time.Time{} }
