package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"ebb/fleet"
)

// asking is how far a host is with its summary.
type asking struct {
	busy  bool
	next  time.Time // not before
	fails int       // in a row
}

// Bounds on asking for summaries. A host that does not answer is asked less and
// less often, so that many of them don't keep the others from being asked.
const (
	summaryTimeout = 10 * time.Second
	longestPause   = 30 * time.Second
)

// pollHosts asks every host that is not followed for its summary, again and
// again. No host waits for another that is slow.
func (o *Observer) pollHosts(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, o.cfg.Parallel)
	for {
		for _, h := range o.due(time.Now()) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { <-slots }()
				o.readSummary(ctx, h)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.listed: // a host that has just become known does not wait
		case <-time.After(min(o.cfg.Interval/4, 50*time.Millisecond)):
		}
	}
}

// due lists the hosts that are to be asked now, the longest due first, and marks
// them as being asked.
func (o *Observer) due(now time.Time) []fleet.Host {
	o.mu.Lock()
	defer o.mu.Unlock()
	var hosts []fleet.Host
	for id, e := range o.hosts {
		a := o.asking[id]
		if a == nil {
			a = &asking{}
			o.asking[id] = a
		}
		if !o.focus[id] && !a.busy && !now.Before(a.next) {
			a.busy = true
			hosts = append(hosts, e.view.Host)
		}
	}
	for id, a := range o.asking {
		if o.hosts[id] == nil && !a.busy {
			delete(o.asking, id)
		}
	}
	slices.SortFunc(hosts, func(a, b fleet.Host) int { return o.asking[a.ID].next.Compare(o.asking[b.ID].next) })
	return hosts
}

func (o *Observer) readSummary(ctx context.Context, h fleet.Host) {
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	start := time.Now()
	sum, err := o.summary(ctx, h)
	o.asked(h.ID, err)
	o.update(h.ID, func(e *entry) {
		if err != nil {
			e.lost(err, start)
			return
		}
		e.found()
		e.view.Summary = fleet.Read(sum, "agent", start, time.Since(start))
		o.reconcile(e)
	})
}

func (o *Observer) asked(id fleet.HostID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.asking[id]
	a.busy = false
	if err == nil {
		a.fails, a.next = 0, time.Now().Add(o.cfg.Interval)
		return
	}
	a.next = time.Now().Add(max(o.cfg.Interval, min(o.cfg.Interval<<min(a.fails, 10), longestPause)))
	a.fails++
}

// spare puts off asking a host that has just told everything: one that is driven is
// read more often than its summary would be. It is called with the lock held.
func (o *Observer) spare(id fleet.HostID) {
	if a := o.asking[id]; a != nil && !a.busy {
		a.fails, a.next = 0, time.Now().Add(2*o.cfg.Interval)
	}
}

func (o *Observer) summary(ctx context.Context, h fleet.Host) (fleet.Summary, error) {
	agent, err := o.cfg.Agent(ctx, h)
	if err != nil {
		return fleet.Summary{}, err
	}
	return agent.Summary(ctx)
}
