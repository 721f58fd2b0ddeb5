package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
	"ebb/fleet/reconcile"
)

// ErrNotListed says that a plane answered, and has no such host.
var ErrNotListed = errors.New("it does not list the host")

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
	e := entry{view: fleet.HostView{Host: host, SelfClaims: selfClaims(plane)}, clock: readClock(ctx, plane)}
	e.before = readClaims(ctx, plane, id)
	e.view.Facts = o.readFacts(ctx, host)
	if e.view.Facts.Status != fleet.OK {
		e.lost(nil, e.view.Facts.At)
		e.view.Problem = e.view.Facts.Error
	}
	e.view.Claims = readClaims(ctx, plane, id)
	eligible := readFlag(ctx, plane, &e)
	o.mu.Lock()
	o.reconcile(&e)
	e.view.Cordon = o.cordonOf(&e, eligible)
	o.mu.Unlock()
	o.keep(id, e)
	return e.view, nil
}

// Bounds on one question: whoever looks decides about more than one host, and an
// answer that does not come is an answer.
const (
	planeTimeout = 10 * time.Second
	agentTimeout = 20 * time.Second
)

// Targets returns the hosts of id's plane as last seen, id among them: those that a
// workload of id might move to. The list is that of the snapshot: it is asked for
// with every look at any of them, and views are large.
func (o *Observer) Targets(id fleet.HostID) []fleet.HostView {
	snap, _ := o.Latest()
	first := fleet.NewHostID(id.Plane(), "")
	from, _ := slices.BinarySearchFunc(snap.Hosts, first, byID)
	to, _ := slices.BinarySearchFunc(snap.Hosts, first[:len(first)-1]+"0", byID) // what follows the slash
	return slices.Clip(snap.Hosts[from:to])
}

func byID(h fleet.HostView, id fleet.HostID) int {
	return strings.Compare(string(h.Host.ID), string(id))
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
	ctx, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
	h, listed, err := find(ctx, plane, id)
	if listed {
		return h, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.hosts[id]; e != nil && err != nil {
		return e.view.Host, nil // the plane is silent: the host was listed before
	}
	if err != nil {
		return fleet.Host{}, fmt.Errorf("look at %s: plane %s: %w", id, id.Plane(), err)
	}
	return fleet.Host{}, fmt.Errorf("look at %s: plane %s: %w", id, id.Plane(), ErrNotListed)
}

func find(ctx context.Context, plane Plane, id fleet.HostID) (fleet.Host, bool, error) {
	if f, can := plane.(Finder); can {
		h, listed, err := f.Host(ctx, id)
		return h, listed && err == nil, err
	}
	hosts, err := plane.Hosts(ctx)
	for _, h := range hosts {
		if h.ID == id {
			return h, true, nil
		}
	}
	return fleet.Host{}, false, err
}

func (o *Observer) readFacts(ctx context.Context, h fleet.Host) fleet.Reading[fleet.Facts] {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
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
	ctx, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
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
		e.view.Summary = known.view.Summary
		if e.view.Facts.Status == fleet.OK {
			o.spare(id)
		}
		switch {
		case e.view.Facts.Status != fleet.OK:
			// The last facts stay, with their age, for whoever shows them.
			e.view.Facts, e.first, e.view.Cordon = known.view.Facts, known.first, known.view.Cordon
			if !known.view.Unreachable.IsZero() {
				e.view.Unreachable = known.view.Unreachable
			}
		case known.view.Facts.At.After(e.view.Facts.At): // a watch was faster
			e.view.Facts, e.first = known.view.Facts, known.first
			o.reconcile(&e)
		}
		*known = e
	})
}

// reconcile compares the newest facts with the readings of the claims around
// them. It is called with the lock held.
func (o *Observer) reconcile(e *entry) {
	facts := e.view.Facts
	facts.At = e.moment()
	out := reconcile.Reconcile(reconcile.Input{
		Host: e.view.Host, Before: e.before, After: e.view.Claims,
		Facts: facts, SelfClaims: e.view.SelfClaims, Now: facts.At,
	})
	e.view.Findings, e.view.Stable = out.Findings, out.Stable
	e.view.Cordon = o.cordonOf(e, fleet.Reading[bool]{})
}

// moment is when the facts are taken to have been read: they were so from the
// first time they were seen until the last time they were confirmed, and the
// claims before them may have been read in between.
func (e *entry) moment() time.Time {
	at := e.view.Facts.At
	if e.first.IsZero() || e.first.After(at) {
		return at
	}
	if end := e.before.At.Add(e.before.Took); end.After(e.first) && end.Before(at) {
		return end
	} else if !end.After(e.first) {
		return e.first
	}
	return at
}

// claimed takes a newer reading of the claims. The one before it counts as read
// before the facts only if it was; else the one that was stays.
func (e *entry) claimed(r fleet.Reading[[]fleet.Claim]) {
	if now := e.view.Claims; !now.At.Add(now.Took).After(e.view.Facts.At) {
		e.before = now
	}
	e.view.Claims = r
}

// told takes what a watch reports: facts that are as they were are confirmed.
func (e *entry) told(f fleet.Facts, at time.Time) (changed bool) {
	was := e.view.Facts
	changed = was.Status != fleet.OK || e.first.IsZero() || was.Value.Generation != f.Generation || was.Value.Boot != f.Boot || was.Value.Machine != f.Machine
	if changed {
		e.first = at
	}
	e.view.Facts = fleet.Read(f, "agent", at, 0)
	return changed
}
