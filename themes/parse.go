package themes

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// file is a theme as it is written.
//
//	name = "dark"
//	dark = true
//	[palette]
//	ink  = "#d7dae0"        # "#rrggbb", "#rgb", or "0" to "255" of the terminal
//	[roles]
//	text  = { fg = "ink" }
//	title = { fg = "ink", bold = true }
//	state-lost = { fg = "red", reverse = true }
type file struct {
	Name    string            `toml:"name"`
	Dark    bool              `toml:"dark"`
	Palette map[string]string `toml:"palette"`
	Roles   map[string]role   `toml:"roles"`
}

type role struct {
	Fg        string `toml:"fg"`
	Bg        string `toml:"bg"`
	Bold      bool   `toml:"bold"`
	Faint     bool   `toml:"faint"`
	Italic    bool   `toml:"italic"`
	Underline bool   `toml:"underline"`
	Reverse   bool   `toml:"reverse"`
}

// parse builds the theme that text describes; name stands before errors.
func parse(name string, text []byte) (Theme, error) {
	f, err := decode(name, text)
	if err != nil {
		return Theme{}, err
	}
	b := builder{name: name, lines: keyLines(text), file: f}
	styles, err := b.build()
	if err != nil {
		return Theme{}, err
	}
	if f.Name == "" {
		f.Name = strings.TrimSuffix(name, ".toml")
	}
	return Theme{Name: f.Name, Dark: f.Dark, Styles: styles, Glyphs: UTF8Glyphs()}, nil
}

func decode(name string, text []byte) (file, error) {
	var f file
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&f)
	var strict *toml.StrictMissingError
	var plain *toml.DecodeError
	switch {
	case errors.As(err, &strict) && len(strict.Errors) > 0:
		e := strict.Errors[0]
		line, _ := e.Position()
		return f, fmt.Errorf("%s:%d: unknown key %q", name, line, strings.Join(e.Key(), "."))
	case errors.As(err, &plain):
		line, _ := plain.Position()
		return f, fmt.Errorf("%s:%d: %v", name, line, plain)
	case err != nil:
		return f, fmt.Errorf("%s: %v", name, err)
	}
	return f, nil
}

// builder makes styles of one file.
type builder struct {
	name  string
	lines map[string]int
	file  file
}

func (b builder) build() (Styles, error) {
	for _, token := range slices.Sorted(maps.Keys(b.file.Palette)) {
		if v := b.file.Palette[token]; !validColour(v) {
			return Styles{}, b.errorf("palette."+token, "%q is not a colour (#rrggbb, or 0 to 255)", v)
		}
	}
	s := Styles{States: make(map[string]lipgloss.Style, len(stateRole))}
	fields := s.fields()
	for _, name := range slices.Sorted(maps.Keys(b.file.Roles)) {
		style, err := b.style(name)
		if err != nil {
			return Styles{}, err
		}
		state, isState := strings.CutPrefix(name, "state-")
		switch {
		case isState && stateRole[state] != "":
			s.States[state] = style
		case fields[name] != nil:
			*fields[name] = style
		default:
			return Styles{}, b.errorf("roles."+name, "unknown role %q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := b.file.Roles[name]; !ok {
			return Styles{}, fmt.Errorf("%s: role %q is missing", b.name, name)
		}
	}
	for state, from := range stateRole {
		if _, ok := s.States[state]; !ok {
			s.States[state] = *fields[from]
		}
	}
	own := maps.Clone(s.States) // states without a role of their own are as good as the role they borrow
	for state := range own {
		if _, ok := b.file.Roles["state-"+state]; !ok {
			delete(own, state)
		}
	}
	if role, got, want := checkContrast(fields, own, b.file.Dark); role != "" {
		return Styles{}, b.errorf("roles."+role, "role %q has a contrast of %.1f:1, want %g:1", role, got, want)
	}
	return s, nil
}

func (b builder) style(name string) (lipgloss.Style, error) {
	r := b.file.Roles[name]
	st := lipgloss.NewStyle()
	for _, side := range []struct {
		token string
		set   func(lipgloss.Style, string) lipgloss.Style
	}{
		{r.Fg, func(s lipgloss.Style, c string) lipgloss.Style { return s.Foreground(lipgloss.Color(c)) }},
		{r.Bg, func(s lipgloss.Style, c string) lipgloss.Style { return s.Background(lipgloss.Color(c)) }},
	} {
		if side.token == "" {
			continue
		}
		c, ok := b.file.Palette[side.token]
		if !ok {
			return st, b.errorf("roles."+name, "unknown token %q in role %q", side.token, name)
		}
		st = side.set(st, c)
	}
	// An attribute that is off stays unset, so that a row may lend its own.
	for on, set := range map[*bool]func(lipgloss.Style, bool) lipgloss.Style{
		&r.Bold: lipgloss.Style.Bold, &r.Faint: lipgloss.Style.Faint, &r.Italic: lipgloss.Style.Italic,
		&r.Underline: lipgloss.Style.Underline, &r.Reverse: lipgloss.Style.Reverse,
	} {
		if *on {
			st = set(st, true)
		}
	}
	return st, nil
}

func (b builder) errorf(key, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", b.name, b.lines[key], fmt.Sprintf(format, args...))
}

var hexColour = regexp.MustCompile(`^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`)

func validColour(v string) bool {
	if hexColour.MatchString(v) {
		return true
	}
	n, err := strconv.Atoi(v)
	return err == nil && n >= 0 && n <= 255 && strconv.Itoa(n) == v
}

// keyLines finds the line of every key, by its dotted path. The text has been
// decoded before, so it is known to be well formed.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		node := p.Expression()
		path, line := table, 0
		if node.Kind == unstable.Table {
			path = ""
		}
		for it := node.Key(); it.Next(); {
			part := it.Node()
			if line == 0 {
				line = p.Shape(part.Raw).Start.Line
			}
			if path != "" {
				path += "."
			}
			path += string(part.Data)
			// [roles.text] and text.fg = "ink" name a role as well.
			if _, ok := lines[path]; !ok {
				lines[path] = line
			}
		}
		if node.Kind == unstable.Table {
			table = path
		}
	}
	return lines
}
