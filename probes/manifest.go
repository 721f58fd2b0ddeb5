package probes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"

	"ebb/fleet"
)

// Limits of what a manifest may be.
const (
	maxManifest = 64 << 10
	maxPidFile  = 64
)

// pidSlack is how much later than its pid file a process may seem to have
// started: btime has a resolution of a second and moves with the wall clock.
const pidSlack = 2 * time.Second

// manifest is one manifest with what its pid file and its state say.
type manifest struct {
	fleet.Manifest
	file    string
	ttl     time.Duration
	grace   time.Duration
	pid     int       // zero without a pid file
	written time.Time // when the pid file was last written
	rests   bool      // the state it names is there
}

func (m manifest) key() fleet.Key { return fleet.Key{Kind: m.Kind, ID: m.ID} }

// readManifests reads every *.toml in the configured directories. One that
// can't be understood fails the reading and is named: skipping it would hide a
// workload.
func (p *Prober) readManifests() ([]manifest, error) {
	if !slices.Contains(p.cfg.Presets, PresetManifest) {
		return nil, nil
	}
	var all []manifest
	files := make(map[fleet.Key]string)
	for _, dir := range p.cfg.ManifestDirs {
		dir = p.cfg.Path(dir)
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = provedAbsent(dir, true)
		}
		if err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".toml") || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			m, err := readManifest(p.cfg.Root, filepath.Join(dir, e.Name()))
			if errors.Is(err, errGone) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("manifest %s: %w", filepath.Join(dir, textOf(e.Name())), err)
			}
			if other, dup := files[m.key()]; dup {
				return nil, fmt.Errorf("manifest %s: %s is also what %s declares", m.file, m.key(), other)
			}
			files[m.key()] = m.file
			all = append(all, m)
		}
	}
	return all, nil
}

// errGone says that a manifest was removed between listing and reading.
var errGone = errors.New("removed meanwhile")

func readManifest(root Root, file string) (manifest, error) {
	b, _, err := readRegular(file, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return manifest{}, errGone
	}
	if err != nil {
		return manifest{}, err
	}
	m, err := parseManifest(b)
	if err != nil {
		return manifest{}, err
	}
	m.file = textOf(file)
	if m.PidFile != "" {
		b, written, err := readRegular(root.Path(m.PidFile), maxPidFile)
		if err == nil {
			m.written = written
			m.pid, err = parsePid(b)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return manifest{}, fmt.Errorf("pid file %s: %w", m.PidFile, err)
		}
	}
	if m.Rest != "" {
		_, err := os.Stat(root.Path(m.Rest))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return manifest{}, fmt.Errorf("state at rest: %w", err)
		}
		m.rests = err == nil
	}
	return m, nil
}

// readRegular reads a small regular file. A pipe in its place would block for
// ever, so it is opened without waiting and looked at first.
func readRegular(path string, limit int64) ([]byte, time.Time, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, errors.New("not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return b, info.ModTime(), err
}

// parseManifest reads one manifest; fleet.Manifest has a sample. Unknown keys
// are errors: a misspelt "expires" must not make a workload live for ever.
func parseManifest(b []byte) (manifest, error) {
	var m manifest
	dec := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	if err := dec.Decode(&m.Manifest); err != nil {
		return manifest{}, tomlError(err)
	}
	var err error
	switch {
	case m.ID == "":
		return manifest{}, errors.New("no id")
	case m.Kind == "" || strings.Contains(m.Kind, "/"):
		return manifest{}, fmt.Errorf("kind %q", m.Kind)
	case m.Class != fleet.Unclassified && !m.Class.Valid():
		return manifest{}, fmt.Errorf("class %q", m.Class)
	}
	if m.ttl, err = parseSpan("ttl", m.TTL); err != nil {
		return manifest{}, err
	}
	if m.grace, err = parseSpan("grace", m.Grace); err != nil {
		return manifest{}, err
	}
	return m, nil
}

// tomlError names the line or the keys, which the library keeps to itself.
func tomlError(err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var keys []string
		for _, e := range strict.Errors {
			keys = append(keys, strings.Join(e.Key(), "."))
		}
		return fmt.Errorf("unknown key %s", strings.Join(keys, ", "))
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := bad.Position()
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

func parseSpan(name, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s %q is no duration", name, s)
	}
	return d, nil
}

// parsePid reads a pid file: a number, and whitespace around it.
func parsePid(b []byte) (int, error) {
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || pid < 1 {
		return 0, fmt.Errorf("holds %q, no pid", text(b))
	}
	return pid, nil
}

// process finds the process that a manifest's pid file means. One that started
// after the file was written has taken over the pid of one that is gone.
func (m manifest) process(t *table) *proc {
	p := t.byPID[m.pid]
	if p == nil || p.zombie() || p.Started.After(m.written.Add(pidSlack)) {
		return nil
	}
	return p
}

// expires is when the workload ends by itself, given when it started.
func (m manifest) expires(started time.Time) time.Time {
	if m.Expires.IsZero() && m.ttl > 0 && !started.IsZero() {
		return started.Add(m.ttl)
	}
	return m.Expires
}
