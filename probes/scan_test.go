package probes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
)

func TestIdentity(t *testing.T) {
	tr := newTree(t)
	machine, boot, at, err := tr.prober(Config{}).Identity()
	if err != nil || machine != "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a" || boot != bootID || !at.Equal(booted) {
		t.Errorf("got %s %s %v %v", machine, boot, at, err)
	}
	// A scoped agent has the real /proc, and its own machine and boots.
	p := New(Config{Root: Root{Dir: tr.dir, Proc: "/proc", Scope: "s"}})
	if _, boot, at, err := p.Identity(); err != nil || boot != bootID || !at.Equal(booted) {
		t.Errorf("scoped: got %s %v %v", boot, at, err)
	}
	for _, bad := range []string{"", "uninitialized\n", "two words\n", strings.Repeat("x", 200)} {
		tr.write("etc/machine-id", bad)
		if m, _, _, err := tr.prober(Config{}).Identity(); err == nil {
			t.Errorf("%q was taken for a machine id: %q", bad, m)
		}
	}
}

func TestProcessFields(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 40, ppid: 1, session: 39, comm: "a) b (", exe: "/opt/web", argv: []string{"/opt/web", "--password", "hunter2"}, cgroup: "/x", state: "D", start: 6000, netns: 7})
	s := tr.scan(Config{})
	got := byPID(t, s, 40)
	want := fleet.Process{Run: fleet.Run{Boot: bootID, PID: 40, Start: 6000}, PPID: 1, Session: 39, Comm: "a) b (", Exe: "/opt/web",
		State: "D", UID: 1001, Cgroup: "/x", Netns: 7, Started: got.Started}
	if got != want || !got.Started.Equal(booted.Add(time.Minute)) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	out, err := json.Marshal(s)
	if err != nil || strings.Contains(string(out), "hunter2") {
		t.Errorf("an argument left the package: %s %v", out, err)
	}
}

func TestProcessesOddities(t *testing.T) {
	tr := newTree(t)
	long := strings.Repeat("n", 4096)
	tr.process(fake{pid: 5, comm: "w\xffrk", exe: "/opt/" + strings.Repeat("d", 200) + "/w (deleted)", argv: []string{long, long}})
	tr.process(fake{pid: 6, comm: "gone", state: "Z"})
	os.Remove(tr.path("proc/6/cmdline"))
	os.MkdirAll(tr.path("proc/7"), 0o755) // ended between listing and reading
	s := tr.scan(Config{})
	if p := byPID(t, s, 5); p.Comm != `w\xffrk` || strings.HasSuffix(p.Exe, "(deleted)") {
		t.Errorf("comm %q, exe %q", p.Comm, p.Exe)
	}
	if p := byPID(t, s, 6); p.State != "Z" || p.System != "" {
		t.Errorf("zombie: %+v", p)
	}
	for _, p := range s.Processes.Value {
		if p.Run.PID == 7 {
			t.Error("a process without stat was told")
		}
	}
}

// Unknown is not empty: each of these leaves something that can't be known.
func TestProcessesFail(t *testing.T) {
	for name, tt := range map[string]struct {
		harm func(tree)
		says string
	}{
		"process 1 is hidden": {func(tr tree) { os.RemoveAll(tr.path("proc/1")) }, "process 1"},
		"no proc":             {func(tr tree) { os.RemoveAll(tr.path("proc")) }, "boot"},
		"stat is garbage":     {func(tr tree) { tr.write("proc/9/stat", "9 x S") }, "proc/9/stat"},
		"stat of another pid": {func(tr tree) { tr.process(fake{pid: 9, exe: "/x"}); tr.write("proc/9/stat", statLine) }, "names pid 17622"},
		"status is garbage":   {func(tr tree) { tr.process(fake{pid: 9, exe: "/x"}); tr.write("proc/9/status", "Name: x\n") }, "no uid"},
		"cmdline can't be read": {func(tr tree) {
			tr.process(fake{pid: 9, exe: "/x"})
			os.Remove(tr.path("proc/9/cmdline"))
			os.Mkdir(tr.path("proc/9/cmdline"), 0o755)
		}, "cmdline"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			tr.write("var/lib/vms/vm0/x", "")
			tt.harm(tr)
			s := tr.scan(Config{Dirs: []fleet.DirRule{{Path: "/var/lib/vms", Kind: "sandbox"}}})
			mustFail(t, s.Processes, tt.says)
			mustFail(t, s.Workloads, tt.says)
			mustFail(t, s.Netns, tt.says)
			need(t, s.Loops)
			resource(t, s.Dirs, "/var/lib/vms/vm0")
			if s.Processes.Value != nil || s.Workloads.Value != nil {
				t.Error("a failed reading has a value")
			}
		})
	}
}

