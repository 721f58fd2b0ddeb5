package probes

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
//
// Where sure is not nil, a process that it vouches for is taken to be as it was,
// unless its parent has ended: it has another one then.
func (p *Prober) readProcesses(last table, now time.Time, sure func(cached) bool) (table, error) {
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
	old := func(s stat) bool { return now.Sub(s.startedAt(booted)) >= young }
	found, err := p.readAll(pids, last.cache, old, sure)
	if err != nil {
		return table{}, err
	}
	for i, c := range found {
		if c.stat.pid == 0 {
			continue // it vanished
		}
		t.cache[pids[i]] = c
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

// readers is how many read at the same time where nearly everything is new.
const (
	readers  = 4
	manyNews = 256
)

// readAll reads processes in the order of their pids; one that vanished stays
// zero. Where many are new the work is shared, since a proof waits for it.
func (p *Prober) readAll(pids []int, cache map[int]cached, old func(stat) bool, sure func(cached) bool) ([]cached, error) {
	found, env := make([]cached, len(pids)), envNames(p.rules)
	if sure != nil {
		return found, p.readNews(found, pids, cache, old, sure)
	}
	read := func(from, to int) error {
		rd := reader{root: p.cfg.Root, env: env, buf: make([]byte, 8192)}
		for i := from; i < to; i++ {
			c, ok, err := rd.process(pids[i], cache, old)
			if err != nil {
				return err
			}
			if ok {
				found[i] = c
			}
		}
		return nil
	}
	if len(pids)-len(cache) < manyNews {
		return found, read(0, len(pids))
	}
	var group errgroup.Group
	for from, step := 0, len(pids)/readers+1; from < len(pids); from += step {
		group.Go(func() error { return read(from, min(from+step, len(pids))) })
	}
	return found, group.Wait()
}

// readNews is readAll without those that are surely as they were.
func (p *Prober) readNews(found []cached, pids []int, cache map[int]cached, old func(stat) bool, sure func(cached) bool) error {
	rd := reader{root: p.cfg.Root, env: envNames(p.rules), buf: make([]byte, 8192)}
	alive := make(map[int]bool, len(pids))
	var kept []int
	read := func(i int) error {
		c, ok, err := rd.process(pids[i], cache, old)
		if ok {
			found[i] = c
			alive[pids[i]] = !c.stat.zombie()
		}
		return err
	}
	for i, pid := range pids {
		if c, known := cache[pid]; known && sure(c) {
			found[i], alive[pid] = c, true
			kept = append(kept, i)
		} else if err := read(i); err != nil {
			return err
		}
	}
	for _, i := range kept {
		if parent := found[i].stat.ppid; parent == 0 || alive[parent] {
			continue
		}
		found[i] = cached{}
		if err := read(i); err != nil {
			return err
		}
	}
	return nil
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
