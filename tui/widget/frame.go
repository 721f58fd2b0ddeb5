package widget

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"ebb/themes"
)

// The smallest screen on which anything is drawn but the word that it is too
// small.
const (
	MinWidth  = 20
	MinHeight = 5
)

// TooSmall says whether a screen is too small to act on: what can't be read must
// not be answered.
func TooSmall(width, height int) bool { return width < MinWidth || height < MinHeight }

// Frame puts header, body and footer on a screen: exactly height lines of exactly
// width cells. The body gets the room that is left, at least half of the screen;
// header and footer lose their last lines first. ok is false on a screen that is
// too small; the keys of the screen must do nothing then.
func Frame(width, height int, header []string, body func(width, height int) string, footer []string) (text string, ok bool) {
	if width < 1 || height < 1 {
		return "", false
	}
	if TooSmall(width, height) {
		return tooSmall(width, height), false
	}
	room := height / 2
	header = header[:min(len(header), room)]
	footer = footer[:min(len(footer), room-len(header))]
	n := height - len(header) - len(footer)
	lines := append([]string{}, header...)
	lines = append(lines, block(body(width, n), n)...)
	lines = append(lines, footer...)
	return Exact(lines, width, height), true
}

// block is text in exactly n lines.
func block(text string, n int) []string {
	lines := strings.Split(text, "\n")
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines[:n]
}

// Exact joins lines to exactly height lines of exactly width cells.
func Exact(lines []string, width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	out := make([]string, height)
	for i := range out {
		if i < len(lines) {
			out[i] = Fit(lines[i], width)
			continue
		}
		out[i] = strings.Repeat(" ", width)
	}
	return strings.Join(out, "\n")
}

func tooSmall(width, height int) string {
	lines := make([]string, height)
	at := (height - 1) / 2
	lines[at] = "too small"
	if at+1 < height {
		lines[at+1] = fmt.Sprintf("needs %dx%d", MinWidth, MinHeight)
	}
	return Exact(lines, width, height)
}

// Rule is the line that separates.
func Rule(width int, th themes.Theme) string {
	if width < 1 {
		return ""
	}
	return th.Styles.Rule.Render(strings.Repeat(th.Glyphs.Rule, width))
}

// Overlay lays lines over the middle of a screen of exactly width by height
// cells, with a rule above and below. What is under it stays where it was.
func Overlay(screen string, lines []string, width, height int, th themes.Theme) string {
	if width < 1 || height < 1 {
		return ""
	}
	under := strings.Split(Exact(strings.Split(screen, "\n"), width, height), "\n")
	w := 0
	for _, l := range lines {
		w = max(w, ansi.StringWidth(l))
	}
	w = min(w, width)
	over := append([]string{Rule(w, th)}, lines...)
	over = append(over, Rule(w, th))
	if len(over) > height {
		over = lines[:min(len(lines), height)]
	}
	left, top := (width-w)/2, (height-len(over))/2
	for i, l := range over {
		u := under[top+i]
		before := Fit(ansi.Truncate(u, left, ""), left)
		after := ansi.TruncateLeft(u, left+w, "")
		// A wide character that the edge cuts in two leaves a space.
		after = FitRight(after, width-left-w)
		under[top+i] = before + Fit(l, w) + after
	}
	return Exact(under, width, height)
}
