package probes

import (
	"fmt"
	"os"
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
