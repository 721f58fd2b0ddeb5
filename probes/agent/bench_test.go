package agent

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/probes"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// A real host to measure on: real processes in one group, real network
// namespaces and loop devices where the machine lets us have them. All of it
// ends with the benchmark, however that ends: the processes read a pipe that is
// closed then, the devices detach with their last file, and the namespaces live
// in a mount namespace of their own.
const (
	benchProcs  = 2000
	benchIDs    = 500 // workloads, each of four processes
	benchNetns  = 300
	benchSample = 20 // one id in so many is looked for with pgrep
	benchDirs   = 100
	benchLoops  = 50
)

// inside says that the benchmark runs in mount and pid namespaces of its own, so
// that nothing else on the machine is measured.
const inside = "EBB_BENCH_INSIDE"

// apart runs this benchmark again in namespaces of its own, as root.
// It returns true where that has been done.
func apart(b *testing.B) bool {
	b.Helper()
	if os.Getenv(inside) != "" || os.Getuid() != 0 {
		return false
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run=^$", "-test.bench=^"+b.Name()+"$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		value, unit, ok := strings.Cut(strings.TrimPrefix(line, "metric "), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(line, "metric ") {
			b.ReportMetric(v, strings.TrimSpace(unit))
		} else if strings.Contains(line, "bench_test.go") || strings.Contains(line, "SKIP") {
			b.Log(strings.TrimSpace(line))
		}
	}
	if err != nil {
		b.Fatalf("in namespaces of its own: %v", err)
	}
	b.ReportMetric(0, "ns/op")
	return true
}

// report shows a number, also to the benchmark that started this one.
func reportMetric(b *testing.B, v float64, unit string) {
	b.ReportMetric(v, unit)
	if os.Getenv(inside) != "" {
		fmt.Printf("metric %g %s\n", v, unit)
	}
}

// crowd is a host full of things.
type crowd struct {
	root  string
	procs []*exec.Cmd
	netns int
	loops int
}

func (c *crowd) id(i int) string { return fmt.Sprintf("vm-%04d", i) }

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	c := &crowd{root: b.TempDir()}
	for path, text := range map[string]string{
		"etc/machine-id": testMachine, "proc/sys/kernel/random/boot_id": testBoot, "proc/stat": "btime 1764435000\n",
	} {
		path = filepath.Join(c.root, path)
		need(b, os.MkdirAll(filepath.Dir(path), 0o755))
		need(b, os.WriteFile(path, []byte(text), 0o644))
	}
	need(b, os.MkdirAll(filepath.Join(c.root, "run/netns"), 0o755))
	for i := range benchDirs {
		need(b, os.MkdirAll(filepath.Join(c.root, "var/lib/vms", c.id(i)), 0o755))
	}
	hold, open, err := os.Pipe()
	need(b, err)
	defer hold.Close()
	b.Cleanup(func() {
		open.Close()
		for _, p := range c.procs {
			_ = p.Wait()
		}
	})
	const fc = `for n in 1 2 3; do sh -c 'read x; exit 0' worker "$2" <&3 & done; read x <&3; exit 0`
	for i := range benchIDs {
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"/opt/fc", "-c", fc, "fc", "--id", c.id(i)}, ExtraFiles: []*os.File{hold}, Dir: "/"}
		need(b, cmd.Start())
		c.procs = append(c.procs, cmd)
	}
	c.addNetns(b)
	c.addLoops(b)
	return c
}

func need(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// addNetns names network namespaces in a /run of our own.
func (c *crowd) addNetns(b *testing.B) {
	if os.Getenv(inside) == "" {
		return
	}
	dir := filepath.Join(c.root, "run/netns")
	script := `set -e
mount -t tmpfs tmpfs /run; mkdir /run/netns; mount --bind /run/netns /run/netns; mount --make-shared /run/netns
mount --bind /run/netns ` + dir + `
i=0; while [ $i -lt ` + itoa(benchNetns) + ` ]; do echo "netns add ns-$(printf vm-%04d $i)"; i=$((i+1)); done | ip -batch -`
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		b.Logf("network namespaces can't be had: %v: %s", err, out)
		return
	}
	b.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	c.netns = benchNetns
}

