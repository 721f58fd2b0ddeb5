package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Error is one mistake in a file. Line counts from 1.
type Error struct {
	File string
	Line int
	Key  string // dotted, as "plane[1].url"; empty where the text isn't TOML
	Says string
}

func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Says)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Key, e.Says)
}

// source is a decoded file with the line of every key in it, so that what only
// a second look finds wrong can be pointed at too.
type source struct {
	file  string
	lines map[string]int
	errs  []*Error
}

// read decodes a file strictly into raw. What the decoder refuses ends the
// reading at once; what is well-formed but means nothing is collected by add.
func read(path string, raw any) (*source, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return decode(path, data, raw)
}

func decode(file string, data []byte, raw any) (*source, error) {
	s := &source{file: file, lines: map[string]int{}}
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(raw)
	var strict *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		for _, e := range strict.Errors {
			line, _ := e.Position()
			s.errs = append(s.errs, &Error{File: file, Line: line, Key: strings.Join(e.Key(), "."), Says: "unknown key"})
		}
		return nil, s.failed()
	case errors.As(err, &bad):
		line, _ := bad.Position()
		return nil, &Error{File: file, Line: line, Key: strings.Join(bad.Key(), "."), Says: plain(bad.Error())}
	case err != nil:
		return nil, &Error{File: file, Line: 1, Says: err.Error()}
	}
	s.index(data)
	return s, nil
}

var goType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^toml: cannot (?:decode|store) (?:TOML |a )?(.+?) (?:into struct field .* of type|in a) (.+)$`)
})

// plain says a type error in TOML's words instead of Go's.
func plain(says string) string {
	m := goType().FindStringSubmatch(says)
	if m == nil {
		return strings.TrimPrefix(says, "toml: ")
	}
	want := m[2]
	switch {
	case strings.HasPrefix(want, "[]"), want == "slice":
		want = "array"
	case strings.HasPrefix(want, "map["), strings.HasPrefix(want, "struct"), strings.Contains(want, "."):
		want = "table"
	case strings.Contains(want, "int"):
		want = "integer"
	case strings.Contains(want, "bool"):
		want = "boolean"
	}
	return fmt.Sprintf("%s, want %s", m[1], want)
}

// index notes the line of every key, by the path that add uses.
func (s *source) index(data []byte) {
	p := &unstable.Parser{}
	p.Reset(data)
	arrays := map[string]int{} // elements of each array of tables so far
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = ""
			for it := e.Key(); it.Next(); {
				table = join(table, it.Node())
				last := it.IsLast()
				if last && e.Kind == unstable.ArrayTable {
					arrays[table]++
				}
				if n := arrays[table]; n > 0 {
					table = fmt.Sprintf("%s[%d]", table, n-1)
				}
				s.note(p, table, it.Node())
			}
		case unstable.KeyValue:
			s.keyValue(p, table, e)
		}
	}
}

func (s *source) keyValue(p *unstable.Parser, table string, e *unstable.Node) {
	path := table
	for it := e.Key(); it.Next(); {
		path = join(path, it.Node())
		s.note(p, path, it.Node())
	}
	s.value(p, path, e.Value())
}

func (s *source) value(p *unstable.Parser, path string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			s.keyValue(p, path, it.Node())
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			element := fmt.Sprintf("%s[%d]", path, i)
			s.note(p, element, it.Node())
			s.value(p, element, it.Node())
		}
	}
}

func (s *source) note(p *unstable.Parser, path string, n *unstable.Node) {
	if _, ok := s.lines[path]; !ok && n.Raw.Length > 0 {
		s.lines[path] = p.Shape(n.Raw).Start.Line
	}
}

func join(path string, key *unstable.Node) string {
	name := strings.ToLower(string(key.Data))
	if path == "" {
		return name
	}
	return path + "." + name
}

// add notes a mistake at a key; where the key isn't in the file, its table's
// line is named.
func (s *source) add(path, format string, args ...any) {
	s.errs = append(s.errs, &Error{File: s.file, Line: s.line(path), Key: path, Says: fmt.Sprintf(format, args...)})
}

func (s *source) line(path string) int {
	for at := strings.ToLower(path); at != ""; {
		if n, ok := s.lines[at]; ok {
			return n
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	return 1
}

// failed returns all mistakes in the order of their lines, or nil.
func (s *source) failed() error {
	slices.SortStableFunc(s.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	all := make([]error, len(s.errs))
	for i, e := range s.errs {
		all[i] = e
	}
	return errors.Join(all...)
}

// duration reads a duration that must be longer than zero; an absent one is
// fallback.
func (s *source) duration(path, text string, fallback time.Duration) time.Duration {
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		s.add(path, "%q is not a duration (as in 90s, 25m, 1h30m)", text)
	case d <= 0:
		s.add(path, "%q: want more than zero", text)
	default:
		return d
	}
	return fallback
}

func (s *source) glob(path, pattern string) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		s.add(path, "%q is not a glob", pattern)
	}
}

func (s *source) globs(path string, patterns []string) {
	for i, p := range patterns {
		at := fmt.Sprintf("%s[%d]", path, i)
		if p == "" {
			s.add(at, "is empty")
		}
		s.glob(at, p)
	}
}

// absolute wants an absolute path without "..".
func (s *source) absolute(path, value string) {
	if !filepath.IsAbs(value) {
		s.add(path, "%q: want an absolute path", value)
	} else if slices.Contains(strings.Split(value, "/"), "..") {
		s.add(path, "%q: want a path without ..", value)
	}
}

func (s *source) oneOf(path, value string, known []string) {
	if !slices.Contains(known, value) {
		s.add(path, "%q is not one of %s", value, strings.Join(known, ", "))
	}
}

// word wants a name that can stand in a key, a command line and a screen as it
// is. what says what it names.
func (s *source) word(path, value, what string) bool {
	switch {
	case value == "":
		s.add(path, "%s is missing", what)
	case strings.ContainsFunc(value, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == '/' }):
		s.add(path, "%q: %s without spaces, slashes and unprintable characters, please", value, what)
	default:
		return true
	}
	return false
}

// unique reports the second use of a name.
func (s *source) unique(seen map[string]bool, path, value, what string) {
	if value != "" && seen[value] {
		s.add(path, "%s %q stands twice", what, value)
	}
	seen[value] = true
}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}]*\}`) })

// placeholders checks that text names only the known ones, and returns how many
// it names.
func (s *source) placeholders(path, text string, known ...string) int {
	names := placeholder().FindAllString(text, -1)
	for _, n := range names {
		if !slices.Contains(known, n) {
			s.add(path, "placeholder %s is not known; there are %s", n, strings.Join(known, " "))
		}
	}
	return len(names)
}
