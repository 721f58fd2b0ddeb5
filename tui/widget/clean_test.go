package widget

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"pgregory.net/rapid"

	"ebb/themes"
)

func TestClean(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "web-7", "web-7"},
		{"empty", "", ""},
		{"letters", "Größe naïve Łódź 東京 한국 عربي עברית", "Größe naïve Łódź 東京 한국 عربي עברית"},
		{"combining", "e\u0301", "e\u0301"},
		{"emoji", "🚀 ok", "🚀 ok"},
		{"escape sequence", "a\x1b[2Jb", "a‹1b›[2Jb"},
		{"title sequence", "\x1b]0;x\x07", "‹1b›]0;x‹07›"},
		{"lines and tabs", "a\nb\tc\rd", "a‹0a›b‹09›c‹0d›d"},
		{"NUL and DEL", "\x00\x7f", "‹00›‹7f›"},
		{"C1", "a\u009bb", "a‹u+9b›b"},
		{"C1 as a byte", "a\x9bb", "a‹9b›b"},
		{"invalid", "a\xff\xfeb", "a‹ff›‹fe›b"},
		{"cut rune", "a\xe6\x9d", "a‹e6›‹9d›"},
		{"surrogate", "\xed\xa0\x80", "‹ed›‹a0›‹80›"},
		{"bidi", "a\u202eb\u2066c\u200fd\u061ce", "a‹u+202e›b‹u+2066›c‹u+200f›d‹u+61c›e"},
		{"zero width", "a\u200bb\u200cc\u200dd\ufeffe", "a‹u+200b›b‹u+200c›c‹u+200d›d‹u+feff›e"},
		{"separators", "a\u2028b\u2029c\u0085d", "a‹u+2028›b‹u+2029›c‹u+85›d"},
		{"foreign spaces", "a\u00a0b\u3000c\u2003d", "a‹u+a0›b‹u+3000›c‹u+2003›d"},
		{"tags", "a\U000e0041", "a‹u+e0041›"},
		{"fillers", "a\u3164b\u115fc\u2800d\u00ade", "a‹u+3164›b‹u+115f›c‹u+2800›d‹u+ad›e"},
		{"variation", "❤\ufe0f a\ufe00", "❤‹u+fe0f› a‹u+fe00›"},
		{"private and unassigned", "\ue000\u0378", "‹u+e000›‹u+378›"},
		{"too many marks", "e\u0301\u0302\u0303\u0304", "e\u0301\u0302‹u+303›‹u+304›"},
		{"mark without a letter", "\u0301a", "‹u+301›a"},
		{"mark on a sign", "●\u0301", "●‹u+301›"},
		{"flag", "🇩🇪", "🇩🇪"},
		{"joined emoji", "👩\u200d🚀", "👩‹u+200d›🚀"},
		{"emoji with a skin", "👋\U0001f3fb", "👋‹u+1f3fb›"},
		{"replacement", "\ufffd", "\ufffd"},
	} {
		if got := Clean(tc.in); got != tc.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{
		"web-7":              "web-7",
		"two words":          "two words",
		" lead":              "‹20›lead",
		"trail ":             "trail‹20›",
		" ":                  "‹20›",
		"a   b":              "a ‹20›‹20›b",
		"▲ needs you":        "‹u+25b2› needs you",
		"x ✓ verified":       "x ‹u+2713› verified",
		"▇▇░":                "‹u+2587›‹u+2587›‹u+2591›",
		"x · 14:31":          "x ‹u+b7› 14:31",
		"a│b":                "a‹u+2502›b",
		"東京":                 "東京",
		"x\x1b[31m":          "x‹1b›[31m",
		"“quoted”":           "‹u+201c›quoted‹u+201d›",
		"already ‹1b› shown": "already ‹1b› shown",
	} {
		if got := Name(in); got != want {
			t.Errorf("Name(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCleanIsBounded(t *testing.T) {
	for name, in := range map[string]string{
		"letters":  strings.Repeat("a", 1<<20),
		"controls": strings.Repeat("\x1b", 1<<20),
		"marks":    "a" + strings.Repeat("\u0301", 1<<19),
		"invalid":  strings.Repeat("\x80", 1<<20),
		"wide":     strings.Repeat("東", 1<<19),
		"flags":    strings.Repeat("🇩🇪", 1<<15),
	} {
		got := Clean(in)
		checkClean(t, in, got)
		if !strings.HasSuffix(got, "bytes›") {
			t.Errorf("%s: a cut text does not say so: …%q", name, got[len(got)-20:])
		}
	}
	if a, b := Clean(strings.Repeat("a", 5000)), Clean(strings.Repeat("a", 5001)); a == b {
		t.Error("two long texts of different size look the same")
	}
	if s := strings.Repeat("a", cleanLimit); Clean(s) != s {
		t.Error("a text of exactly the limit is cut")
	}
}

// checkClean holds what Clean promises of any text.
func checkClean(t interface {
	Helper()
	Errorf(string, ...any)
}, in, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("Clean(%q) = %q is not UTF-8", in, out)
	}
	if len(out) > cleanLimit {
		t.Errorf("Clean of %d bytes has %d", len(in), len(out))
	}
	for _, r := range out {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs, unicode.Co) {
			t.Errorf("Clean(%q) = %q keeps %U", in, out, r)
		}
	}
	if again := Clean(out); again != out {
		t.Errorf("Clean(%q) = %q, and again %q", in, out, again)
	}
	w := ansi.StringWidth(out)
	if wc := ansi.StringWidthWc(out); wc != w {
		t.Errorf("Clean(%q) = %q is %d cells by grapheme, %d by code point", in, out, w, wc)
	}
}

// printed is how many cells a terminal moves for s.
func printed(s string) int {
	e := vt.NewEmulator(2*len(s)+10, 2)
	defer func() { _ = e.Close() }()
	_, _ = e.WriteString(s + "\x1b[m")
	p := e.CursorPosition()
	return p.X + p.Y*e.Width()
}

var nasty = []rune{0, '\a', '\t', '\n', '\r', 0x1b, 0x7f, 0x85, 0x9b, 0xa0, 0xad, 0x300, 0x301, 0x34f, 0x5d0, 0x600, 0x61c, 0x622,
	0x915, 0x93f, 0x94d, 0xd4e, 0xe33, 0x1100, 0x1161, 0x11a8, 0x115f, 0x200b, 0x200d, 0x200e, 0x202e, 0x2028, 0x2066, 0x2600, 0x2764,
	0x2800, 0x3000, 0x3164, 0x6771, 0xac00, 0xe000, 0xfe0f, 0xfeff, 0xfffd, 0x1f1e9, 0x1f1ea, 0x1f3fb, 0x1f468, 0x1f680, 0xe0041, 0xe0100,
	'‹', '›', '▲', '·', '…', 0x111c2, 0x1f9d1, 0xa8e0, 0x20e3, '1', '#'}

func genText(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.Map(rapid.SampledFrom(nasty), func(r rune) string { return string(r) }),
		rapid.StringN(0, 4, -1),
		rapid.SampledFrom([]string{"gpu-041", " ", "  ", "\x1b[31m", "\xff", "\xe2\x80", "e\u0301", "👨‍👩‍👧", "क्षि", "‹1b›"}),
	)
	return strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
}

func TestCleanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genText(t)
		out := Clean(in)
		checkClean(t, in, out)
		if w, p := ansi.StringWidth(out), printed(out); w != p {
			t.Errorf("Clean(%q) = %q measures %d cells, a terminal prints %d", in, out, w, p)
		}
		strict := Name(in)
		checkClean(t, in, strict)
		if Name(strict) != strict {
			t.Errorf("Name(%q) = %q, and again %q", in, strict, Name(strict))
		}
		for _, r := range strict {
			if signs[r] {
				t.Errorf("Name(%q) = %q keeps the sign %q", in, strict, r)
			}
		}
	})
}

// What was taken out leaves a trace: two texts look alike only where the result
// shows that something was escaped.
func TestCleanNeverMergesSilently(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "base")
		r := rapid.SampledFrom(nasty).Draw(t, "rune")
		at := rapid.IntRange(0, len(base)).Draw(t, "at")
		other := base[:at] + string(r) + base[at:]
		if got := Clean(other); got == Clean(base) {
			t.Errorf("%q and %q both look like %q", base, other, got)
		}
		a, b := genText(t), genText(t)
		if out := Clean(a); a != b && out == Clean(b) && !strings.Contains(out, "‹") {
			t.Errorf("%q and %q both look like %q", a, b, out)
		}
	})
}

func TestASCII(t *testing.T) {
	if got := ASCII(Clean("é\x1b東")); got != "<u+e9><1b><u+6771>" {
		t.Errorf("got %q", got)
	}
	if got := draw("x\x1b", themes.ASCIIGlyphs()); got != "x<1b>" {
		t.Errorf("got %q", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, r := range nasty {
		f.Add("a" + string(r) + "b")
	}
	f.Add("\x1b[2J\x1b]0;t\a")
	f.Add("\xff\xfe")
	f.Add(strings.Repeat("\u0301", 40))
	f.Fuzz(func(t *testing.T, in string) {
		out := Clean(in)
		checkClean(t, in, out)
		if len(out) < 1000 {
			if w, p := ansi.StringWidth(out), printed(out); w != p {
				t.Errorf("Clean(%q) = %q measures %d cells, a terminal prints %d", in, out, w, p)
			}
		}
		checkClean(t, in, Name(in))
	})
}
