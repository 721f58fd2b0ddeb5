package widget

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"ebb/themes"
)

const (
	// cleanLimit is the most bytes of one text that are drawn.
	cleanLimit = 4 << 10
	// maxMarks is how many combining marks a letter may carry: enough for
	// Vietnamese and Hebrew, too few to paint over the line above.
	maxMarks = 2
)

// Clean makes any text safe to draw on one line. What would not be seen as
// itself is shown between angle quotes: a control or an invalid byte as ‹1b›, a
// format character, a foreign space or an excess mark as ‹u+202e›. So two texts
// that differ only in what was taken out still look different.
//
// The result is valid UTF-8 of at most 4 KiB (a longer text ends in its size),
// has no control and no format character, and is as wide by graphemes as it is
// by code points, so terminals of both kinds agree on it. Clean(Clean(s)) is
// Clean(s).
func Clean(s string) string { return clean(s, false) }

// Name is Clean for names of hosts, workloads and people. The console's own
// signs are escaped too, as are spaces at either end and doubled ones, so that
// a name can't draw a state, a bar or a second column.
func Name(s string) string { return clean(s, true) }

func clean(s string, strict bool) string {
	if len(s) <= cleanLimit && plain(s, strict) {
		return s
	}
	size := len(s)
	out := head(s, cleanLimit)
	cut := len(out) < size
	// An escape changes what its neighbours combine with, so this runs until
	// nothing changes. Each round only adds escapes; two rounds are the rule.
	for range 4 {
		next := escapeClusters(escapeRunes(out, strict))
		if next == out {
			return shorten(out, size, cut)
		}
		out = next
	}
	return shorten(escapeAll(out), size, cut)
}

// head is the beginning of s, at most n bytes, not ending inside a rune.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for k := n; k > n-utf8.UTFMax; k-- {
		if utf8.RuneStart(s[k]) {
			return s[:k]
		}
	}
	return s[:n] // no rune at all: the bytes are invalid anyway
}

// plain says whether s is printable ASCII and needs no work.
func plain(s string, strict bool) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
		if strict && s[i] == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// escapeRunes replaces what may not be drawn, one code point at a time.
func escapeRunes(s string, strict bool) string {
	var b strings.Builder
	b.Grow(len(s))
	base, marks := false, 0
	var prev rune
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "‹%02x›", s[i])
			base = false
		case joins(r) && drawable(r):
			if marks++; base && marks <= maxMarks {
				b.WriteString(s[i : i+n])
			} else {
				escape(&b, r)
				base = false
			}
		case !drawable(r), swallows(r), strict && forging(r, prev, i+n == len(s)):
			escape(&b, r)
			base = false
		default:
			b.WriteString(s[i : i+n])
			base, marks = unicode.IsLetter(r) || unicode.IsNumber(r), 0
		}
		prev = r
		i += n
	}
	return b.String()
}

func escape(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		fmt.Fprintf(b, "‹%02x›", r)
		return
	}
	fmt.Fprintf(b, "‹u+%x›", r)
}

// drawable says whether r leaves ink, or is the plain space.
func drawable(r rune) bool { return unicode.IsPrint(r) && !hidden(r) }

// hidden is what counts as printable but draws nothing: fillers, selectors of
// variants, the empty Braille cell.
func hidden(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// joins says whether r becomes one picture with a character before it, whatever
// that is: all marks, and a few letters such as the Thai sara am.
func joins(r rune) bool {
	return r >= '\u0300' && (unicode.Is(unicode.M, r) || clusters(" "+string(r)))
}

// swallows says whether r becomes one picture with the character after it.
func swallows(r rune) bool { return r >= '\u0300' && clusters(string(r)+" ") }

func clusters(s string) bool {
	first, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
	return first == s
}

var signs = ownSigns()

// ownSigns are the signs of the console that are not plain ASCII.
func ownSigns() map[rune]bool {
	g := themes.UTF8Glyphs()
	all := strings.Join(g.Levels[:], "") + g.Cursor + g.Mark + g.Check + g.Cross + g.BarFull + g.BarEmpty +
		g.Ellipsis + g.Rule + g.Dot + g.None + g.Up + g.Down + g.QuoteOpen + g.QuoteClose
	for _, s := range themes.States() {
		all += g.State(s)
	}
	m := map[rune]bool{}
	for _, r := range all {
		if r >= utf8.RuneSelf {
			m[r] = true
		}
	}
	return m
}

// forging says whether r after prev would let a name pass for more than a name.
func forging(r, prev rune, last bool) bool {
	if r == ' ' {
		return prev == 0 || prev == ' ' || last
	}
	return signs[r] || unicode.In(r, boxes)
}

// boxes are the drawn lines, blocks and shapes, of which our signs are some.
var boxes = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x2500, Hi: 0x25ff, Stride: 1}}}

// escapeClusters takes apart what terminals disagree about: clusters that are
// one picture for some and several for others (emoji with modifiers, flags).
func escapeClusters(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf && (i+1 == len(s) || s[i+1] < utf8.RuneSelf) {
			b.WriteByte(s[i])
			i++
			continue
		}
		cluster, width := ansi.FirstGraphemeCluster(s[i:], ansi.GraphemeWidth)
		i += len(cluster)
		if width == ansi.StringWidthWc(cluster) && width > 0 {
			b.WriteString(cluster)
			continue
		}
		for k, r := range cluster {
			one := string(r)
			w := ansi.StringWidth(one)
			if k == 0 && len(one) < len(cluster) && w > 0 && w == ansi.StringWidthWc(one) {
				b.WriteString(one)
				continue
			}
			escape(&b, r)
		}
	}
	return b.String()
}

// escapeAll leaves nothing but ASCII and escapes.
func escapeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf || r == '‹' || r == '›' {
			b.WriteRune(r)
			continue
		}
		escape(&b, r)
	}
	return b.String()
}

// shorten keeps s within the limit; what was cut ends in the size of the whole.
func shorten(s string, size int, cut bool) string {
	if !cut && len(s) <= cleanLimit {
		return s
	}
	tail := fmt.Sprintf("‹of %d bytes›", size)
	room := cleanLimit - len(tail)
	end := 0
	for i := 0; i < len(s); {
		n := len("‹")
		if !strings.HasPrefix(s[i:], "‹") {
			cluster, _ := ansi.FirstGraphemeCluster(s[i:], ansi.GraphemeWidth)
			n = len(cluster)
		} else if k := strings.Index(s[i:], "›"); k >= 0 && k < 12 {
			n = k + len("›") // an escape stays whole
		}
		if i+n > room {
			break
		}
		i += n
		end = i
	}
	return s[:end] + tail
}

// ASCII is cleaned text for terminals that show nothing else: every other
// character stands as its number, as in <u+e9>.
func ASCII(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return ascii(s)
		}
	}
	return s
}

func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r == '‹':
			b.WriteByte('<')
		case r == '›':
			b.WriteByte('>')
		default:
			fmt.Fprintf(&b, "<u+%x>", r)
		}
	}
	return b.String()
}

// draw is text as a theme's terminal can show it, safe in any case.
func draw(s string, g themes.Glyphs) string {
	s = Clean(s)
	if g.ASCII {
		return ASCII(s)
	}
	return s
}
