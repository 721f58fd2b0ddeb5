package probes

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ebb/fleet"
)

// idleEnv makes the test binary a process that only waits, under whatever name
// and arguments a test gives it, until its standard input ends.
const idleEnv = "EBB_PROBES_IDLE"

func TestMain(m *testing.M) {
	if os.Getenv(idleEnv) != "" {
		os.Stdout.Write([]byte("."))
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// idle starts a real process with the given arguments; prepare may change the
// command. It ends with the test.
func idle(t *testing.T, argv []string, prepare func(*exec.Cmd)) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: argv, Env: append(os.Environ(), idleEnv+"=1", "GORACE=atexit_sleep_ms=0")}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); cmd.Wait() })
	// The race detector may execute the program once more: wait until it is there.
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// now is the wall clock of fixtures; booted is an hour before.
var (
	now    = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	booted = now.Add(-time.Hour)
)

const bootID = "6f3c1a52-7b0e-4c0a-9f0b-2a1d3c4e5f60"

// tree is a host made of files.
type tree struct {
	testing.TB
	dir string
}

// newTree makes a host with process 1 and nothing else.
func newTree(t testing.TB) tree {
	tr := tree{t, t.TempDir()}
	tr.write("etc/machine-id", "5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a\n")
	tr.write("proc/sys/kernel/random/boot_id", bootID+"\n")
	tr.write("proc/stat", fmt.Sprintf("cpu  1 2 3\nbtime %d\nprocesses 9\n", booted.Unix()))
	tr.write("proc/1/mountinfo", "22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n")
	tr.write("run/.keep", "")
	tr.write("sys/block/.keep", "")
	tr.process(fake{pid: 1, comm: "systemd", exe: "/usr/lib/systemd/systemd", cgroup: "/init.scope", start: 1})
	return tr
}

func (tr tree) path(name string) string { return filepath.Join(tr.dir, name) }

func (tr tree) write(name, content string) {
	tr.Helper()
	if err := os.MkdirAll(filepath.Dir(tr.path(name)), 0o755); err != nil {
		tr.Fatal(err)
	}
	if err := os.WriteFile(tr.path(name), []byte(content), 0o644); err != nil {
		tr.Fatal(err)
	}
}

func (tr tree) link(name, target string) {
	tr.Helper()
	os.Remove(tr.path(name))
	if err := os.MkdirAll(filepath.Dir(tr.path(name)), 0o755); err != nil {
		tr.Fatal(err)
	}
	if err := os.Symlink(target, tr.path(name)); err != nil {
		tr.Fatal(err)
	}
}

// hostNet is the network namespace of fixtures that name none.
const hostNet = 4026531840

// fake is a process of a tree. Zero values are those of an ordinary daemon.
type fake struct {
	pid, ppid, session int
	comm, exe, cgroup  string
	argv               []string
	state              string
	threads            int
	flags, start       uint64
	arg                uint64
	netns, pidns       uint64
	environ            []string
}

// process writes the kernel files of a process.
func (tr tree) process(f fake) {
	tr.Helper()
	if f.ppid == 0 && f.pid != 1 {
		f.ppid = 1
	}
	if f.session == 0 {
		f.session = f.pid
	}
	if f.comm == "" {
		f.comm = filepath.Base(f.exe)
	}
	if f.state == "" {
		f.state = "S"
	}
	if f.threads == 0 {
		f.threads = 1
	}
	if f.start == 0 {
		f.start = uint64(f.pid)
	}
	if f.netns == 0 {
		f.netns = hostNet
	}
	if f.arg == 0 {
		f.arg = 140732157381305
	}
	if f.argv == nil && f.exe != "" {
		f.argv = []string{f.exe}
	}
	dir := fmt.Sprintf("proc/%d/", f.pid)
	tr.write(dir+"stat", fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 %d 97 0 0 0 0 0 0 0 20 0 %d 0 %d 3133440 359 18446744073709551615 94338773401600 94338773421481 %d 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 94338773437488 94338773439104 94339833438208 %d 140732157381325 140732157381325 140732157382635 0\n",
		f.pid, f.comm, f.state, f.ppid, f.session, f.session, f.flags, f.threads, f.start, f.arg-4025, f.arg))
	tr.write(dir+"status", "Name:\tx\nUid:\t1000\t1001\t1000\t1000\nGid:\t0\t0\t0\t0\n")
	cmdline := ""
	for _, a := range f.argv {
		cmdline += a + "\x00"
	}
	tr.write(dir+"cmdline", cmdline)
	tr.write(dir+"environ", strings.Join(append(f.environ, ""), "\x00"))
	if f.cgroup == "" {
		f.cgroup = "/"
	}
	tr.write(dir+"cgroup", "0::"+f.cgroup+"\n")
	if f.exe != "" {
		tr.link(dir+"exe", f.exe)
	}
	tr.link(dir+"ns/net", fmt.Sprintf("net:[%d]", f.netns))
	tr.link(dir+"ns/pid", fmt.Sprintf("pid:[%d]", f.pidns+4026531836))
}

func (tr tree) prober(cfg Config) *Prober {
	cfg.Dir = tr.dir
	return New(cfg)
}

func (tr tree) scan(cfg Config) Scan {
	return tr.prober(cfg).Scan(context.Background(), now)
}

// need fails the test unless a reading is good.
func need[T any](t testing.TB, r fleet.Reading[T]) T {
	t.Helper()
	v, ok := r.Get()
	if !ok {
		t.Fatalf("reading of %s is %q: %s", r.Source, r.Status, r.Error)
	}
	return v
}

// failed fails the test unless a reading failed and said each of the words.
func mustFail[T any](t testing.TB, r fleet.Reading[T], words ...string) {
	t.Helper()
	if r.Status != fleet.Failed {
		t.Fatalf("reading of %s is %q, want failed", r.Source, r.Status)
	}
	for _, w := range words {
		if !strings.Contains(r.Error, w) {
			t.Errorf("error %q does not name %q", r.Error, w)
		}
	}
}

func byPID(t testing.TB, s Scan, pid int) fleet.Process {
	t.Helper()
	for _, p := range need(t, s.Processes) {
		if p.Run.PID == pid {
			return p
		}
	}
	t.Fatalf("process %d is not there", pid)
	return fleet.Process{}
}

func byKey(t testing.TB, s Scan, kind, id string) fleet.Workload {
	t.Helper()
	for _, w := range need(t, s.Workloads) {
		if w.Key == (fleet.Key{Kind: kind, ID: id}) {
			return w
		}
	}
	t.Fatalf("workload %s/%s is not among %v", kind, id, keys(s))
	return fleet.Workload{}
}

func keys(s Scan) (list []string) {
	for _, w := range s.Workloads.Value {
		list = append(list, w.Key.String())
	}
	return list
}

func resource(t testing.TB, r fleet.Reading[[]fleet.Resource], id string) fleet.Resource {
	t.Helper()
	for _, res := range need(t, r) {
		if res.Key.ID == id {
			return res
		}
	}
	t.Fatalf("resource %s is not among %v", id, r.Value)
	return fleet.Resource{}
}

func pids(runs []fleet.Run) (list []int) {
	for _, r := range runs {
		list = append(list, r.PID)
	}
	return list
}
