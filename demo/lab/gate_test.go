//go:build linux

package lab_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"ebb/drain"
	"ebb/fleet"
)

// What is not known keeps the gate shut, and is named: a ticket, a probe that
// fails, a manifest that can't be understood.
func TestGateShut(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "g1", "g2")
	h := b.Hosts["g1"]
	code, out := b.admit("g1")
	if code != 0 {
		t.Fatal(out)
	}
	var ticket fleet.Ticket
	b.must(json.Unmarshal([]byte(out), &ticket))
	run := b.begin("drain", "g1", "--deadline", "20m")
	b.board(limit, "g1", "the host is looked at", func(st drain.State) bool { return st.Phase == drain.Verifying })
	b.ebb(3, says("locked", ticket.ID), "verify", "g1")
	b.settle("g1", ticket.ID)
	b.want(run.Wait(b.ctx), 0, "g1 is empty")

	b.must(h.Write("/var/lib/workloads/bad.toml", "id = \"x\nkind"))
	b.ebb(3, says("locked", "workloads", "bad.toml"), "verify", "g1", "--out", b.File("proof.json"))
	b.must(os.Remove(h.Path("/var/lib/workloads/bad.toml")))
	b.must(os.RemoveAll(h.Path("/run/netns")))
	b.must(h.Write("/run/netns", "not a directory"))
	b.ebb(3, says("locked", "netns"), "verify", "g1", "--out", b.File("proof.json"))
	b.must(os.Remove(h.Path("/run/netns")))
	b.ebb(0, says("open: "), "verify", "g1", "--out", b.File("proof.json"))

	b.otherHost()
	b.reboot()
}

// otherHost wants one host's proof to be refused for another.
func (b *bench) otherHost() {
	b.Helper()
	b.ebb(0, says("is empty"), "drain", "g2", "--deadline", "20m")
	b.ebb(3, nil, "terminate", "g2", "--proof", b.File("proof.json"), "--confirm", "g2")
	b.nothingRan()
}

// reboot wants a proof of another boot to be refused, and a host that was held
// to come up held.
func (b *bench) reboot() {
	b.Helper()
	h := b.Hosts["g1"]
	h.Halt()
	b.ebb(0, says("unreachable"), "hosts")
	b.must(h.Boot(b.ctx))
	b.refuses("g1", "")
	out := b.ebb(3, says("boot"), "terminate", "g1", "--proof", b.File("proof.json"), "--confirm", "g1")
	if !strings.Contains(out, "refused") {
		b.Errorf("terminate after a reboot:\n%s", out)
	}
	b.nothingRan()
	b.refuses("g1", "")
	b.ebb(0, says("open: "), "verify", "g1", "--out", b.File("proof.json"))
}

func (b *bench) nothingRan() {
	b.Helper()
	if ran, err := os.ReadFile(b.File("terminated")); err == nil {
		b.Fatalf("the terminator ran: %s", ran)
	}
}

// A reboot in mid-drain loses what ran: that is named, is no success, and needs
// a person.
func TestRebootInMidDrain(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "b1")
	h := b.Hosts["b1"]
	w := quitter
	b.must(b.Claim(b.ctx, "b1", w))
	_, err := h.Launch(w)
	b.must(err)
	key := fleet.Key{Kind: "box", ID: "quitter"}
	b.seen("b1", key)
	run := b.begin("drain", "b1", "--deadline", "20m", "--reason", "new kernel")
	b.board(limit, "b1", "the owner is told", func(st drain.State) bool { return !st.Items[key].NoticeAt.IsZero() })
	h.Halt()
	b.board(limit, "b1", "the host can't be read", func(st drain.State) bool { return st.Waiting.Code == drain.WaitUnreachable })
	b.must(os.RemoveAll(b.File("hosts/b1/lib/workloads")))
	b.must(os.MkdirAll(b.File("hosts/b1/lib/workloads"), 0o755))
	b.must(h.Boot(b.ctx))
	b.refuses("b1", "new kernel")
	st := b.board(limit, "b1", "the loss is seen", func(st drain.State) bool { return len(st.Lost) > 0 })
	if st.Lost[0].Key != key || st.Phase == drain.Empty {
		t.Errorf("phase %s, lost %+v", st.Phase, st.Lost)
	}
	b.must(run.Signal(os.Interrupt))
	b.want(run.Wait(b.ctx), 5)
	b.ebb(3, says("locked", "quitter"), "verify", "b1", "--out", b.File("proof.json"))
}