func (c *crowd) prober() *probes.Prober {
	return probes.New(probes.Config{
		Root: probes.Root{Dir: c.root, Proc: "/proc"},
		Workloads: []fleet.WorkloadRule{{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}, Owns: map[string]string{
			"netns": "ns-{id}", "dir": "/var/lib/vms/{id}"}}},
		Dirs: []fleet.DirRule{{Path: "/var/lib/vms", Kind: "sandbox"}},
	})
}

// check makes sure that what is measured is what it says.
func (c *crowd) check(b *testing.B, s probes.Scan) {
	b.Helper()
	for _, bad := range []string{s.Processes.Error, s.Workloads.Error, s.Netns.Error, s.Dirs.Error} {
		if bad != "" {
			b.Fatal(bad)
		}
	}
	if len(s.Workloads.Value) != benchIDs || len(s.Workloads.Value[0].Runs) != benchProcs/benchIDs || len(s.Processes.Value) < benchProcs || len(s.Dirs.Value) != benchDirs {
		b.Fatalf("%d processes, %d workloads, %d directories", len(s.Processes.Value), len(s.Workloads.Value), len(s.Dirs.Value))
	}
	if len(s.Netns.Value) < c.netns || len(s.Loops.Value) != c.loops {
		b.Fatalf("%d namespaces of %d, %d loop devices of %d", len(s.Netns.Value), c.netns, len(s.Loops.Value), c.loops)
	}
}

// BenchmarkFacts compares a whole look at the host with the programs that one
// would use instead, in the same run. .ci/bench.go judges the ratios.
func BenchmarkFacts(b *testing.B) {
	if apart(b) {
		return
	}
	c := newCrowd(b)
	p := c.prober()
	for deadline := time.Now().Add(time.Minute); len(p.Scan(b.Context(), time.Now()).Processes.Value) < benchProcs; {
		if time.Now().After(deadline) {
			b.Fatal("the processes do not come up")
		}
	}
	time.Sleep(11 * time.Second) // until nothing counts as young any more
	c.check(b, p.Scan(b.Context(), time.Now()))
	full := best(10, func() { c.check(b, p.Scan(b.Context(), time.Now())) })
	anew := best(5, func() {
		p.Forget()
		c.check(b, p.Scan(b.Context(), time.Now()))
	})
	quick := best(10, func() {
		_, err := p.Quick(b.Context())
		need(b, err)
	})
	tools := best(5, func() {
		for _, argv := range [][]string{{"ps", "axo", "pid,lstart,stat,comm,args"}, {"ip", "-j", "netns"}, {"losetup", "--json"}} {
			if out, err := exec.Command(argv[0], argv[1:]...).Output(); err != nil || len(out) == 0 && argv[0] == "ps" {
				b.Fatalf("%v: %v", argv, err)
			}
		}
	})
	// A sample of the ids, times their number: all of them take a minute.
	script := "for i in $(seq 0 " + itoa(benchIDs/benchSample-1) + `); do pgrep -f "[-]-id $(printf vm-%04d $i)" >/dev/null || exit 1; done`
	greps := best(1, func() {
		if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}) * benchSample
	reportMetric(b, ms(full), "ms/full")
	reportMetric(b, ms(anew), "ms/anew")
	reportMetric(b, ms(quick), "ms/quick")
	reportMetric(b, ms(tools), "ms/tools")
	reportMetric(b, greps.Seconds(), "s/pgreps")
	reportMetric(b, ms(tools)/ms(full), "tools/full")
	reportMetric(b, ms(tools)/ms(anew), "tools/anew")
	reportMetric(b, ms(greps)/ms(full), "pgreps/full")
	for range b.N {
	}
}

