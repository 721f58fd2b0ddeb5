package sshlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/kevinburke/ssh_config"
)

// Sources says where configuration comes from. The zero value means what ssh
// means: the user's home, environment and /etc/ssh.
type Sources struct {
	// Files are read in this order, the first value found wins. Named files must
	// exist. Nil stands for ~/.ssh/config and /etc/ssh/ssh_config, which need not;
	// an empty, non-nil slice for no file at all.
	Files []string
	Home  string // for ~ and the default keys; the user's home by default
	User  string // the local user, also the remote one unless told; the current one by default
	Agent string // the agent's socket; $SSH_AUTH_SOCK by default, "none" for no agent

	// KnownHosts and Identity, if set, take the place of whatever ssh_config says,
	// for jump hosts too. Keys other than Identity's are then not offered.
	KnownHosts []string
	Identity   []string
}

const (
	systemDir       = "/etc/ssh"
	maxIncludeDepth = 16 // as in ssh
	// includeKeyword stands for Include in the text handed to the parser: files are
	// included by this package, which remembers their names and lines.
	includeKeyword = "EbbInclude"
	// neverMatches is a Host pattern list that no name satisfies.
	neverMatches = "!*"
)

// Config is ssh_config, read and ready to resolve destinations. It is immutable.
//
// Match blocks are understood where they say `all`, `host` or `originalhost`
// (both compared with the name as typed). Others are passed over as if they did
// not match, and listed by Warnings, since nothing is executed here.
type Config struct {
	src      Sources
	files    []*configFile
	warnings []string
}

// configFile is one parsed file: the library's blocks, and for each line what
// this package read there.
type configFile struct {
	name   string
	blocks *ssh_config.Config
	lines  map[int]*directive
}

// directive is one line: its keyword in lower case and its arguments.
type directive struct {
	file    string
	line    int
	keyword string
	args    []string
	include []*configFile
}

func (d *directive) errorf(format string, args ...any) error {
	return &ConfigError{File: d.file, Line: d.line, Err: fmt.Errorf(format, args...)}
}

// LoadConfig reads every file at once; later changes on disk need a new Config.
func LoadConfig(src Sources) (*Config, error) {
	if err := src.fill(); err != nil {
		return nil, err
	}
	c := &Config{src: src}
	named := src.Files != nil
	files := src.Files
	if !named {
		files = []string{filepath.Join(src.Home, ".ssh", "config"), filepath.Join(systemDir, "ssh_config")}
	}
	for _, name := range files {
		f, err := c.load(name, 0)
		if errors.Is(err, fs.ErrNotExist) && !named {
			continue
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
	}
	return c, nil
}

func (s *Sources) fill() error {
	if s.Home == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("read ssh_config: find home directory: %w", err)
		}
		s.Home = home
	}
	if s.User == "" {
		u, err := user.Current()
		if err != nil {
			return fmt.Errorf("read ssh_config: find current user: %w", err)
		}
		s.User = u.Username
	}
	switch s.Agent {
	case "":
		s.Agent = os.Getenv("SSH_AUTH_SOCK")
	case "none":
		s.Agent = ""
	}
	return nil
}

// Warnings lists the lines that were passed over, as "file:line: why".
func (c *Config) Warnings() []string { return append([]string(nil), c.warnings...) }

func (c *Config) load(name string, depth int) (*configFile, error) {
	if depth > maxIncludeDepth {
		return nil, &ConfigError{File: name, Err: fmt.Errorf("included %d levels deep: does it include itself?", depth)}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &ConfigError{File: name, Err: err}
	}
	f := &configFile{name: name, lines: make(map[int]*directive)}
	shape := make([]string, 0, strings.Count(string(text), "\n")+1)
	for i, raw := range strings.Split(string(text), "\n") {
		s, err := c.readLine(f, i+1, raw, depth)
		if err != nil {
			return nil, err
		}
		shape = append(shape, s)
	}
	f.blocks, err = ssh_config.DecodeBytes([]byte(strings.Join(shape, "\n") + "\n"))
	if err != nil {
		return nil, &ConfigError{File: name, Err: err}
	}
	return f, nil
}

// readLine keeps the line's meaning in f and returns what the parser is to see
// of it: its keyword, and for blocks the patterns.
func (c *Config) readLine(f *configFile, n int, raw string, depth int) (string, error) {
	d := &directive{file: f.name, line: n}
	text := strings.TrimSpace(raw)
	if text == "" || text[0] == '#' {
		return "", nil
	}
	keyword, rest, err := splitKeyword(text)
	if err == nil {
		d.keyword = strings.ToLower(keyword)
		d.args, err = splitArgs(rest)
	}
	if err == nil && len(d.args) == 0 {
		err = fmt.Errorf("%s has no value", keyword)
	}
	if err != nil {
		return "", d.errorf("%w", err)
	}
	switch d.keyword {
	case "host":
		return hostLine(d, d.args)
	case "match":
		return c.matchLine(d)
	case "include":
		if d.include, err = c.include(d, depth); err != nil {
			return "", err
		}
		keyword = includeKeyword
	}
	if err := d.check(); err != nil {
		return "", err
	}
	f.lines[n] = d
	return keyword + " x", nil
}

func hostLine(d *directive, patterns []string) (string, error) {
	for _, p := range patterns {
		if p == "" || p == "!" || strings.ContainsAny(p, "# \t\r") {
			return "", d.errorf("bad host pattern %q", p)
		}
	}
	return "Host " + strings.Join(patterns, " "), nil
}

func (c *Config) matchLine(d *directive) (string, error) {
	switch kind := strings.ToLower(d.args[0]); {
	case kind == "all" && len(d.args) == 1:
		return "Host *", nil
	case (kind == "host" || kind == "originalhost") && len(d.args) == 2:
		return hostLine(d, strings.Split(d.args[1], ","))
	}
	c.warnings = append(c.warnings, fmt.Sprintf("%s:%d: passed over: Match %s",
		d.file, d.line, strings.Join(d.args, " ")))
	return "Host " + neverMatches, nil
}

// include reads the files that an Include line names. A relative name belongs to
// /etc/ssh in a file from there, else to ~/.ssh.
func (c *Config) include(d *directive, depth int) ([]*configFile, error) {
	base := filepath.Join(c.src.Home, ".ssh")
	if strings.HasPrefix(filepath.Clean(d.file), systemDir+"/") {
		base = systemDir
	}
	var files []*configFile
	for _, pattern := range d.args {
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern = filepath.Join(c.src.Home, rest)
		} else if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(base, pattern)
		}
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, d.errorf("bad pattern %q: %w", pattern, err)
		}
		for _, name := range names {
			f, err := c.load(name, depth+1)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// walk hands over, in the order ssh reads them, the lines that apply to alias.
func (c *Config) walk(alias string, visit func(*directive)) {
	for _, f := range c.files {
		f.walk(alias, visit)
	}
}

func (f *configFile) walk(alias string, visit func(*directive)) {
	for _, block := range f.blocks.Hosts {
		if !block.Matches(alias) {
			continue
		}
		for _, node := range block.Nodes {
			d := f.lines[node.Pos().Line]
			if _, ok := node.(*ssh_config.KV); !ok || d == nil {
				continue
			}
			for _, inner := range d.include {
				inner.walk(alias, visit)
			}
			visit(d)
		}
	}
}
