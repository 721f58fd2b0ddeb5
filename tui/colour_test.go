package tui

import (
	"image/color"
	"regexp"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"

	"ebb/themes"
	"ebb/tui/paint"
)

// sent is what reaches a terminal of a profile, on the fleet screen and on a
// board.
func sentTo(t *testing.T, p colorprofile.Profile, env map[string]string) (raw, shown string) {
	t.Helper()
	c := open(t, fixture(), 120, 36, func(o *Options) {
		o.Theme = ""
		o.Getenv = func(k string) string {
			if v, ok := env[k]; ok {
				return v
			}
			return map[string]string{"LANG": "C.UTF-8", "TERM": "xterm"}[k]
		}
	})
	c.send(tea.ColorProfileMsg{Profile: p})
	pen := paint.NewPen(p)
	e := vt.NewEmulator(120, 36)
	defer e.Close()
	for _, key := range []string{"1", "2"} {
		c.press(key)
		b := pen.Draw(c.m.Screen(), 120, 36)
		raw += string(b)
		_, _ = e.Write(b)
		shown += strings.Join(shownRows(e), "\n") + "\n"
	}
	return raw, shown
}

var sgr = regexp.MustCompile(`\x1b\[([0-9;:]*)m`)

// depths are the kinds of colours in what was sent.
func depths(raw string) map[string]bool {
	out := map[string]bool{}
	for _, m := range sgr.FindAllStringSubmatch(raw, -1) {
		parts := strings.FieldsFunc(m[1], func(r rune) bool { return r == ';' || r == ':' })
		for i := 0; i < len(parts); i++ {
			switch p := parts[i]; {
			case (p == "38" || p == "48") && parts[i+1] == "2":
				out["true"] = true
				i += 4
			case p == "38" || p == "48":
				out["256"] = true
				i += 2
			case len(p) == 2 && (p[0] == '3' || p[0] == '4') && p[1] < '8', len(p) == 2 && p[0] == '9', len(p) == 3:
				out["16"] = true
			}
		}
	}
	return out
}

// A terminal gets no colours but those that it shows, and none where none are
// wanted; what stands there is the same, a sign and a word for every state.
func TestColoursOfTheTerminal(t *testing.T) {
	_, want := sentTo(t, colorprofile.TrueColor, nil)
	for name, tc := range map[string]struct {
		profile colorprofile.Profile
		env     map[string]string
		only    string
	}{
		"true colour":       {colorprofile.TrueColor, nil, "true"},
		"256":               {colorprofile.ANSI256, nil, "256"},
		"16":                {colorprofile.ANSI, nil, "16"},
		"NO_COLOR":          {colorprofile.ASCII, map[string]string{"NO_COLOR": "1"}, ""},
		"NO_COLOR, any":     {colorprofile.TrueColor, map[string]string{"NO_COLOR": "please"}, ""},
		"no colours at all": {colorprofile.ASCII, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw, shown := sentTo(t, tc.profile, tc.env)
			for _, depth := range []string{"true", "256", "16"} {
				if got := depths(raw)[depth]; got != (depth == tc.only) {
					t.Errorf("%s colours sent: %v", depth, got)
				}
			}
			if shown != want {
				t.Errorf("it shows\n%s\nand in all colours\n%s", shown, want)
			}
		})
	}
	g := themes.UTF8Glyphs()
	for _, state := range []string{themes.Serving, themes.Cordoned, themes.Draining, themes.Unreachable, themes.NeedsYou} {
		sign := g.State(state)
		if !strings.Contains(want, sign+" "+themes.Word(state)) && !(state == themes.NeedsYou && strings.Contains(want, sign+" ")) {
			t.Errorf("no sign and word for %s: %q in\n%s", state, sign, want)
		}
	}
}

// The first screen does not wait for the terminal to say whether it is light; the
// next one is drawn for what it has said, in the colours it has.
func TestLightIsFoundWithoutWaiting(t *testing.T) {
	c := open(t, fixture(), 120, 36, func(o *Options) { o.Theme = "" })
	c.shows("gpu-041")
	if c.m.env.Theme.Name != "dark" {
		t.Errorf("before the answer: %s", c.m.env.Theme.Name)
	}
	c.send(tea.ColorProfileMsg{Profile: colorprofile.ANSI})
	c.send(tea.BackgroundColorMsg{Color: color.White})
	c.shows("gpu-041")
	if c.m.env.Theme.Name != "light" {
		t.Errorf("after it: %s", c.m.env.Theme.Name)
	}
	if _, ok := c.m.env.Theme.Styles.Danger.GetForeground().(ansi.BasicColor); !ok {
		t.Errorf("on 16 colours: %v", c.m.env.Theme.Styles.Danger.GetForeground())
	}
	c.command("theme high-contrast")
	c.send(tea.BackgroundColorMsg{Color: color.White}) // a person has chosen
	if c.m.env.Theme.Name != "high-contrast" {
		t.Errorf("after a choice: %s", c.m.env.Theme.Name)
	}
}
