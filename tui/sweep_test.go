package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/vt"
	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/paint"
	"ebb/tui/widget"
)

// Every width from 20 to 300, on every screen: no line is wider than the screen,
// and nothing falls over.
func TestEveryWidth(t *testing.T) {
	turn := 0
	for _, lead := range journeys {
		c := open(t, fixture(), 120, 36, nil)
		lead(c)
		turn++
		for w := 20; w <= 300; w++ {
			if w > 110 && w%4 != turn%4 && w%100 != 0 {
				continue // the screens take turns
			}
			h := []int{24, 12, 29}[w%3]
			c.m.width, c.m.height = w, h
			sized(t, c.m.Screen(), w, h)
		}
		for _, size := range [][2]int{{1, 1}, {1, 120}, {400, 1}, {400, 120}} {
			c.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			sized(t, c.m.Screen(), size[0], size[1])
		}
	}
}

// shownRows is what an emulator shows, as text.
func shownRows(e *vt.Emulator) []string {
	out := make([]string, e.Height())
	for y := range out {
		var b strings.Builder
		for x := range e.Width() {
			switch c := e.CellAt(x, y); {
			case c == nil || c.Content == "" && c.Width != 0:
				b.WriteByte(' ')
			case c.Width > 0:
				b.WriteString(c.Content)
			}
		}
		out[y] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// drawnRows is what a terminal that showed nothing before shows of a screen.
func drawnRows(text string, w, h int) []string {
	e := vt.NewEmulator(w, h)
	defer e.Close()
	for y, line := range strings.Split(text, "\n") {
		_, _ = fmt.Fprintf(e, "\x1b[%dH%s\x1b[m", y+1, line)
	}
	return shownRows(e)
}

// A stale row means acting on the wrong host. Whoever scrolls, filters, sorts,
// groups, changes screens and resizes, while hosts come, go and change: the
// terminal shows what a fresh draw shows.
func TestNoRowIsEverStale(t *testing.T) {
	keysPressed := []string{"j", "k", "down", "up", "pgdown", "pgup", "g", "G", "s", "S", "p", "space", "1", "2", "3", "6", "7", "/", "esc", "enter", "?", "tab", "5"}
	rapid.Check(t, func(rt *rapid.T) {
		c := open(t, crowd(60), 100, 24, func(o *Options) { o.Theme = "dark" })
		w, h := 100, 24
		e := vt.NewEmulator(w, h)
		defer e.Close()
		pen := paint.NewPen(colorprofile.TrueColor)
		for range rapid.IntRange(4, 14).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				w, h = rapid.IntRange(1, 130).Draw(rt, "w"), rapid.IntRange(1, 40).Draw(rt, "h")
				e.Resize(w, h) // it keeps or cuts what it shows, as terminals do
				c.send(tea.WindowSizeMsg{Width: w, Height: h})
			case 1:
				c.press("/")
				c.text(rapid.SampledFrom([]string{"gpu-0000", "7", "!7", "state:serving", "zzz", ""}).Draw(rt, "filter"))
				c.press("enter")
			case 2:
				c.frame(shuffled(rt, c.m.frame))
			default:
				for range rapid.IntRange(1, 4).Draw(rt, "n") {
					c.press(rapid.SampledFrom(keysPressed).Draw(rt, "key"))
				}
			}
			text := c.m.Screen()
			if _, err := e.Write(pen.Draw(text, w, h)); err != nil {
				rt.Fatal(err)
			}
			got, want := shownRows(e), drawnRows(text, w, h)
			if !slices.Equal(got, want) {
				rt.Fatalf("the terminal shows\n%s\na fresh draw is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// shuffled is a frame in which hosts went, came back, and became something else.
func shuffled(t *rapid.T, f feed.Frame) feed.Frame {
	all := crowd(60).Snapshot.Hosts
	f.Snapshot.Seq++
	f.Snapshot.Hosts = nil
	for i, h := range all {
		switch rapid.IntRange(0, 9).Draw(t, "host") {
		case 0:
			continue
		case 1:
			h.Unreachable, h.Problem = now, "ssh: no route to host"
		case 2:
			h.Host.ID = fleet.HostID(fmt.Sprintf("prod/仕事-%d", i))
		case 3:
			h.Summary.Value.Holds.Cordon = cordonHold("léna", "wärtet 👍", 1e9)
		}
		f.Snapshot.Hosts = append(f.Snapshot.Hosts, h)
	}
	return f
}

// A window that is dragged to every size while a name is being typed: no size is
// broken, no Enter on the way counts, what the terminal shows is what is drawn,
// and the question is still the same one in the end.
func TestResizeStormWithADialogOpen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := atGate(t)
		c.press("t")
		c.painted()
		c.text("gpu-04")
		e := vt.NewEmulator(100, 30)
		defer e.Close()
		pen := paint.NewPen(colorprofile.TrueColor)
		sizes := [][2]int{{1, 1}, {400, 120}, {1, 120}, {400, 1}, {19, 5}, {20, 4}, {20, 5}}
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			w, h := rapid.IntRange(1, 400).Draw(rt, "w"), rapid.IntRange(1, 120).Draw(rt, "h")
			if n := rapid.IntRange(0, 2*len(sizes)).Draw(rt, "edge"); n < len(sizes) {
				w, h = sizes[n][0], sizes[n][1]
			}
			c.send(tea.WindowSizeMsg{Width: w, Height: h})
			text := c.m.Screen()
			sized(t, text, w, h)
			e.Resize(w, h)
			_, _ = e.Write(pen.Draw(text, w, h))
			if got, want := shownRows(e), drawnRows(text, w, h); !slices.Equal(got, want) {
				rt.Fatalf("the terminal shows\n%s\na fresh draw is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			c.press("enter", "y")
			if !widget.TooSmall(w, h) {
				c.press("backspace") // of the y
			}
			c.only()
		}
		c.send(tea.WindowSizeMsg{Width: 100, Height: 30})
		c.shows("terminate gpu-046")
		c.text("6")
		c.press("enter")
		c.only(`terminate prod/gpu-046 "gpu-046"`)
	})
}
