package widget

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"
)

func TestFrameEverySize(t *testing.T) {
	header := []string{"ebb prod", "34 serving 東京", "───"}
	footer := []string{"───", "next 14:29", "? keys"}
	for w := range 90 {
		for h := range 30 {
			called := false
			text, ok := Frame(w, h, header, func(bw, bh int) string {
				called = true
				if bw != w || bh < h/2 || bh < 1 {
					t.Errorf("body of %dx%d at %dx%d", bw, bh, w, h)
				}
				return strings.Repeat("body with too many lines and 한국어 ", 9) + strings.Repeat("\nx", h+3)
			}, footer)
			if w == 0 || h == 0 {
				if text != "" || ok {
					t.Errorf("something at %dx%d", w, h)
				}
				continue
			}
			checkSize(t, text, w, h)
			if want := w >= 20 && h >= 5; ok != want || called != want || TooSmall(w, h) == want {
				t.Errorf("ok %v, body drawn %v at %dx%d", ok, called, w, h)
			}
			if !ok && w >= 9 && !strings.Contains(text, "too small") {
				t.Errorf("%dx%d does not say that it is too small: %q", w, h, text)
			}
		}
	}
}

func TestOverlayEverySize(t *testing.T) {
	th := theme(t)
	under := strings.Repeat(strings.Repeat("東", 40)+"\n", 24)
	for w := range 90 {
		for h := range 12 {
			text := Overlay(under, []string{"terminate gpu-041?", " 東 ", "no"}, w, h, th)
			if w == 0 || h == 0 {
				continue
			}
			checkSize(t, text, w, h)
		}
	}
	text := ansi.Strip(Overlay("ab\ncd\nef\ngh\nij", []string{"X"}, 6, 5, th))
	if text != "ab    \ncd─   \nefX   \ngh─   \nij    " {
		t.Errorf("got\n%s", text)
	}
}

func bindings() []HelpGroup {
	b := func(k, d string) key.Binding { return key.NewBinding(key.WithKeys(k), key.WithHelp(k, d)) }
	off := b("z", "not now")
	off.SetEnabled(false)
	return []HelpGroup{
		{"fleet", []key.Binding{b("c", "cordon"), b("u", "uncordon"), b("d", "drain"), off}},
		{"move", []key.Binding{b("up/k", "up"), b("down/j", "down"), b("pgup", "page up"), b("pgdn", "page down")}},
	}
}

func TestHelp(t *testing.T) {
	th := theme(t)
	groups := bindings()
	line := append([]key.Binding{}, groups[0].Bindings...)
	for w := range 120 {
		l := HelpLine(line, w, th)
		if ansi.StringWidth(l) != w {
			t.Errorf("line of %d at width %d", ansi.StringWidth(l), w)
		}
		for h := 1; h < 14; h++ {
			if w > 0 {
				text, _ := Help(groups, w, h, 3, th)
				checkSize(t, text, w, h)
			}
		}
	}
	if got := strings.TrimRight(ansi.Strip(HelpLine(line, 60, th)), " "); got != " c cordon   u uncordon   d drain" {
		t.Errorf("line %q", got)
	}
	if got := strings.TrimRight(ansi.Strip(HelpLine(line, 24, th)), " "); got != " c cordon   u uncordon …" {
		t.Errorf("short line %q", got)
	}
	_, below := Help(groups, 30, 5, 0, th)
	if below == 0 {
		t.Error("nothing is said of the lines out of sight")
	}
	if text, below := Help(groups, 30, 5, 99, th); below != 0 || !strings.Contains(text, "page down") {
		t.Errorf("the end can't be reached: %d below\n%s", below, text)
	}
	for _, w := range []int{40, 80} {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			text, _ := Help(groups, w, 7, 0, th)
			golden.RequireEqual(t, ansi.Strip(text))
		})
	}
}

func TestPrompt(t *testing.T) {
	th := theme(t)
	p := NewPrompt(":", []string{"fleet", "board"}, th)
	for _, k := range []string{"b", "o"} {
		if p.Update(press(k)) != Typing {
			t.Fatal("a letter ends the line")
		}
	}
	p.Update(press("tab"))
	if p.Value() != "board" {
		t.Errorf("completed to %q", p.Value())
	}
	if p.Update(press("enter")) != Entered || p.Value() != "board" {
		t.Errorf("entered %q", p.Value())
	}
	p.SetValue("")
	if p.Update(press("backspace")) != GivenUp {
		t.Error("backspace on an empty line stays")
	}
	p.Update(tea.PasteMsg{Content: "\ngpu\x1b[2J\r\nrm -rf /"})
	if p.Value() != "gpu‹1b›[2J" {
		t.Errorf("pasted %q", p.Value())
	}
	p.Update(tea.PasteMsg{Content: strings.Repeat("東", 5000)})
	if n := len([]rune(p.Value())); n > promptLimit {
		t.Errorf("%d characters", n)
	}
	if p.Update(press("esc")) != GivenUp {
		t.Error("esc stays")
	}
	p.SetError(errors.New("filter: a quote is not closed"))
	if v := ansi.Strip(p.View(80)); !strings.Contains(v, "not closed") {
		t.Errorf("no error in %q", v)
	}
	p.SetValue("")
	p.Update(press("x"))
	if v := ansi.Strip(p.View(80)); strings.Contains(v, "not closed") || !strings.HasPrefix(v, " :x") {
		t.Errorf("after a change: %q", v)
	}
	for _, value := range []string{"", "x", strings.Repeat("東京", 60), "gpu-041 state:cordoned"} {
		for _, err := range []error{nil, errors.New("no such screen\n")} {
			for w := range 130 {
				p.SetValue(value)
				p.SetError(err)
				if got := ansi.StringWidth(p.View(w)); got != w {
					t.Errorf("%q at %d is %d cells", value, w, got)
				}
			}
		}
	}
}
