//go:build ignore

// Bench measures what ebb promises and prints one table: what, measured, aim, and
// whether that is kept. It fails only on ratios, whose two sides are measured in
// the same run, and on what must not happen on any machine; a number of seconds or
// bytes says as much about the machine.
//
//	go run .ci/bench.go [-v] [REGEXP]   only the groups whose name matches
//
// The numbers come from benchmarks in the packages, which report them by name:
//
//	BenchmarkFacts-2   1   94.00 ms/full   343.8 ms/tools   3.66 tools/full
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// row is one line of the table: a metric of a benchmark, and what it should be.
type row struct {
	what   string
	metric string // as the benchmark reports it
	scale  float64
	unit   string // of the shown value
	least  bool   // the aim is a lower bound
	aim    float64
	ratio  bool // both sides come from the same run: it fails the bench
	fact   bool // shown for what it is, without an aim
	never  bool // it must not happen even once: it fails the bench
}

// group is one benchmark and what it tells.
type group struct {
	name, pkg, bench string
	time             string // -benchtime
	rows             []row
}

var groups = []group{
	{"facts", "./probes/agent", "BenchmarkFacts", "1x", []row{
		{what: "full facts of 2,000 processes, 300 netns, 100 dirs, 50 loops", metric: "ms/full", unit: "ms", fact: true},
		{what: "  the same, by ps + ip -j netns + losetup --json", metric: "ms/tools", unit: "ms", fact: true},
		{what: "  ps + ip + losetup, as multiples of full facts", metric: "tools/full", unit: "×", least: true, aim: 1, ratio: true},
		{what: "  ps + ip + losetup, as multiples of the first look", metric: "tools/anew", unit: "×", least: true, aim: 1, ratio: true},
		{what: "  pgrep for each of 500 ids, as multiples", metric: "pgreps/full", unit: "×", least: true, aim: 300, ratio: true},
	}},
	{"agent", "./probes/agent", "BenchmarkAgent", "1x", []row{
		{what: "agent there, steady: memory", metric: "MiB/rss", unit: "MiB", aim: 30},
		{what: "agent there, steady: of a core", metric: "%cpu", unit: "%", aim: 2},
		{what: "exit of a process to the model knowing, of 1,000: p50", metric: "ms/exit-p50", unit: "ms", fact: true},
		{what: "exit of a process to the model knowing, of 1,000: p99", metric: "ms/exit-p99", unit: "ms", aim: 200},
	}},
	{"hosts", "./cmd/ebb/station", "BenchmarkHosts", "1x", []row{
		{what: "100 sshd hosts: x/crypto alone, dial + exec of all", metric: "ms/bare", unit: "ms", fact: true},
		{what: "  first complete picture", metric: "ms/first", unit: "ms", fact: true},
		{what: "  first complete picture, as multiples of x/crypto alone", metric: "first/bare", unit: "×", aim: 1.3, ratio: true},
		{what: "  x/crypto alone, exec on kept connections", metric: "ms/bare-again", unit: "ms", fact: true},
		{what: "  refresh of all summaries on kept channels", metric: "ms/again", unit: "ms", aim: 100},
		{what: "  refresh, as multiples of that exec", metric: "again/bare", unit: "×", aim: 1, ratio: true},
	}},
	{"drains", "./cmd/ebb/station", "BenchmarkDrains/1000", "1x", drains("1,000 drains on one resident engine")},
	{"drains-200", "./cmd/ebb/station", "BenchmarkDrains/200", "1x", drains("200 drains on one resident engine")},
	{"drains-file", "./cmd/ebb/station", "BenchmarkDrains/file", "1x", drains("1,000 drains on one resident engine, its journal a file")},
	{"takeover", "./cmd/ebb/station", "BenchmarkTakeover", "1x", []row{
		{what: "takeover after SIGKILL of the driver, 18 drains: p50", metric: "s/takeover-p50", unit: "s", fact: true},
		{what: "takeover after SIGKILL of the driver, 18 drains: longest", metric: "s/takeover-max", unit: "s", aim: 20},
	}},
	{"next", "./drain", "BenchmarkNext1000", "1s", []row{
		{what: "Next with 1,000 workloads", metric: "ns/op", scale: 1e-6, unit: "ms", aim: 2},
	}},
	{"reconcile", "./fleet/reconcile", "BenchmarkReconcile", "1s", []row{
		{what: "reconcile of 10,000 claims and 10,000 workloads", metric: "ns/op", scale: 1e-6, unit: "ms", aim: 20},
	}},
}

