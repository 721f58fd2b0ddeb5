package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ebb/demo"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// testFleet is a fleet on this machine that several consoles of a test share.
type testFleet struct {
	*demo.Fleet
	t *testing.T
}

// startTestFleet starts hosts without any work on them.
func startTestFleet(t *testing.T, hosts int) testFleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-shared-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f, err := demo.Start(t.Context(), demo.Options{Hosts: hosts, Speed: 30, Dir: dir, Exe: filepath.Join(programs, "ebb"), Agent: filepath.Join(programs, "ebbd")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return testFleet{f, t}
}

// with is the fleet for a test within the test that has started it.
func (f testFleet) with(t *testing.T) testFleet { return testFleet{f.Fleet, t} }

// runs puts workloads on a host.
func (f testFleet) runs(host string, work ...demo.Spec) {
	f.t.Helper()
	for _, s := range work {
		if err := f.Platform.RunOn(f.t.Context(), f.Host(host), s); err != nil {
			f.t.Fatal(err)
		}
	}
}

// notebook is a workload that no strategy moves: its drain goes on until its
// owner ends it.
func notebook(id string) demo.Spec {
	return demo.Spec{Kind: "notebook", ID: id, Class: fleet.Pausable, Owner: "lena"}
}

// env is what an ebb of somebody's finds in its environment.
func (f testFleet) env(who string) []string {
	return append(os.Environ(), "EBB_CONFIG="+f.Config(), "EBB_OPERATOR="+who, "XDG_STATE_HOME="+filepath.Join(f.Dir, "state-"+who))
}

// ebb runs a command to its end.
func (f testFleet) ebb(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(programs, "ebb"), args...)
	cmd.Env = f.env("root")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("ebb %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// reads looks into the journal.
func reads[T any](f testFleet, look func(context.Context, *journal.Journal) (T, error)) T {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	j, err := journal.Open(ctx, "sqlite:"+filepath.Join(f.Dir, "journal.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer j.Close()
	out, err := look(ctx, j)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// events are what the journal has of a host.
func (f testFleet) events(host string) []drain.Event {
	f.t.Helper()
	return reads(f, func(ctx context.Context, j *journal.Journal) ([]drain.Event, error) {
		return j.Stream(ctx, string(f.Host(host).ID()), 0, 10_000)
	})
}

// state is where the drain of a host stands.
func (f testFleet) state(host string) drain.State {
	f.t.Helper()
	var s drain.State
	for _, ev := range f.events(host) {
		next, err := drain.Apply(s, ev)
		if err != nil {
			f.t.Fatal(err)
		}
		s = next
	}
	return s
}

// driver is who holds the lease of the host's drain; empty where nobody does, so
// that anybody may take it at once.
func (f testFleet) driver(host string) string {
	f.t.Helper()
	id := f.state(host).Drain
	return reads(f, func(ctx context.Context, j *journal.Journal) (string, error) {
		leases, err := j.Leases(ctx)
		for _, l := range leases {
			if l.Drain == id {
				return l.Holder, err
			}
		}
		return "", err
	})
}

// until waits for something that is on no screen.
func (f testFleet) until(what string, holds func() bool) {
	f.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for !holds() {
		select {
		case <-limit.C:
			f.t.Fatalf("%s: it has not come about", what)
		case <-tick.C:
		}
	}
}

// resident runs a resident engine until the test ends, and returns its name.
func (f testFleet) resident() string {
	f.t.Helper()
	log := filepath.Join(f.t.TempDir(), "log")
	cmd := exec.Command(filepath.Join(programs, "ebb"), "run", "--log-file", log)
	cmd.Env = f.env("resident")
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if f.t.Failed() {
			text, _ := os.ReadFile(log)
			f.t.Logf("the resident's log:\n%s", text)
		}
	})
	if err := waitFor(out, "is there; journal"); err != nil {
		f.t.Fatal(err)
	}
	name := ""
	f.until("the resident to announce itself", func() bool {
		name = reads(f, func(ctx context.Context, j *journal.Journal) (string, error) {
			leases, err := j.Leases(ctx)
			for _, l := range leases {
				if id, ok := strings.CutPrefix(l.Drain, "resident/"); ok {
					return id, err
				}
			}
			return "", err
		})
		return name != ""
	})
	return name
}

// console is an ebb in a terminal that stays when it ends, so that what it has
// printed and how it has left the terminal can be seen.
type console struct {
	*terminal
	dir string
}

// console opens ebb for somebody. The script that runs it notes its process, and
// the settings of the terminal before and after.
func (f testFleet) console(who string, width, height int, args string) console {
	f.t.Helper()
	dir := f.t.TempDir()
	script := fmt.Sprintf(`export EBB_CONFIG=%s EBB_OPERATOR=%s XDG_STATE_HOME=%s
stty -g > %[4]s/before
sh -c 'echo $$ > %[4]s/pid; exec %[5]s/ebb %[6]s'
echo "ended with $?"
stty -g > %[4]s/after.new
mv %[4]s/after.new %[4]s/after
sleep 600
`, f.Config(), who, filepath.Join(f.Dir, "state-"+who), dir, programs, args)
	path := filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		f.t.Fatal(err)
	}
	c := console{openTerminal(f.t, width, height, "sh "+path), dir}
	c.sees("gpu-041", "serving")
	return c
}

// pid is the console's process.
func (c console) pid() int {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.dir, "pid"))
	if err != nil {
		c.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

// ended wants the console to have ended with a status, and the terminal to be
// what it was before.
func (c console) ended(status int) string {
	c.t.Helper()
	screen := c.sees(fmt.Sprintf("ended with %d", status))
	c.given()
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			return nil
		}
		return raw
	}
	c.until("the settings of the terminal", func(string) bool { return read("after") != nil })
	if before, after := read("before"), read("after"); !bytes.Equal(before, after) {
		c.t.Errorf("the terminal's settings were\n%s\nand are\n%s", before, after)
	}
	return screen
}

// drains cordons a host on the screen and begins its drain, which this console
// drives from then on; work is what the plan has to name.
func (c console) drains(host, work string) {
	c.t.Helper()
	c.filters(host)
	c.acts("c", "○ cordoned")
	c.acts("d", "deadline")
	c.presses("Enter", work)
	c.terminal.keys("End")
	c.presses("y", "has begun")
}
