package tui

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"ebb/fleet"
)

// sequence takes apart what tea.Sequence made, which is a type of its own.
func sequence(msg tea.Msg) []tea.Cmd {
	v := reflect.ValueOf(msg)
	if v.Kind() != reflect.Slice || !strings.Contains(v.Type().String(), "sequence") {
		return nil
	}
	var out []tea.Cmd
	for i := range v.Len() {
		if cmd, ok := v.Index(i).Interface().(tea.Cmd); ok {
			out = append(out, cmd)
		}
	}
	return out
}

// journeys lead to each screen as a person would get there.
var journeys = map[string]func(*console){
	"fleet":    func(*console) {},
	"grouped":  func(c *console) { c.goHost("gpu-041"); c.press("p") },
	"host":     func(c *console) { c.goHost("gpu-041"); c.press("i") },
	"board":    func(c *console) { c.m.host = gpu041; c.press("2") },
	"progress": func(c *console) { c.toBoardRow("nb-kim-3"); c.press("enter") },
	"verify":   func(c *console) { c.goHost("gpu-046"); c.press("2") },
	"preview":  func(c *console) { c.goHost("gpu-044"); c.press("2") },
	"diff":     func(c *console) { c.goHost("gpu-041"); c.press("3") },
	"gate":     func(c *console) { c.v.gate = lockedGate(gpu046); c.goHost("gpu-046"); c.press("4") },
	"open":     func(c *console) { c.v.gate = openGate(gpu046); c.goHost("gpu-046"); c.press("4", "v") },
	"plan":     func(c *console) { c.goHost("gpu-044"); c.press("5") },
	"plans": func(c *console) {
		c.goHost("gpu-044")
		c.press("space", "space", "space", "5")
	},
	"command":  func(c *console) { c.goHost("gpu-044"); c.press(":"); c.text("un") },
	"complete": func(c *console) { c.toBoardRow("pg-orders"); c.press(":"); c.text("hold gpu-041 ") },
	"handover": func(c *console) { c.press("6") },
	"log":      func(c *console) { c.press("7") },
	"help":     func(c *console) { c.press("?") },
	"drain":    func(c *console) { c.goHost("gpu-044"); c.press("d"); c.painted(); c.press("enter"); c.painted() },
	"escalate": func(c *console) { c.toBoardRow("etl-legacy"); c.press("e"); c.painted() },
	"parked":   func(c *console) { c.frame(drained(resting)); c.toBoardRow("nb-kim-3") },
	"resume":   func(c *console) { c.frame(drained(resting)); c.goHost("gpu-041"); c.press("R", "R"); c.painted() }, // its row has moved
	"gone":     func(c *console) { c.frame(away(nil)); c.toBoardRow("web-7"); c.press("T"); c.painted() },
	"details":  func(c *console) { c.toBoardRow("vllm-mistral"); c.press("enter") },
}

// goHost puts the cursor of the fleet screen on a host.
func (c *console) goHost(name string) {
	c.t.Helper()
	c.press("1")
	c.m.panes.all["fleet"].setHost(fleet.HostID("prod/" + name))
	if got := c.m.panes.all["fleet"].Host().Name(); got != name {
		c.t.Fatalf("%s is not on the fleet screen: the cursor is on %s", name, got)
	}
	c.m.Screen()
}

// toBoardRow opens the board of gpu-041 with the cursor on a workload.
func (c *console) toBoardRow(name string) {
	c.t.Helper()
	c.goHost("gpu-041")
	c.press("enter", "home")
	for range 40 {
		for _, l := range strings.Split(ansi.Strip(c.m.Screen()), "\n") {
			if _, after, ok := strings.Cut(l, "▸"); ok && strings.Contains(after[:min(len(after), 40)], name) {
				return
			}
		}
		c.press("j")
	}
	c.t.Fatalf("%s is not on the board:\n%s", name, c.m.Screen())
}

func TestGolden(t *testing.T) {
	for name, lead := range journeys {
		for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 50}} {
			for _, theme := range []string{"dark", "mono"} {
				t.Run(fmt.Sprintf("%s-%dx%d-%s", name, size[0], size[1], theme), func(t *testing.T) {
					c := open(t, fixture(), size[0], size[1], func(o *Options) { o.Theme = theme })
					lead(c)
					c.clock = now
					screen := c.m.Screen()
					checkSize(t, screen, size[0], size[1])
					if theme == "mono" {
						screen = ansi.Strip(screen) // can be read as it is
					}
					golden.RequireEqual(t, screen)
				})
			}
		}
	}
}

func checkSize(t *testing.T, screen string, w, h int) {
	t.Helper()
	lines := strings.Split(screen, "\n")
	if len(lines) != h {
		t.Errorf("%d lines, want %d", len(lines), h)
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != w {
			t.Errorf("line %d has %d cells, want %d: %q", i, n, w, l)
		}
	}
}
