package station

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/fleet/embedded"
	"ebb/fleet/none"
	"ebb/fleet/observe"
	"ebb/fleet/postgres"
	"ebb/fleet/sshlink"
)

// controlPlane is what every kind of plane can do.
type controlPlane interface {
	Hosts(ctx context.Context) ([]fleet.Host, error)
	Claims(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error)
	Set(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error)
	Lift(ctx context.Context, host fleet.HostID, theirs bool) error
	Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error)
}

// plane is a control plane with what the configuration says about it.
type plane struct {
	controlPlane
	inner  controlPlane // for its optional abilities: moving claims, settling ghosts
	window time.Duration
	clock  func(context.Context) (time.Time, error) // nil where it has none
	close  func() error
}

// SelfClaims reports whether the plane claims nothing of its own.
func (p plane) SelfClaims() bool {
	s, ok := p.inner.(interface{ SelfClaims() bool })
	return ok && s.SelfClaims()
}

// Host implements observe.Finder, by listing all where the plane can't do better.
func (p plane) Host(ctx context.Context, id fleet.HostID) (fleet.Host, bool, error) {
	if f, can := p.inner.(observe.Finder); can {
		return f.Host(ctx, id)
	}
	hosts, err := p.inner.Hosts(ctx)
	i := slices.IndexFunc(hosts, func(h fleet.Host) bool { return h.ID == id })
	if err != nil || i < 0 {
		return fleet.Host{}, false, err
	}
	return hosts[i], true, nil
}

// margin is added to a scheduler's cache window: what was decided in its last
// moment still has to arrive.
const margin = 5 * time.Second

func openPlanes(ctx context.Context, cfg config.Fleet, pool *sshlink.Pool) (map[string]plane, error) {
	planes := make(map[string]plane, len(cfg.Planes))
	for _, c := range cfg.Planes {
		p, err := openPlane(ctx, c, pool)
		if err != nil {
			for _, open := range planes {
				_ = open.close()
			}
			return nil, fmt.Errorf("plane %s: %w", c.Name, err)
		}
		p.window = scaled(c.SchedulerCache+margin, cfg.Speed, 500*time.Millisecond)
		planes[c.Name] = p
	}
	return planes, nil
}

func openPlane(ctx context.Context, c config.Plane, pool *sshlink.Pool) (plane, error) {
	nothing := func() error { return nil }
	switch c.Type {
	case config.Postgres:
		p, err := postgres.Open(ctx, postgres.Config{Name: c.Name, URL: c.URL, Statements: postgres.Statements(c.Statements)})
		if err != nil {
			return plane{}, err
		}
		clock := &planeClock{url: c.URL}
		return plane{controlPlane: p, inner: p, clock: clock.Now, close: closer(p.Close)}, nil
	case config.Embedded:
		p, err := embedded.Open(ctx, embedded.Config{Name: c.Name, URL: c.URL})
		if err != nil {
			return plane{}, err
		}
		ours := func(context.Context) (time.Time, error) { return time.Now(), nil } // a file on this machine
		return plane{controlPlane: p, inner: p, clock: ours, close: closer(p.Close)}, nil
	case config.SSHHosts:
		p := none.New(c.Name, append(aliases(c, pool), c.Hosts...))
		return plane{controlPlane: p, inner: p, close: nothing}, nil
	case config.None:
		p := none.New(c.Name, c.Hosts)
		return plane{controlPlane: p, inner: p, close: nothing}, nil
	}
	return plane{}, fmt.Errorf("unknown type %q", c.Type)
}

// closer adapts the two shapes of Close.
func closer[F func() | func() error](f F) func() error {
	switch f := any(f).(type) {
	case func() error:
		return f
	case func():
		return func() error { f(); return nil }
	}
	return nil
}

// aliases turns the ssh_config aliases that match into hosts.
func aliases(c config.Plane, pool *sshlink.Pool) []fleet.Host {
	var hosts []fleet.Host
	for _, name := range pool.Config().Aliases() {
		if slices.ContainsFunc(c.Match, func(glob string) bool { ok, err := path.Match(glob, name); return ok && err == nil }) {
			hosts = append(hosts, fleet.Host{ID: fleet.NewHostID(c.Name, name), Address: name})
		}
	}
	return hosts
}
