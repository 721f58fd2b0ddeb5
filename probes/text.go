package probes

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// text turns bytes from the kernel into a valid string. Names on a host are
// bytes, JSON is not: an invalid byte becomes \xNN, so that two names that
// differ still differ, which the replacement character would not give.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1, r == '\\':
			fmt.Fprintf(&s, `\x%02x`, b[0])
		default:
			s.Write(b[:size])
		}
		b = b[size:]
	}
	return s.String()
}

// textOf is text for a string that came from the kernel.
func textOf(s string) string { return text([]byte(s)) }
