package main

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// worker is a real process of a scoped host: its arguments hold the token.
type worker struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func work(t *testing.T, script string, args ...string) *worker {
	t.Helper()
	w := &worker{cmd: exec.Command("sh", append([]string{"-c", script + "\nwhile :; do sleep 0.05; done", "worker"}, args...)...), done: make(chan struct{})}
	check(t, w.cmd.Start())
	go func() {
		_ = w.cmd.Wait()
		close(w.done)
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.done
	})
	return w
}

func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// A whole life on real parts: the real agent, the real probes, real processes
// and a real directory. What ignores TERM is killed after every gap, an orphan
// is ended on word, a leak is cleaned, and only then the host is proved empty.
func TestARealHostIsEmptied(t *testing.T) {
	bin, root, token := built(t), t.TempDir(), "ebb-test-"+rand.Text()
	check(t, makeHost(root))
	write(t, filepath.Join(root, "etc/ebb/ebbd.toml"), `
clean_gap = "2s"

[[workload]]
kind  = "vm"
exe   = "sh"
id    = { after = "--vm" }
owns  = { dir = "/var/lib/vms/{id}" }
grace = "40s"

[[dir]]
path = "/var/lib/vms"
kind = "vm"
`, 0o600)
	leak := filepath.Join(root, "var/lib/vms/gone")
	write(t, filepath.Join(leak, "disk"), "x", 0o600)
	check(t, exec.Command(bin, "init", "--root", root).Run())
	serve(t, bin, root, "--scope", token, "--speed", "200")
	vm := work(t, "trap '' TERM", token, "--vm", "7")
	orphan := work(t, "", token)
	bystander := work(t, "", "--vm", "8") // not of this host: it lacks the token

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	op := throughStdio(t, bin, root, "operate", wire.Operate)
	reply, err := op.Cordon(ctx, wire.CordonRequest{Who: "ann"})
	check(t, err)
	_, err = op.Drain(ctx, wire.DrainRequest{Who: "ann", Drain: "d1", Epoch: 1, Deadline: time.Now().Add(time.Hour)})
	check(t, err)
	f, err := op.Facts(ctx, true)
	check(t, err)
	if len(f.Workloads.Value) != 1 || f.Workloads.Value[0].Key != (fleet.Key{Kind: "vm", ID: "7"}) {
		t.Fatalf("workloads: %+v", f.Workloads)
	}
	act := func(r wire.ActRequest) wire.ActReply {
		t.Helper()
		r.Machine = reply.Machine
		out, err := op.Act(ctx, r)
		for err == nil && out.State == wire.ActBegun {
			out, err = op.Follow(ctx, r.ID, time.Minute)
		}
		check(t, err)
		return out
	}

	w := f.Workloads.Value[0]
	signal := func(id, sig string) wire.ActReply {
		return act(wire.ActRequest{ID: id, Drain: "d1", Epoch: 1, Kind: wire.ActSignal, Key: w.Key, Runs: w.Runs, Signal: sig, Recorded: "e1", Named: "plan"})
	}
	if out := signal("d1/vm/7/kill/0", "KILL"); out.OK || out.Reason.Code != wire.CodeTooEarly {
		t.Fatalf("%+v", out)
	}
	if out := signal("d1/vm/7/term/1", "TERM"); !out.OK {
		t.Fatalf("%+v", out)
	}
	grace := signal("d1/vm/7/kill/1", "KILL") // 40 s of grace and 30 s, at speed 200
	if until := time.Until(grace.NotYet); grace.OK || until <= 0 || until > 350*time.Millisecond {
		t.Fatalf("%+v", grace)
	}
	waitFor(t, func() bool { return time.Now().After(grace.NotYet) })
	if out := signal("d1/vm/7/term/2", "TERM"); !out.OK || vm.ended() {
		t.Fatalf("%+v", out)
	}
	waitFor(t, func() bool {
		out := signal("d1/vm/7/kill/"+rand.Text(), "KILL")
		return out.OK
	})
	<-vm.done

	var stray fleet.Process
	for _, p := range f.Processes.Value {
		if p.Run.PID == orphan.cmd.Process.Pid {
			stray = p
		}
	}
	if out := act(wire.ActRequest{ID: "orphan", Kind: wire.ActSignal, Key: stray.Key(), Runs: []fleet.Run{stray.Run}, Signal: "TERM"}); !out.OK {
		t.Fatalf("%+v", out)
	}
	<-orphan.done
	out := act(wire.ActRequest{ID: "outside", Drain: "d1", Epoch: 1, Kind: wire.ActSignal, Key: w.Key, Signal: "TERM",
		Runs: []fleet.Run{{Boot: boot, PID: bystander.cmd.Process.Pid, Start: startOf(t, bystander.cmd.Process.Pid)}}})
	if out.OK || out.Reason.Code != wire.CodeOtherRun || bystander.ended() {
		t.Fatalf("a process outside the scope: %+v", out)
	}

	proof := wire.ProofRequest{Drain: "d1", Epoch: 1, Machine: reply.Machine, Host: "demo/h1", Nonce: "n1", HostKey: fingerprint(t, op),
		Asserted: []byte(`{"claims":"0000000000000000000000000000000000000000000000000000000000000000"}`)}
	_, err = op.Proof(ctx, proof)
	if !client.HasCode(err, wire.CodeNotEmpty) {
		t.Fatalf("proved with a leak on the host: %v", err)
	}
	f, err = op.Facts(ctx, true)
	check(t, err)
	if len(f.Dirs.Value) != 1 {
		t.Fatalf("dirs: %+v", f.Dirs)
	}
	waitFor(t, func() bool {
		out := act(wire.ActRequest{ID: "clean/" + rand.Text(), Kind: wire.ActClean, Key: f.Dirs.Value[0].Key, Identity: f.Dirs.Value[0].Identity})
		if !out.OK && out.Reason.Code != wire.CodeTooEarly {
			t.Fatalf("%+v", out)
		}
		return out.OK
	})
	if _, err := os.Stat(leak); err == nil {
		t.Fatal("the leak is still there")
	}
	if _, err := op.Proof(ctx, proof); err != nil {
		t.Fatal(err)
	}
	if bystander.ended() {
		t.Fatal("a bystander was hit")
	}
}

func fingerprint(t *testing.T, c *client.Client) string {
	t.Helper()
	s, err := c.Signer(t.Context())
	check(t, err)
	return s.Keys[0].Fingerprint
}

// startOf finds a process's start time as the whole machine's probes see it.
func startOf(t *testing.T, pid int) uint64 {
	t.Helper()
	root := t.TempDir()
	check(t, makeHost(root))
	flags := hostFlags{root: root}
	h, err := flags.load()
	check(t, err)
	for _, p := range h.prober().Scan(t.Context(), time.Now()).Processes.Value {
		if p.Run.PID == pid {
			return p.Run.Start
		}
	}
	t.Fatalf("process %d is not seen", pid)
	return 0
}
