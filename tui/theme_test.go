package tui

import (
	"testing"

	"ebb/tui/keys"
)

// Another theme is another look and nothing else: every screen is what it had
// been, had it been opened in that theme.
func TestAThemeKeepsEverything(t *testing.T) {
	for name, lead := range map[string]func(c *console){
		"marks":       func(c *console) { c.press("j", "space", "space", "j") },
		"sort, group": func(c *console) { c.command("sort -host"); c.command("group pool"); c.press("j", "j") },
		"filter":      func(c *console) { c.press("/"); c.text("gpu-04"); c.press("enter", "j", "space") },
		"scroll":      func(c *console) { c.press("G", "k", "k") },
		"board":       func(c *console) { c.press("2", "j", "space", "j", "j") },
		"diff":        func(c *console) { c.press("3", "j", "space", "j") },
		"gate":        func(c *console) { c.v.gate = lockedGate(gpu041); c.press("4", "j") },
		"plan":        func(c *console) { c.press("5", "j", "j") },
		"plans":       func(c *console) { c.press("space", "space", "5", "j", "j") },
		"handover":    func(c *console) { c.press("6", "j", "j", "j") },
		"log":         func(c *console) { c.press("7", "k", "k") },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fixture(), 100, 16, func(o *Options) { o.Theme = "mono" })
			want := open(t, fixture(), 100, 16, func(o *Options) { o.Theme = "dark" })
			lead(c)
			lead(want)
			before := c.m.Screen()
			calls := c.v.called()
			if err := c.m.wear("dark", true); err != nil {
				t.Fatal(err)
			}
			if got := c.m.Screen(); got != want.m.Screen() {
				t.Errorf("after another theme:\n%s\nin it from the start:\n%s", got, want.m.Screen())
			}
			if c.m.Screen() == before {
				t.Error("it looks as before")
			}
			if c.v.called() != calls {
				t.Error("something was asked for anew")
			}
			// And what is hidden then.
			for _, s := range []string{"1", "2", "7"} {
				c.press(s)
				want.press(s)
				if got := c.m.Screen(); got != want.m.Screen() {
					t.Errorf("%s after another theme:\n%s\nin it from the start:\n%s", s, got, want.m.Screen())
				}
			}
		})
	}
}

// The command does that too, marks and all.
func TestThemeCommandKeepsMarks(t *testing.T) {
	c := open(t, fixture(), 100, 24, nil)
	c.press("space", "space", "5", "esc")
	plans := len(c.m.panes.plan.now().Hosts())
	c.command("theme dark")
	if n := c.m.panes.all[keys.Fleet].marks(); n != 2 || plans != 2 || len(c.m.panes.plan.now().Hosts()) != 2 || c.m.env.Theme.Name != "dark" {
		t.Errorf("%d marks, %d of %d plans, theme %s", n, len(c.m.panes.plan.now().Hosts()), plans, c.m.env.Theme.Name)
	}
}
