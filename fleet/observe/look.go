package observe

import (
	"context"
	"fmt"
	"time"

	"ebb/fleet"
	"ebb/fleet/reconcile"
)

// Look reads one host anew for whoever is about to act: claims, facts, claims,
// and what the scheduler believes. What could not be read is a failed reading in
// the view; the error says only that the host is not listed at all.
func (o *Observer) Look(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	plane, ok := o.cfg.Planes[id.Plane()]
	if !ok {
		return fleet.HostView{}, fmt.Errorf("look at %s: no control plane %q is configured", id, id.Plane())
	}
	host, err := o.host(ctx, plane, id)
	if err != nil {
		return fleet.HostView{}, err
	}
	e := entry{view: fleet.HostView{Host: host, SelfClaims: selfClaims(plane)}}
	e.before = readClaims(ctx, plane, id)
	e.view.Facts = o.readFacts(ctx, host)
	if e.view.Facts.Status != fleet.OK {
		e.lost(nil, e.view.Facts.At)
		e.view.Problem = e.view.Facts.Error
	}
	e.view.Claims = readClaims(ctx, plane, id)
	e.reconcile(o.window(id))
	e.view.Cordon = o.cordon(ctx, plane, &e)
	o.keep(id, e)
	return e.view, nil
}

// Targets returns the hosts that a workload of id might move to, as last seen.
func (o *Observer) Targets(id fleet.HostID) []fleet.HostView {
	snap, _ := o.Latest()
	var out []fleet.HostView
	for _, h := range snap.Hosts {
		if h.Host.ID != id && h.Host.ID.Plane() == id.Plane() {
			out = append(out, h)
		}
	}
	return out
}

// Host finds a listed host, from the last reading of its plane or from the plane.
func (o *Observer) Host(ctx context.Context, id fleet.HostID) (fleet.Host, error) {
	plane, ok := o.cfg.Planes[id.Plane()]
	if !ok {
		return fleet.Host{}, fmt.Errorf("find %s: no control plane %q is configured", id, id.Plane())
	}
	return o.host(ctx, plane, id)
}

func (o *Observer) host(ctx context.Context, plane Plane, id fleet.HostID) (fleet.Host, error) {
	hosts, err := plane.Hosts(ctx)
	for _, h := range hosts {
		if h.ID == id {
			return h, nil
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.hosts[id]; e != nil && err != nil {
		return e.view.Host, nil // the plane is silent: the host was listed before
	}
	if err != nil {
		return fleet.Host{}, fmt.Errorf("look at %s: plane %s: %w", id, id.Plane(), err)
	}
	return fleet.Host{}, fmt.Errorf("look at %s: plane %s does not list it", id, id.Plane())
}

func (o *Observer) readFacts(ctx context.Context, h fleet.Host) fleet.Reading[fleet.Facts] {
	start := time.Now()
	agent, err := o.cfg.Agent(ctx, h)
	if err == nil {
		var facts fleet.Facts
		if facts, err = agent.Facts(ctx, true); err == nil {
			return fleet.Read(facts, "agent", start, time.Since(start))
		}
	}
	return fleet.ReadFailed[fleet.Facts]("agent", start, time.Since(start), err)
}

func readClaims(ctx context.Context, plane Plane, id fleet.HostID) fleet.Reading[[]fleet.Claim] {
	start, source := time.Now(), "plane "+id.Plane()
	all, err := plane.Claims(ctx, []fleet.HostID{id})
	if err != nil {
		return fleet.ReadFailed[[]fleet.Claim](source, start, time.Since(start), err)
	}
	return fleet.Read(all[id], source, start, time.Since(start))
}

// keep puts what was just read into the next snapshot.
func (o *Observer) keep(id fleet.HostID, e entry) {
	o.update(id, func(known *entry) {
		if e.view.Facts.Status != fleet.OK {
			// The last facts stay, with their age, for whoever shows them.
			e.view.Facts = known.view.Facts
			if !known.view.Unreachable.IsZero() {
				e.view.Unreachable = known.view.Unreachable
			}
		}
		e.view.Summary = known.view.Summary
		*known = e
	})
}

// reconcile compares the newest facts with the two newest readings of the
// claims.
func (e *entry) reconcile(window time.Duration) {
	out := reconcile.Reconcile(reconcile.Input{
		Host: e.view.Host, Before: e.before, After: e.view.Claims,
		Facts: e.view.Facts, SelfClaims: e.view.SelfClaims, Now: e.view.Facts.At,
	})
	e.view.Findings, e.view.Stable = out.Findings, out.Stable
	if holds, _, ok := e.view.Holds(); ok {
		e.view.Cordon = CordonOf(CordonInput{Holds: holds, Host: e.view.Host, SelfClaims: e.view.SelfClaims, Window: window, HostNow: hostNow(e.view)})
	}
}
