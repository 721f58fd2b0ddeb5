package paint

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/charmbracelet/colorprofile"
)

// Pen knows what the terminal shows, and writes what leads to another screen.
type Pen struct {
	palette *palette
	have    *Screen // what the terminal shows; nil: not known
}

// NewPen is a pen for a terminal that shows colours of a profile, of which
// nothing else is known.
func NewPen(profile colorprofile.Profile) *Pen { return &Pen{palette: newPalette(profile)} }

// Draw is Paint for a screen that was drawn as text: lines with SGR sequences.
func (p *Pen) Draw(text string, width, height int) []byte {
	return p.Paint(parse(text, width, height, p.palette))
}

// Forget says that nothing is known of what the terminal shows.
func (p *Pen) Forget() { p.have = nil }

// Paint is what takes the terminal to a screen. It assumes a plain style and
// nothing of the cursor, and leaves a plain style behind.
func (p *Pen) Paint(want *Screen) []byte {
	var out bytes.Buffer
	if p.have == nil || p.have.width != want.width || p.have.height != want.height {
		out.WriteString("\x1b[m\x1b[r\x1b[H\x1b[2J")
		p.have = empty(want.width, want.height)
	} else if seq, moved := scroll(p.have, want); moved != nil {
		out.WriteString(seq)
		p.have = moved
	}
	runs := p.changes(p.have, want)
	// The fewest bytes are sometimes line by line, sometimes style by style.
	a := p.encode(want, runs)
	byStyle := slices.Clone(runs)
	slices.SortStableFunc(byStyle, func(a, b run) int { return int(a.style) - int(b.style) })
	if b := p.encode(want, byStyle); len(b) < len(a) {
		a = b
	}
	out.Write(a)
	p.have = want
	return out.Bytes()
}

// run is cells beside each other on one line, in one style, that have to be
// written. A run of blank cells that reaches the end of its line is erased.
type run struct {
	y, from, to int
	style       style
	erase       bool
}

// bridge is how many cells that are right already are written again rather than
// jumped over.
const bridge = 4

// changes lists what differs, line by line.
func (p *Pen) changes(have, want *Screen) []run {
	var out []run
	var dirty []bool
	for y := range want.height {
		old, now := have.row(y), want.row(y)
		if slices.Equal(old, now) {
			continue
		}
		dirty = differ(dirty, old, now)
		end := tail(now, dirty)
		first := len(out)
		for x := 0; x < end; x++ {
			if !dirty[x] || now[x].width == 0 {
				continue
			}
			if last := len(out) - 1; last < first || x-out[last].to > bridge || !p.join(&out[last], now, x) {
				out = append(out, run{y: y, from: x, to: x + int(now[x].width), style: now[x].style})
			}
		}
		if end < len(now) {
			out = append(out, run{y: y, from: end, to: len(now), erase: true})
		}
	}
	return out
}

// join extends a run up to a cell further right, and says whether it could: what
// lies between has to be right in the style of the run, as spaces often are. A
// run of nothing but spaces takes the style of the first letter.
func (p *Pen) join(r *run, now []cell, x int) bool {
	s := r.style
	if c := now[x]; c.style != s && c.text != " " && p.palette.space[c.style] == s && spaces(now[r.from:x]) {
		s = c.style
	}
	for _, c := range now[r.to : x+1] {
		switch {
		case c.text == " " && p.palette.space[s] == c.style:
		case c.style != s || c.width != 1 && c != now[x]:
			return false
		}
	}
	r.style, r.to = s, x+int(now[x].width)
	return true
}

func spaces(cells []cell) bool {
	for _, c := range cells {
		if c.text != " " {
			return false
		}
	}
	return true
}

// differ marks what has to be written. The right half of a wide character is a
// cell of its own, so what a half of it overwrites differs as well.
func differ(dirty []bool, old, now []cell) []bool {
	dirty = slices.Grow(dirty[:0], len(now))[:len(now)]
	for x := range now {
		dirty[x] = old[x] != now[x]
	}
	return dirty
}

// eraseFrom is how many blank cells are worth a sequence of their own.
const eraseFrom = 5

// tail is from where a line is blank to its end, if enough of that is new; the
// width of the line otherwise.
func tail(now []cell, dirty []bool) int {
	end := len(now)
	for end > 0 && now[end-1] == blank {
		end--
	}
	n := 0
	for x := end; x < len(now); x++ {
		if dirty[x] {
			n++
		}
	}
	if n < eraseFrom {
		return len(now)
	}
	return end
}

// writer writes runs and keeps where the cursor is.
type writer struct {
	bytes.Buffer
	x, y  int // -1: not known
	style style
}

func (p *Pen) encode(s *Screen, runs []run) []byte {
	w := &writer{x: -1, y: -1}
	for _, r := range runs {
		w.WriteString(p.palette.sgr(w.style, r.style))
		w.style = r.style
		w.move(r.from, r.y)
		if r.erase {
			w.WriteString("\x1b[K")
			continue
		}
		w.cells(s, r)
	}
	w.WriteString(p.palette.sgr(w.style, 0))
	return w.Bytes()
}

// cells writes the cells of a run. Behind a character that terminals may hold
// for wider or narrower than we do the cursor is put where it should be.
func (w *writer) cells(s *Screen, r run) {
	for x := r.from; x < r.to; {
		c := s.row(r.y)[x]
		if w.x != x {
			w.move(x, r.y)
		}
		if c.width > 1 && !sure(c) { // where it is narrow there, nothing old stands beside it
			w.WriteString("  ")
			w.x = -1
			w.move(x, r.y)
		}
		w.WriteString(c.text)
		x += max(1, int(c.width))
		if w.x = x; !sure(c) {
			w.x = -1
		}
	}
	if w.x >= s.width { // the cursor hangs at the edge
		w.x = -1
	}
}

// sure says whether every terminal agrees on the width of a cell: ASCII, the
// console's own signs, and the wide scripts of East Asia.
func sure(c cell) bool {
	if len(c.text) == 1 {
		return true
	}
	r, n := utf8.DecodeRuneInString(c.text)
	if n != len(c.text) {
		return false
	}
	if c.width == 2 {
		return r >= 0x3041 && r <= 0x33ff || r >= 0x3400 && r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3
	}
	switch r {
	case '…', '·', '›', '‹', '“', '”', '✓', '✕', '─':
		return true
	}
	return r >= 0x2580 && r <= 0x25ff
}

// move puts the cursor on a place, the shortest way.
func (w *writer) move(x, y int) {
	if w.x == x && w.y == y {
		return
	}
	best := "\x1b[" + num(y) + ";" + strconv.Itoa(x+1) + "H"
	if x == 0 {
		best = "\x1b[" + num(y) + "H"
	}
	try := func(s string) {
		if len(s) < len(best) {
			best = s
		}
	}
	if w.y == y {
		try("\x1b[" + num(x) + "G")
		if w.x >= 0 {
			try(aside(w.x, x))
		}
	}
	if w.y >= 0 && w.x >= 0 && y > w.y {
		try("\x1b[" + num(y-w.y-1) + "B" + aside(w.x, x))
	}
	w.WriteString(best)
	w.x, w.y = x, y
}

// aside moves within a line.
func aside(from, to int) string {
	switch n := to - from; {
	case n == 0:
		return ""
	case to == 0:
		return "\r"
	case n > 0:
		return "\x1b[" + num(n-1) + "C"
	case n >= -3:
		return "\b\b\b"[:-n]
	default:
		return "\x1b[" + num(-n-1) + "D"
	}
}

// num is n+1, left out where it is one.
func num(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n + 1)
}
