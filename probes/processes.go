package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ebb/fleet"
)

// young is the age below which a process is read whole at every scan. Service
// managers move a process to its cgroup or namespace after they started it.
const young = 10 * time.Second

// proc is one process with what stays inside this package.
type proc struct {
	fleet.Process
	stat
	details
	unit, unitPath string
}

// details is the expensive tier: what does not change while a process runs the
// same program.
type details struct {
	argv   []string
	exe    string
	cgroup string
	uid    uint32
	netns  uint64
	pidns  uint64
	denied bool              // the namespace may not be read
	env    map[string]string // the variables that rules name
	envErr error
}

// cached is what is remembered of a process from scan to scan.
type cached struct {
	stat    stat
	details details
	mine    bool // inside the scope
	settled bool // was no longer young when its details were read
}

// table is one reading of all processes of this host.
type table struct {
	boot   string
	booted time.Time // by procfs's own clock, for start times
	procs  []*proc   // by pid
	byPID  map[int]*proc
	host   map[uint64]bool // network namespaces of the host itself
	pidns  uint64          // the pid namespace of the host
	denied int             // processes whose network namespace may not be read
	cache  map[int]cached
}

// readProcesses reads stat of every process, and the details of those that are
// new or run another program than at the last scan.
func (p *Prober) readProcesses(last table, now time.Time) (table, error) {
	_, boot, _, err := p.cfg.identity()
	if err != nil {
		return table{}, err
	}
	booted, err := readBooted(p.cfg.proc("stat"))
	if err != nil {
		return table{}, err
	}
	pids, err := listPIDs(p.cfg.proc())
	if err != nil {
		return table{}, err
	}
	t := table{boot: boot, booted: booted, byPID: make(map[int]*proc, len(pids)), cache: make(map[int]cached, len(pids))}
	rd := reader{root: p.cfg.Root, env: envNames(p.rules), buf: make([]byte, 8192)}
	for _, pid := range pids {
		c, ok, err := rd.process(pid, last.cache, func(s stat) bool { return now.Sub(s.startedAt(booted)) >= young })
		if err != nil {
			return table{}, err
		}
		if !ok {
			continue
		}
		t.cache[pid] = c
		if c.mine {
			t.add(c)
		}
	}
	if p.cfg.Scope == "" && t.byPID[1] == nil {
		return table{}, fmt.Errorf("read %s: process 1 is not to be seen, so others may be hidden too", p.cfg.proc())
	}
	t.findHost(p.cfg.Root)
	return t, nil
}

