package themes

import (
	"image/color"
	"maps"
	"math"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// In is t on a terminal of 256 or of 16 colours, chosen so that everything is as
// readable as in all colours: the nearest colour is often one that is not. On any
// other terminal it is t.
//
// The first sixteen colours are what a person has made of them, so of those only
// such are taken that can be read as they usually are, in the two palettes that
// most terminals come with; where none of about the same hue is left, it is a
// grey. What lies behind the text stays the terminal's own there.
func (t Theme) In(colours int) Theme {
	var fit func(name string, st lipgloss.Style) lipgloss.Style
	switch colours {
	case 256:
		fit = t.fit256
	case 16:
		fit = t.fit16
	default:
		return t
	}
	s := t.Styles
	for name, st := range s.fields() {
		*st = fit(name, *st)
	}
	s.States = maps.Clone(s.States)
	for name, st := range s.States {
		s.States[name] = fit("state-"+name, st)
	}
	t.Styles = s
	return t
}

// grounds are what a role of the theme may stand on.
func (t Theme) grounds() []color.Color {
	if bg := t.Styles.Selected.GetBackground(); fixed(bg) {
		return append(page(t.Dark), nearest256(bg, nil, 0))
	}
	return page(t.Dark)
}

func (t Theme) fit256(name string, st lipgloss.Style) lipgloss.Style {
	grounds := t.grounds()
	if bg := st.GetBackground(); fixed(bg) {
		bg = nearest256(bg, nil, 0)
		st, grounds = st.Background(bg), []color.Color{bg}
	}
	if fg := st.GetForeground(); fixed(fg) {
		st = st.Foreground(nearest256(fg, grounds, least(name)))
	}
	return st
}

// nearest256 is the fixed colour of 256 that is most like c, of those that have
// enough contrast on every ground.
func nearest256(c color.Color, grounds []color.Color, enough float64) color.Color {
	want := lightOf(c).lab()
	var best color.Color = ansi.IndexedColor(ansi.Convert256(c))
	off := math.Inf(1)
	for i := 16; i < 256; i++ {
		one := ansi.IndexedColor(i)
		if d := apart(lightOf(one).lab(), want); d < off && readable(one, grounds, enough) {
			best, off = one, d
		}
	}
	return best
}

func readable(c color.Color, grounds []color.Color, enough float64) bool {
	for _, g := range grounds {
		if contrast(c, g) < enough {
			return false
		}
	}
	return true
}

func (t Theme) fit16(name string, st lipgloss.Style) lipgloss.Style {
	if fixed(st.GetBackground()) {
		st = st.UnsetBackground()
	}
	fg := st.GetForeground()
	switch {
	case !fixed(fg):
	case least(name) == 0 && t.Dark:
		st = st.Foreground(ansi.BrightBlack)
	case least(name) == 0:
		st = st.Foreground(ansi.White)
	default:
		st = st.Foreground(nearest16(fg, t.Dark))
	}
	return st
}

// palettes are what the first sixteen colours usually are: those of the early
// displays, which x/ansi has too, and xterm's.
var palettes = [][16]string{
	{"#000000", "#800000", "#008000", "#808000", "#000080", "#800080", "#008080", "#c0c0c0",
		"#808080", "#ff0000", "#00ff00", "#ffff00", "#0000ff", "#ff00ff", "#00ffff", "#ffffff"},
	{"#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5",
		"#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"},
}

const (
	// coloured is from which distance to grey on a colour has a hue to keep.
	coloured = 20
	// sameHue is how far two hues may be apart, as an angle, to pass for one.
	sameHue = math.Pi / 3
)

// nearest16 is the most similar of the sixteen colours that can be read on black,
// or on white.
func nearest16(c color.Color, dark bool) color.Color {
	ground := color.Color(color.White)
	if dark {
		ground = color.Black
	}
	want := lightOf(c).lab()
	var best, grey color.Color = ansi.White, ansi.White
	off, greyOff, hueOff := math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range 16 {
		safe := true
		for _, p := range palettes {
			safe = safe && contrast(lipgloss.Color(p[i]), ground) >= textContrast
		}
		if !safe {
			continue
		}
		have := lightOf(lipgloss.Color(palettes[0][i])).lab()
		d := apart(have, want)
		if have.chroma() < coloured {
			if d < greyOff {
				grey, greyOff = ansi.BasicColor(i), d
			}
			continue
		}
		h := have.turned(want)
		if h < hueOff-0.1 || h < hueOff+0.1 && d < off {
			best, off, hueOff = ansi.BasicColor(i), d, h
		}
	}
	if want.chroma() < coloured || hueOff > sameHue {
		return grey
	}
	return best
}

// light is a colour as amounts of red, green and blue light; after lab, as
// lightness and two axes of hue.
type light [3]float64

func lightOf(c color.Color) light {
	r, g, b := linear(c)
	return light{r, g, b}
}

// lab is CIE L*a*b*, in which distances are what eyes tell apart.
func (l light) lab() light {
	f := func(t float64) float64 {
		if t > 0.008856 {
			return math.Cbrt(t)
		}
		return 7.787*t + 16.0/116
	}
	x := f((0.4124*l[0] + 0.3576*l[1] + 0.1805*l[2]) / 0.95047)
	y := f(0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2])
	z := f((0.0193*l[0] + 0.1192*l[1] + 0.9505*l[2]) / 1.08883)
	return light{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// chroma is how far a colour, in lab, is from grey.
func (l light) chroma() float64 { return math.Hypot(l[1], l[2]) }

// turned is the angle between two hues, in lab.
func (l light) turned(o light) float64 {
	d := math.Abs(math.Atan2(l[2], l[1]) - math.Atan2(o[2], o[1]))
	return min(d, 2*math.Pi-d)
}

func apart(a, b light) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}
