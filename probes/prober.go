package probes

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"ebb/fleet"
)

// Names of the presets.
const (
	PresetManifest    = "manifest"    // a directory of small TOML files, see fleet.Manifest
	PresetFirecracker = "firecracker" // exe firecracker, the id after --id
	PresetSystemd     = "systemd"     // units that are not the host's own
	PresetDocker      = "docker"      // cgroups of Docker's containers
)

// DefaultTimeout is how long one probe may take before it counts as failed.
const DefaultTimeout = 10 * time.Second

// Config says what to read and how to recognise it.
type Config struct {
	Root
	System       fleet.SystemRules // a nil list is replaced by fleet.DefaultSystem's
	Keep         []fleet.KeepRule
	Workloads    []fleet.WorkloadRule
	Presets      []string // Preset constants
	ManifestDirs []string // for the preset "manifest"
	Dirs         []fleet.DirRule
	// LoopPrefix limits loop devices to those whose backing file lies below one
	// of these directories: the devices are machine-wide, and in a lab many hosts
	// share one machine. With Dir set, files below Dir count too.
	LoopPrefix []string
	NVML       string        // path of ebbd-nvml; empty goes straight to nvidia-smi
	SMI        string        // nvidia-smi, looked up in PATH if empty
	Self       []string      // executables of the agent
	Timeout    time.Duration // per probe
}

// Prober reads one host. Its methods may be called from any goroutine; scans
// happen one after the other.
type Prober struct {
	cfg    Config
	system systemRules
	rules  []fleet.WorkloadRule // of the configuration and of presets, first match wins
	pid    int                  // the agent's own

	scan sync.Mutex // held by the scan in progress

	mu    sync.Mutex
	last  table // of the last scan whose processes could be read
	whole *raw  // what the last Scan read; nil before the first
	gpus  fleet.Reading[[]fleet.GPU]
	ends  *Ends // whose processes run for certain; nil if there is none

	guards struct{ processes, quick, manifests, netns, loops, dirs, gpus guard }
}

// New makes a prober. What is wrong with the rules shows as failed readings
// that name the rule.
func New(cfg Config) *Prober {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	p := &Prober{cfg: cfg, pid: selfPID(cfg.Root), rules: slices.Clone(cfg.Workloads)}
	if slices.Contains(cfg.Presets, PresetFirecracker) {
		p.rules = append(p.rules, firecrackerRule())
	}
	if slices.Contains(cfg.Presets, PresetDocker) {
		p.rules = append(p.rules, dockerRules()...)
	}
	p.system = newSystemRules(cfg.System, cfg.Self, p.helpers(), p.pid)
	return p
}

