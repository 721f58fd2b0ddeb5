package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ebb/drain"
	"ebb/fleet"
)

// ledger is what drains bring to other hosts, so that the room there is promised
// once. Drivers of this process enter what they write at once; what others write
// is read from their streams.
type ledger struct {
	placing sync.Mutex // held from looking at the promises to having made one

	mu     sync.Mutex
	driven map[fleet.HostID]int // drivers of this process, which enter what they read
	states map[fleet.HostID]drain.State
	brings map[fleet.HostID]map[fleet.HostID][]fleet.Needs // only of drains that bring something
}

// enter takes a state in, unless a later one is known.
func (l *ledger) enter(host fleet.HostID, s drain.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, known := l.states[host]; known && old.Num > s.Num {
		return
	}
	if l.states == nil {
		l.states, l.brings = map[fleet.HostID]drain.State{}, map[fleet.HostID]map[fleet.HostID][]fleet.Needs{}
	}
	l.states[host] = s
	if p := s.Promises(0); len(p) > 0 {
		l.brings[host] = p
	} else {
		delete(l.brings, host)
	}
}

// driving counts the drivers of a host.
func (l *ledger) driving(host fleet.HostID, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driven == nil {
		l.driven = map[fleet.HostID]int{}
	}
	if l.driven[host] += n; l.driven[host] == 0 {
		delete(l.driven, host)
	}
}

func (l *ledger) state(host fleet.HostID) drain.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[host]
}

// unread adds the hosts whose drains are known to bring something: one that is no
// longer held brings nothing any more, and that has to be read too. Those that are
// driven here are read by their drivers, all the time.
func (l *ledger) unread(hosts []fleet.HostID) []fleet.HostID {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.AppendSeq(slices.Clone(hosts), maps.Keys(l.brings))
	all = slices.DeleteFunc(all, func(h fleet.HostID) bool { return l.driven[h] > 0 })
	slices.Sort(all)
	return slices.Compact(all)
}

// Follow reads what has been written about hosts since it last did, where no driver
// of this engine does. What it can't read stays as it was known.
func (e *Engine) Follow(ctx context.Context, hosts []fleet.HostID) error {
	var errs []error
	for _, h := range e.ledger.unread(hosts) {
		s, err := e.catchUp(ctx, h, e.ledger.state(h), nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("follow %s: %w", h, err))
		}
		e.ledger.enter(h, s)
	}
	return errors.Join(errs...)
}

// Promises is what the drains of other hosts bring where, as far as this process
// drives or follows them.
func (e *Engine) Promises(except fleet.HostID) map[fleet.HostID][]fleet.Needs {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	sum := map[fleet.HostID][]fleet.Needs{}
	for source, to := range e.ledger.brings {
		if source == except {
			continue
		}
		for target, needs := range to {
			sum[target] = append(sum[target], needs...)
		}
	}
	return sum
}

// places reports whether a decision promises room on another host.
func places(d drain.Decision) bool {
	for _, a := range d.Acts {
		if a.Places() {
			return true
		}
	}
	return false
}
