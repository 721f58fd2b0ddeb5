//go:build linux

package station

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/fleet/postgres/pgtest"
)

// The benchmarks here measure a whole station: against real hosts in the lab, and
// as a resident engine in a process of its own. They need root, and what the lab
// needs; .ci/bench.go runs them with EBB_BENCH set.
const (
	envBench    = "EBB_BENCH"          // benchmarks are run: inside the lab
	envResident = "EBB_BENCH_RESIDENT" // this process is a resident engine; the socket of its agents
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(envResident); socket != "" {
		os.Exit(residentMain(socket))
	}
	os.Exit(benchMain(m))
}

// benchMain runs the benchmarks inside the lab, and tests as ever.
func benchMain(m *testing.M) int {
	switch {
	case os.Getenv(envBench) == "" || os.Getuid() != 0 || len(lab.Missing()) > 0:
		return m.Run()
	case lab.Inside() && !lab.Supervised():
		status, err := lab.Supervise()
		return max(status, failed(err))
	case lab.Inside():
		if err := lab.Prepare(); err != nil {
			return failed(err)
		}
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ebb-lab-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return failed(err)
	}
	for name, pkg := range map[string]string{"ebb": "ebb/cmd/ebb", "ebbd": "ebb/cmd/ebbd", "labhost": "ebb/demo/lab/labhost"} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(lab.Bin(dir), name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return failed(fmt.Errorf("build %s: %w\n%s", name, err, out))
		}
	}
	status, err := lab.Enter(dir)
	return max(status, failed(err))
}

func failed(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

// inLab starts hosts with these names, with a PostgreSQL for plane and journal.
func inLab(b *testing.B, names []string) (context.Context, *lab.Lab) {
	b.Helper()
	if !lab.Inside() {
		b.Skip("it needs root and the lab: set " + envBench)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 8*time.Minute)
	b.Cleanup(cancel)
	plane, journal := pgtest.Start(b), pgtest.Start(b)
	pgtest.Exec(b, plane, planeSchema(b))
	l, err := lab.New(ctx, lab.Options{Name: b.Name(), Plane: plane, Journal: journal, Hosts: names})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	return ctx, l
}

func planeSchema(b *testing.B) string {
	b.Helper()
	text, err := os.ReadFile("../../../fleet/postgres/example.sql")
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%04d", prefix, i+1)
	}
	return out
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// best is the shortest of several times: what the machine does beside is not
// measured.
func best(times []time.Duration) time.Duration { return slices.Min(times) }

// residentMain is what ebb run does, over agents on a Unix socket.
func residentMain(socket string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	Frugal()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := Open(ctx, Options{Log: log})
	if err != nil {
		return failed(err)
	}
	defer s.Close()
	if err := s.NeedJournal(); err != nil {
		return failed(err)
	}
	s.agents.dialer, s.agents.short = overSocket(socket), nil
	go profileOnSignal(ctx)
	s.Observe(ctx)
	return failed(NewResident(s).Run(ctx))
}

// process reads what a process has used.
type process int

func (p process) cpu(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	must(b, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// mib is a line of /proc/PID/status that is in kB.
func (p process) mib(b *testing.B, name string) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	must(b, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			must(b, err)
			return kib / 1024
		}
	}
	b.Fatalf("no %s", name)
	return 0
}
