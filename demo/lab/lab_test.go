//go:build linux

package lab_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

// testMain runs the tests inside the wrapper.
func testMain(m *testing.M) int {
	if lab.Inside() && !lab.Supervised() {
		status, err := lab.Supervise()
		if err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
			return 1
		}
		return status
	}
	if lab.Inside() {
		if err := lab.Prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "lab:", err)
			return 1
		}
		return runAll(m)
	}
	if os.Getuid() != 0 {
		return m.Run() // every test says why it is skipped
	}
	if lack := lab.Missing(); len(lack) > 0 {
		fmt.Fprintf(os.Stderr, "the lab needs: apt-get install %s\n", strings.Join(lack, " "))
		if _, err := os.Stat("/etc/debian_version"); err == nil {
			return 1
		}
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ebb-lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	if err := build(lab.Bin(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	status, err := lab.Enter(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
	}
	return status
}

// runAll lets more tests run at once than there are processors: they wait, most
// of the time. All at once they would wait for a processor.
func runAll(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	return m.Run()
}

// build makes the programs under test, or takes those in $EBB_BIN.
func build(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, pkg := range map[string]string{"ebb": "ebb/cmd/ebb", "ebbd": "ebb/cmd/ebbd", "labhost": "ebb/demo/lab/labhost"} {
		if from := os.Getenv("EBB_BIN"); from != "" {
			b, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
				return err
			}
			continue
		}
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// limit bounds what a test waits for; it is generous, and never decides.
const limit = 90 * time.Second

// bench is one test's lab.
type bench struct {
	*testing.T
	*lab.Lab
	ctx context.Context
}

// databases is where a lab's databases are.
type databases interface{ Database(testing.TB) string }

// setUp starts a lab with hosts of these names. Its databases are on a server
// that all tests share, or on one of its own.
func setUp(t *testing.T, server databases, config string, hosts ...string) *bench {
	t.Helper()
	return setUpWith(t, server, lab.Options{Hosts: hosts, Config: config})
}

func setUpWith(t *testing.T, server databases, o lab.Options) *bench {
	t.Helper()
	if !lab.Inside() {
		if os.Getuid() != 0 {
			t.Skip("the lab makes namespaces: it needs root")
		}
		t.Skip("the lab needs " + strings.Join(lab.Missing(), ", "))
	}
	database := pgtest.Start
	if server != nil {
		database = server.Database
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	plane, journal := database(t), database(t)
	schema, err := os.ReadFile("../../fleet/postgres/example.sql")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, plane, string(schema))
	o.Name, o.Plane, o.Journal = strings.NewReplacer("/", "-").Replace(t.Name()), plane, journal
	l, err := lab.New(ctx, o)
	if errors.Is(err, lab.ErrRefused) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, Lab: l, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			b.tell()
		}
		l.Close()
	})
	return b
}

// ownServer skips a test outside the lab, before it starts a server of its own.
func ownServer(t *testing.T) {
	t.Helper()
	if !lab.Inside() {
		setUp(t, nil, "")
	}
}

// tell adds what a failed test left behind.
func (b *bench) tell() {
	for name, h := range b.Hosts {
		for _, log := range []string{"ebbd", "work"} {
			if text := h.Log(log); text != "" {
				b.Logf("%s: %s:\n%s", name, log, tail(text, 4000))
			}
		}
	}
	if text, err := os.ReadFile(b.File("ebb.log")); err == nil {
		b.Logf("ebb.log:\n%s", tail(string(text), 4000))
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// until waits for a condition.
func (b *bench) until(what string, holds func() error) {
	b.Helper()
	b.untilIn(limit, what, holds)
}

func (b *bench) untilIn(d time.Duration, what string, holds func() error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	b.must(lab.Until(ctx, what, holds))
}

// ebb runs ebb, and wants an exit status and texts in what it prints.
func (b *bench) ebb(code int, texts []string, args ...string) string {
	b.Helper()
	return b.want(b.Ebb(b.ctx, args...), code, texts...)
}

func (b *bench) want(r lab.Result, code int, texts ...string) string {
	b.Helper()
	all := r.Out + r.Err
	if r.Code != code {
		b.Fatalf("want exit status %d:\n%s", code, r)
	}
	for _, text := range texts {
		if !strings.Contains(all, text) {
			b.Fatalf("want %q in:\n%s", text, r)
		}
	}
	forged := func(r rune) bool { return r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)) }
	if i := strings.IndexFunc(all, forged); i >= 0 {
		b.Fatalf("a control character at %d of:\n%q", i, all)
	}
	return all
}

