//go:build linux

package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

var quitter = lab.Work{Kind: "box", ID: "quitter", Owner: "ci"}

// drains starts a drain of a host with one workload, and returns when its owner
// has been told: a minute then passes before TERM.
func (b *bench) drains(host string) (*lab.Run, int) {
	b.Helper()
	pid := b.run(host, quitter)[0]
	b.seen(host, fleet.Key{Kind: "box", ID: "quitter"})
	run := b.begin("drain", host, "--deadline", "20m", "--reason", "new kernel")
	b.board(limit, host, "the owner is told", func(st drain.State) bool {
		return !st.Items[fleet.Key{Kind: "box", ID: "quitter"}].NoticeAt.IsZero()
	})
	return run, pid
}

// empties waits for the end of a drain that began with drains.
func (b *bench) empties(host string, run *lab.Run, pid int) {
	b.Helper()
	b.want(run.Wait(b.ctx), 0, host+" is empty")
	if b.Hosts[host].Runs(pid) {
		b.Errorf("%s: the workload still runs", host)
	}
	b.refuses(host, "new kernel")
}

// An agent that is killed in mid-drain comes up holding, and the drain ends.
func TestAgentKilledInMidDrain(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "a1")
	run, pid := b.drains("a1")
	h := b.Hosts["a1"]
	b.must(h.KillAgent(b.ctx))
	b.refuses("a1", "new kernel")
	b.board(limit, "a1", "the host can't be read", func(st drain.State) bool { return st.Waiting.Code == drain.WaitUnreachable })
	b.must(h.StartAgent(b.ctx))
	b.refuses("a1", "new kernel")
	b.empties("a1", run, pid)
}

// A cut link is shown as what it is, and nothing is concluded from it.
func TestLinkCutInMidDrain(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "k1")
	run, pid := b.drains("k1")
	h := b.Hosts["k1"]
	b.must(h.Cut())
	b.board(limit, "k1", "the host can't be read", func(st drain.State) bool { return st.Waiting.Code == drain.WaitUnreachable })
	b.ebb(0, says("unreachable"), "hosts")
	b.ebb(1, says("can't be read"), "diff", "k1")
	if !h.Runs(pid) {
		t.Error("the workload has ended on a host that nobody reached")
	}
	b.must(h.Mend())
	b.empties("k1", run, pid)
}

// A frozen sshd is noticed, by every command in time.
func TestFrozenInMidDrain(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "f1")
	run, pid := b.drains("f1")
	h := b.Hosts["f1"]
	b.must(h.Freeze())
	b.board(limit, "f1", "the host can't be read", func(st drain.State) bool { return st.Waiting.Code == drain.WaitUnreachable })
	b.ebb(0, says("unreachable"), "hosts")
	b.must(h.Thaw())
	b.empties("f1", run, pid)
}

// One drain has one driver, whoever else tries; what one left, another takes up.
func TestDrivers(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "e1")
	run, pid := b.drains("e1")
	b.ebb(3, says("ebb board e1"), "drain", "e1", "--deadline", "5m")
	b.otherJournal("e1")

	b.must(run.Signal(os.Interrupt))
	b.want(run.Wait(b.ctx), 5, "released", "ebb drain e1")
	b.refuses("e1", "new kernel")
	second := b.begin("drain", "e1")
	b.until("the drain is taken up", func() error { return wants(second.Output(), "taking it up") })
	b.board(limit, "e1", "it is driven", func(st drain.State) bool { return st.Driver != "" && st.Epoch == 2 })

	b.must(second.Signal(syscall.SIGKILL))
	<-second.Ended()
	var third *lab.Run
	b.until("the lease of the killed one runs out", func() error {
		third = b.begin("drain", "e1")
		return b.driving("e1", third, 3)
	})
	b.frozenDriver(third, pid)
}

