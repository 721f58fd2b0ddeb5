//go:build linux

package lab_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

// A whole maintenance: cordon, plan, drain, diff, clean, verify, terminate; each
// step is checked at the host and in the database.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "m1", "m2", "m3")
	batch := lab.Work{Kind: "job", ID: "batch", Class: "ephemeral", Owner: "science", Life: 40 * time.Second}
	web := lab.Work{Kind: "service", ID: "web", Class: "stateless", Owner: "search", Serve: true}
	stuck := lab.Work{Kind: "box", ID: "stuck", Owner: "ci", IgnoreTerm: true}
	pids := b.run("m1", batch, web, stuck)
	orphan, err := b.Hosts["m1"].Launch(lab.Work{Kind: "box", ID: "orphan", Hidden: true})
	b.must(err)
	loop := b.leak("m1")
	b.seen("m1", fleet.Key{Kind: "job", ID: "batch"}, fleet.Key{Kind: "service", ID: "web"}, fleet.Key{Kind: "box", ID: "stuck"})

	b.ebb(0, says("prod/m1: cordoned", "prod/m3: cordoned"), "cordon", "m1", "m3", "--confirm", "2", "--reason", "new kernel")
	plan := b.ebb(0, says("let it expire", "start elsewhere, flip, stop", "a person decides",
		"may be killed, after notice, TERM and the full grace: "), "plan", "m1", "--deadline", "10m")
	if line := lineWith(plan, "service/web"); !strings.Contains(line, "m2") || strings.Contains(line, "m3") {
		t.Errorf("the plan moves the service to %q", line)
	}
	before := time.Now()
	run := b.begin("drain", "m1", "--deadline", "10m", "--for", "kernel", "--reason", "new kernel")
	b.moved("m1", pids[1])
	b.leaks("m1", orphan, loop)
	b.killed("m1", run, before, pids[2])
	b.want(run.Wait(b.ctx), 0, "m1 is empty")
	if b.Hosts["m1"].Runs(orphan) {
		t.Error("the orphan still runs")
	}
	b.notices(before)
	b.proveAndTerminate(t.TempDir())
}

// leak leaves a namespace, a loop device and a directory behind on a host.
func (b *bench) leak(host string) (loop string) {
	b.Helper()
	h := b.Hosts[host]
	b.must(h.LeakNetns(b.ctx, "ns-lost"))
	loop, err := h.LeakLoop(b.ctx, "disk.img")
	b.must(err)
	b.must(os.MkdirAll(h.Path("/var/lib/jobs/lost/data"), 0o755))
	b.must(h.Write("/var/lib/jobs/lost/data/file", "left behind\n"))
	return loop
}

// moved waits until the service has moved and the job has expired, and looks at
// hosts and database for the truth of it.
func (b *bench) moved(host string, old int) {
	b.Helper()
	st := b.board(2*time.Minute, host, "the service has moved", left(fleet.Key{Kind: "service", ID: "web"}, "lever"))
	if st.For != fleet.ForKernel {
		b.Errorf("purpose %q", st.For)
	}
	if b.Hosts[host].Runs(old) {
		b.Error("the old service still runs")
	}
	if at, err := b.Ask(b.ctx, `select agent_id || ' ' || status from sandboxes where id = 'web'`); err != nil || at != "m2 running" {
		b.Errorf("the service is claimed on %q, %v", at, err)
	}
	if !b.workRuns("m2", "service-web.pid") {
		b.Error("the service does not run on its new host")
	}
	b.board(2*time.Minute, host, "the job has expired", left(fleet.Key{Kind: "job", ID: "batch"}, "ttl"))
}

// left says that a workload has left in a way.
func left(k fleet.Key, by string) func(drain.State) bool {
	return func(st drain.State) bool {
		it := st.Items[k]
		return it.End == drain.LeftHost && it.EndBy == by
	}
}

// killed waits until the stuck one is gone, after everything that goes before.
func (b *bench) killed(host string, run *lab.Run, start time.Time, pid int) {
	b.Helper()
	b.board(4*time.Minute, host, "the stuck one is killed", func(st drain.State) bool {
		return !st.Items[fleet.Key{Kind: "box", ID: "stuck"}].Open()
	})
	if b.Hosts[host].Runs(pid) {
		b.Error("the stuck process still runs")
	}
	if took := time.Since(start); took < 95*time.Second {
		b.Errorf("killed after %s: that leaves no room for notice, grace and gap", took)
	}
	if out := run.Output(); !strings.Contains(out, "KILL") {
		b.Errorf("the drain does not say that it killed:\n%s", out)
	}
}

// workRuns reports whether the process that a pid file names runs on a host.
func (b *bench) workRuns(host, file string) bool {
	b.Helper()
	h := b.Hosts[host]
	text, err := os.ReadFile(h.Path(filepath.Join("/var/lib/workloads", file)))
	b.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	b.must(err)
	return h.Runs(pid)
}

