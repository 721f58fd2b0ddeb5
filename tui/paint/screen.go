package paint

import (
	"strings"

	"github.com/charmbracelet/colorprofile"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

// style is a style by its number in a [palette]; 0 is plain.
type style uint16

// cell is one place on the screen. The right half of a wide character has no
// text and no width.
type cell struct {
	text  string
	style style
	width uint8
}

var blank = cell{text: " ", width: 1}

// palette gives every style that was seen a number, after fitting its colours to
// what the terminal can show.
type palette struct {
	profile colorprofile.Profile
	styles  []uv.Style
	space   []style // what is seen of a style on a space: itself, without what only letters show
	number  map[uv.Style]style
	parsed  map[string]style    // by an SGR sequence that stands alone behind a reset
	change  map[[2]style]string // the sequence that leads from one to the other
}

func newPalette(p colorprofile.Profile) *palette {
	return &palette{profile: p, styles: []uv.Style{{}}, space: []style{0}, number: map[uv.Style]style{{}: 0}, parsed: map[string]style{}, change: map[[2]style]string{}}
}

// manyStyles bounds the palette: a console draws with a few dozen.
const manyStyles = 1 << 12

func (p *palette) of(s uv.Style) style {
	s = uv.ConvertStyle(s, p.profile)
	if n, ok := p.number[s]; ok {
		return n
	}
	if len(p.styles) >= manyStyles {
		return 0
	}
	n := style(len(p.styles))
	p.styles = append(p.styles, s)
	p.space = append(p.space, n)
	p.number[s] = n
	if bare := onSpace(s); bare != s {
		p.space[n] = p.of(bare)
	}
	return n
}

// onSpace is a style without what a space does not show of it.
func onSpace(s uv.Style) uv.Style {
	const lines = uv.AttrReverse | uv.AttrStrikethrough | uv.AttrBlink | uv.AttrRapidBlink
	if s.Underline != uv.UnderlineNone || s.Attrs&lines != 0 {
		return s
	}
	return uv.Style{Bg: s.Bg}
}

// sgr is the shortest sequence that leads from one style to another.
func (p *palette) sgr(from, to style) string {
	if from == to {
		return ""
	}
	if s, ok := p.change[[2]style{from, to}]; ok {
		return s
	}
	s := uv.StyleDiff(&p.styles[from], &p.styles[to])
	if fresh := p.styles[to].String(); from != 0 && to != 0 {
		if anew := strings.Replace(fresh, "\x1b[", "\x1b[0;", 1); len(anew) < len(s) {
			s = anew
		}
	}
	p.change[[2]style{from, to}] = s
	return s
}

// Screen is a drawn screen as cells.
type Screen struct {
	width, height int
	cells         []cell // line by line
}

// row is a line of the screen.
func (s *Screen) row(y int) []cell { return s.cells[y*s.width : (y+1)*s.width] }

// empty is a screen with nothing on it.
func empty(width, height int) *Screen {
	s := &Screen{width: width, height: height, cells: make([]cell, width*height)}
	for i := range s.cells {
		s.cells[i] = blank
	}
	return s
}

// parse reads lines of text with SGR sequences into cells. Whatever else a text
// holds is left out, as is what does not fit.
func parse(text string, width, height int, p *palette) *Screen {
	s := empty(width, height)
	parser := ansi.GetParser()
	defer ansi.PutParser(parser)
	y := 0
	for line := range strings.SplitSeq(text, "\n") {
		if y >= height {
			break
		}
		s.line(y, line, parser, p)
		y++
	}
	return s
}

func (s *Screen) line(y int, text string, parser *ansi.Parser, p *palette) {
	row := s.row(y)
	var pen uv.Style
	now, x := style(0), 0
	for len(text) > 0 && x < len(row) {
		if c := text[0]; c >= ' ' && c < 0x7f && (len(text) == 1 || text[1] < 0x80) {
			row[x] = cell{text[:1], now, 1}
			if c == ' ' {
				row[x].style = p.space[now]
			}
			text = text[1:]
			x++
			continue
		}
		if text[0] != 0x1b {
			cluster, w := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
			text = text[len(cluster):]
			if w < 1 || x+w > len(row) || cluster[0] < ' ' {
				continue
			}
			row[x] = cell{cluster, now, uint8(w)}
			for i := 1; i < w; i++ {
				row[x+i] = cell{style: now}
			}
			x += w
			continue
		}
		seq, _, n, _ := ansi.DecodeSequence(text, 0, parser)
		text = text[n:]
		if ansi.HasCsiPrefix(seq) && parser.Command() == 'm' {
			now = p.read(&pen, now, seq, parser)
		}
	}
}

// read applies an SGR sequence to the pen.
func (p *palette) read(pen *uv.Style, now style, seq string, parser *ansi.Parser) style {
	plain := now == 0 && pen.IsZero()
	if n, ok := p.parsed[seq]; ok && plain {
		uv.ReadStyle(parser.Params(), pen)
		return n
	}
	uv.ReadStyle(parser.Params(), pen)
	n := p.of(*pen)
	if plain && len(p.parsed) < manyStyles {
		p.parsed[strings.Clone(seq)] = n
	}
	return n
}