// begin starts ebb and ends it with the test.
func (b *bench) begin(args ...string) *lab.Run {
	b.Helper()
	r, err := b.Begin(args...)
	b.must(err)
	b.Cleanup(func() {
		_ = r.Signal(os.Kill)
		<-r.Ended()
	})
	return r
}

func says(texts ...string) []string { return texts }

// run has the platform start workloads.
func (b *bench) run(host string, works ...lab.Work) []int {
	b.Helper()
	var pids []int
	for _, w := range works {
		pid, err := b.Start(b.ctx, host, w)
		b.must(err)
		pids = append(pids, pid)
	}
	return pids
}

// seen waits until the host's agent knows a workload.
func (b *bench) seen(host string, keys ...fleet.Key) {
	b.Helper()
	for _, k := range keys {
		b.until(k.String()+" is seen", func() error {
			var diff struct{ Findings []fleet.Finding }
			if err := b.JSON(b.ctx, &diff, "diff", host, "--all"); err != nil {
				return err
			}
			for _, f := range diff.Findings {
				if f.Key == k && f.Workload != nil {
					return nil
				}
			}
			return fmt.Errorf("%d findings without it", len(diff.Findings))
		})
	}
}

// board waits for a state of the host's drain.
func (b *bench) board(d time.Duration, host, what string, holds func(drain.State) bool) drain.State {
	b.Helper()
	var st drain.State
	b.untilIn(d, what, func() error {
		st = drain.State{}
		if err := b.JSON(b.ctx, &st, "board", host); err != nil {
			return err
		}
		if !holds(st) {
			return fmt.Errorf("phase %s, waiting %v, items %s", st.Phase, st.Waiting, items(st))
		}
		return nil
	})
	return st
}

func items(st drain.State) string {
	var b strings.Builder
	for k, it := range st.Items {
		fmt.Fprintf(&b, "\n  %s class %s step %s reason %v end %q by %q", k, it.Class, it.Step, it.Reason, it.End, it.EndBy)
	}
	return b.String()
}

// flag is what the control plane's database itself says.
func (b *bench) flag(host string) string {
	b.Helper()
	s, err := b.Ask(b.ctx, `select draining || ' ' || coalesce(drained_by, '') || ' ' || coalesce(drain_reason, '') from agents where id = $1`, host)
	b.must(err)
	return strings.TrimSpace(s)
}

// admit asks the host itself whether it takes new work.
func (b *bench) admit(host string) (int, string) {
	b.Helper()
	out, err := b.Hosts[host].Exec(b.ctx, "ebbd", "admit", "claim", "--key", "box/new")
	var exit *exec.ExitError
	switch e := err.(type) {
	case nil:
		return 0, out
	case *exec.ExitError:
		exit = e
	default:
		b.Fatal(err)
	}
	return exit.ExitCode(), out
}

// refuses wants the host to refuse new work with a reason.
func (b *bench) refuses(host, reason string) {
	b.Helper()
	if code, out := b.admit(host); code != 75 || !strings.Contains(out, reason) {
		b.Fatalf("%s: admit: exit status %d, want 75 and %q:\n%s", host, code, reason, out)
	}
}

// settle reports a ticket that a host has given as done.
func (b *bench) settle(host, ticket string) {
	b.Helper()
	out, err := b.Hosts[host].Exec(b.ctx, "ebbd", "admit", "done", ticket)
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}
