package widget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"
	"github.com/charmbracelet/x/vt"

	"ebb/themes"
)

// work is a row as a board has it.
type work struct {
	class, id, owner, doing, ends string
	done                          float64
	left                          time.Duration
	needs                         bool
}

var works = []work{
	{"ephemeral", "ci-88213", "ci-team", "expires by itself", "14:29", 0.7, 220 * time.Second, false},
	{"stateless", "web-7", "search", "waiting until healthy on gpu-044", "14:45", 0.2, 1128 * time.Second, false},
	{"stateless", "vllm-mistral", "inference", "7 requests in flight, was 31", "14:40", 0.3, 842 * time.Second, false},
	{"pausable", "nb-lena-12", "lena", "shipping to gpu-046 · 1.2 of 3.1 GiB", "14:34", 0.8, 490 * time.Second, false},
	{"durable", "pg-orders", "payments", "waits: standby is 4.1 GiB behind", "", 0, 0, true},
	{"stuck", "etl-legacy▲\x1b]0;x\a", "data", "TERM sent 14:21, owner told 14:21", "KILL 14:31", 0.5, 300 * time.Second, false},
}

// board draws a whole screen out of the pieces of this package.
func board(th themes.Theme, width, height int) string {
	s, g := th.Styles, th.Glyphs
	tb := NewTable(th, []Column{
		{Min: 10, Weight: 1, Max: 16},
		{Min: 10, Priority: 3},
		{Min: 16, Weight: 4, Priority: 1},
		{Min: 10, Priority: 4},
		{Min: 6, Right: true},
		{Min: 10, Priority: 2},
	}, Rows[work]{
		ID:      func(w work) string { return w.id },
		Section: func(w work) string { return w.class },
		Sign: func(w work) Cell {
			if w.needs {
				return T(g.NeedsYou, s.State(themes.NeedsYou))
			}
			return Cell{}
		},
		Cells: func(w work) []Cell {
			if w.needs {
				return []Cell{T(Name(w.id), s.Text), T(Name(w.owner), s.Dim), {Text: w.doing, Rest: true}}
			}
			return []Cell{T(Name(w.id), lipgloss.Style{}), T(Name(w.owner), s.Dim), T(w.doing, lipgloss.Style{}),
				{Drawn: Bar(10, w.done, s, g)}, T(Clock(w.left), lipgloss.Style{}), T(w.ends, s.Dim)}
		},
	})
	tb.SetRows(works)
	tb.Move(4)
	header := []string{
		Sides(" gpu-041   prod "+g.Dot+" h200-a   "+s.State(themes.Draining).Render(g.Draining+" draining"), s.Dim.Render("driven by bastion-2 "), width),
		Sides(" ends 14:50 "+g.Dot+" "+Left(1450*time.Second)+"   11 of 17 left   "+s.Danger.Render(g.NeedsYou+" 1 needs you"), Spark([]float64{17, 15, 14, 12, 11}, 8, g)+" ", width),
		Rule(width, th),
	}
	footer := []string{Rule(width, th), HelpLine(bindings()[0].Bindings, width, th)}
	text, _ := Frame(width, height, header, tb.View, footer)
	return text
}

func TestScreenGolden(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 50}, {40, 12}} {
		for name, g := range map[string]themes.Glyphs{"utf8": themes.UTF8Glyphs(), "ascii": themes.ASCIIGlyphs()} {
			t.Run(fmt.Sprintf("%dx%d-%s", size[0], size[1], name), func(t *testing.T) {
				text := ansi.Strip(board(theme(t).With(g), size[0], size[1]))
				checkSize(t, text, size[0], size[1])
				golden.RequireEqual(t, text)
			})
		}
	}
}

// What a terminal shows is what was drawn, line by line, in every theme: no
// sequence leaks, nothing wraps, no text of a row moves the cursor.
func TestScreenOnATerminal(t *testing.T) {
	for _, name := range themes.Builtin() {
		th, err := themes.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range [][2]int{{80, 24}, {133, 30}, {20, 5}, {47, 9}} {
			text := board(th, size[0], size[1])
			checkSize(t, text, size[0], size[1])
			e := vt.NewEmulator(size[0], size[1])
			title := ""
			e.SetCallbacks(vt.Callbacks{Title: func(s string) { title = s }})
			_, _ = e.WriteString(strings.ReplaceAll(text, "\n", "\r\n"))
			if got, want := trimLines(e.String()), trimLines(ansi.Strip(text)); got != want {
				t.Errorf("%s at %v: the terminal shows\n%s\nfor\n%s", name, size, got, want)
			}
			if title != "" {
				t.Errorf("a row set the title of the window to %q", title)
			}
			_ = e.Close()
		}
	}
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
