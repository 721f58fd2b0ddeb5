package widget

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct {
		in    string
		width int
		want  string
	}{
		{"web-7", 8, "web-7   "},
		{"web-7", 5, "web-7"},
		{"web-7", 4, "web…"},
		{"web-7", 1, "…"},
		{"web-7", 0, ""},
		{"web-7", -3, ""},
		{"東京都", 4, "東… "},
		{"東京都", 5, "東京…"},
		{"東", 1, "…"},
		{"a\nb\tc", 5, "a b c"},
		{"\x1b[31mred\x1b[m", 5, "\x1b[31mred\x1b[m  "},
		{"\x1b[31mredred\x1b[m", 4, "\x1b[31mred…\x1b[m"},
	} {
		if got := Fit(tc.in, tc.width); got != tc.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", tc.in, tc.width, got, tc.want)
		}
	}
	if got := FitRight("17", 5); got != "   17" {
		t.Errorf("FitRight: %q", got)
	}
	if got := FitEnd("/var/lib/vms/a7", 8); got != "…/vms/a7" {
		t.Errorf("FitEnd: %q", got)
	}
}

func TestFitIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := genText(t)
		for _, in := range []string{raw, Clean(raw), "\x1b[1m" + Clean(raw) + "\x1b[m"} {
			width := rapid.IntRange(0, 300).Draw(t, "width")
			for name, out := range map[string]string{
				"Fit": Fit(in, width), "FitRight": FitRight(in, width), "FitEnd": FitEnd(in, width),
				"Sides": Sides(in, Clean(raw), width),
			} {
				if got := ansi.StringWidth(out); got != width && (name != "Sides" || in != raw) {
					t.Errorf("%s(%q, %d) = %q is %d cells", name, in, width, out, got)
				}
				if strings.ContainsAny(out, "\n\r\t") {
					t.Errorf("%s(%q, %d) = %q breaks the line", name, in, width, out)
				}
			}
		}
	})
}

func TestFitEveryWidth(t *testing.T) {
	in := Clean("gpu-041 東京 e\u0301e\u0301 🚀🚀 ‹x› " + strings.Repeat("한국어 ", 60))
	for width := range 301 {
		out := Fit(in, width)
		if got := ansi.StringWidth(out); got != width {
			t.Errorf("Fit to %d is %d cells: %q", width, got, out)
		}
		if width > 0 && printed(out) != width {
			t.Errorf("Fit to %d prints %d cells: %q", width, printed(out), out)
		}
	}
}

func TestSides(t *testing.T) {
	for _, tc := range []struct {
		l, r  string
		width int
		want  string
	}{
		{"ebb", "14:26", 12, "ebb    14:26"},
		{"ebb", "", 5, "ebb  "},
		{"gpu-041 draining", "14:26", 15, "gpu-041…  14:26"},
		{"gpu-041", "plane 2s", 6, "gpu-0…"},
		{"x", "y", 0, ""},
	} {
		if got := Sides(tc.l, tc.r, tc.width); got != tc.want {
			t.Errorf("Sides(%q, %q, %d) = %q, want %q", tc.l, tc.r, tc.width, got, tc.want)
		}
	}
}

func TestNamesKeepTheirEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"dir//var/lib/jobs/trainer-old-7", 19, "dir//v…rainer-old-7"},
		{"short", 19, "short"},
		{"寸寸寸寸寸寸寸寸1", 9, "寸…寸寸1"},
		{"abcdef", 3, "abcdef"}, // too narrow for two ends: fit cuts it
	} {
		if got := middle(c.name, c.width, "…"); got != c.want {
			t.Errorf("middle(%q, %d) is %q, want %q", c.name, c.width, got, c.want)
		}
	}
}
