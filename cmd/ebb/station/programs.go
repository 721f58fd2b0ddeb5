package station

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/levers"
	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// leverSpecs are the levers of the configuration as the pure core knows them.
func leverSpecs(cfg config.Fleet) map[string]drain.LeverSpec {
	specs := make(map[string]drain.LeverSpec, len(cfg.Levers))
	for _, l := range cfg.Levers {
		spec := drain.LeverSpec{Name: l.Name}
		for _, s := range l.Steps {
			spec.Steps = append(spec.Steps, drain.Step(s))
		}
		specs[l.Name] = spec
	}
	return specs
}

// withPrograms adds what programs beside the engine do, and what waits for
// traffic to end.
func (s *Station) withPrograms(m map[drain.ActKind]engine.Lever, flip levers.Flip) map[drain.ActKind]engine.Lever {
	programs := levers.Programs{By: make(map[string]levers.Program, len(s.Config.Levers)), Host: s.host}
	for _, l := range s.Config.Levers {
		programs.By[l.Name] = levers.Program{Name: l.Name, Run: l.Run, Timeout: l.Timeout}
	}
	m[drain.ActLever] = programs
	m[drain.ActFlip] = levers.LeverFlip{Programs: programs, Flip: flip}
	m[drain.ActRest] = levers.Rest{Programs: programs, Plane: flip.Plane}
	m[drain.ActQuiet] = levers.Quiet{Agents: s.agents}
	return m
}

// quietRequest asks for a short wait: what is still busy after it is asked about
// again, so that people see how it stands.
func quietRequest(r *wire.ActRequest, j drain.Job, speed float64) {
	r.Kind, r.Runs, r.Timeout = wire.ActQuiet, j.Act.Runs, 30*time.Second
	if q := j.Act.Quiet; q != nil {
		r.URL, r.Gauges, r.Window = q.URL, q.Gauge, scaled(q.Window, speed, time.Second)
		r.Timeout += r.Window
	}
}

// journalHost is the machine that serves a shared journal; one in a file beside
// this console has none.
func journalHost(journal string) string {
	u, err := url.Parse(journal)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return ""
	}
	return u.Hostname()
}

// promised is what drains of other hosts bring where: those of this process as
// they stand, and others' as the journal tells it. That is read anew after a
// while only, because it is asked with every pass of every drain.
func (s *Station) promised() func(context.Context, fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
	var mu sync.Mutex
	var at time.Time
	stands := scaled(5*time.Second, s.Config.Speed, 250*time.Millisecond)
	return func(ctx context.Context, except fleet.HostID) (map[fleet.HostID][]fleet.Needs, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) >= stands {
			if err := s.Engine.Follow(ctx, s.draining()); err != nil {
				return s.Engine.Promises(except), err
			}
			at = time.Now()
		}
		return s.Engine.Promises(except), nil
	}
}

// draining lists the hosts that a drain holds, as they were last seen.
func (s *Station) draining() []fleet.HostID {
	var hosts []fleet.HostID
	snap, _ := s.Observer.Latest()
	for _, v := range snap.Hosts {
		if holds, _, ok := v.Holds(); ok && holds.Drain != nil {
			hosts = append(hosts, v.Host.ID)
		}
	}
	return hosts
}
