package probes

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"ebb/fleet"
)

func TestEndsAreToldAtOnce(t *testing.T) {
	_, root := realRoot(t)
	one, two := idle(t, []string{"w", root.Scope}, nil), idle(t, []string{"w", root.Scope}, nil)
	p := New(Config{Root: root})
	s := p.Scan(context.Background(), time.Now())
	runs := []fleet.Run{byPID(t, s, one.Process.Pid).Run, byPID(t, s, two.Process.Pid).Run}
	e, err := p.Ends()
	if err != nil {
		t.Fatal(err)
	}
	if e.Watch(runs) {
		t.Error("both run, and one is said to have ended")
	}
	told := make(chan error, 1)
	wait := func() {
		go func() { told <- e.Wait() }()
	}
	wait()
	select {
	case err := <-told:
		t.Fatalf("told without an end: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	one.Process.Kill()
	if err := recv(t, told); err != nil {
		t.Fatal(err)
	}
	// It is a zombie now, is not told again, and no longer watched once it is gone.
	if e.Watch(runs) || len(e.fds) != 1 {
		t.Errorf("watches %v, told %v", e.fds, e.gone)
	}
	if e.Watch(runs[1:]) || len(e.gone) != 0 {
		t.Errorf("still remembered: %v", e.gone)
	}
	two.Process.Kill()
	two.Wait()
	wait()
	if err := recv(t, told); err != nil {
		t.Fatal(err)
	}
	// What has ended before it could be watched is told by Watch, once.
	e.Watch(nil)
	if !e.Watch(runs[1:]) || e.Watch(runs[1:]) {
		t.Error("an end before the watch is to be told once")
	}
	wait()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := recv(t, told); err == nil {
		t.Fatalf("after close: %v", err)
	}
	if e.Watch(runs) || len(e.fds) != 0 {
		t.Error("watches after it was closed")
	}
}

func recv(t *testing.T, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("not told")
		return nil
	}
}

// A look reads processes anew and tells of the rest what the scan told, with
// the time of the scan.
func TestALookIsForProcessesOnly(t *testing.T) {
	tr := newTree(t)
	tr.process(fake{pid: 10, exe: "/opt/fc", argv: []string{"/opt/fc", "--id", "a"}})
	tr.process(fake{pid: 11, exe: "/opt/fc", argv: []string{"/opt/fc", "--id", "b"}})
	tr.write("run/netns/ns-a", "")
	p := tr.prober(Config{Workloads: []fleet.WorkloadRule{{Kind: "sandbox", Exe: "fc", ID: fleet.IDRule{After: "--id"}}}})
	first := p.Look(context.Background(), now) // nothing was read before: it is a scan
	if len(need(t, first.Netns)) != 1 || len(need(t, first.Workloads)) != 2 {
		t.Fatalf("%+v", first)
	}
	os.RemoveAll(tr.path("proc/11"))
	tr.write("run/netns/ns-b", "")
	later := now.Add(time.Second)
	s := p.Look(context.Background(), later)
	if w := need(t, s.Workloads); len(w) != 1 || w[0].Key.ID != "a" {
		t.Errorf("%+v", w)
	}
	if len(need(t, s.Netns)) != 1 || !s.Netns.At.Equal(now) || !s.Workloads.At.Equal(now) || !s.Processes.At.Equal(later) || s.GPUs.Status != first.GPUs.Status {
		t.Errorf("%+v", s)
	}
	if changed, err := p.Quick(context.Background()); changed || err != nil {
		t.Errorf("after a look: %v %v", changed, err)
	}
	if len(need(t, p.Scan(context.Background(), later).Netns)) != 2 {
		t.Error("a scan reads everything")
	}
}

// Of what is held a look asks nothing, save where its parent has ended: it has
// another one then.
func TestALookAsksThoseWhoseParentHasEnded(t *testing.T) {
	_, root := realRoot(t)
	parent := exec.Command("/bin/sh", "-c", "sh -c 'read x' w "+root.Scope+" <&3 & wait", "w", root.Scope)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // which ends the child
	parent.ExtraFiles = []*os.File{r}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer parent.Process.Kill()
	p := New(Config{Root: root})
	later := time.Now().Add(2 * young) // by when both count as settled
	var s Scan
	for deadline := time.Now().Add(10 * time.Second); len(s.Processes.Value) != 2; s = p.Scan(context.Background(), later) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s.Processes)
		}
	}
	s = p.Scan(context.Background(), later) // no longer in the middle of an exec
	e, err := p.Ends()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var child fleet.Run
	for _, proc := range s.Processes.Value {
		if proc.PPID == parent.Process.Pid {
			child = proc.Run
		}
	}
	e.Watch([]fleet.Run{byPID(t, s, parent.Process.Pid).Run, child})
	if sure := p.surely(p.last); !sure(p.last.cache[child.PID]) {
		t.Fatal("what is held is asked after all: this shows nothing")
	}
	if changed, err := p.Quick(context.Background()); changed || err != nil {
		t.Fatalf("nothing happened: %v %v", changed, err)
	}
	parent.Process.Kill()
	parent.Wait()
	if err := e.Wait(); err != nil {
		t.Fatal(err)
	}
	s = p.Look(context.Background(), later)
	if got := byPID(t, s, child.PID); got.Run != child || got.PPID == parent.Process.Pid || len(s.Processes.Value) != 1 {
		t.Errorf("%+v", s.Processes)
	}
}

// A watch that is closed in the moment in which a process ends, ends too.
func TestEndsClosedAsOneEnds(t *testing.T) {
	for i := range 300 {
		e, err := newEnds()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		e.Watch([]fleet.Run{{PID: cmd.Process.Pid}})
		waited := make(chan struct{})
		go func() {
			for e.Wait() == nil {
			}
			close(waited)
		}()
		go func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		closed := make(chan struct{})
		go func() {
			time.Sleep(time.Duration(i%100) * 20 * time.Microsecond) // some of them meet the end; none is waited for by it
			_ = e.Close()
			close(closed)
		}()
		for _, ended := range []chan struct{}{closed, waited} {
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("it hangs")
			}
		}
	}
}
