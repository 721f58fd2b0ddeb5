package sshlink

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// splitKeyword takes `Keyword value` or `Keyword = value` apart.
func splitKeyword(text string) (keyword, rest string, err error) {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !(r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)))
	})
	if end == 0 {
		return "", "", fmt.Errorf("expected a keyword, found %q", text[:1])
	}
	if end < 0 {
		return text, "", nil
	}
	keyword, rest = text[:end], text[end:]
	if !strings.ContainsRune(" \t=\"", rune(rest[0])) {
		return "", "", fmt.Errorf("bad keyword %q", strings.Fields(text)[0])
	}
	rest = strings.TrimLeft(rest, " \t")
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = strings.TrimLeft(after, " \t")
	}
	return keyword, rest, nil
}

// splitArgs splits at blanks. Quotes, single or double, keep blanks together; a
// backslash frees a quote, a blank or itself; # where an argument would start
// begins a comment.
func splitArgs(s string) ([]string, error) {
	var args []string
	var cur strings.Builder
	inArg, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case ch == '\\' && i+1 < len(s) && strings.IndexByte(`"'\ `, s[i+1]) >= 0 && (quote == 0 || s[i+1] != ' '):
			i++
			cur.WriteByte(s[i])
			inArg = true
		case quote != 0 && ch == quote:
			quote = 0
		case quote != 0:
			cur.WriteByte(ch)
		case ch == '"' || ch == '\'':
			quote, inArg = ch, true
		case ch == ' ' || ch == '\t' || ch == '\r':
			if inArg {
				args = append(args, cur.String())
				cur.Reset()
				inArg = false
			}
		case ch == '#' && !inArg:
			return args, nil
		default:
			cur.WriteByte(ch)
			inArg = true
		}
	}
	if quote != 0 {
		return nil, errors.New("unterminated quote")
	}
	if inArg {
		args = append(args, cur.String())
	}
	return args, nil
}

// check reads the values that have a form, so that a bad one is found when the
// file is read and not when a host is needed.
func (d *directive) check() error {
	var err error
	switch d.keyword {
	case "port":
		_, err = parsePort(d.args[0])
	case "connecttimeout":
		_, err = parseTimeout(d.args[0])
	case "identitiesonly":
		_, err = parseYesNo(d.args[0])
	case "proxyjump":
		_, err = parseJumps(d.args)
	}
	if err != nil {
		return d.errorf("%w", err)
	}
	return nil
}

func parseYesNo(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "yes", "true":
		return true, nil
	case "no", "false":
		return false, nil
	}
	return false, fmt.Errorf("expected yes or no, found %q", s)
}

// parseTimeout reads ssh's time format for one unit: seconds, or a number with
// s, m or h. Zero and "none" mean that none is set.
func parseTimeout(s string) (time.Duration, error) {
	if strings.EqualFold(s, "none") {
		return 0, nil
	}
	unit, digits := time.Second, strings.ToLower(s)
	for suffix, u := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour} {
		if rest, ok := strings.CutSuffix(digits, suffix); ok {
			unit, digits = u, rest
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 20)
	if err != nil {
		return 0, fmt.Errorf("expected a time in seconds, found %q", s)
	}
	return time.Duration(n) * unit, nil
}

// parseJumps reads ProxyJump: destinations separated by commas, nil for none.
func parseJumps(args []string) ([]destination, error) {
	if len(args) != 1 {
		return nil, errors.New("expected destinations separated by commas, without blanks")
	}
	if strings.EqualFold(args[0], "none") {
		return nil, nil
	}
	var hops []destination
	for _, s := range strings.Split(args[0], ",") {
		d, err := parseDestination(s)
		if err != nil {
			return nil, err
		}
		hops = append(hops, d)
	}
	return hops, nil
}