// best is the shortest of several runs: what the machine does beside is not
// measured.
func best(runs int, f func()) time.Duration {
	shortest := time.Hour
	for range runs {
		begun := time.Now()
		f()
		shortest = min(shortest, time.Since(begun))
	}
	return shortest
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// daemon is the agent as its own program on the crowd.
func (c *crowd) daemon(b *testing.B, bin string) (pid int, op *client.Client) {
	b.Helper()
	conf := filepath.Join(c.root, "etc/ebb/ebbd.toml")
	need(b, os.MkdirAll(filepath.Dir(conf), 0o755))
	need(b, os.WriteFile(conf, []byte(`[[workload]]
kind = "sandbox"
exe = "fc"
id = { after = "--id" }
owns = { netns = "ns-{id}", dir = "/var/lib/vms/{id}" }
[[dir]]
path = "/var/lib/vms"
kind = "sandbox"
`), 0o644))
	cmd := exec.Command(bin, "serve", "--root", c.root)
	cmd.Stderr = os.Stderr
	need(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	var err error
	for range 1000 {
		op, err = client.Dial(b.Context(), func(ctx context.Context) (net.Conn, error) {
			return DialSocket(ctx, filepath.Join(c.root, "run/ebb", wire.Observe.Socket()))
		}, client.Options{NoHello: true})
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	need(b, err)
	b.Cleanup(func() { op.Close() })
	return cmd.Process.Pid, op
}

// BenchmarkAgent measures the agent as it stands there, watched by one console:
// memory, CPU, and how soon the end of a process is known at the console.
func BenchmarkAgent(b *testing.B) {
	if apart(b) {
		return
	}
	bin := filepath.Join(b.TempDir(), "ebbd")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "ebb/cmd/ebbd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	c := newCrowd(b)
	pid, op := c.daemon(b, bin)
	ctx, cancel := context.WithCancel(b.Context())
	ends := make(chan gone, benchProcs)
	done := make(chan struct{})
	go func() {
		defer close(done)
		watchEnds(ctx, op, ends)
	}()
	defer func() { cancel(); <-done }()
	time.Sleep(12 * time.Second) // until nothing counts as young any more
	f, err := op.Facts(b.Context(), true)
	need(b, err)
	if len(f.Workloads.Value) != benchIDs || len(f.Workloads.Value[0].Runs) != benchProcs/benchIDs {
		b.Fatalf("%d workloads: %s", len(f.Workloads.Value), f.Workloads.Error)
	}
	before, begun := cpu(b, pid), time.Now()
	time.Sleep(30 * time.Second)
	reportMetric(b, 100*(cpu(b, pid)-before).Seconds()/time.Since(begun).Seconds(), "%cpu")
	reportMetric(b, rss(b, pid), "MiB/rss")

	late := exits(b, f, 1000, ends)
	reportMetric(b, ms(late[len(late)/2]), "ms/exit-p50")
	reportMetric(b, ms(late[len(late)*99/100]), "ms/exit-p99")
	reportMetric(b, rss(b, pid), "MiB/rss-after")
	for range b.N {
	}
}

type gone struct {
	pid int
	at  time.Time
}

// watchEnds tells which processes the watch says have ended, and when it did.
func watchEnds(ctx context.Context, op *client.Client, ends chan<- gone) {
	before := map[int]bool{}
	_ = op.Watch(ctx, fleet.Facts{}, func(f fleet.Facts) error {
		at, now := time.Now(), make(map[int]bool, len(f.Processes.Value))
		for _, p := range f.Processes.Value {
			if p.State != "Z" && p.State != "X" {
				now[p.Run.PID] = true
			}
		}
		for pid := range before {
			if !now[pid] {
				ends <- gone{pid, at}
			}
		}
		before = now
		return nil
	})
}

// exits ends n workers, one after the other at odd moments, and returns in order
// how long each end took to be known.
func exits(b *testing.B, f fleet.Facts, n int, ends <-chan gone) []time.Duration {
	var workers []int
	for _, w := range f.Workloads.Value {
		for _, run := range w.Runs[1:] {
			workers = append(workers, run.PID)
		}
	}
	rand.Shuffle(len(workers), func(i, j int) { workers[i], workers[j] = workers[j], workers[i] })
	killed := make(map[int]time.Time, n)
	for _, pid := range workers[:n] {
		killed[pid] = time.Now()
		need(b, syscall.Kill(pid, syscall.SIGKILL))
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
	}
	var late []time.Duration
	timeout := time.After(20 * time.Second)
	for len(late) < n {
		select {
		case g := <-ends:
			if at, ok := killed[g.pid]; ok {
				late = append(late, g.at.Sub(at))
				delete(killed, g.pid)
			}
		case <-timeout:
			b.Fatalf("%d ends were never told", n-len(late))
		}
	}
	slices.Sort(late)
	return late
}

// cpu is what a process has used, user and system.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	need(b, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

func rss(b *testing.B, pid int) float64 {
	b.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	need(b, err)
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if fields := strings.Fields(sc.Text()); fields[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
