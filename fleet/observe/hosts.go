package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/fleet"
)

// pollHosts asks every host that is not followed for its summary.
func (o *Observer) pollHosts(ctx context.Context) error {
	for {
		var g errgroup.Group
		g.SetLimit(o.cfg.Parallel)
		for _, h := range o.unfollowed() {
			g.Go(func() error {
				o.readSummary(ctx, h)
				return nil
			})
		}
		_ = g.Wait() // each host keeps its own error
		wait := o.cfg.Interval
		if len(o.known()) == 0 {
			wait = 50 * time.Millisecond // the planes have not been read yet
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

func (o *Observer) readSummary(ctx context.Context, h fleet.Host) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	start := time.Now()
	sum, err := o.summary(ctx, h)
	o.update(h.ID, func(e *entry) {
		if err != nil {
			e.lost(err, start)
			return
		}
		e.found()
		e.view.Summary = fleet.Read(sum, "agent", start, time.Since(start))
		e.reconcile(o.window(h.ID))
	})
}

func (o *Observer) summary(ctx context.Context, h fleet.Host) (fleet.Summary, error) {
	agent, err := o.cfg.Agent(ctx, h)
	if err != nil {
		return fleet.Summary{}, err
	}
	return agent.Summary(ctx)
}

// follow keeps one watch open for each host in focus.
func (o *Observer) follow(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	watching := map[fleet.HostID]context.CancelFunc{}
	tick := time.NewTicker(o.cfg.Interval)
	defer tick.Stop()
	for {
		want := o.focused()
		for id, stop := range watching {
			if !slices.ContainsFunc(want, func(h fleet.Host) bool { return h.ID == id }) {
				stop()
				delete(watching, id)
			}
		}
		for _, h := range want {
			if _, on := watching[h.ID]; !on {
				hctx, stop := context.WithCancel(ctx)
				watching[h.ID] = stop
				wg.Go(func() { o.watch(hctx, h) })
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range watching {
				stop()
			}
			return nil
		case <-o.refocus:
		case <-tick.C: // hosts may have been listed since
		}
	}
}

// watch follows one host's facts, again and again, with a pause that grows.
func (o *Observer) watch(ctx context.Context, h fleet.Host) {
	wait := time.Second
	for {
		start := time.Now()
		err := o.watchOnce(ctx, h)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > 30*time.Second {
			wait = time.Second
		}
		o.cfg.Log.Debug("watch ended", "host", h.ID, "error", err)
		o.update(h.ID, func(e *entry) { e.lost(err, time.Now()) })
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, 15*time.Second)
	}
}

func (o *Observer) watchOnce(ctx context.Context, h fleet.Host) error {
	agent, err := o.cfg.Agent(ctx, h)
	if err != nil {
		return err
	}
	return agent.Watch(ctx, func(f fleet.Facts) error {
		o.update(h.ID, func(e *entry) {
			e.found()
			e.view.Facts = fleet.Read(f, "agent", time.Now(), 0)
			e.reconcile(o.window(h.ID))
		})
		return ctx.Err()
	})
}

func (o *Observer) known() []fleet.Host {
	o.mu.Lock()
	defer o.mu.Unlock()
	hosts := make([]fleet.Host, 0, len(o.hosts))
	for _, e := range o.hosts {
		hosts = append(hosts, e.view.Host)
	}
	return hosts
}

func (o *Observer) focused() []fleet.Host {
	return slices.DeleteFunc(o.known(), func(h fleet.Host) bool { return !o.inFocus(h.ID) })
}

// unfollowed returns the hosts that need a summary, the stalest first.
func (o *Observer) unfollowed() []fleet.Host {
	hosts := slices.DeleteFunc(o.known(), func(h fleet.Host) bool { return o.inFocus(h.ID) })
	slices.SortFunc(hosts, func(a, b fleet.Host) int { return o.age(a.ID).Compare(o.age(b.ID)) })
	return hosts
}

func (o *Observer) age(id fleet.HostID) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.hosts[id]; e != nil {
		return e.view.Summary.At
	}
	return time.Time{}
}

func (o *Observer) inFocus(id fleet.HostID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.focus[id]
}

// lost keeps the last values with their old times and says since when the host
// does not answer.
func (e *entry) lost(err error, at time.Time) {
	if e.view.Unreachable.IsZero() {
		e.view.Unreachable = at
	}
	if err != nil {
		e.view.Problem = err.Error()
	}
}

func (e *entry) found() { e.view.Unreachable, e.view.Problem = time.Time{}, "" }
