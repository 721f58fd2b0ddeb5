package agent

import (
	"context"
	"sync"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// scanner runs the scans, one at a time: all processes' stat each Quick, and
// everything when that shows a change, every Full, and when asked.
type scanner struct {
	mu       sync.Mutex
	asked    uint64 // number of the scan that somebody waits for
	begun    uint64 // number of the last scan begun
	finished uint64
	done     chan struct{} // closed and replaced when a scan has finished
	wake     chan struct{} // one token: look at asked
}

func newScanner() *scanner {
	return &scanner{done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// run scans until ctx ends.
func (a *Agent) scanLoop(ctx context.Context) {
	tick := time.NewTicker(a.cfg.Quick)
	defer tick.Stop()
	last := a.scanOnce(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.scan.wake:
			if a.scan.wanted() {
				last = a.scanOnce(ctx)
			}
		case <-tick.C:
			changed, err := a.cfg.Prober.Quick(ctx)
			if changed || err != nil || a.cfg.Clock.Boottime()-last >= a.cfg.Full {
				last = a.scanOnce(ctx)
			}
		}
	}
}

func (s *scanner) wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked > s.finished
}

// scanOnce scans and publishes. It returns when the scan began.
func (a *Agent) scanOnce(ctx context.Context) time.Duration {
	a.scan.mu.Lock()
	a.scan.begun++
	number := a.scan.begun
	a.scan.mu.Unlock()

	at, began := a.cfg.Clock.Now(), a.cfg.Clock.Boottime()
	r := a.cfg.Prober.Scan(ctx, at)
	if ctx.Err() != nil {
		return began // a scan cut short says nothing
	}
	r.Processes.Value = append([]fleet.Process(nil), r.Processes.Value...)
	wire.SortProcesses(r.Processes.Value)
	a.mu.Lock()
	a.observeIdle(r, began)
	a.store.update(func(f *fleet.Facts) {
		f.At = at
		f.Processes, f.Workloads, f.Netns, f.Loops, f.Dirs, f.GPUs = r.Processes, r.Workloads, r.Netns, r.Loops, r.Dirs, r.GPUs
	})
	a.mu.Unlock()
	a.metrics.scanned(a.cfg.Clock.Boottime() - began)

	a.scan.mu.Lock()
	a.scan.finished = number
	close(a.scan.done)
	a.scan.done = make(chan struct{})
	a.scan.mu.Unlock()
	return began
}

// kick asks for a scan and does not wait for it.
func (s *scanner) kick() {
	s.mu.Lock()
	s.asked = max(s.asked, s.begun+1)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fresh returns facts whose scan began after the call. Callers that wait at the
// same time share one scan.
func (a *Agent) fresh(ctx context.Context) (fleet.Facts, error) {
	a.scan.mu.Lock()
	want := a.scan.begun + 1
	a.scan.mu.Unlock()
	a.scan.kick()
	for {
		a.scan.mu.Lock()
		done, finished := a.scan.done, a.scan.finished
		a.scan.mu.Unlock()
		if finished >= want {
			f, _ := a.store.get()
			return f, nil
		}
		select {
		case <-done:
		case <-ctx.Done():
			return fleet.Facts{}, ctx.Err()
		case <-a.life.Done():
			return fleet.Facts{}, context.Cause(a.life)
		}
	}
}
