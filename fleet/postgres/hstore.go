package postgres

import (
	"errors"
	"strings"
)

// hstore reads the text form of PostgreSQL's hstore, as the server writes it:
//
//	"pool"=>"gpu", "a \"quoted\" key"=>"back\\slash", "unset"=>NULL
//
// Keys without a value are left out.
func hstore(s string) (map[string]string, error) {
	out := map[string]string{}
	for s = strings.TrimSpace(s); s != ""; {
		key, rest, ok := quoted(s)
		if !ok {
			return nil, errHstore
		}
		if rest, ok = strings.CutPrefix(rest, "=>"); !ok {
			return nil, errHstore
		}
		if after, null := strings.CutPrefix(rest, "NULL"); null {
			rest = after
		} else {
			var value string
			if value, rest, ok = quoted(rest); !ok {
				return nil, errHstore
			}
			out[key] = value
		}
		if rest == "" {
			break
		}
		if s, ok = strings.CutPrefix(rest, ", "); !ok {
			return nil, errHstore
		}
	}
	return out, nil
}

var errHstore = errors.New("labels are neither json, hstore nor key=value pairs")

// quoted takes a string in double quotes off the front.
func quoted(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", s, false
			}
		}
		b.WriteByte(s[i])
	}
	return "", s, false
}
