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

// promised reads from the journal what drains of other hosts bring where. It is
// asked with every pass of every drain, so what it found stands for a while.
func (s *Station) promised() func(context.Context, fleet.HostID) map[fleet.HostID][]fleet.Needs {
	var mu sync.Mutex
	var at time.Time
	var by map[fleet.HostID]map[fleet.HostID][]fleet.Needs // by the host that is drained
	stands := scaled(5*time.Second, s.Config.Speed, 250*time.Millisecond)
	return func(ctx context.Context, except fleet.HostID) map[fleet.HostID][]fleet.Needs {
		mu.Lock()
		defer mu.Unlock()
		if by == nil || time.Since(at) >= stands {
			by, at = s.promises(ctx), time.Now()
		}
		sum := map[fleet.HostID][]fleet.Needs{}
		for source, to := range by {
			for target, needs := range to {
				if source != except {
					sum[target] = append(sum[target], needs...)
				}
			}
		}
		return sum
	}
}

func (s *Station) promises(ctx context.Context) map[fleet.HostID]map[fleet.HostID][]fleet.Needs {
	by := map[fleet.HostID]map[fleet.HostID][]fleet.Needs{}
	snap, _ := s.Observer.Latest()
	for _, v := range snap.Hosts {
		if holds, _, ok := v.Holds(); !ok || holds.Drain == nil {
			continue
		}
		st, err := s.Engine.State(ctx, v.Host.ID)
		if err != nil {
			continue
		}
		if p := st.Promises(); len(p) > 0 {
			by[v.Host.ID] = p
		}
	}
	return by
}
