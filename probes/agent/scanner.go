package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// scanner runs the scans, one at a time: all processes' stat each Quick, and
// everything when that shows a change, when its period is over, and when asked.
type scanner struct {
	mu       sync.Mutex
	asked    uint64 // number of the scan that somebody waits for
	begun    uint64 // number of the last scan begun
	finished uint64
	done     chan struct{} // closed and replaced when a scan has finished
	wake     chan struct{} // one token: look at asked
	took     time.Duration // by the last scan
	ended    time.Time     // of the last scan
}

func newScanner() *scanner {
	return &scanner{done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// scanLoop scans until ctx ends. After a process of a workload has ended it looks
// at once, and at everything at the next tick.
func (a *Agent) scanLoop(ctx context.Context) {
	tick := time.NewTicker(a.cfg.Quick)
	defer tick.Stop()
	ends := a.watchEnds()
	defer ends.close()
	last := a.scanOnce(ctx)
	ends.follow(a.Facts())
	var asked <-chan time.Time // when to do the scan that somebody waits for
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.scan.wake:
			if asked == nil && a.scan.wanted() {
				asked = time.After(a.scan.rest())
			}
			continue
		case <-asked:
			if asked = nil; !a.scan.wanted() {
				continue
			}
			last = a.scanOnce(ctx)
		case <-ends.ended:
			ends.delay()
			continue
		case <-ends.due:
			a.lookOnce(ctx, ends)
		case <-tick.C:
			changed, err := a.cfg.Prober.Quick(ctx)
			if !changed && err == nil && !ends.looked && a.cfg.Clock.Boottime()-last < a.scan.period(a.cfg.Full) {
				continue
			}
			last, ends.looked = a.scanOnce(ctx), false
		}
		ends.follow(a.Facts())
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

	at, began, started := a.cfg.Clock.Now(), a.cfg.Clock.Boottime(), time.Now()
	r := a.cfg.Prober.Scan(ctx, at)
	if ctx.Err() != nil {
		return began // a scan cut short says nothing
	}
	a.mu.Lock()
	a.observeIdle(r, began)
	a.store.update(func(f *fleet.Facts) {
		f.At = at
		r.into(f)
	})
	a.mu.Unlock()
	a.metrics.scanned(a.cfg.Clock.Boottime() - began)

	a.scan.mu.Lock()
	a.scan.took, a.scan.ended = time.Since(started), time.Now()
	a.scan.finished = number
	close(a.scan.done)
	a.scan.done = make(chan struct{})
	a.scan.mu.Unlock()
	return began
}

// into puts what was read into facts, processes in their order.
func (r Readings) into(f *fleet.Facts) {
	r.Processes.Value = slices.Clone(r.Processes.Value)
	wire.SortProcesses(r.Processes.Value)
	f.Processes, f.Workloads, f.Netns, f.Loops, f.Dirs, f.GPUs = r.Processes, r.Workloads, r.Netns, r.Loops, r.Dirs, r.GPUs
}

// rest is how long to wait before a scan that was asked for, so that a crowd that
// asks all the time does not keep a core busy.
func (s *scanner) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(4*s.took, 250*time.Millisecond) - time.Since(s.ended)
}

// period is how long after one full scan the next is due when nothing shows a
// change before: full, and up to twice that on a crowded host, where a scan takes
// long. An agent is not what a host is to be busy with.
func (s *scanner) period(full time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(full, 200*s.took), 2*full)
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
