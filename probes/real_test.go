package probes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
)

// realRoot is a host of its own in the machine's /proc: only processes with the
// token are its.
func realRoot(t *testing.T) (tree, Root) {
	tr := tree{t, t.TempDir()}
	tr.write("etc/machine-id", "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a\n")
	tr.write("proc/sys/kernel/random/boot_id", bootID+"\n")
	tr.write("run/.keep", "")
	return tr, Root{Dir: tr.dir, Proc: "/proc", Scope: fmt.Sprintf("scope-%d-%s", os.Getpid(), t.Name())}
}

// oddCopy makes the test binary an executable under another name.
func oddCopy(t *testing.T, name string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Link(self, path); err == nil {
		return path
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRealProcesses(t *testing.T) {
	tr, root := realRoot(t)
	names := []string{"plain", "a b", "x) S 1 (y", "two\nlines", "b\xffd"}
	started := make(map[string]*exec.Cmd)
	for _, name := range names {
		id := "id of " + name + strings.Repeat("n", 4096)
		started[name] = idle(t, []string{"w", root.Scope, "--id", id}, func(c *exec.Cmd) { c.Path = oddCopy(t, name) })
	}
	prefixed := idle(t, []string{"w", root.Scope, "--id", "vm0-ns-00"}, nil)
	longer := idle(t, []string{"w", root.Scope, "--id=vm0-ns-00-extra"}, nil)
	stranger := idle(t, []string{"w", root.Scope + "-other"}, nil)
	p := New(Config{Root: root, Workloads: []fleet.WorkloadRule{{Kind: "w", Exe: "w", ID: fleet.IDRule{After: "--id"}}}})
	s := p.Scan(context.Background(), time.Now())
	for name, cmd := range started {
		got := byPID(t, s, cmd.Process.Pid)
		if got.Comm != textOf(name) || got.UID != uint32(os.Geteuid()) || got.PPID != os.Getpid() || got.Netns == 0 || filepath.Base(got.Exe) != textOf(name) {
			t.Errorf("%q: %+v", name, got)
		}
		if since := time.Since(got.Started); since < -2*time.Second || since > time.Minute {
			t.Errorf("%q started %v ago", name, since)
		}
		if w := byKey(t, s, "w", textOf("id of "+name+strings.Repeat("n", 4096))); w.Run != got.Run {
			t.Errorf("%q: main %v", name, w.Run)
		}
	}
	for id, cmd := range map[string]*exec.Cmd{"vm0-ns-00": prefixed, "vm0-ns-00-extra": longer} {
		if w := byKey(t, s, "w", id); !slices.Equal(pids(w.Runs), []int{cmd.Process.Pid}) {
			t.Errorf("%s: %v", id, w.Runs)
		}
	}
	for _, pr := range s.Processes.Value {
		if pr.Run.PID == stranger.Process.Pid {
			t.Error("another host's process is told as ours")
		}
	}
	_ = tr
}

func TestRealTiers(t *testing.T) {
	_, root := realRoot(t)
	p := New(Config{Root: root})
	first := idle(t, []string{"w", root.Scope}, nil)
	byPID(t, p.Scan(context.Background(), time.Now()), first.Process.Pid)
	quick := func() bool {
		t.Helper()
		changed, err := p.Quick(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	if quick() {
		t.Error("nothing happened, and it changed")
	}
	second := idle(t, []string{"w", root.Scope}, nil)
	if !quick() {
		t.Error("a new process was not noticed")
	}
	p.Scan(context.Background(), time.Now())
	// Killed and not yet waited for: a zombie that is still told.
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It ends in steps, and each of them may be noticed.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if time.Now().After(deadline) {
			t.Fatal("the end was not noticed")
		}
		if !quick() {
			continue
		}
		got := byPID(t, p.Scan(context.Background(), time.Now()), second.Process.Pid)
		if got.Exe == "" {
			t.Fatalf("got %+v", got)
		}
		if got.State == "Z" {
			break
		}
	}
	second.Wait()
	if !quick() {
		t.Error("the zombie's end was not noticed")
	}
}

// A real pid file that outlived its process, and whose pid somebody has now.
func TestRealPidFile(t *testing.T) {
	tr, root := realRoot(t)
	cmd := idle(t, []string{"w", root.Scope}, nil)
	tr.write("run/jobs/a.toml", "id = \"a\"\nkind = \"w\"\npidfile = \"/run/a.pid\"\n")
	tr.write("run/a.pid", fmt.Sprintf("%d\n", cmd.Process.Pid))
	p := New(Config{Root: root, Presets: []string{PresetManifest}, ManifestDirs: []string{"/run/jobs"}})
	if w := byKey(t, p.Scan(context.Background(), time.Now()), "w", "a"); w.Run.PID != cmd.Process.Pid || w.Phase != fleet.Running {
		t.Errorf("got %+v", w)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(tr.path("run/a.pid"), old, old); err != nil {
		t.Fatal(err)
	}
	s := p.Scan(context.Background(), time.Now())
	if w := byKey(t, s, "w", "a"); w.Phase != fleet.Gone || !w.Run.IsZero() {
		t.Errorf("got %+v", w)
	}
	if pr := byPID(t, s, cmd.Process.Pid); !pr.Owner.IsZero() {
		t.Errorf("the process that has the pid now belongs to %v", pr.Owner)
	}
}

// inner runs the same test once more in namespaces of its own, so that its
// mounts vanish with it, and reports whether this is that inner run.
func inner(t *testing.T, flags uintptr) bool {
	const mark = "EBB_PROBES_INNER"
	if os.Getenv(mark) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for namespaces")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("inside: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("inside, the test did not run:\n%s", out)
	}
	return false
}

func TestRealNetns(t *testing.T) {
	if !inner(t, unix.CLONE_NEWNS|unix.CLONE_NEWPID) {
		return
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	newNet := func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET} }
	vm0 := idle(t, []string{"fc", "--id", "vm0"}, newNet)
	stray := idle(t, []string{"stray"}, newNet)
	name := func(name string, pid int) {
		t.Helper()
		if err := os.MkdirAll("/run/netns", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/run/netns/"+name, nil, 0o444); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/net", pid), "/run/netns/"+name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	name("ns-vm0", vm0.Process.Pid)
	name("host", os.Getpid())
	dead := idle(t, []string{"fc"}, newNet)
	name("ns-vm1", dead.Process.Pid)
	dead.Process.Kill()
	dead.Wait()
	os.WriteFile("/run/netns/ns-vm2", nil, 0o444)

	rule := fleet.WorkloadRule{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}, Owns: map[string]string{"netns": "ns-{id}"}}
	s := New(Config{Workloads: []fleet.WorkloadRule{rule}}).Scan(context.Background(), time.Now())
	r := resource(t, s.Netns, "ns-vm0")
	if r.Owner.ID != "vm0" || !slices.Equal(pids(r.Users), []int{vm0.Process.Pid}) || !strings.HasPrefix(r.Identity, "net:[") {
		t.Errorf("%+v", r)
	}
	if r := resource(t, s.Netns, "ns-vm1"); r.Owner.ID != "vm1" || len(r.Users) != 0 || r.Detail != "" {
		t.Errorf("%+v", r)
	}
	if r := resource(t, s.Netns, "ns-vm2"); !strings.HasPrefix(r.Detail, "placeholder") {
		t.Errorf("%+v", r)
	}
	if r := resource(t, s.Netns, "host"); r.System == "" {
		t.Errorf("%+v", r)
	}
	ns, err := namespace(fmt.Sprintf("/proc/%d/ns/net", stray.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if r := resource(t, s.Netns, netnsID(ns)); !r.Owner.IsZero() || !slices.Equal(pids(r.Users), []int{stray.Process.Pid}) {
		t.Errorf("%+v", r)
	}
	if got := need(t, s.Netns); len(got) != 5 {
		t.Errorf("%d namespaces: %+v", len(got), got)
	}
}

func TestRealLoop(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for loop devices")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("this kernel has no loop devices: ", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "disk.img")
	attach := func() string {
		if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
		if err != nil {
			t.Fatalf("losetup: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	dev := attach()
	defer func() { exec.Command("losetup", "-d", dev).Run() }()
	rule := fleet.WorkloadRule{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}, Owns: map[string]string{"loop": dir + "/{id}.img"}}
	p := New(Config{LoopPrefix: []string{dir + "/"}, Workloads: []fleet.WorkloadRule{rule}})
	look := func() fleet.Resource {
		return resource(t, p.Scan(context.Background(), time.Now()).Loops, filepath.Base(dev))
	}
	before := look()
	if before.Owner.ID != "disk" || before.Deleted || before.Detail != file {
		t.Errorf("%+v", before)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	after := look()
	if !after.Deleted || after.Owner != before.Owner || after.Identity != before.Identity {
		t.Errorf("%+v\nwas %+v", after, before)
	}
	if out, err := exec.Command("losetup", "-d", dev).CombinedOutput(); err != nil {
		t.Fatalf("losetup -d: %v: %s", err, out)
	}
	if got := need(t, p.Scan(context.Background(), time.Now()).Loops); len(got) != 0 {
		t.Errorf("still there: %+v", got)
	}
	dev = attach()
	if again := look(); again.Identity == before.Identity {
		t.Errorf("attached anew, the device has the same identity %s", again.Identity)
	}
}
