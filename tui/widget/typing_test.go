package widget

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/themes"
)

// What is typed takes the place of a default; a key that edits keeps it.
func TestPromptOfferGivesWay(t *testing.T) {
	for name, tc := range map[string]struct {
		keys []string
		want string
	}{
		"typed":            {[]string{"1", "m"}, "1m"},
		"left, then typed": {[]string{"left", "0"}, "150m"},
		"backspace":        {[]string{"backspace"}, "15"},
		"end, then typed":  {[]string{"end", "s"}, "15ms"},
		"nothing":          {nil, "15m"},
	} {
		p := NewPrompt("by: ", nil, themes.Theme{})
		p.Offer("15m")
		for _, k := range tc.keys {
			p.Update(press(k))
		}
		if got := p.Value(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	p := NewPrompt("by: ", nil, themes.Theme{})
	p.Offer("15m")
	if p.Update(tea.PasteMsg{Content: "2h"}); p.Value() != "2h" {
		t.Errorf("pasted: %q", p.Value())
	}
	p.SetValue("15m") // what a person typed before is gone on with
	if p.Update(press("x")); p.Value() != "15mx" {
		t.Errorf("set: %q", p.Value())
	}
}

// A doubled letter is typed within a repeat's time; enter and y are still
// dropped where they repeat, and nothing counts before the dialog was painted.
func TestConfirmTakesDoubledLetters(t *testing.T) {
	c, _ := ask(Question{Title: "escalate", Act: "escalate", Word: "ci-88200"})
	for i, r := range "ci-88200" {
		c.Key(press(string(r)), at(1000).Add(time.Duration(i)*30*time.Millisecond))
	}
	if c.Typed() != "ci-88200" {
		t.Fatalf("typed %q", c.Typed())
	}
	if v := c.Key(press("enter"), at(1300)); v != Yes {
		t.Errorf("enter: %v", v)
	}
	c, g := ask(Question{Title: "escalate", Act: "escalate", Word: "a"})
	c.Key(press("a"), at(1000))
	g.Accept(press("enter"), at(1950))
	if v := c.Key(press("enter"), at(2000)); v != Open {
		t.Errorf("a held enter decided: %v", v)
	}
	c, g = ask(Question{Title: "uncordon", Act: "uncordon", Undoable: true})
	g.Accept(press("y"), at(1000))
	if v := c.Key(press("y"), at(1050)); v != Open {
		t.Errorf("a held y decided: %v", v)
	}
	var deaf Guard
	c, _ = NewConfirm(Question{Title: "escalate", Act: "escalate", Word: "aa"}, &deaf, at(0))
	c.Key(press("a"), at(10))
	if c.Typed() != "" {
		t.Errorf("%q was typed before the dialog was painted", c.Typed())
	}
}
