package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ebb/fleet"
)

// textLimit is how much of one foreign text stands in a sentence.
const textLimit = 200

// Name is a foreign name inside a sentence: plain names stand as they are,
// anything else is quoted.
func Name(s string) string {
	s = short(s)
	for _, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+#=", r) {
			return escapeSigns(strconv.Quote(s))
		}
	}
	if s == "" {
		return "?"
	}
	return s
}

// Text is a foreign sentence inside ours: on one line, with everything escaped
// that would not be seen, or that looks like a sign of the console's own.
func Text(s string) string {
	s = escapeSigns(short(strings.TrimSpace(s)))
	for strings.Contains(s, "  ") { // a second column
		s = strings.ReplaceAll(s, "  ", " ")
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			q := strconv.Quote(s)
			return strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), `\\u`, `\u`)
		}
	}
	return s
}

// sign reports whether a character is drawn, or could be taken for one that the
// console draws: boxes, blocks, shapes, check marks and crosses.
func sign(r rune) bool { return r >= 0x2500 && r <= 0x25ff || r >= 0x2713 && r <= 0x2718 }

// escapeSigns writes signs as their numbers.
func escapeSigns(s string) string {
	if strings.IndexFunc(s, sign) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if sign(r) {
			b.WriteString(strings.Trim(strconv.QuoteToASCII(string(r)), `"`))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// short cuts at a rune, and says that it did.
func short(s string) string {
	n := 0
	for i := range s {
		if n++; n > textLimit {
			return s[:i] + "…"
		}
	}
	return s
}

// Key names a workload or resource inside a sentence: "sandbox/vm-1".
func Key(k fleet.Key) string {
	if k.IsZero() {
		return ""
	}
	return Name(k.Kind) + "/" + Name(k.ID)
}

// Host is the plane's own name for a host.
func Host(h fleet.HostID) string {
	if n := h.Name(); n != "" {
		return Name(n)
	}
	return Name(string(h))
}

// HM is a wall time of the day in UTC: "14:31".
func HM(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("15:04")
}

// HMS is HM with seconds.
func HMS(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("15:04:05")
}

// When reads a time that stands as text in a reason, and shows its HM.
func When(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return Text(stamp)
	}
	return HM(t)
}

// WhenS is When with seconds, for what can't be taken back.
func WhenS(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return Text(stamp)
	}
	return HMS(t)
}

// Duration is a duration as people write it: "45m", "1h5m", "30s".
func Duration(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// ReadDuration reads how long something may take. A bare number is refused by
// naming what it could have meant: minutes and hours are both usual here.
func ReadDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && strings.Trim(text, "0123456789") == "" && text != "":
		return 0, fmt.Errorf("%s of what? write %sm for minutes, %sh for hours", text, text, text)
	case err != nil:
		return 0, fmt.Errorf("%s is no duration: write 45m, or 1h30m", Name(text))
	case d <= 0:
		return 0, fmt.Errorf("%s is no time from now on", Name(text))
	}
	return d, nil
}

// span is Duration of a duration that stands as text in a reason.
func span(s string) string {
	d, err := time.ParseDuration(s)
	if err != nil {
		return Text(s)
	}
	return Duration(d)
}

// join puts the parts that say something behind each other.
func join(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}
