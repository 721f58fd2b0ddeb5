package themes

import (
	"image/color"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

func TestBuiltinLoad(t *testing.T) {
	want := []string{"dark", "deutan", "high-contrast", "light", "mono", "tritan"}
	if got := Builtin(); !slices.Equal(got, want) {
		t.Fatalf("Builtin() = %v, want %v", got, want)
	}
	for _, name := range Builtin() {
		th, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if th.Name != name {
			t.Errorf("theme %s calls itself %q", name, th.Name)
		}
		for _, state := range States() {
			if _, ok := th.Styles.States[state]; !ok {
				t.Errorf("%s: state %q has no style", name, state)
			}
		}
	}
}

// Every field is filled from the file: one that is forgotten in the map of
// fields would be drawn without a style in all themes alike.
func TestEveryFieldHasARole(t *testing.T) {
	var s Styles
	n := 0
	for f := range reflect.TypeFor[Styles]().Fields() {
		if f.Type == reflect.TypeFor[lipgloss.Style]() {
			n++
		}
	}
	if got := len(s.fields()); got != n {
		t.Fatalf("%d roles for %d fields", got, n)
	}
}

func TestMonoHasNoColour(t *testing.T) {
	th, err := Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	for name, st := range th.Styles.fields() {
		if !colourless(st.GetForeground()) || !colourless(st.GetBackground()) {
			t.Errorf("role %s has a colour", name)
		}
	}
}

func colourless(c color.Color) bool {
	_, ok := c.(lipgloss.NoColor)
	return ok || c == nil
}

func TestContrast(t *testing.T) {
	for _, tc := range []struct {
		theme string
		bg    []color.Color
		least float64
	}{
		{"dark", []color.Color{color.Black, lipgloss.Color("#1e1e1e"), lipgloss.Color("#23272e")}, 4.5},
		{"deutan", []color.Color{color.Black, lipgloss.Color("#1e1e1e"), lipgloss.Color("#23272e")}, 4.5},
		{"tritan", []color.Color{color.Black, lipgloss.Color("#1e1e1e"), lipgloss.Color("#23272e")}, 4.5},
		{"light", []color.Color{color.White, lipgloss.Color("#f5f5f0"), lipgloss.Color("#e9ecf1")}, 4.5},
		{"high-contrast", []color.Color{color.Black, lipgloss.Color("#1e1e1e"), lipgloss.Color("#001f66")}, 7},
	} {
		th, err := Load(tc.theme)
		if err != nil {
			t.Fatal(err)
		}
		for name, st := range th.Styles.fields() {
			if colourless(st.GetForeground()) || name == "rule" || name == "bar-empty" {
				continue // a line and the empty part of a bar say nothing by themselves
			}
			for _, bg := range tc.bg {
				if got := contrast(st.GetForeground(), bg); got < tc.least {
					t.Errorf("%s: %s on %v has contrast %.1f, want %.1f", tc.theme, name, bg, got, tc.least)
				}
			}
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	good, err := files.ReadFile("mono.toml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	lineOf := func(s, part string) string {
		before, _, ok := strings.Cut(s, part)
		if !ok {
			t.Fatalf("no %q in the theme", part)
		}
		return "own.toml:" + itoa(strings.Count(before, "\n")+1) + ":"
	}
	for name, tc := range map[string]struct{ old, new, at, says string }{
		"unknown token":  {`warn      = { bold = true }`, `warn = { fg = "amber" }`, `warn = {`, `unknown token "amber"`},
		"unknown role":   {`ok        = {}`, "ok = {}\nfancy = {}", "fancy", `unknown role "fancy"`},
		"unknown state":  {`ok        = {}`, "ok = {}\nstate-fancy = {}", "state-fancy", `unknown role "state-fancy"`},
		"unknown key":    {`warn      = { bold = true }`, `warn = { blink = true }`, `warn = {`, `unknown key`},
		"unknown table":  {"[palette]", "[palette]\n[extra]\nx = 1", "[extra]", `unknown key`},
		"bad colour":     {"[palette]", "[palette]\nred = \"#12\"", `red = "#12"`, `not a colour`},
		"bad number":     {"[palette]", "[palette]\nred = \"256\"", `red = "256"`, `not a colour`},
		"wrong type":     {`ok        = {}`, `ok = 3`, "ok = 3", ""},
		"not TOML":       {`ok        = {}`, `ok = = 1`, "ok = = 1", ""},
		"dotted unknown": {`warn      = { bold = true }`, `warn.fg = "amber"`, `warn.fg`, `unknown token "amber"`},
	} {
		changed := strings.Replace(text, tc.old, tc.new, 1)
		if changed == text {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := parse("own.toml", []byte(changed))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.HasPrefix(err.Error(), lineOf(changed, tc.at)) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %q, want it to start with %q and say %q", name, err, lineOf(changed, tc.at), tc.says)
		}
	}
	if _, err := parse("own.toml", []byte(strings.Replace(text, "ok        = {}\n", "", 1))); err == nil || !strings.Contains(err.Error(), `"ok" is missing`) {
		t.Errorf("missing role: %v", err)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func TestLoadOwnFile(t *testing.T) {
	good, err := files.ReadFile("dark.toml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	own := strings.Replace(string(good), `name = "dark"`, `name = "mine"`, 1) + "state-lost = { fg = \"amber\" }\n"
	if err := os.WriteFile(path, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	th, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if th.Name != "mine" {
		t.Errorf("name %q", th.Name)
	}
	if got, want := th.Styles.State(Lost).GetForeground(), th.Styles.Warn.GetForeground(); got != want {
		t.Errorf("state-lost is %v, want %v", got, want)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); err == nil {
		t.Error("a file that is not there loads")
	}
	if _, err := Load("none"); err == nil || !strings.Contains(err.Error(), "dark, deutan, high-contrast, light, mono, tritan") {
		t.Errorf("unknown theme: %v", err)
	}
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestDetect(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		dark bool
		want string
	}{
		{nil, true, "dark"},
		{nil, false, "light"},
		{map[string]string{"NO_COLOR": "1"}, true, "mono"},
		{map[string]string{"NO_COLOR": "1"}, false, "mono"},
		{map[string]string{"TERM": "dumb"}, false, "mono"},
	} {
		if got := Detect(env(tc.env), tc.dark); got != tc.want {
			t.Errorf("Detect(%v, %v) = %s, want %s", tc.env, tc.dark, got, tc.want)
		}
	}
}

func TestDetectGlyphs(t *testing.T) {
	for _, tc := range []struct {
		env   map[string]string
		ascii bool
	}{
		{nil, true},
		{map[string]string{"LANG": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.utf8"}, false},
		{map[string]string{"LANG": "C"}, true},
		{map[string]string{"LC_ALL": "C", "LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LC_ALL": "C.UTF-8", "LANG": "C"}, false},
		{map[string]string{"LC_CTYPE": "POSIX", "LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "en_US.UTF-8", "TERM": "linux"}, true},
		{map[string]string{"LANG": "ja_JP.UTF-8", "RUNEWIDTH_EASTASIAN": "1"}, true},
	} {
		if got := DetectGlyphs(env(tc.env)).ASCII; got != tc.ascii {
			t.Errorf("DetectGlyphs(%v).ASCII = %v, want %v", tc.env, got, tc.ascii)
		}
	}
}

// Without colour the sign and the word must tell states apart.
func TestStatesDifferWithoutColour(t *testing.T) {
	for _, g := range []Glyphs{UTF8Glyphs(), ASCIIGlyphs()} {
		seen := map[string]string{g.Unknown: "unknown"}
		words := map[string]bool{}
		for _, state := range States() {
			sign := g.State(state)
			if other, dup := seen[sign]; dup {
				t.Errorf("%s and %s share the sign %q", state, other, sign)
			}
			seen[sign] = state
			if w := Word(state); w == "" || words[w] {
				t.Errorf("%s has the word %q", state, w)
			}
			words[Word(state)] = true
		}
		if g.State("something new") != g.Unknown {
			t.Error("a state that is not known has a sign of one that is")
		}
	}
}

func TestGlyphsAreOneCell(t *testing.T) {
	for _, g := range []Glyphs{UTF8Glyphs(), ASCIIGlyphs()} {
		v := reflect.ValueOf(g)
		signs := slices.Clone(g.Levels[:])
		for _, f := range v.Fields() {
			if f.Kind() == reflect.String {
				signs = append(signs, f.String())
			}
		}
		for _, s := range signs {
			if ansi.StringWidth(s) != 1 || ansi.StringWidthWc(s) != 1 {
				t.Errorf("%q is %d cells (%d by code point)", s, ansi.StringWidth(s), ansi.StringWidthWc(s))
			}
			if g.ASCII && (len(s) != 1 || s[0] < ' ' || s[0] > '~') {
				t.Errorf("%q is not plain", s)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		text, err := files.ReadFile(name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parse("x.toml", text) })
}