// leaks finds what nobody claims, sees the gate refuse because of it, and
// removes it.
func (b *bench) leaks(host string, orphan int, loop string) {
	b.Helper()
	h := b.Hosts[host]
	b.ebb(0, says("netns/ns-lost", "loop/"+loop, "dir/", "unattributed"), "diff", host)
	b.ebb(3, says("locked", "ns-lost", loop, "lost", strconv.Itoa(orphan)), "verify", host, "--out", b.File("no.json"))
	if _, err := os.Stat(b.File("no.json")); !errors.Is(err, os.ErrNotExist) {
		b.Error("a shut gate wrote a proof")
	}
	b.ebb(0, says("remove it", "nothing was changed"), "clean", host)
	if lab.Backing(loop) == "" {
		b.Error("a dry run has cleaned")
	}
	b.ebb(0, says("gone", "will be escalated"), "clean", host, "--yes")
	if got := lab.Backing(loop); strings.Contains(got, h.LoopDir()) {
		b.Errorf("the loop device is still there: %s", got)
	}
	for _, file := range []string{"/run/netns/ns-lost", "/var/lib/jobs/lost"} {
		if _, err := os.Stat(h.Path(file)); !errors.Is(err, os.ErrNotExist) {
			b.Errorf("%s is still there: %v", file, err)
		}
	}
}

// notices looks at what the receiver was told.
func (b *bench) notices(start time.Time) {
	b.Helper()
	f, err := os.Open(b.File("notices"))
	b.must(err)
	defer f.Close()
	told := map[string]time.Time{}
	for dec := json.NewDecoder(f); dec.More(); {
		var n struct {
			Host, Kind, ID, Reason, By string
			TermAt                     time.Time `json:"term_at"`
		}
		b.must(dec.Decode(&n))
		if n.Host != "prod/m1" || n.Reason != "new kernel" || n.By != "ann" {
			b.Errorf("notice %+v", n)
		}
		told[n.Kind+"/"+n.ID] = n.TermAt
	}
	if at := told["box/stuck"]; at.Before(start.Add(time.Minute)) {
		b.Errorf("the owner of the stuck one was told of TERM at %s, less than a minute after %s", at, start)
	}
	if _, ok := told["service/web"]; ok {
		b.Error("a service that moved was announced to die")
	}
}

// proveAndTerminate has the host sign, sees a changed host refuse, and gives it
// away once.
func (b *bench) proveAndTerminate(dir string) {
	b.Helper()
	h := b.Hosts["m1"]
	file := filepath.Join(dir, "proof.json")
	b.ebb(0, says("open: "), "verify", "m1", "--out", file)
	b.signature(file)
	b.must(os.MkdirAll(h.Path("/var/lib/jobs/newcomer"), 0o755))
	b.ebb(3, says("newcomer"), "terminate", "m1", "--proof", file, "--confirm", "m1")
	if _, err := os.Stat(b.File("terminated")); !errors.Is(err, os.ErrNotExist) {
		b.Fatal("the terminator ran on a changed host")
	}
	b.must(os.Remove(h.Path("/var/lib/jobs/newcomer")))
	b.edited(file)
	b.ebb(2, says("--confirm m1"), "terminate", "m1", "--proof", file, "--confirm", "m2")
	b.ebb(0, says("open: "), "verify", "m1", "--out", file)
	b.ebb(0, says("terminated"), "terminate", "m1", "--proof", file, "--confirm", "m1")
	b.ebb(3, says("it was terminated at"), "terminate", "m1", "--proof", file, "--confirm", "m1")
	ran, err := os.ReadFile(b.File("terminated"))
	b.must(err)
	if string(ran) != "terminate i-m1\n" {
		b.Errorf("the terminator ran as %q", ran)
	}
	b.refuses("m1", "")
	b.ebb(3, nil, "uncordon", "m1")
	if got := b.flag("m1"); !strings.HasPrefix(got, "true") {
		b.Errorf("a terminated host is free in the database: %q", got)
	}
}

// signature has ssh-keygen check a proof.
func (b *bench) signature(file string) {
	b.Helper()
	signers := b.ebb(0, nil, "proof", "signers", "m1")
	allowed := filepath.Join(filepath.Dir(file), "signers")
	b.must(os.WriteFile(allowed, []byte(signers), 0o600))
	check := func() error {
		in, err := os.Open(file)
		b.must(err)
		defer in.Close()
		cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", allowed, "-I", "prod/m1", "-n", "ebb-proof", "-s", file+".sig")
		cmd.Stdin = in
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	b.must(check())
	b.ebb(0, says("prod/m1", "the signature fits"), "proof", "check", file)
	good, err := os.ReadFile(file)
	b.must(err)
	b.must(os.WriteFile(file, slices.Concat(good, []byte(" ")), 0o600))
	if check() == nil {
		b.Error("ssh-keygen accepts an edited proof")
	}
	b.must(os.WriteFile(file, good, 0o600))
}

// edited wants an edited proof to be refused.
func (b *bench) edited(file string) {
	b.Helper()
	text, err := os.ReadFile(file)
	b.must(err)
	sig, err := os.ReadFile(file + ".sig")
	b.must(err)
	other := file + ".edited"
	b.must(os.WriteFile(other, []byte(strings.Replace(string(text), "prod/m1", "prod/m2", 1)), 0o600))
	b.must(os.WriteFile(other+".sig", sig, 0o600))
	b.ebb(3, says("signature"), "terminate", "m1", "--proof", other, "--confirm", "m1")
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
