package themes

import (
	"image/color"
	"math"
	"slices"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// The least contrast, as the ratio of WCAG 2: of what is read, and of marks that
// are only seen.
const (
	textContrast = 4.5
	markContrast = 3.0
)

// marks are roles that no text is drawn in; lines say nothing by themselves, and
// may be as faint as they like.
var (
	marks = []string{"cursor", "mark", "bar-full"}
	faint = []string{"rule", "bar-empty"}
)

// least is the contrast that a role needs.
func least(name string) float64 {
	switch {
	case slices.Contains(faint, name):
		return 0
	case slices.Contains(marks, name):
		return markContrast
	}
	return textContrast
}

// page is what a terminal of a kind shows behind the text, where the theme does
// not say: the usual grounds, of which the least favourable counts.
func page(dark bool) []color.Color {
	if dark {
		return []color.Color{color.Black, lipgloss.Color("#1e1e1e")}
	}
	return []color.Color{color.White, lipgloss.Color("#f5f5f0")}
}

// leastContrast is the contrast of a role on its own ground, or on every ground
// it may stand on. It is unknown where the terminal decides about the colour.
func leastContrast(r lipgloss.Style, grounds []color.Color) (ratio float64, known bool) {
	fg := r.GetForeground()
	if !fixed(fg) {
		return 0, false
	}
	if bg := r.GetBackground(); !none(bg) {
		grounds = []color.Color{bg}
	}
	ratio = math.Inf(1)
	for _, g := range grounds {
		if fixed(g) {
			ratio = min(ratio, contrast(fg, g))
		}
	}
	return ratio, !math.IsInf(ratio, 1)
}

// checkContrast says which role is too faint, by its name, and on what.
func checkContrast(fields map[string]*lipgloss.Style, states map[string]lipgloss.Style, dark bool) (role string, got, want float64) {
	grounds := page(dark)
	if bg := fields["selected"].GetBackground(); fixed(bg) {
		grounds = append(grounds, bg) // any role may stand on the row under the cursor
	}
	all := map[string]lipgloss.Style{}
	for name, st := range fields {
		all[name] = *st
	}
	for name, st := range states {
		all["state-"+name] = st
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if ratio, known := leastContrast(all[name], grounds); known && ratio < least(name) {
			return name, ratio, least(name)
		}
	}
	return "", 0, 0
}

func none(c color.Color) bool {
	_, no := c.(lipgloss.NoColor)
	return c == nil || no
}

// fixed says whether a colour is the same on every terminal: the first sixteen
// are what a person has made of them.
func fixed(c color.Color) bool {
	if none(c) {
		return false
	}
	_, basic := c.(ansi.BasicColor)
	return !basic
}

// contrast is the ratio of WCAG 2.
func contrast(a, b color.Color) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(c color.Color) float64 {
	r, g, b := linear(c)
	return 0.2126*r + 0.7152*g + 0.0722*b
}

// linear is a colour as amounts of light.
func linear(c color.Color) (r, g, b float64) {
	part := func(v uint32) float64 {
		f := float64(v) / 0xffff
		if f <= 0.04045 {
			return f / 12.92
		}
		return math.Pow((f+0.055)/1.055, 2.4)
	}
	x, y, z, _ := c.RGBA()
	return part(x), part(y), part(z)
}
