package widget

import (
	"errors"
	"fmt"
	"strings"
)

// Filterable is what a filter sees of a row.
type Filterable struct {
	Text   string            // what free words are looked for in
	Labels map[string]string // for label=value
	Fields map[string]string // for field:value, such as state, by or class

	Many func(field string) []string // fields of which a row has several; nil without any
}

// Filter says which rows are shown. The zero Filter shows all.
type Filter struct {
	text  string
	terms []term
}

type term struct {
	not    bool
	kind   byte // '=' a label, ':' a field, 0 free text
	key    string
	values []string // any of these, in lower case
	raw    string   // the whole term in lower case, for fields no row has
}

// ParseFilter reads a filter: words parted by spaces, all of which must hold.
//
//	web            the text has it, in either case
//	pool=h200-a    the label has this value; h200-* also ends open
//	state:cordoned the field begins so; cordoned,lost means either
//	!lost          the opposite of any of these
//	"two words"    quotes keep spaces
//
// A leading slash, as it is typed on the screen, is left out.
func ParseFilter(s string) (Filter, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "/")
	f := Filter{text: strings.TrimSpace(s)}
	words, err := split(s)
	if err != nil {
		return Filter{}, fmt.Errorf("filter: %w", err)
	}
	for _, w := range words {
		t, err := parseTerm(w)
		if err != nil {
			return Filter{}, fmt.Errorf("filter: %w", err)
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// String is the filter as it was typed, without the slash.
func (f Filter) String() string { return f.text }

// Empty says whether the filter lets everything through.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// Match says whether a row is shown.
func (f Filter) Match(r Filterable) bool {
	for _, t := range f.terms {
		if t.match(r) == t.not {
			return false
		}
	}
	return true
}

// word is a part between spaces; quoted says that it is text whatever is in it.
type word struct {
	text        string
	not, quoted bool
}

func split(s string) ([]word, error) {
	var out []word
	for s = strings.TrimLeft(s, " "); s != ""; s = strings.TrimLeft(s, " ") {
		var w word
		if s[0] == '!' {
			w.not, s = true, s[1:]
		}
		if strings.HasPrefix(s, `"`) {
			end := strings.IndexByte(s[1:], '"')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			w.text, w.quoted, s = s[1:1+end], true, s[end+2:]
		} else if end := strings.IndexByte(s, ' '); end >= 0 {
			w.text, s = s[:end], s[end:]
		} else {
			w.text, s = s, ""
		}
		out = append(out, w)
	}
	return out, nil
}

func parseTerm(w word) (term, error) {
	if w.text == "" {
		return term{}, errors.New("nothing to look for")
	}
	low := strings.ToLower(w.text)
	t := term{not: w.not, raw: low}
	if w.quoted {
		return t, nil
	}
	at := strings.IndexAny(w.text, "=:")
	if at < 0 {
		return t, nil
	}
	t.kind, t.key = w.text[at], w.text[:at]
	t.values = strings.Split(strings.ToLower(w.text[at+1:]), ",")
	switch {
	case t.kind == '=' && t.key == "":
		return term{}, fmt.Errorf("%q has no label before the =", w.text)
	case t.kind == ':' && (t.key == "" || t.values[0] == ""):
		t.kind = 0 // ":22", or a field whose value is still being typed
	}
	return t, nil
}

func (t term) match(r Filterable) bool {
	switch t.kind {
	case '=':
		v, ok := r.Labels[t.key]
		return ok && t.any(func(want string) bool { return equalOrOpen(strings.ToLower(v), want) })
	case ':':
		v, ok := r.Fields[strings.ToLower(t.key)]
		if ok {
			return t.any(func(want string) bool { return want != "" && strings.HasPrefix(strings.ToLower(v), want) })
		}
		if r.Many == nil {
			break
		}
		for _, v := range r.Many(strings.ToLower(t.key)) {
			if t.any(func(want string) bool { return want != "" && strings.HasPrefix(strings.ToLower(v), want) }) {
				return true
			}
		}
	}
	return strings.Contains(strings.ToLower(r.Text), t.raw)
}

func (t term) any(ok func(string) bool) bool {
	for _, v := range t.values {
		if ok(v) {
			return true
		}
	}
	return false
}

func equalOrOpen(v, want string) bool {
	if begin, open := strings.CutSuffix(want, "*"); open {
		return strings.HasPrefix(v, begin)
	}
	return v == want
}
