package widget

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"ebb/themes"
)

func ask(q Question) (*Confirm, *Guard) {
	var g Guard
	c, _ := NewConfirm(q, &g, at(0))
	g.Answer()
	g.Answer()
	return c, &g
}

// play types keys, each long after the one before.
func play(c *Confirm, from time.Time, keys ...string) Verdict {
	v := Open
	for i, k := range keys {
		if v = c.Key(press(k), from.Add(time.Duration(i)*200*time.Millisecond)); v != Open {
			return v
		}
	}
	return v
}

var terminate = Question{Title: "terminate gpu-041", Lines: []string{"cloudctl instances terminate i-0f31"}, Act: "terminate", Word: "gpu-041"}

func TestConfirm(t *testing.T) {
	typed := strings.Split("gpu-041", "")
	for name, tc := range map[string]struct {
		keys []string
		want Verdict
	}{
		"enter alone":      {[]string{"enter"}, No},
		"y is only typed":  {[]string{"y", "enter"}, Open},
		"the name":         {append(append([]string{}, typed...), "enter"), Yes},
		"without enter":    {typed, Open},
		"part of it":       {append(append([]string{}, typed[:6]...), "enter"), Open},
		"more than it":     {append(append([]string{}, typed...), "1", "enter"), Open},
		"space behind":     {append(append([]string{}, typed...), " ", "enter"), Open},
		"upper case":       {[]string{"G", "P", "U", "-", "0", "4", "1", "enter"}, Open},
		"mended":           {append(append([]string{"x", "backspace"}, typed...), "enter"), Yes},
		"esc after typing": {append(append([]string{}, typed...), "esc"), No},
	} {
		c, _ := ask(terminate)
		if got := play(c, at(1000), tc.keys...); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestConfirmDropsWhatWasTypedBefore(t *testing.T) {
	var g Guard
	c, _ := NewConfirm(terminate, &g, at(0))
	if got := play(c, at(0), "g", "p"); got != Open || c.Typed() != "" {
		t.Errorf("%v, typed %q before it was painted", got, c.Typed())
	}
	g.Answer()
	g.Answer()
	if got := play(c, at(1000), append(strings.Split("gpu-041", ""), "enter")...); got != Yes {
		t.Errorf("%v after it was painted", got)
	}
}

func TestConfirmRefusesPaste(t *testing.T) {
	c, _ := ask(terminate)
	c.Paste()
	if got := play(c, at(1000), "enter"); got != No {
		t.Errorf("%v after a paste", got)
	}
	c, _ = ask(terminate)
	c.Key(tea.KeyPressMsg{Code: tea.KeyExtended, Text: "gpu-041"}, at(1000))
	if c.Typed() != "" {
		t.Errorf("seven characters at once were taken for typing: %q", c.Typed())
	}
}

func TestConfirmWithoutWord(t *testing.T) {
	q := Question{Title: "uncordon gpu-041", Act: "uncordon", Undoable: true}
	for k, want := range map[string]Verdict{"enter": No, "y": Yes, "n": No, "esc": No, "x": Open} {
		c, _ := ask(q)
		if got := play(c, at(1000), k); got != want {
			t.Errorf("%s: %v, want %v", k, got, want)
		}
	}
	// A name that is missing must not turn into a question that y answers.
	c, _ := ask(Question{Title: "terminate", Act: "terminate"})
	if got := play(c, at(1000), "y"); got != Open {
		t.Errorf("y on an irreversible act without a name: %v", got)
	}
}

// Whatever is typed, Yes comes only when the word stood there and enter was
// pressed.
func TestConfirmProperty(t *testing.T) {
	keys := []string{"g", "p", "u", "1", "enter", "backspace", "y", "tab"}
	rapid.Check(t, func(t *rapid.T) {
		c, _ := ask(Question{Act: "terminate", Word: "gpu1"})
		before := ""
		for i := range rapid.IntRange(1, 30).Draw(t, "n") {
			k := rapid.SampledFrom(keys).Draw(t, "key")
			if rapid.IntRange(0, 2).Draw(t, "right") > 0 && len(before) < 4 && strings.HasPrefix("gpu1", before) {
				k = string("gpu1"[len(before)])
			}
			v := c.Key(press(k), at(1000+i*150))
			if v == Yes && (k != "enter" || before != "gpu1") {
				t.Fatalf("Yes on %q with %q typed", k, before)
			}
			if v != Open {
				return
			}
			before = c.Typed()
		}
	})
}

func TestConfirmView(t *testing.T) {
	th := theme(t)
	c, g := ask(Question{Title: "terminate gpu-041\x1b[2J", Lines: []string{"a\nb"}, Act: "terminate", Word: "gpu-041"})
	play(c, at(1000), "g")
	c.Paste()
	for w := range 130 {
		for i, l := range c.View(w, at(2000), th) {
			if ansi.StringWidth(l) != w || strings.Contains(l, "\n") {
				t.Errorf("line %d at width %d: %q", i, w, l)
			}
		}
	}
	text := ansi.Strip(strings.Join(c.View(60, at(2000), th), "\n"))
	for _, want := range []string{"gpu-041‹1b›[2J", "a‹0a›b", "type gpu-041 to terminate: g_", "paste is refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	g.Open(at(3000))
	if text := strings.Join(c.View(60, at(3001), th.With(themes.ASCIIGlyphs())), "\n"); !strings.Contains(ansi.Strip(text), "wait~") {
		t.Errorf("a dialog that is deaf looks ready:\n%s", text)
	}
}
