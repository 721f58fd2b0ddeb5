package agent

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes"
	"ebb/probes/wire"
)

// Clock is the time the agent lives by. Boottime counts from the kernel's boot
// and goes on while the machine sleeps; gaps and ages are measured on it, since
// the wall clock can be set.
type Clock interface {
	Now() time.Time
	Boottime() time.Duration
}

// Readings is what one scan of the host gives.
type Readings struct {
	Processes fleet.Reading[[]fleet.Process]
	Workloads fleet.Reading[[]fleet.Workload]
	Netns     fleet.Reading[[]fleet.Resource]
	Loops     fleet.Reading[[]fleet.Resource]
	Dirs      fleet.Reading[[]fleet.Resource]
	GPUs      fleet.Reading[[]fleet.GPU]
}

// Prober looks at the host. Quick reports cheaply whether processes came or
// went since the last Scan.
type Prober interface {
	Scan(ctx context.Context, now time.Time) Readings
	Quick(ctx context.Context) (changed bool, err error)
}

// looker is a prober that can look at processes alone: once one is known to have
// ended, the host is looked at at once.
type looker interface {
	Ends() (*probes.Ends, error)
	Look(ctx context.Context, now time.Time) Readings
}

// Socket is who may use the socket of a role.
type Socket struct {
	Mode fs.FileMode // zero: 0660
	GID  int         // negative: the group that the agent runs in
}

// Config is what an agent is made from. Machine, Boot, StateDir, RunDir and
// Prober are required.
type Config struct {
	Version  string
	Machine  string
	Boot     string
	BootedAt time.Time
	Hostname string

	// Scope limits the agent to a part of its machine; empty on real hosts. Speed
	// divides the gaps before KILL and is heeded by scoped agents only.
	Scope string
	Speed float64

	StateDir string
	LockWait time.Duration // how long to wait for another owner of the state directory
	RunDir   string
	Proc     string // default /proc
	Netns    string // directory of named namespaces, default /run/netns
	Dev      string // default /dev
	// Path maps a path as the host names it to where it lies; nil: as it is.
	Path func(string) string

	Sockets  map[wire.Role]Socket
	Commands map[string]config.Command
	Caps     config.Caps
	Offer    fleet.Offer // what the host can take, as its summary and facts say
	HostKeys []string    // private SSH host keys, without passphrase
	CleanGap time.Duration

	Quick     time.Duration // between looks at /proc/*/stat, default 1 s
	Full      time.Duration // between full scans, default 5 s; twice that where they take long
	Heartbeat time.Duration // of a watch in which nothing changes, default 5 s

	Prober Prober
	Clock  Clock
	// Poweroff begins to end the machine and returns at once; a scoped agent's
	// ends only that agent.
	Poweroff func() error
	Log      *slog.Logger
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Quick, time.Second)
	set(&c.Full, 5*time.Second)
	set(&c.Heartbeat, 5*time.Second)
	set(&c.CleanGap, 10*time.Second)
	for _, d := range []struct {
		p *string
		v string
	}{{&c.Proc, "/proc"}, {&c.Netns, "/run/netns"}, {&c.Dev, "/dev"}, {&c.Version, "dev"}} {
		if *d.p == "" {
			*d.p = d.v
		}
	}
	if c.Scope == "" || c.Speed <= 0 {
		c.Speed = 1
	}
	if c.Clock == nil {
		c.Clock = SystemClock{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Poweroff == nil {
		c.Poweroff = func() error { return errNoPoweroff }
	}
	return c
}

func (c Config) path(p string) string {
	if c.Path == nil {
		return p
	}
	return c.Path(p)
}

// scaled shortens a duration for a scoped agent.
func (c Config) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.Speed)
}