// Details are read again only when a process is new or runs another program.
func TestDetailsAreCached(t *testing.T) {
	tr := newTree(t)
	cfg := Config{Workloads: []fleet.WorkloadRule{{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}}}}
	p := tr.prober(cfg)
	vm := fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}}
	tr.process(vm)
	scan := func() Scan { return p.Scan(context.Background(), now) }
	byKey(t, scan(), "sandbox", "vm0")

	vm.argv = []string{"fc", "--id", "vm1"} // the process overwrote its arguments
	tr.process(vm)
	byKey(t, scan(), "sandbox", "vm0")
	vm.arg = 140732157389999 // exec: same pid, same start, same name
	tr.process(vm)
	byKey(t, scan(), "sandbox", "vm1")
	vm.argv, vm.comm = []string{"fc", "--id", "vm2"}, "fc2"
	tr.process(vm)
	byKey(t, scan(), "sandbox", "vm2")
	vm.argv, vm.start = []string{"fc", "--id", "vm3"}, 51 // the pid was used again
	tr.process(vm)
	if w := byKey(t, scan(), "sandbox", "vm3"); w.Run.Start != 51 {
		t.Errorf("run %v", w.Run)
	}
	vm.argv = []string{"fc", "--id", "vm4"}
	tr.process(vm)
	p.Forget()
	byKey(t, scan(), "sandbox", "vm4")

	os.RemoveAll(tr.path("proc/50"))
	if got := need(t, scan().Workloads); len(got) != 0 {
		t.Errorf("still there: %v", got)
	}
	if len(p.last.cache) != 1 {
		t.Errorf("%d processes are remembered, want process 1 alone", len(p.last.cache))
	}
}

// A process that was started just now may still be moved to its cgroup.
func TestYoungProcessesAreReadAnew(t *testing.T) {
	tr := newTree(t)
	p := tr.prober(Config{})
	f := fake{pid: 50, exe: "/opt/x", start: 60 * 60 * 100} // at now
	tr.process(f)
	p.Scan(context.Background(), now)
	f.cgroup = "/system.slice/x.service"
	tr.process(f)
	if got := byPID(t, p.Scan(context.Background(), now.Add(time.Second)), 50); got.Cgroup != f.cgroup {
		t.Errorf("cgroup %q", got.Cgroup)
	}
	f.cgroup = "/late"
	tr.process(f)
	p.Scan(context.Background(), now.Add(young))
	f.cgroup = "/later"
	tr.process(f)
	if got := byPID(t, p.Scan(context.Background(), now.Add(young+time.Second)), 50); got.Cgroup != "/late" {
		t.Errorf("cgroup %q was read again", got.Cgroup)
	}
}

// A zombie is still told with what it was.
func TestZombieKeepsItsDetails(t *testing.T) {
	tr := newTree(t)
	p := tr.prober(Config{})
	tr.process(fake{pid: 50, exe: "/opt/x", cgroup: "/a"})
	p.Scan(context.Background(), now)
	os.RemoveAll(tr.path("proc/50"))
	tr.process(fake{pid: 50, comm: "x", state: "Z", arg: 1})
	if got := byPID(t, p.Scan(context.Background(), now), 50); got.Exe != "/opt/x" || got.State != "Z" {
		t.Errorf("got %+v", got)
	}
}

// The kernel calls a process a zombie whose first thread has ended; it lives as
// long as the others do, and still is the workload it was.
func TestFirstThreadGone(t *testing.T) {
	tr := newTree(t)
	p := tr.prober(Config{Workloads: sandboxes()})
	f := fake{pid: 50, exe: "/opt/fc", argv: []string{"fc", "--id", "vm0"}, threads: 3}
	tr.process(f)
	p.Scan(context.Background(), now)
	os.RemoveAll(tr.path("proc/50"))
	tr.process(fake{pid: 50, comm: "fc", state: "Z", threads: 2, arg: 1})
	s := p.Scan(context.Background(), now)
	if got := byPID(t, s, 50); got.State != "S" || got.Exe != "/opt/fc" {
		t.Errorf("got %+v", got)
	}
	if w := byKey(t, s, "sandbox", "vm0"); w.Run.PID != 50 {
		t.Errorf("got %+v", w)
	}
}

