package themes

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed *.toml
var files embed.FS

// Theme is what a screen needs to draw: the styles and the signs.
type Theme struct {
	Name   string
	Dark   bool // whether it is made for a dark terminal
	Styles Styles
	Glyphs Glyphs
}

// With is t with another set of signs.
func (t Theme) With(g Glyphs) Theme {
	t.Glyphs = g
	return t
}

// Builtin lists the names of the themes that come with the program.
func Builtin() []string {
	entries, err := fs.Glob(files, "*.toml")
	if err != nil { // the pattern is a constant
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e, ".toml"))
	}
	slices.Sort(names)
	return names
}

// Load reads a theme: a built-in one by its name, or a file of one's own by its
// path. What has a slash or ends in .toml is a path. The signs are those for
// UTF-8; [Theme.With] changes them.
func Load(name string) (Theme, error) {
	if strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".toml") {
		text, err := os.ReadFile(name)
		if err != nil {
			return Theme{}, fmt.Errorf("load theme %s: %w", name, err)
		}
		return parse(name, text)
	}
	text, err := files.ReadFile(name + ".toml")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return Theme{}, fmt.Errorf("load theme %q: no such theme (there are %s)", name, strings.Join(Builtin(), ", "))
	}
	if err != nil {
		return Theme{}, fmt.Errorf("load theme %s: %w", name, err)
	}
	return parse(name+".toml", text)
}

// LoadFrom is Load that first looks for NAME.toml in a folder of a person's own.
func LoadFrom(dir, name string) (Theme, error) {
	if dir != "" && name == filepath.Base(name) && !strings.HasSuffix(name, ".toml") {
		path := filepath.Join(dir, name+".toml")
		if text, err := os.ReadFile(path); err == nil {
			th, err := parse(path, text)
			th.Name = name
			return th, err
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Theme{}, fmt.Errorf("load theme %s: %w", path, err)
		}
	}
	return Load(name)
}

// Names lists the built-in themes and those of a person's own folder.
func Names(dir string) []string {
	names := Builtin()
	own, _ := filepath.Glob(filepath.Join(dir, "*.toml")) // the pattern is well formed
	for _, path := range own {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".toml"))
	}
	if dir == "" {
		names = Builtin()
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Detect names the built-in theme for a terminal, by its environment read
// through getenv. NO_COLOR, set to anything, wins over all else.
func Detect(getenv func(string) string, isDark bool) string {
	switch {
	case getenv("NO_COLOR") != "", getenv("TERM") == "dumb":
		return "mono"
	case isDark:
		return "dark"
	}
	return "light"
}