// listPIDs lists the numeric entries of a procfs, in order.
func listPIDs(dir string) ([]int, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// add makes a process of what was read.
func (t *table) add(c cached) {
	p := &proc{stat: c.stat, details: c.details}
	p.Process = fleet.Process{
		Run:  fleet.Run{Boot: t.boot, PID: c.stat.pid, Start: c.stat.start},
		PPID: c.stat.ppid, Comm: c.stat.comm, State: c.stat.letter(), Session: c.stat.session,
		Exe: c.details.exe, UID: c.details.uid, Cgroup: c.details.cgroup, Netns: c.details.netns,
		Started: c.stat.startedAt(t.booted),
	}
	if c.details.denied && c.stat.pid != 1 {
		t.denied++
	}
	t.procs = append(t.procs, p)
	t.byPID[c.stat.pid] = p
}

// findHost settles what needs process 1: which namespaces are the host's own,
// and what the cgroup paths of its units begin with. Where even root may not
// look at process 1, the agent's own namespaces stand in for its.
func (t *table) findHost(root Root) {
	t.host = make(map[uint64]bool, 2)
	base := ""
	if one := t.byPID[1]; one != nil {
		t.host[one.netns], t.pidns = true, one.pidns
		base = strings.TrimSuffix(one.cgroup, "/init.scope")
		if base == one.cgroup {
			base = ""
		}
	}
	if ns, err := namespace(root.proc("self", "ns", "net")); err == nil {
		t.host[ns] = true
	}
	delete(t.host, 0)
	if len(t.host) == 0 && t.byPID[1] != nil && t.byPID[1].denied {
		t.denied++ // nothing tells which namespace is the host's
	}
	if t.pidns == 0 {
		t.pidns, _ = namespace(root.proc("self", "ns", "pid"))
	}
	for _, p := range t.procs {
		p.unit, p.unitPath = unitOf(p.cgroup, base)
	}
}

// reader reads single processes.
type reader struct {
	root Root
	env  map[string]bool
	buf  []byte
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
	path := rd.root.proc(strconv.Itoa(pid), "stat")
	b, err := readSmall(path, &rd.buf)
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
	dir := rd.root.proc(strconv.Itoa(s.pid))
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
	b, err := readSmall(filepath.Join(dir, "cmdline"), &rd.buf)
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
	if b, err := readSmall(filepath.Join(dir, "cgroup"), &rd.buf); err == nil {
		d.cgroup = parseCgroup(b)
	} else if !vanished(err) {
		return d, err
	}
	if b, err := readSmall(filepath.Join(dir, "status"), &rd.buf); err == nil {
		if d.uid, err = parseUID(b); err != nil {
			return d, fmt.Errorf("%s/status: %w", dir, err)
		}
	} else if !vanished(err) {
		return d, err
	}
	// Links of other users' processes may not be read without privilege: the
	// executable is then unknown, which makes nothing the host's own.
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		d.exe = textOf(strings.TrimSuffix(exe, " (deleted)"))
	}
	d.netns, err = namespace(filepath.Join(dir, "ns", "net"))
	d.denied = errors.Is(err, fs.ErrPermission) && !s.zombie()
	d.pidns, _ = namespace(filepath.Join(dir, "ns", "pid"))
	if len(rd.env) > 0 && !s.kernel() {
		d.env, d.envErr = rd.environ(dir)
	}
	return d, nil
}

// environ reads the environment variables that rules name, and forgets the rest.
func (rd *reader) environ(dir string) (map[string]string, error) {
	b, err := readSmall(filepath.Join(dir, "environ"), &rd.buf)
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

// Quick reads stat alone and reports whether processes started, ended, changed
// their parent or their program since the last Scan. Inside a scope it also
// looks at the arguments of what is new, since only those tell whose it is.
func (p *Prober) Quick(ctx context.Context) (changed bool, err error) {
	p.mu.Lock()
	last := p.last.cache
	p.mu.Unlock()
	if last == nil {
		return true, nil
	}
	r := run(ctx, &p.guards.quick, p.cfg.Timeout, p.cfg.proc(), time.Time{}, func(context.Context) (bool, error) {
		return p.differs(last)
	})
	if r.Status != fleet.OK {
		return false, errors.New(r.Error)
	}
	return r.Value, nil
}

func (p *Prober) differs(last map[int]cached) (bool, error) {
	pids, err := listPIDs(p.cfg.proc())
	if err != nil {
		return false, err
	}
	rd := reader{root: p.cfg.Root, buf: make([]byte, 4096)}
	seen := 0
	for _, pid := range pids {
		s, ok, err := rd.stat(pid)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		before, known := last[pid]
		if known && before.stat.start == s.start && before.stat.image == s.image {
			if before.mine {
				seen++
				if before.stat.ppid != s.ppid || before.stat.zombie() != s.zombie() {
					return true, nil
				}
			}
			continue
		}
		if p.cfg.Scope == "" {
			return true, nil
		}
		if known && before.mine && before.stat.start == s.start {
			return true, nil
		}
		argv, err := rd.argv(rd.dir(s))
		if err == nil && slices.Contains(argv, p.cfg.Scope) {
			return true, nil
		}
	}
	mine := 0
	for _, c := range last {
		if c.mine {
			mine++
		}
	}
	return seen != mine, nil
}