func TestQuick(t *testing.T) {
	tr := newTree(t)
	p := tr.prober(Config{})
	base := fake{pid: 50, ppid: 1, exe: "/opt/x"}
	other := fake{pid: 51, exe: "/opt/y"}
	quick := func() bool {
		t.Helper()
		changed, err := p.Quick(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if !quick() {
		t.Error("before the first scan nothing is known, so everything changed")
	}
	for name, change := range map[string]func(){
		"started":     func() { tr.process(fake{pid: 60, exe: "/opt/z"}) },
		"ended":       func() { os.RemoveAll(tr.path("proc/51")) },
		"reused":      func() { tr.process(fake{pid: 50, exe: "/opt/x", start: 99}) },
		"exec":        func() { f := base; f.arg = 7777; tr.process(f) },
		"re-parented": func() { f := base; f.ppid = 51; tr.process(f) },
		"zombie":      func() { f := base; f.state = "Z"; tr.process(f) },
	} {
		os.RemoveAll(tr.path("proc/60"))
		tr.process(base)
		tr.process(other)
		need(t, p.Scan(context.Background(), now).Processes)
		if quick() {
			t.Errorf("before %s: changed", name)
		}
		change()
		if !quick() {
			t.Errorf("%s: not noticed", name)
		}
	}
	os.RemoveAll(tr.path("proc"))
	if _, err := p.Quick(context.Background()); err == nil {
		t.Error("no /proc, and no error")
	}
}

func TestScope(t *testing.T) {
	tr := newTree(t)
	p := New(Config{Root: Root{Dir: tr.dir, Scope: "host-a"}})
	tr.process(fake{pid: 50, exe: "/opt/x", argv: []string{"x", "host-a"}})
	tr.process(fake{pid: 51, exe: "/opt/x", argv: []string{"x", "host-a-2", "--scope=host-a"}})
	tr.process(fake{pid: 52, exe: "/opt/x", argv: []string{"x", "host-b"}})
	s := p.Scan(context.Background(), now)
	if got := need(t, s.Processes); len(got) != 1 || got[0].Run.PID != 50 {
		t.Errorf("got %+v", got)
	}
	need(t, s.Netns)
	quick := func() bool {
		changed, err := p.Quick(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	tr.process(fake{pid: 53, exe: "/opt/x", argv: []string{"x", "host-b"}})
	os.RemoveAll(tr.path("proc/52"))
	if quick() {
		t.Error("another host's processes changed this one")
	}
	tr.process(fake{pid: 51, exe: "/opt/x", argv: []string{"x", "host-a"}, arg: 1234})
	if !quick() {
		t.Error("exec into the scope was not noticed")
	}
	tr.process(fake{pid: 51, exe: "/opt/x", argv: []string{"x"}, arg: 1235})
	os.RemoveAll(tr.path("proc/50"))
	if !quick() {
		t.Error("the end was not noticed")
	}
}

// One probe hangs, in a pipe that nobody writes to; the others answer, and the
// stuck one does not pile up.
func TestHungProbe(t *testing.T) {
	tr := newTree(t)
	p := tr.prober(Config{Timeout: 50 * time.Millisecond, Dirs: []fleet.DirRule{{Path: "/run", Kind: "x"}}})
	tr.process(fake{pid: 50, exe: "/opt/x"})
	stuck := tr.path("proc/50/cgroup")
	os.Remove(stuck)
	if err := unix.Mkfifo(stuck, 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.Scan(context.Background(), now)
	mustFail(t, s.Processes, "timed out")
	mustFail(t, s.Netns, "timed out")
	need(t, s.Loops)
	need(t, s.Dirs)
	begun := time.Now()
	s = p.Scan(context.Background(), now)
	mustFail(t, s.Processes, "still waiting")
	if took := time.Since(begun); took >= 50*time.Millisecond {
		t.Errorf("the second scan waited too: %v", took)
	}
	need(t, s.Loops)

	f, err := os.OpenFile(stuck, os.O_WRONLY, 0) // lets the reader go on
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	os.Remove(stuck)
	tr.write("proc/50/cgroup", "0::/back\n")
	deadline := time.Now().Add(10 * time.Second)
	for {
		s = p.Scan(context.Background(), now)
		if s.Processes.Status == fleet.OK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("never came back: %s", s.Processes.Error)
		}
	}
	if got := byPID(t, s, 50); got.Cgroup != "/back" {
		t.Errorf("cgroup %q", got.Cgroup)
	}
}

func TestScanIsCanceled(t *testing.T) {
	tr := newTree(t)
	stuck := tr.path("proc/1/cgroup")
	os.Remove(stuck)
	if err := unix.Mkfifo(stuck, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	mustFail(t, tr.prober(Config{}).Scan(ctx, now).Processes, "canceled")
	f, err := os.OpenFile(stuck, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestProvenance(t *testing.T) {
	tr := newTree(t)
	var f fleet.Facts
	tr.scan(Config{}).Into(&f)
	for _, p := range f.Probes() {
		if p.Source == "" || !p.At.Equal(now) || p.Status == fleet.Unknown {
			t.Errorf("%+v", p)
		}
	}
}

// BenchmarkScan is a look at 2,000 processes after the first.
func BenchmarkScan(b *testing.B) {
	tr := newTree(b)
	for pid := 2; pid <= 2000; pid++ {
		f := fake{pid: pid, exe: "/opt/fc", argv: []string{"/opt/fc", "--id", fmt.Sprintf("vm%d", pid)}}
		if pid%4 != 0 {
			f.ppid, f.argv = pid-pid%4, []string{"worker"}
		}
		tr.process(f)
	}
	cfg := Config{Presets: []string{PresetSystemd}, Workloads: []fleet.WorkloadRule{{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}, Owns: map[string]string{"netns": "ns-{id}"}}}}
	p := tr.prober(cfg)
	if got := need(b, p.Scan(context.Background(), now).Workloads); len(got) != 500 {
		b.Fatalf("%d workloads", len(got))
	}
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			p.Scan(context.Background(), now)
		}
	})
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			p.Forget()
			p.Scan(context.Background(), now)
		}
	})
	b.Run("quick", func(b *testing.B) {
		for b.Loop() {
			p.Quick(context.Background())
		}
	})
}
