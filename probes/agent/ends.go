package agent

import (
	"context"
	"sync"
	"time"

	"ebb/fleet"
	"ebb/probes"
)

// lookShare bounds what looking after every end costs: so many times as long as
// the last look took lies between two of them, up to lookLate.
const (
	lookShare = 2
	lookSoon  = 20 * time.Millisecond // processes of a workload end together
	lookLate  = 60 * time.Millisecond
)

// ends knows when processes of workloads have ended. Without a prober that can
// look, or where the kernel has no pidfds, its channels stay silent: the tick
// notices then.
type ends struct {
	watch  *probes.Ends
	look   looker
	ended  chan struct{}    // one token: something has ended
	due    <-chan time.Time // when to look; nil while nothing has ended
	took   time.Duration    // by the last look
	last   time.Time        // the end of the last look
	looked bool             // since the last scan
	done   sync.WaitGroup
}

func (a *Agent) watchEnds() *ends {
	e := &ends{ended: make(chan struct{}, 1)}
	look, ok := a.cfg.Prober.(looker)
	if !ok {
		return e
	}
	watch, err := look.Ends()
	if err != nil {
		a.cfg.Log.Warn("ends of processes are noticed late", "error", err)
		return e
	}
	e.look, e.watch = look, watch
	e.done.Go(func() {
		for watch.Wait() == nil {
			e.tell()
		}
	})
	return e
}

func (e *ends) tell() {
	select {
	case e.ended <- struct{}{}:
	default:
	}
}

// follow watches the processes of all workloads, main ones first.
func (e *ends) follow(f fleet.Facts) {
	if e.watch == nil {
		return
	}
	var runs []fleet.Run
	for _, w := range f.Workloads.Value {
		if w.Phase == fleet.Running {
			runs = append(runs, w.Run)
		}
	}
	for _, w := range f.Workloads.Value {
		runs = append(runs, w.Runs...)
	}
	if e.watch.Watch(runs) {
		e.tell()
	}
}

// delay sets when to look.
func (e *ends) delay() {
	if e.due == nil {
		e.due = time.After(max(lookSoon, min(lookLate, lookShare*e.took-time.Since(e.last))))
	}
}

func (e *ends) close() {
	if e.watch != nil {
		e.watch.Close()
		e.done.Wait()
	}
}

// lookOnce looks at processes and publishes what it sees. The facts as a whole
// keep their time: the rest has not been read again.
func (a *Agent) lookOnce(ctx context.Context, e *ends) {
	begun := time.Now()
	r := e.look.Look(ctx, a.cfg.Clock.Now())
	e.due, e.looked, e.last = nil, true, time.Now()
	e.took = e.last.Sub(begun)
	if ctx.Err() != nil {
		return // a look cut short says nothing
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store.update(func(f *fleet.Facts) { r.into(f) })
}
