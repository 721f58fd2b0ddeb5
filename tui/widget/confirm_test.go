package widget

import (
	"fmt"
	"slices"
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
	answer(&g)
	answer(&g)
	c.View(72, 20, at(1), themes.Theme{})
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
	answer(&g)
	answer(&g)
	c.View(72, 20, at(900), themes.Theme{})
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
		for h := range 15 {
			lines := c.View(w, h, at(2000), th)
			if len(lines) > h {
				t.Errorf("%d lines at %dx%d", len(lines), w, h)
			}
			for i, l := range lines {
				if ansi.StringWidth(l) != w || strings.Contains(l, "\n") {
					t.Errorf("line %d at %dx%d: %q", i, w, h, l)
				}
			}
		}
	}
	text := ansi.Strip(strings.Join(c.View(60, 20, at(2000), th), "\n"))
	for _, want := range []string{"gpu-041‹1b›[2J", "a‹0a›b", "type gpu-041 to terminate: g_", "paste is refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	g.Open(at(3000))
	if text := strings.Join(c.View(60, 20, at(3001), th.With(themes.ASCIIGlyphs())), "\n"); !strings.Contains(ansi.Strip(text), "wait~") {
		t.Errorf("a dialog that is deaf looks ready:\n%s", text)
	}
}

// The end of a long list must have been drawn before the answer can be Yes, and
// the line where the answer is typed is never pushed out of sight.
func TestConfirmWantsAllToBeRead(t *testing.T) {
	q := Question{Title: "drain gpu-041", Act: "drain", Word: "gpu-041"}
	for i := range 40 {
		q.Lines = append(q.Lines, fmt.Sprintf("may be killed: etl-%02d", i))
	}
	var g Guard
	c, _ := NewConfirm(q, &g, at(0))
	answer(&g)
	answer(&g)
	th := theme(t)
	view := func() string { return ansi.Strip(strings.Join(c.View(60, 12, at(1000), th), "\n")) }
	if v := view(); !strings.Contains(v, "type gpu-041") || strings.Contains(v, "etl-39") {
		t.Fatalf("the first page is\n%s", v)
	}
	keys := append(strings.Split("gpu-041", ""), "enter")
	if got := play(c, at(1000), keys...); got != Open || !strings.Contains(view(), "more to read") {
		t.Fatalf("%v before the list was read\n%s", got, view())
	}
	for i := range 20 {
		c.Key(tea.KeyPressMsg{Code: tea.KeyPgDown}, at(4000+i*200))
		view()
	}
	if v := view(); !strings.Contains(v, "etl-39") || !strings.Contains(v, "40 of 40") {
		t.Fatalf("the last page is\n%s", v)
	}
	if got := play(c, at(10_000), "enter"); got != Yes {
		t.Errorf("%v after the list was read", got)
	}
	// What was never drawn at all is not confirmed either.
	c, _ = NewConfirm(Question{Act: "uncordon", Undoable: true}, &g, at(20_000))
	answer(&g)
	answer(&g)
	c.View(60, 2, at(20_500), th)
	if got := play(c, at(21_000), "y"); got != Open {
		t.Errorf("%v on a screen that is too small for the question", got)
	}
}

func TestWrap(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  []string
	}{
		{"one two three", 8, []string{"one two", "three"}},
		{"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"", 4, []string{""}},
		{"東京都港区", 4, []string{"東京", "都港", "区"}},
		{"x", 0, nil},
	} {
		if got := Wrap(tc.in, tc.width); !slices.Equal(got, tc.want) {
			t.Errorf("Wrap(%q, %d) = %q, want %q", tc.in, tc.width, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in, w := Clean(genText(t)), rapid.IntRange(2, 40).Draw(t, "w")
		kept := ""
		for _, l := range Wrap(in, w) {
			if ansi.StringWidth(l) > w {
				t.Errorf("Wrap(%q, %d): line %q", in, w, l)
			}
			kept += l
		}
		strip := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if strip(kept) != strip(in) {
			t.Errorf("Wrap(%q, %d) loses text: %q", in, w, kept)
		}
	})
}