// selfPID is the agent's own pid as the procfs that it reads numbers it; zero in
// a tree of files, where it is no process.
func selfPID(r Root) int {
	link, err := os.Readlink(r.proc("self"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(link)
	return pid
}

// helpers are the programs that a prober itself starts.
func (p *Prober) helpers() []string {
	smi := p.cfg.SMI
	if smi == "" {
		smi = "nvidia-smi"
	}
	names := []string{filepath.Base(smi)}
	if p.cfg.NVML != "" {
		names = append(names, filepath.Base(p.cfg.NVML))
	}
	return names
}

// Scan is what one look at the host found: the sections of fleet.Facts.
type Scan struct {
	Processes fleet.Reading[[]fleet.Process]
	Workloads fleet.Reading[[]fleet.Workload]
	Netns     fleet.Reading[[]fleet.Resource]
	Loops     fleet.Reading[[]fleet.Resource]
	Dirs      fleet.Reading[[]fleet.Resource]
	GPUs      fleet.Reading[[]fleet.GPU]
}

// Into puts the sections where facts keep them.
func (s Scan) Into(f *fleet.Facts) {
	f.Processes, f.Workloads = s.Processes, s.Workloads
	f.Netns, f.Loops, f.Dirs, f.GPUs = s.Netns, s.Loops, s.Dirs, s.GPUs
}

// raw is what the probes read, before it is joined.
type raw struct {
	table     fleet.Reading[table]
	manifests fleet.Reading[[]manifest]
	netns     fleet.Reading[[]nsEntry]
	loops     fleet.Reading[[]loop]
	dirs      fleet.Reading[[]fleet.Resource]
	gpus      fleet.Reading[NVMLReport]
}

// Scan looks at everything. It returns within the timeout of one probe,
// whatever the host does; now is the time that the readings carry.
func (p *Prober) Scan(ctx context.Context, now time.Time) Scan {
	p.scan.Lock()
	defer p.scan.Unlock()
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()

	var r raw
	var wg sync.WaitGroup
	wg.Go(func() {
		r.table = run(ctx, &p.guards.processes, p.cfg.Timeout, p.cfg.proc(), now, func(context.Context) (table, error) {
			return p.readProcesses(last, now, nil)
		})
	})
	wg.Go(func() {
		r.manifests = run(ctx, &p.guards.manifests, p.cfg.Timeout, "manifests", now, func(context.Context) ([]manifest, error) {
			return p.readManifests()
		})
	})
	wg.Go(func() {
		r.netns = run(ctx, &p.guards.netns, p.cfg.Timeout, p.cfg.Path(netnsDir), now, func(context.Context) ([]nsEntry, error) {
			return readNetns(p.cfg.Root)
		})
	})
	wg.Go(func() {
		r.loops = run(ctx, &p.guards.loops, p.cfg.Timeout, p.cfg.Path(blockDir), now, func(context.Context) ([]loop, error) {
			return p.readLoops()
		})
	})
	wg.Go(func() {
		r.dirs = run(ctx, &p.guards.dirs, p.cfg.Timeout, dirSource(p.cfg.Dirs), now, func(context.Context) ([]fleet.Resource, error) {
			return readDirs(p.cfg.Root, p.cfg.Dirs)
		})
	})
	wg.Go(func() {
		r.gpus = run(ctx, &p.guards.gpus, p.cfg.Timeout, p.gpuSource(), now, p.readGPUs)
	})
	wg.Wait()

	s := p.join(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := r.table.Get(); ok {
		p.last = t
	}
	p.whole, p.gpus = &r, s.GPUs
	return s
}

// Look reads processes only and joins them with what the last Scan read of the
// rest, which keeps the time of that reading. It is for when a process is known
// to have ended; of GPUs it tells what the last Scan told.
func (p *Prober) Look(ctx context.Context, now time.Time) Scan {
	p.scan.Lock()
	p.mu.Lock()
	last, whole := p.last, p.whole
	p.mu.Unlock()
	if whole == nil {
		p.scan.Unlock()
		return p.Scan(ctx, now)
	}
	defer p.scan.Unlock()
	r := *whole
	r.table = run(ctx, &p.guards.processes, p.cfg.Timeout, p.cfg.proc(), now, func(context.Context) (table, error) {
		return p.readProcesses(last, now, p.surely(last))
	})
	r.gpus = fleet.ReadNotApplicable[NVMLReport]("", now, "not read by a look")
	s := p.join(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.GPUs = p.gpus
	if t, ok := r.table.Get(); ok {
		p.last = t
		if gpus, ok := s.GPUs.Get(); ok {
			noteGPUs(&t, gpus, &s.Workloads)
		}
	}
	return s
}

// Ends makes a watcher for the ends of processes. What it holds needs not be asked
// each second whether it still runs.
func (p *Prober) Ends() (*Ends, error) {
	e, err := newEnds()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = e
	return e, nil
}

// surely reports which of the processes of a table run as they did: those that
// had settled then and are held. Nil where nothing is held.
func (p *Prober) surely(t table) func(cached) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == nil {
		return nil
	}
	held, boot := p.ends.held(), t.boot
	return func(c cached) bool {
		return c.mine && c.settled && held[fleet.Run{Boot: boot, PID: c.stat.pid, Start: c.stat.start}]
	}
}

// Forget drops what was cached about processes, so that the next Scan reads
// every detail anew: a proof wants nothing that is remembered.
func (p *Prober) Forget() {
	p.scan.Lock()
	defer p.scan.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.cache = nil
}
