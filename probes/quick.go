package probes

import (
	"context"
	"errors"
	"slices"
	"time"

	"ebb/fleet"
)

// Quick reads stat alone and reports whether processes started, ended, changed
// their parent or their program since the last Scan. Inside a scope it also
// looks at the arguments of what is new, since only those tell whose it is. What
// is watched by an Ends is not read: its end is told, and the rest the next Scan
// tells.
func (p *Prober) Quick(ctx context.Context) (changed bool, err error) {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last.cache == nil {
		return true, nil
	}
	r := run(ctx, &p.guards.quick, p.cfg.Timeout, p.cfg.proc(), time.Time{}, func(context.Context) (bool, error) {
		return p.differs(last.cache, p.surely(last))
	})
	if r.Status != fleet.OK {
		return false, errors.New(r.Error)
	}
	return r.Value, nil
}

func (p *Prober) differs(last map[int]cached, sure func(cached) bool) (bool, error) {
	pids, err := listPIDs(p.cfg.proc())
	if err != nil {
		return false, err
	}
	rd := reader{root: p.cfg.Root, buf: make([]byte, 4096)}
	seen := 0
	for _, pid := range pids {
		if c, known := last[pid]; known && sure != nil && sure(c) {
			seen++
			continue
		}
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
