package themes

import (
	"image/color"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// With fewer colours every theme stays as readable as it is in all of them: on
// 256 as they are fixed, on 16 as they usually are.
func TestFewerColoursStayReadable(t *testing.T) {
	for _, name := range Builtin() {
		th, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{256, 16} {
			few := th.In(n)
			all := few.Styles.fields()
			for state, st := range few.Styles.States {
				all["state-"+state] = &st
			}
			grounds := page(th.Dark)
			if bg := few.Styles.Selected.GetBackground(); !none(bg) {
				grounds = append(grounds, bg)
			}
			for role, st := range all {
				fg := st.GetForeground()
				if none(fg) {
					continue
				}
				for _, got := range seen(t, n, fg) {
					for _, g := range grounds {
						if n == 16 && g != color.Color(color.Black) && g != color.Color(color.White) {
							continue // a terminal of 16 colours has no shades to lie behind them
						}
						if c := contrast(got, g); c < least(role) {
							t.Errorf("%s in %d: %s has a contrast of %.1f on %v", name, n, role, c, g)
						}
					}
				}
			}
		}
	}
}

// seen is what a colour looks like in each palette it may be looked up in.
func seen(t *testing.T, n int, c color.Color) []color.Color {
	t.Helper()
	switch c := c.(type) {
	case ansi.IndexedColor:
		if n != 256 || c < 16 {
			t.Errorf("%v is none of the fixed colours of %d", c, n)
		}
		return []color.Color{c}
	case ansi.BasicColor:
		if n != 16 {
			t.Errorf("%v is not the same everywhere", c)
		}
		return []color.Color{lipgloss.Color(palettes[0][c]), lipgloss.Color(palettes[1][c])}
	}
	t.Errorf("%v is a colour that %d do not have", c, n)
	return nil
}

// What needs a person keeps a colour of its own among sixteen.
func TestSixteenColoursStillWarn(t *testing.T) {
	for _, name := range Builtin() {
		th, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if s := th.In(16).Styles; name != "mono" && (s.Warn.GetForeground() == s.Text.GetForeground() || s.Danger.GetForeground() == s.Text.GetForeground()) {
			t.Errorf("%s: what is late or wrong looks like any text: %v, %v, %v", name, s.Warn.GetForeground(), s.Danger.GetForeground(), s.Text.GetForeground())
		}
		if th.In(0).Styles.Text.GetForeground() != th.Styles.Text.GetForeground() {
			t.Errorf("%s changes on a terminal of all colours", name)
		}
	}
}
