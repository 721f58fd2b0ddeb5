package station

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"ebb/fleet"
	"ebb/fleet/observe"
)

// Survey reads every host's summary once, with a bound on how many at a time. A
// plane that can't be read is in the error; a host that can't be is marked.
func (s *Station) Survey(ctx context.Context) ([]fleet.HostView, error) {
	var views []fleet.HostView
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.planes)) {
		hosts, err := s.planes[name].Hosts(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("plane %s: %w", name, err))
		}
		for _, h := range hosts {
			views = append(views, fleet.HostView{Host: h, SelfClaims: s.planes[name].SelfClaims()})
		}
	}
	var g errgroup.Group
	g.SetLimit(32)
	for i := range views {
		g.Go(func() error {
			s.surveyOne(ctx, &views[i])
			return nil
		})
	}
	_ = g.Wait() // each host keeps its own error
	slices.SortFunc(views, func(a, b fleet.HostView) int { return strings.Compare(string(a.Host.ID), string(b.Host.ID)) })
	return views, errors.Join(errs...)
}

func (s *Station) surveyOne(ctx context.Context, v *fleet.HostView) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	start := time.Now()
	agent, err := s.agents.observe(ctx, v.Host)
	var sum fleet.Summary
	if err == nil {
		sum, err = agent.Summary(ctx)
	}
	if err != nil {
		v.Unreachable, v.Problem = start, err.Error()
		return
	}
	v.Summary = fleet.Read(sum, "agent", start, time.Since(start))
	p := s.planes[v.Host.ID.Plane()]
	now, err := p.Now(ctx)
	if err != nil {
		now = time.Now() // a list decides nothing
	}
	v.Cordon = observe.CordonOf(observe.CordonInput{Holds: sum.Holds, Host: v.Host, SelfClaims: v.SelfClaims,
		Window: p.window, HostNow: sum.HostNow(), PlaneNow: now})
}

// Observed waits until the observer has read the planes and asked every other
// host of id's plane once, or until it is clear that some do not answer.
func (s *Station) Observed(ctx context.Context, id fleet.HostID) error {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	for {
		snap, next := s.Observer.Latest()
		if settled(snap, id) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			if len(snap.Planes) == 0 {
				return fmt.Errorf("observe %s: no plane could be read", id)
			}
			return nil // some hosts are silent: they are no targets
		}
	}
}

func settled(snap fleet.Snapshot, id fleet.HostID) bool {
	read := false
	for _, p := range snap.Planes {
		read = read || p.Name == id.Plane()
	}
	for _, h := range snap.Hosts {
		if h.Host.ID.Plane() == id.Plane() && h.Unreachable.IsZero() && h.Summary.Status == fleet.Unknown && h.Facts.Status == fleet.Unknown {
			return false
		}
	}
	return read
}
