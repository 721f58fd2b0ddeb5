package widget

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"

	"ebb/themes"
)

// HelpGroup is a titled part of the help.
type HelpGroup struct {
	Title    string
	Bindings []key.Binding
}

// HelpLine draws bindings on one line of exactly width cells. Only whole ones
// are shown; where some are left out, it ends in an ellipsis.
func HelpLine(bindings []key.Binding, width int, th themes.Theme) string {
	const gap = "   "
	line, used := " ", 1
	s, g := th.Styles, th.Glyphs
	for _, b := range bindings {
		if !b.Enabled() {
			continue
		}
		h := b.Help()
		part := s.KeyHint.Render(draw(h.Key, g)) + " " + s.Dim.Render(draw(h.Desc, g))
		n := ansi.StringWidth(part)
		if used+n > width-2 { // room for the ellipsis
			return fit(line+g.Ellipsis, width, g.Ellipsis, false)
		}
		line += part + gap
		used += n + len(gap)
	}
	return fit(line, width, g.Ellipsis, false)
}

// Help draws all groups in exactly height lines of exactly width cells, in as
// many columns as there is room for, beginning offset lines down. It says how
// many lines are out of sight below.
func Help(groups []HelpGroup, width, height, offset int, th themes.Theme) (text string, below int) {
	if width < 1 || height < 1 {
		return "", 0
	}
	lines := helpLines(groups, th)
	w := 0
	for _, l := range lines {
		w = max(w, ansi.StringWidth(l))
	}
	w += 3
	cols := max(1, min((width-1)/w, (len(lines)+height-1)/height))
	per := (len(lines) + cols - 1) / cols
	out := make([]string, per)
	for i := range out {
		row := " "
		for c := range cols {
			if k := c*per + i; k < len(lines) {
				row += Fit(lines[k], w)
			}
		}
		out[i] = row
	}
	offset = max(0, min(offset, len(out)-height))
	below = max(0, len(out)-offset-height)
	return Exact(out[offset:], width, height), below
}

// helpLines are the lines of all groups below each other.
func helpLines(groups []HelpGroup, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	keys := 0
	for _, group := range groups {
		for _, b := range group.Bindings {
			keys = max(keys, ansi.StringWidth(draw(b.Help().Key, g)))
		}
	}
	var out []string
	for i, group := range groups {
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, s.Title.Render(strings.ToUpper(draw(group.Title, g))))
		for _, b := range group.Bindings {
			if !b.Enabled() {
				continue
			}
			h := b.Help()
			out = append(out, s.KeyHint.Render(Fit(draw(h.Key, g), keys))+"  "+s.Text.Render(draw(h.Desc, g)))
		}
	}
	return out
}
