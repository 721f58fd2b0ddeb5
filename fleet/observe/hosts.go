package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"ebb/fleet"
)

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
	changed := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { o.recheck(ctx, h.ID, changed) })
	defer wg.Wait()
	wait := time.Second
	for {
		start := time.Now()
		err := o.watchOnce(ctx, h, changed)
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

// recheck reads a host's claims again after its facts have changed, once a second
// at the most: facts that are younger than the claims only raise suspicions.
func (o *Observer) recheck(ctx context.Context, id fleet.HostID, changed <-chan struct{}) {
	plane, ok := o.cfg.Planes[id.Plane()]
	for ok && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		claims := readClaims(ctx, plane, id)
		if claims.Status == fleet.OK { // a plane that is away is told by its poll
			o.update(id, func(e *entry) {
				if claims.At.Before(e.view.Claims.At) {
					return
				}
				e.claimed(claims)
				o.reconcile(e)
			})
		}
		pause(ctx, time.Second)
	}
}

func (o *Observer) watchOnce(ctx context.Context, h fleet.Host, changed chan struct{}) error {
	agent, err := o.cfg.Agent(ctx, h)
	if err != nil {
		return err
	}
	return agent.Watch(ctx, func(f fleet.Facts) error {
		o.update(h.ID, func(e *entry) {
			e.found()
			if e.told(f, time.Now()) {
				poke(changed)
			}
			o.reconcile(e)
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
