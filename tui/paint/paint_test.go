package paint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/colorprofile"
	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"pgregory.net/rapid"
)

// picture is what an emulator shows, with styles.
func picture(e *vt.Emulator) []string {
	var out []string
	for y := range e.Height() {
		var b strings.Builder
		for x := 0; x < e.Width(); x++ {
			c := e.CellAt(x, y)
			switch {
			case c == nil || c.Content == "" && c.Width != 0 || c.Content == " ":
				s := uv.Style{}
				if c != nil {
					s = onSpace(c.Style)
				}
				fmt.Fprintf(&b, "[%s ]", s.String())
			case c.Width == 0:
			default:
				fmt.Fprintf(&b, "[%s%s]", c.Style.String(), c.Content)
			}
		}
		out = append(out, b.String())
	}
	return out
}

// fresh is what a terminal shows that has seen nothing but the text itself.
func fresh(text string, w, h int) []string {
	e := vt.NewEmulator(w, h)
	defer e.Close()
	for y, line := range strings.Split(text, "\n") {
		_, _ = fmt.Fprintf(e, "\x1b[%dH%s\x1b[m", y+1, line)
	}
	return picture(e)
}

var inks = []string{"\x1b[m", "\x1b[1m", "\x1b[38;2;200;30;30m", "\x1b[2m", "\x1b[1;48;2;35;39;46m", "\x1b[38;5;12m"}

var bits = []string{"a", "b", "gpu-0", "12", " ", "  ", "     ", "serving", "●", "▇▇░", "仕事", "é", "e\u0301", "ｱ", "漢", "…", "👍"}

func drawLine(t *rapid.T, w int) string {
	var b strings.Builder
	used := 0
	for range rapid.IntRange(2, 20).Draw(t, "bits") {
		s := rapid.SampledFrom(bits).Draw(t, "bit")
		n := ansi.StringWidth(s)
		if used+n > w {
			break
		}
		used += n
		b.WriteString(rapid.SampledFrom(inks).Draw(t, "ink") + s + "\x1b[m")
	}
	return b.String() + strings.Repeat(" ", w-used)
}

// change makes another screen of one, as screens change: lines scroll within a
// part, some are drawn anew, all of them, or none.
func change(t *rapid.T, lines []string, w int) []string {
	out := slices.Clone(lines)
	h := len(lines)
	switch rapid.IntRange(0, 5).Draw(t, "how") {
	case 0, 4, 5: // a part scrolls
		top := rapid.IntRange(0, h/3).Draw(t, "top")
		bottom := rapid.IntRange(max(top, h-1-h/3), h-1).Draw(t, "bottom")
		by := rapid.IntRange(-3, 3).Draw(t, "by")
		for y := top; y <= bottom; y++ {
			if from := y + by; from >= top && from <= bottom {
				out[y] = lines[from]
			} else {
				out[y] = drawLine(t, w)
			}
		}
		if rapid.Bool().Draw(t, "cursor") {
			out[rapid.IntRange(top, bottom).Draw(t, "at")] = drawLine(t, w)
		}
	case 1:
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			out[rapid.IntRange(0, h-1).Draw(t, "at")] = drawLine(t, w)
		}
	case 2:
		for y := range out {
			out[y] = drawLine(t, w)
		}
	case 3:
		for y := range out {
			out[y] = strings.Repeat(" ", w)
		}
	}
	return out
}

// A stale row on the terminal means acting on the wrong host: after any history
// the terminal shows what a fresh draw would show.
func TestWhatArrivesIsAFreshDraw(t *testing.T) {
	scrolled := 0 // parts of the screen
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 50).Draw(t, "w"), rapid.IntRange(1, 20).Draw(t, "h")
		e := vt.NewEmulator(w, h)
		defer e.Close()
		p := NewPen(colorprofile.TrueColor)
		lines := slices.Repeat([]string{strings.Repeat(" ", w)}, h)
		for y := range lines {
			lines[y] = drawLine(t, w)
		}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			lines = change(t, lines, w)
			text := strings.Join(lines, "\n")
			seq := p.Draw(text, w, h)
			if strings.Contains(string(seq), "r\x1b[") && !strings.Contains(string(seq), "J") {
				scrolled++
			}
			if _, err := e.Write(seq); err != nil {
				t.Fatal(err)
			}
			if got, want := picture(e), fresh(text, w, h); !slices.Equal(got, want) {
				t.Fatalf("the terminal shows\n%s\na fresh draw is\n%s\nsent: %q", strings.Join(got, "\n"), strings.Join(want, "\n"), seq)
			}
		}
	})
	t.Log(scrolled)
	if scrolled == 0 {
		t.Error("nothing ever scrolled: the test shows less than it should")
	}
}
