package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"ebb/fleet"
)

// PlaneName is the name of the demo fleet's control plane.
const PlaneName = "demo"

// Options say what kind of fleet to start.
type Options struct {
	Hosts   int     // default 12
	Speed   float64 // divides configured durations; default 1
	Dir     string  // where it lives; empty makes a temporary one that Stop removes
	Exe     string  // the ebb program; default this one
	Agent   string  // the ebbd program; default ebbd beside Exe
	Journal string  // scripts: the journal is written to this file in the end
	Work    bool    // put workloads of every class on the hosts
}

// Fleet is a running demo fleet.
type Fleet struct {
	Options
	Hosts    []*Host
	Platform *Platform

	temporary bool
}

// Config is the fleet.toml that reaches it.
func (f *Fleet) Config() string { return filepath.Join(f.Dir, "fleet.toml") }

func (f *Fleet) catalog() string { return filepath.Join(f.Dir, "catalog") }

// Start builds the fleet and starts it; Stop ends it. Whatever has been started
// is ended again if something fails.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	if !supported {
		return nil, fmt.Errorf("the demo runs on Linux, since its agents read /proc; this is %s", runtime.GOOS)
	}
	f := &Fleet{Options: o}
	if err := f.prepare(); err != nil {
		return nil, err
	}
	if err := f.start(ctx); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) prepare() error {
	if f.Options.Hosts <= 0 {
		f.Options.Hosts = 12
	}
	if f.Speed < 1 {
		f.Speed = 1
	}
	if f.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		f.Exe = exe
	}
	if f.Agent == "" {
		f.Agent = filepath.Join(filepath.Dir(f.Exe), "ebbd")
	}
	if _, err := os.Stat(f.Agent); err != nil {
		return fmt.Errorf("the demo needs ebbd beside ebb: %w (make build makes both)", err)
	}
	if f.Dir == "" {
		dir, err := os.MkdirTemp("", "ebb-demo-")
		if err != nil {
			return err
		}
		f.Dir, f.temporary = dir, true
	}
	return errors.Join(os.MkdirAll(f.catalog(), 0o700), os.MkdirAll(shared(f.Dir, ""), 0o700))
}

// names are those of demo hosts, in the order in which they are made.
func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		switch {
		case i%6 == 5:
			out[i] = fmt.Sprintf("db-%02d", i/6+1)
		default:
			out[i] = fmt.Sprintf("gpu-%03d", 41+i-i/6)
		}
	}
	return out
}

// pool is the pool of a demo host.
func pool(name string) string {
	kind, _, _ := strings.Cut(name, "-")
	return map[string]string{"gpu": "h200-a", "db": "data"}[kind]
}

func (f *Fleet) start(ctx context.Context) error {
	user := filepath.Join(f.Dir, "id_ed25519")
	if err := writeKey(user); err != nil {
		return err
	}
	pub, err := os.ReadFile(user + ".pub")
	if err != nil {
		return err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(pub)
	if err != nil {
		return err
	}
	run := hexID(4)
	for _, name := range names(f.Options.Hosts) {
		h := &Host{Name: name, Dir: filepath.Join(f.Dir, name), Token: "ebb-demo:" + run + ":" + name, fleet: f}
		f.Hosts = append(f.Hosts, h)
	}
	var g errgroup.Group
	for _, h := range f.Hosts {
		g.Go(func() error { return errors.Join(h.build(), h.serveSSH(key), h.startAgent()) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := f.writeConfig(); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, h := range f.Hosts {
		if err := errors.Join(h.ready(ready), h.enrol(ready)); err != nil {
			return err
		}
	}
	if f.Platform, err = startPlatform(ctx, f); err != nil {
		return err
	}
	if f.Work {
		return f.Platform.populate(ctx)
	}
	return nil
}

// writeConfig writes what a console needs to reach the fleet, in the files that
// it would have for any other.
func (f *Fleet) writeConfig() error {
	var config, known strings.Builder
	for _, h := range f.Hosts {
		host, port, _ := strings.Cut(h.Addr, ":")
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port %s\n", h.Name, host, port)
		pub, err := os.ReadFile(h.keyFile() + ".pub")
		if err != nil {
			return err
		}
		fmt.Fprintf(&known, "[%s]:%s %s", host, port, pub)
	}
	second := func(d time.Duration) string { return d.String() }
	toml := fmt.Sprintf(`# A demo fleet: everything in it is on this machine.
[journal]
url = "sqlite:%[1]s/journal.db"

[[plane]]
name            = "%[2]s"
type            = "embedded"
url             = "sqlite:%[1]s/plane.db"
scheduler_cache = "%[3]s"

[ssh]
config      = "%[1]s/ssh_config"
known_hosts = "%[1]s/known_hosts"
identity    = "%[1]s/id_ed25519"
user        = "operator"

[budget.stuck]
grace = "2m"

[[class]]                   # the batch system's own jobs end when they are told, or are ended
match = { kind = "batch" }
class = "stuck"
grace = "1m"

[[lever]]                   # programs that move what a real fleet would move by its own
name    = "page"
run     = [%[5]q, "demo-lever", "page", "--dir", %[1]q]
timeout = "30s"
steps   = ["start", "health", "flip"]

[[lever]]
name    = "counter"
run     = [%[5]q, "demo-lever", "counter", "--dir", %[1]q]
timeout = "30s"
steps   = ["snapshot", "ship", "restore", "clock", "answers", "remove", "park", "resume"]

[[lever]]
name    = "store"
run     = [%[5]q, "demo-lever", "store", "--dir", %[1]q]
timeout = "30s"

[[class]]
match = { kind = "page" }
class = "stateless"
lever = "page"
grace = "20s"

[[class]]
match = { kind = "counter" }
class = "pausable"
lever = "counter"

[[class]]                   # stays on its host through a maintenance, at rest
match = { id = "tenant-*" }
class = "pausable"
lever = "counter"
park  = true

[[class]]
match = { kind = "store" }
class = "durable"
lever = "store"

[terminate]
type = "poweroff"           # ends the host's agent, and nothing else on this machine

[demo]
speed = %[4]g
`, f.Dir, PlaneName, second(SchedulerCache), f.Speed, f.Exe)
	for name, text := range map[string]string{"ssh_config": config.String(), "known_hosts": known.String(), "fleet.toml": toml} {
		if err := os.WriteFile(filepath.Join(f.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// SchedulerCache is how long the demo's scheduler acts on an old view, before it
// is divided by the speed.
const SchedulerCache = 30 * time.Second

// Host finds a host by name.
func (f *Fleet) Host(name string) *Host {
	for _, h := range f.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// ID is a host's id in the demo's plane.
func (h *Host) ID() fleet.HostID { return fleet.NewHostID(PlaneName, h.Name) }

// Place is where workloads of the host live.
func (h *Host) Place() Place { return Place{Root: h.Dir, Token: h.Token, Exe: h.fleet.Exe} }

// Stop ends everything that belongs to the fleet, by identity, and removes its
// directory if it was made for it.
func (f *Fleet) Stop() {
	if f.Platform != nil {
		f.Platform.stop()
	}
	var g errgroup.Group
	for _, h := range f.Hosts {
		g.Go(func() error { h.stop(); return nil })
	}
	_ = g.Wait()
	if f.temporary {
		_ = os.RemoveAll(f.Dir)
	}
}
