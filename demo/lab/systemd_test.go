//go:build linux

package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ebb/demo/lab"
	"ebb/fleet"
)

// A host that boots systemd, from the installing of its agent to its end: the
// agent is replaced under its workloads, holds outlive a reboot, and the host is
// proved empty and powered off.
func TestSystemd(t *testing.T) {
	t.Parallel()
	b := setUpWith(t, nil, lab.Options{Hosts: []string{"sy2"}, Systemd: []string{"sy1"}})
	b.countMoves()
	h := b.Hosts["sy1"]
	b.ebb(1, says("ebbd is not installed", "hint: ebb agent install sy1"), "diff", "sy1")
	b.installs("sy1")
	b.ebb(0, says("serving"), "uncordon", "sy1") // a new agent admits nothing
	if code, out := b.admit("sy1"); code != 0 {
		t.Fatalf("a serving host refuses: %s", out)
	} else {
		b.settle("sy1", ticketOf(t, out))
	}

	// What is started here by an act has a scope of its own.
	b.run("sy2", page)
	b.seen("sy2", fleet.Key{Kind: page.Kind, ID: page.ID})
	b.ebb(0, says("sy2 is empty"), append([]string{"drain", "sy2"}, kernel...)...)
	b.serves("sy1", page)
	moved := b.pid("sy1", page)
	if groups := b.read("sy1", fmt.Sprintf("/proc/%d/cgroup", moved)); !strings.Contains(groups, "/ebb-act-") || strings.Contains(groups, "ebbd.service") {
		t.Errorf("the replacement is in the control groups\n%s", groups)
	}

	guestPID := b.run("sy1", guest)[0]
	b.seen("sy1", fleet.Key{Kind: guest.Kind, ID: guest.ID})
	before := b.mainPID("sy1")
	b.installs("sy1")
	if after := b.mainPID("sy1"); after == before || after == 0 {
		t.Errorf("the agent is %d, and was %d before the upgrade", after, before)
	}
	if !h.Runs(moved) || !h.Runs(guestPID) {
		t.Error("an upgrade of the agent has ended workloads")
	}

	b.ebb(0, says("prod/sy1: cordoned"), "cordon", "sy1", "--reason", "new kernel")
	b.reboots("sy1")
	// The platform says what the reboot has ended.
	b.must(b.SQL(b.ctx, `update sandboxes set status = 'gone' where agent_id = 'sy1'`))
	b.gives("sy1")
}

func ticketOf(t *testing.T, out string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, `"id":"`)
	if !ok {
		_, rest, ok = strings.Cut(out, `"id": "`)
	}
	id, _, _ := strings.Cut(rest, `"`)
	if !ok || id == "" {
		t.Fatalf("no ticket in %s", out)
	}
	return id
}

// installs puts the agent on a host over SSH, or in place of the one that is
// there.
func (b *bench) installs(host string) {
	b.Helper()
	b.ebb(0, says("ebbd runs under systemd"), "agent", "install", host, "--program", filepath.Join(lab.Bin(lab.Dir()), "ebbd"))
	b.until("the agent answers", func() error {
		if r := b.Ebb(b.ctx, "diff", host); r.Code != 0 {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
}

func (b *bench) mainPID(host string) int {
	b.Helper()
	out, err := b.Hosts[host].Exec(b.ctx, "systemctl", "show", "-p", "MainPID", "--value", "ebbd.service")
	b.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	b.must(err)
	return pid
}

func (b *bench) pid(host string, w lab.Work) int {
	b.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(b.read(host, "/var/lib/workloads/"+w.Kind+"-"+w.ID+".pid")))
	b.must(err)
	return pid
}

func (b *bench) read(host, file string) string {
	b.Helper()
	text, err := os.ReadFile(b.Hosts[host].Path(file))
	b.must(err)
	return string(text)
}

// reboots has a cordoned host reboot, and wants it to come up cordoned, before
// anything else asks it for admission.
func (b *bench) reboots(host string) {
	b.Helper()
	h := b.Hosts[host]
	id := b.read(host, "/proc/sys/kernel/random/boot_id")
	_, _ = h.Exec(b.ctx, "systemctl", "reboot") // its answer may be cut short
	b.must(h.Booted(b.ctx))
	if again := b.read(host, "/proc/sys/kernel/random/boot_id"); again == id {
		b.Fatalf("%s has the same boot id as before: %s", host, id)
	}
	b.until("the first work has asked", func() error { return wants(h.Log("first-work"), "exit status") })
	if first := h.Log("first-work"); !strings.Contains(first, "new kernel") || !strings.Contains(first, "exit status 75") {
		b.Errorf("the first that asked for admission after the reboot was told:\n%s", first)
	}
	b.refuses(host, "new kernel")
	b.until("the agent answers", func() error {
		if r := b.Ebb(b.ctx, "diff", host); r.Code != 0 {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	b.refuses(host, "new kernel")
}

// gives drains, proves and terminates the host, which powers itself off.
func (b *bench) gives(host string) {
	b.Helper()
	text, err := os.ReadFile(b.File("fleet.toml"))
	b.must(err)
	old := fmt.Sprintf("run = [%q, \"terminate\", \"{instance}\"]", b.File("terminator"))
	if !strings.Contains(string(text), old) {
		b.Fatalf("no terminator in\n%s", text)
	}
	b.must(os.WriteFile(b.File("fleet.toml"), []byte(strings.Replace(string(text), old, `type = "poweroff"`, 1)), 0o600))
	b.ebb(0, says(host+" is empty"), append([]string{"drain", host}, kernel...)...)
	b.ebb(0, says("open: "), "verify", host, "--out", b.File("proof.json"))
	b.ebb(0, says("powered off"), "terminate", host, "--proof", b.File("proof.json"), "--confirm", host)
	b.must(b.Hosts[host].Off(b.ctx))
	b.ebb(3, says("it was terminated at"), "terminate", host, "--proof", b.File("proof.json"), "--confirm", host)
}