// otherJournal wants a drain from another journal to be refused by the host.
func (b *bench) otherJournal(host string) {
	b.Helper()
	text, err := os.ReadFile(b.File("fleet.toml"))
	b.must(err)
	other := b.File("other.toml")
	b.must(os.WriteFile(other, []byte(strings.Replace(string(text), b.Journal, "sqlite:"+b.File("other.db"), 1)), 0o600))
	r, err := b.BeginAs("bob", other, "drain", host, "--deadline", "5m")
	b.must(err)
	b.want(r.Wait(b.ctx), 3, "ann")
	r, err = b.BeginAs("bob", other, "undrain", host)
	b.must(err)
	b.want(r.Wait(b.ctx), 3, "--theirs")
}

// driving waits until a run of ebb drives with an epoch, or has ended.
func (b *bench) driving(host string, r *lab.Run, epoch uint64) error {
	b.Helper()
	for {
		select {
		case <-r.Ended():
			return fmt.Errorf("it has ended: %s", r.Output())
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		var st drain.State
		if err := b.JSON(b.ctx, &st, "board", host); err == nil && st.Epoch >= epoch && st.Driver != "" {
			return nil
		}
	}
}

// frozenDriver stops a driver for longer than its lease lasts: another one takes
// the drain over, and the first, awake again, does nothing more.
func (b *bench) frozenDriver(old *lab.Run, pid int) {
	b.Helper()
	var st drain.State
	b.must(b.JSON(b.ctx, &st, "board", "e1"))
	epoch := st.Epoch
	b.must(old.Signal(syscall.SIGSTOP))
	var next *lab.Run
	b.until("the lease of the frozen one runs out", func() error {
		next = b.begin("drain", "e1")
		return b.driving("e1", next, epoch+1)
	})
	b.must(old.Signal(syscall.SIGCONT))
	if r := old.Wait(b.ctx); r.Code == 0 || !strings.Contains(r.Out+r.Err, "lease") {
		b.Errorf("the old driver went on:\n%s", r)
	}
	b.empties("e1", next, pid)
	b.must(b.JSON(b.ctx, &st, "board", "e1"))
	if st.Epoch != epoch+1 {
		b.Errorf("epoch %d, want %d", st.Epoch, epoch+1)
	}
}

func wants(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("no %q in:\n%s", part, text)
	}
	return nil
}

// Stopped and undone: the host stays held until each hold is lifted.
func TestStopAndUndo(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "u1")
	run, pid := b.drains("u1")
	b.ebb(0, says("asked"), "ask", "u1", "stop")
	b.want(run.Wait(b.ctx), 5, "stopped with 1 left", "ebb undrain u1")
	b.refuses("u1", "new kernel")
	b.ebb(0, says("still cordoned"), "undrain", "u1")
	b.refuses("u1", "")
	b.ebb(0, says("serving"), "uncordon", "u1")
	if code, out := b.admit("u1"); code != 0 {
		t.Errorf("a serving host refuses: %s", out)
	}
	if got := b.flag("u1"); got != "false" {
		t.Errorf("in the database: %q", got)
	}
	if !b.Hosts["u1"].Runs(pid) {
		t.Error("a stopped drain has ended the workload")
	}
}

// A deadline ends with names, and is not a success.
func TestDeadline(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "y1")
	pid := b.run("y1", lab.Work{Kind: "vm", ID: "kept-alive", Class: "pausable", Owner: "lab"})[0]
	b.seen("y1", fleet.Key{Kind: "vm", ID: "kept-alive"})
	b.ebb(4, says("deadline reached with 1 left", "vm/kept-alive", "lab"), "drain", "y1", "--deadline", "20s")
	if !b.Hosts["y1"].Runs(pid) {
		t.Error("the deadline has ended a pausable workload")
	}
	b.refuses("y1", "")
	b.ebb(3, says("vm/kept-alive"), "verify", "y1", "--out", filepath.Join(t.TempDir(), "proof.json"))
}
