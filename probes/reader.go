package probes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reader reads single processes.
type reader struct {
	root Root
	env  map[string]bool
	buf  []byte
	proc string // where procfs is, with a slash at its end
}

// base is put together once: there are thousands of paths.
func (rd *reader) base() string {
	if rd.proc == "" {
		rd.proc = rd.root.proc() + "/"
	}
	return rd.proc
}

// process reads one process; ok is false when it is gone.
func (rd *reader) process(pid int, cache map[int]cached, old func(stat) bool) (c cached, ok bool, err error) {
	s, ok, err := rd.stat(pid)
	if !ok || err != nil {
		return cached{}, false, err
	}
	before, known := cache[pid]
	known = known && before.stat.start == s.start
	if known && (s.ending() || before.settled && before.stat.image == s.image) {
		before.stat = s
		return before, true, nil
	}
	c = cached{stat: s, mine: true, settled: old(s)}
	if err := rd.fill(&c); err != nil {
		return cached{}, false, err
	}
	// The details were read by pid: make sure that they are this process's, and
	// that it did not end meanwhile. What it was before is still worth telling.
	again, ok, err := rd.stat(pid)
	if !ok || err != nil || again.start != s.start {
		return cached{}, false, err
	}
	if known && again.ending() {
		before.stat = again
		return before, true, nil
	}
	c.settled = c.settled && again.image == s.image
	return c, true, nil
}

// fill reads the details, if the process is this host's.
func (rd *reader) fill(c *cached) (err error) {
	if rd.root.Scope != "" {
		argv, err := rd.argv(rd.dir(c.stat))
		if c.mine = err == nil && slices.Contains(argv, rd.root.Scope); !c.mine {
			return nil
		}
	}
	c.details, err = rd.details(c.stat)
	return err
}

func (rd *reader) stat(pid int) (s stat, ok bool, err error) {
	path := rd.base() + strconv.Itoa(pid) + "/stat"
	b, err := readOne(path, &rd.buf)
	if vanished(err) {
		return stat{}, false, nil
	}
	if err != nil {
		return stat{}, false, err
	}
	if s, err = parseStat(b); err == nil && s.pid != pid {
		err = fmt.Errorf("names pid %d", s.pid)
	}
	if err != nil {
		return stat{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return s, true, nil
}

// dir is where a process's details are. Those of one whose first thread has
// ended are with the others.
func (rd *reader) dir(s stat) string {
	dir := rd.base() + strconv.Itoa(s.pid)
	if !s.headless {
		return dir
	}
	tasks, err := listPIDs(filepath.Join(dir, "task"))
	if err != nil {
		return dir
	}
	for _, tid := range tasks {
		if tid != s.pid {
			return filepath.Join(dir, "task", strconv.Itoa(tid))
		}
	}
	return dir
}

func (rd *reader) argv(dir string) ([]string, error) {
	b, err := readSmall(dir+"/cmdline", &rd.buf)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return splitNul(b), nil
}

// splitNul splits what /proc/PID/cmdline and environ hold: strings that each
// end in a zero byte.
func splitNul(b []byte) []string {
	var out []string
	for part := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		out = append(out, text(part))
	}
	return out
}

// details reads the expensive tier. A file that is gone leaves its field empty:
// whether the process is gone too, the caller asks stat.
func (rd *reader) details(s stat) (details, error) {
	var d details
	var err error
	dir := rd.dir(s)
	if d.argv, err = rd.argv(dir); err != nil && !vanished(err) {
		return d, err
	}
	if b, err := readOne(dir+"/cgroup", &rd.buf); err == nil {
		d.cgroup = parseCgroup(b)
	} else if !vanished(err) {
		return d, err
	}
	if b, err := readOne(dir+"/status", &rd.buf); err == nil {
		if d.uid, err = parseUID(b); err != nil {
			return d, fmt.Errorf("%s/status: %w", dir, err)
		}
	} else if !vanished(err) {
		return d, err
	}
	// Links of other users' processes may not be read without privilege: the
	// executable is then unknown, which makes nothing the host's own.
	if exe, err := os.Readlink(dir + "/exe"); err == nil {
		d.exe = textOf(strings.TrimSuffix(exe, " (deleted)"))
	}
	d.netns, err = namespace(dir + "/ns/net")
	d.denied = errors.Is(err, fs.ErrPermission) && !s.zombie()
	d.pidns, _ = namespace(dir + "/ns/pid")
	if len(rd.env) > 0 && !s.kernel() {
		d.env, d.envErr = rd.environ(dir)
	}
	return d, nil
}

// environ reads the environment variables that rules name, and forgets the rest.
func (rd *reader) environ(dir string) (map[string]string, error) {
	b, err := readSmall(dir+"/environ", &rd.buf)
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	for _, kv := range splitNul(b) {
		if name, value, ok := strings.Cut(kv, "="); ok && rd.env[name] {
			env[name] = value
		}
	}
	return env, nil
}

// parseUID finds the effective user in /proc/PID/status:
//
//	Uid:	1000	1000	1000	1000
func parseUID(b []byte) (uint32, error) {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("Uid:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) != 4 {
			return 0, fmt.Errorf("uid line with %d fields", len(fields))
		}
		uid, err := strconv.ParseUint(string(fields[1]), 10, 32)
		return uint32(uid), err
	}
	return 0, errors.New("no uid")
}

// namespace reads a link such as net:[4026531840].
func namespace(path string) (uint64, error) {
	link, err := os.Readlink(path)
	if err != nil {
		return 0, err
	}
	return parseNamespace(link)
}

func parseNamespace(link string) (uint64, error) {
	_, rest, ok := strings.Cut(link, ":[")
	inode, closed := strings.CutSuffix(rest, "]")
	if !ok || !closed {
		return 0, fmt.Errorf("namespace link %q", link)
	}
	return strconv.ParseUint(inode, 10, 64)
}