// drains is what one engine is measured by that drives many.
func drains(what string) []row {
	return []row{
		{what: what + ": cores", metric: "cores", aim: 1},
		{what: "  memory", metric: "MiB/rss", unit: "MiB", aim: 300},
		{what: "  memory, the most there was since its start", metric: "MiB/peak", unit: "MiB", fact: true},
		{what: "  leases that lapsed", metric: "lapsed", never: true},
		{what: "  passes of those due, one in 5 s", metric: "%passes", unit: "%", least: true, aim: 95},
		{what: "  a pass later than 5 s after the one before: p50", metric: "s/late-p50", unit: "s", fact: true},
		{what: "  a pass later than 5 s after the one before: p99", metric: "s/late-p99", unit: "s", aim: 1},
		{what: "  from the asks until all cordons are proved", metric: "s/begun", unit: "s", fact: true},
		{what: "  CPU for that", metric: "s/begun-cpu", unit: "s", fact: true},
		{what: "  from the last workload's end until all drains are through", metric: "s/through", unit: "s", fact: true},
		{what: "  CPU for that", metric: "s/through-cpu", unit: "s", fact: true},
	}
}

func main() {
	verbose := flag.Bool("v", false, "show what the benchmarks print")
	flag.Parse()
	only, err := regexp.Compile(flag.Arg(0))
	if err != nil {
		fail(err)
	}
	fmt.Printf("%s, %s, %d cores, load %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.Version(), runtime.NumCPU(), load())
	fmt.Printf("%-62s %12s  %-10s %s\n", "WHAT", "MEASURED", "AIM", "")
	broken := false
	for _, g := range groups {
		if !only.MatchString(g.name) {
			continue
		}
		got, err := g.run(*verbose)
		if err != nil {
			fmt.Printf("%-62s %12s  %-10s %v\n", g.name+" ("+g.bench+")", "·", "·", err)
			broken = true
			continue
		}
		for _, r := range g.rows {
			broken = !r.print(got) || broken
		}
	}
	fmt.Printf("\nload now %s\n", load())
	if broken {
		os.Exit(1)
	}
}

// run runs the benchmark and returns its metrics by name.
func (g group) run(verbose bool) (map[string]float64, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^"+g.bench+"$", "-benchtime", g.time, "-timeout", "20m", g.pkg)
	cmd.Env = append(os.Environ(), "EBB_BENCH=1")
	out, err := cmd.CombinedOutput()
	if verbose || err != nil {
		os.Stderr.Write(out)
	}
	if err != nil {
		return nil, fmt.Errorf("did not run: %v", err)
	}
	got := map[string]float64{}
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], g.bench) {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				got[fields[i+1]] = v
			}
		}
	}
	return got, nil
}

// print shows the row, and reports whether it is as it must be.
func (r row) print(got map[string]float64) bool {
	v, known := got[r.metric]
	if !known {
		fmt.Printf("%-62s %12s  %-10s not measured here\n", r.what, "·", r.want())
		return true
	}
	if r.scale != 0 {
		v *= r.scale
	}
	kept := r.fact || r.never && v == 0 || !r.never && (r.least && v >= r.aim || !r.least && v <= r.aim)
	verdict := "ok"
	switch {
	case r.fact:
		verdict = ""
	case !kept && r.never:
		verdict = "it must not happen: this fails"
	case !kept && r.ratio:
		verdict = "OVER, and it is a ratio: this fails"
	case !kept:
		verdict = "over"
	}
	fmt.Printf("%-62s %8s %-3s  %-10s %s\n", r.what, number(v), r.unit, r.want(), verdict)
	return kept || !r.ratio && !r.never
}

func (r row) want() string {
	switch {
	case r.fact:
		return "·"
	case r.never:
		return "none"
	case r.least:
		return fmt.Sprintf("≥ %s %s", number(r.aim), r.unit)
	}
	return fmt.Sprintf("≤ %s %s", number(r.aim), r.unit)
}

// number shows three significant digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
