package themes

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deficiencies are how eyes see that lack one kind of cone, as matrices on
// amounts of light: Machado, Oliveira and Fernandes 2009, severity 1.
var deficiencies = map[string][3][3]float64{
	"protan": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deutan": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritan": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func (l light) seenBy(m [3][3]float64) (out light) {
	for i, row := range m {
		for k, f := range row {
			out[i] += f * l[k]
		}
		out[i] = min(1, max(0, out[i]))
	}
	return out
}

// closest is how far apart the two most similar of the roles are that carry a
// meaning, to eyes with a deficiency.
func closest(t *testing.T, theme, eyes string) float64 {
	t.Helper()
	th, err := Load(theme)
	if err != nil {
		t.Fatal(err)
	}
	fields := th.Styles.fields()
	var seen []light
	for _, role := range []string{"ok", "warn", "danger", "info", "text"} {
		r, g, b := linear(fields[role].GetForeground())
		seen = append(seen, light{r, g, b}.seenBy(deficiencies[eyes]).lab())
	}
	least := math.Inf(1)
	for i := range seen {
		for k := range i {
			least = min(least, apart(seen[i], seen[k]))
		}
	}
	return least
}

// What is well, late, wrong and under way must look different to the eyes that a
// theme is made for; 15 is far more than eyes need side by side.
func TestColourBlindEyes(t *testing.T) {
	for theme, eyes := range map[string][]string{"deutan": {"deutan", "protan"}, "tritan": {"tritan"}} {
		for _, e := range eyes {
			if got := closest(t, theme, e); got < 15 {
				t.Errorf("%s for %s eyes: two roles are only %.1f apart", theme, e, got)
			}
		}
	}
	if got := closest(t, "dark", "deutan"); got >= 15 {
		t.Errorf("the plain dark theme would do as well (%.1f): the measure shows nothing", got)
	}
}

// A theme that can't be read is an error that names the line.
func TestContrastErrors(t *testing.T) {
	dark, err := files.ReadFile("dark.toml")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ old, new, says string }{
		"text":     {`ink    = "#d5d8de"`, `ink    = "#5a5d63"`, `want 4.5:1`},
		"mark":     {`accent = "#7cc4f0"`, `accent = "#303030"`, `want 3:1`},
		"selected": {`well   = "#23272e"`, `well   = "#c0c0c0"`, `has a contrast of`},
		"state":    {"bar-empty = { fg = \"line\" }", "bar-empty = { fg = \"line\" }\nstate-lost = { fg = \"line\" }", `role "state-lost"`},
	} {
		changed := strings.Replace(string(dark), tc.old, tc.new, 1)
		if changed == string(dark) {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := parse("own.toml", []byte(changed))
		if err == nil || !strings.HasPrefix(err.Error(), "own.toml:") || strings.HasPrefix(err.Error(), "own.toml:0") || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the terminal decides about can't be measured, and is left alone.
	if _, err := parse("own.toml", []byte(strings.Replace(string(dark), `ink    = "#d5d8de"`, `ink    = "8"`, 1))); err != nil {
		t.Error(err)
	}
}

// Themes of one's own lie in a folder and go by their names; they come first.
func TestOwnFolder(t *testing.T) {
	dir := t.TempDir()
	mono, err := files.ReadFile("mono.toml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mine": string(mono), "dark": string(mono), "broken": "name = 3"} {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mine", "dark"} {
		th, err := LoadFrom(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if !colourless(th.Styles.Warn.GetForeground()) {
			t.Errorf("%s is not one's own", name)
		}
	}
	if _, err := LoadFrom(dir, "broken"); err == nil || !strings.Contains(err.Error(), "broken.toml:1") {
		t.Errorf("broken: %v", err)
	}
	if th, err := LoadFrom(dir, "light"); err != nil || th.Name != "light" {
		t.Errorf("light: %v %v", th.Name, err)
	}
	if got := strings.Join(Names(dir), " "); got != "broken dark deutan high-contrast light mine mono tritan" {
		t.Errorf("names: %s", got)
	}
	if got := len(Names("")); got != len(Builtin()) {
		t.Errorf("%d names without a folder", got)
	}
}
