package widget

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

var classes = []Option{
	{"e", "ephemeral", "let it expire"},
	{"s", "stateless", "start elsewhere first"},
	{"x", "stuck", "notice, TERM, grace, KILL"},
}

func TestMenu(t *testing.T) {
	th := theme(t)
	down := tea.KeyPressMsg{Code: tea.KeyDown}
	up := tea.KeyPressMsg{Code: tea.KeyUp}
	for name, tc := range map[string]struct {
		keys  []tea.KeyPressMsg
		label string
		want  Verdict
	}{
		"enter alone":  {[]tea.KeyPressMsg{press("enter")}, "", Open},
		"a key":        {[]tea.KeyPressMsg{press("s")}, "stateless", Yes},
		"another key":  {[]tea.KeyPressMsg{press("q")}, "", Open},
		"down, enter":  {[]tea.KeyPressMsg{down, press("enter")}, "ephemeral", Yes},
		"down and up":  {[]tea.KeyPressMsg{down, down, up, press("enter")}, "ephemeral", Yes},
		"past the end": {[]tea.KeyPressMsg{down, down, down, down, press("enter")}, "stuck", Yes},
		"esc":          {[]tea.KeyPressMsg{down, press("esc")}, "", No},
	} {
		var g Guard
		m, _ := NewMenu("class of python3", classes, &g, at(0))
		answer(&g)
		m.View(60, 20, at(1), th)
		if o, v := m.Key(press("s"), at(2)); v != Open {
			t.Errorf("%s: a key typed before the paint chose %v", name, o)
		}
		answer(&g)
		var o Option
		v := Open
		for i, k := range tc.keys {
			o, v = m.Key(k, at(1000+200*i))
		}
		if o.Label != tc.label || v != tc.want {
			t.Errorf("%s: %q %v, want %q %v", name, o.Label, v, tc.label, tc.want)
		}
	}
}

// A key that is no answer is answered with those that are, until the next key.
func TestMenuNamesItsKeys(t *testing.T) {
	var g Guard
	m, _ := NewMenu("class of python3", classes, &g, at(0))
	answer(&g)
	m.View(60, 20, at(1), theme(t))
	answer(&g)
	const want = "q is none of them: e, s, x, or esc"
	shown := func() string { return ansi.Strip(strings.Join(m.View(60, 20, at(2000), theme(t)), "\n")) }
	if _, v := m.Key(press("q"), at(1000)); v != Open || !strings.Contains(shown(), want) {
		t.Errorf("%v, and it shows\n%s", v, shown())
	}
	if m.Key(tea.KeyPressMsg{Code: tea.KeyDown}, at(1500)); strings.Contains(shown(), want) {
		t.Errorf("it stays\n%s", shown())
	}
}

func TestMenuView(t *testing.T) {
	var g Guard
	m, _ := NewMenu("class of python3\n", classes, &g, at(0))
	answer(&g)
	answer(&g)
	for w := range 80 {
		for h := range 10 {
			lines := m.View(w, h, at(600), theme(t))
			if len(lines) > h {
				t.Errorf("%d lines at %dx%d", len(lines), w, h)
			}
			for _, l := range lines {
				if ansi.StringWidth(l) != w || strings.Contains(l, "\n") {
					t.Errorf("%q at %dx%d", l, w, h)
				}
			}
		}
	}
	m.View(60, 3, at(600), theme(t))
	if _, v := m.Key(press("s"), at(1000)); v != Open {
		t.Error("a menu that is not on the screen takes an answer")
	}
}
