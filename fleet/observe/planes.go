package observe

import (
	"context"
	"time"

	"ebb/fleet"
)

// pollPlane reads a plane's hosts and claims again and again. A plane that does
// not answer leaves its hosts listed and their claims failed.
func (o *Observer) pollPlane(ctx context.Context, name string, plane Plane) error {
	for {
		o.readPlane(ctx, name, plane)
		if !pause(ctx, o.cfg.Interval) {
			return nil
		}
	}
}

func (o *Observer) readPlane(ctx context.Context, name string, plane Plane) {
	ctx, cancel := context.WithTimeout(ctx, max(10*time.Second, o.cfg.Interval))
	defer cancel()
	start := time.Now()
	clock := readClock(ctx, plane)
	hosts, err := plane.Hosts(ctx)
	var claims map[fleet.HostID][]fleet.Claim
	if err == nil {
		claims, err = plane.Claims(ctx, nil)
	}
	if ctx.Err() != nil && err == nil {
		err = ctx.Err()
	}
	took := time.Since(start)
	status := fleet.ProbeStatus{Name: name, Status: fleet.OK, Source: "plane " + name, At: start, Took: took}
	if err != nil {
		status.Status, status.Error = fleet.Failed, err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if prev, ok := o.planes[name]; ok && err != nil {
		status.At = prev.status.At // the age is that of the last good reading
	}
	o.planes[name] = &planeEntry{status: status, clock: clock}
	if err != nil {
		o.failClaims(name, fleet.ReadFailed[[]fleet.Claim]("plane "+name, start, took, err))
	} else {
		o.takeHosts(name, hosts, claims, start, took, selfClaims(plane), clock)
	}
	poke(o.dirty)
}

func (o *Observer) failClaims(name string, failed fleet.Reading[[]fleet.Claim]) {
	for id, e := range o.hosts {
		if id.Plane() == name {
			e.claimed(failed)
			o.reconcile(e)
		}
	}
}

func (o *Observer) takeHosts(name string, hosts []fleet.Host, claims map[fleet.HostID][]fleet.Claim, at time.Time, took time.Duration, self bool, clock planeClock) {
	listed := make(map[fleet.HostID]bool, len(hosts))
	for _, h := range hosts {
		listed[h.ID] = true
		e := o.hosts[h.ID]
		if e == nil {
			e = &entry{}
			o.hosts[h.ID] = e
			poke(o.listed)
		}
		e.view.Host = h
		e.view.SelfClaims, e.clock = self, clock
		e.claimed(fleet.Read(claims[h.ID], "plane "+name, at, took))
		o.reconcile(e)
	}
	for id := range o.hosts {
		if id.Plane() == name && !listed[id] {
			delete(o.hosts, id)
			delete(o.flags, id)
		}
	}
}

func (o *Observer) window(id fleet.HostID) time.Duration { return o.cfg.Window[id.Plane()] }

func selfClaims(p Plane) bool {
	s, ok := p.(SelfClaimer)
	return ok && s.SelfClaims()
}
