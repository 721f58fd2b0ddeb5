package themes

import "strings"

// The states that have a sign and a word of their own.
const (
	Serving     = "serving"
	Cordoned    = "cordoned"
	Cordoning   = "cordoning"
	Draining    = "draining"
	Empty       = "empty"
	Unreachable = "unreachable"
	Lost        = "lost"
	NeedsYou    = "needs-you"
	HostOnly    = "host-only"  // the host knows of the cordon, the plane does not
	PlaneOnly   = "plane-only" // and the other way round
	Terminated  = "terminated"
)

// States lists them in the order a legend shows them.
func States() []string {
	return []string{Serving, Cordoned, Cordoning, Draining, Empty, Unreachable, Lost, NeedsYou, HostOnly, PlaneOnly, Terminated}
}

// Word is how a state is written beside its sign.
func Word(state string) string {
	switch state {
	case NeedsYou:
		return "needs you"
	case HostOnly:
		return "host only"
	case PlaneOnly:
		return "plane only"
	case "":
		return "unknown"
	}
	return state
}

// Glyphs is a set of signs. Each is exactly one cell wide.
type Glyphs struct {
	ASCII bool // whether this is the plain set

	Serving, Cordoned, Cordoning, Draining, Empty, Unreachable, Lost, NeedsYou, Unknown string
	HostOnly, PlaneOnly, Terminated                                                     string

	Cursor, Mark, Check, Cross string
	BarFull, BarEmpty          string
	Levels                     [8]string // a burn-down, from least to most
	Ellipsis, Rule, Dot, None  string
	Up, Down                   string // more above and below; the direction of a sort
	QuoteOpen, QuoteClose      string
}

// State is the sign of a state by its name; "?" for one that is not known.
func (g Glyphs) State(name string) string {
	switch name {
	case Serving:
		return g.Serving
	case Cordoned:
		return g.Cordoned
	case Cordoning:
		return g.Cordoning
	case Draining:
		return g.Draining
	case Empty:
		return g.Empty
	case Unreachable:
		return g.Unreachable
	case Lost:
		return g.Lost
	case NeedsYou:
		return g.NeedsYou
	case HostOnly:
		return g.HostOnly
	case PlaneOnly:
		return g.PlaneOnly
	case Terminated:
		return g.Terminated
	}
	return g.Unknown
}

// UTF8Glyphs is the set for terminals that show UTF-8.
func UTF8Glyphs() Glyphs {
	return Glyphs{
		Serving: "●", Cordoned: "○", Cordoning: "◔", Draining: "◐", Empty: "◉",
		Unreachable: "◌", Lost: "✕", NeedsYou: "▲", Unknown: "?",
		HostOnly: "◧", PlaneOnly: "◨", Terminated: "□",
		Cursor: "▸", Mark: "✓", Check: "✓", Cross: "✗",
		BarFull: "▇", BarEmpty: "░",
		Levels:   [8]string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
		Ellipsis: "…", Rule: "─", Dot: "·", None: "·",
		Up: "↑", Down: "↓", QuoteOpen: "“", QuoteClose: "”",
	}
}

// ASCIIGlyphs is the set for everything else.
func ASCIIGlyphs() Glyphs {
	return Glyphs{
		ASCII:   true,
		Serving: "*", Cordoned: "o", Cordoning: ".", Draining: "%", Empty: "@",
		Unreachable: "/", Lost: "x", NeedsYou: "!", Unknown: "?",
		HostOnly: "[", PlaneOnly: "]", Terminated: "=",
		Cursor: ">", Mark: "+", Check: "+", Cross: "x",
		BarFull: "#", BarEmpty: ".",
		Levels:   [8]string{"_", ".", ":", "-", "=", "+", "*", "#"},
		Ellipsis: "~", Rule: "-", Dot: "-", None: "-",
		Up: "^", Down: "v", QuoteOpen: `"`, QuoteClose: `"`,
	}
}

// DetectGlyphs chooses a set by the environment, read through getenv. The locale
// decides as POSIX has it: the first of LC_ALL, LC_CTYPE and LANG that is set.
//
// Two terminals get the plain set although their locale is UTF-8: the Linux
// console, whose font lacks most of these signs, and one that is said to draw
// ambiguous characters two cells wide, where no column would line up.
func DetectGlyphs(getenv func(string) string) Glyphs {
	if !utf8Locale(getenv) || getenv("TERM") == "linux" || wideAmbiguous(getenv) {
		return ASCIIGlyphs()
	}
	return UTF8Glyphs()
}

func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// wideAmbiguous follows the variable that the width tables we draw with follow.
func wideAmbiguous(getenv func(string) string) bool {
	switch strings.ToLower(getenv("RUNEWIDTH_EASTASIAN")) {
	case "1", "t", "true":
		return true
	}
	return false
}
