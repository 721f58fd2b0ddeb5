//go:build linux

package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh/knownhosts"

	"ebb/demo/lab"
)

// Whoever can't be reached for sure is not spoken to, and the error says what to
// do next.
func TestUnknownAndChangedKeys(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "r1", "r2")
	one, two := b.Hosts["r1"], b.Hosts["r2"]
	b.must(b.KnownHosts(knownhosts.Line([]string{two.Addr}, two.Key) + "\n"))
	out := b.ebb(1, says("unknown ssh-ed25519 key", "hint: "), "diff", "r1")
	if !strings.Contains(out, "ssh-keygen -lf") && !strings.Contains(out, "known_hosts") {
		t.Errorf("no hint:\n%s", out)
	}
	b.must(b.KnownHosts(knownhosts.Line([]string{one.Addr}, two.Key) + "\n"))
	b.ebb(1, says("key", "hint: "), "diff", "r1")
	b.ebb(1, says("fail", "r1", "r2"), "doctor")
	b.must(b.KnownHosts(""))
	b.ebb(0, says("0 leaks"), "diff", "r1")
}

// A host without the agent says so, and ebb puts it there.
func TestNoAgent(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "n1")
	h := b.Hosts["n1"]
	b.must(h.KillAgent(b.ctx))
	b.ebb(1, says("not running", "systemctl start ebbd"), "diff", "n1")
	b.must(os.Remove(h.Path("/usr/local/bin/ebbd")))
	b.ebb(1, says("ebbd is not installed", "hint: ebb agent install n1"), "diff", "n1")
	b.ebb(0, says("ebbd is installed"), "agent", "install", "n1", "--program", filepath.Join(lab.Bin(lab.Dir()), "ebbd"))
	b.must(h.StartAgent(b.ctx))
	b.ebb(0, says("0 leaks"), "diff", "n1")
}

// Another machine that answers at a host's address is not acted on.
func TestAnotherMachine(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "s1", "s2")
	b.ebb(0, says("is empty"), "drain", "s1", "--deadline", "10m")
	b.ebb(0, says("open: "), "verify", "s1", "--out", b.File("proof.json"))
	b.ebb(0, nil, "cordon", "s2", "--reason", "its own")
	b.must(b.Lead("s1", "s2"))
	other := b.Hosts["s2"].Machine
	b.ebb(3, says(other), "drain", "s1")
	b.ebb(3, says(other), "verify", "s1")
	b.ebb(3, nil, "terminate", "s1", "--proof", b.File("proof.json"), "--confirm", "s1")
	if r := b.Ebb(b.ctx, "cordon", "s1", "--no-wait", "--reason", "wrong one"); r.Code == 0 {
		t.Errorf("another machine was cordoned:\n%s", r)
	}
	if r := b.Ebb(b.ctx, "uncordon", "s1"); r.Code == 0 {
		t.Errorf("another machine was uncordoned:\n%s", r)
	}
	b.refuses("s2", "its own")
	b.refuses("s1", "draining")
	b.must(b.Lead("s1", "s1"))
	b.ebb(0, says("nothing stands in the way"), "verify", "s1")
}

// A host that only another one can reach is reached through it.
func TestJumpHost(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "j1", "j2")
	b.must(b.Via(b.ctx, "j2", "j1"))
	b.ebb(0, says("prod/j2: cordoned"), "cordon", "j2", "--reason", "behind another")
	b.refuses("j2", "behind another")
	b.ebb(0, says("is empty"), "drain", "j2", "--deadline", "5m")
	b.ebb(0, says("open: "), "verify", "j2", "--out", b.File("proof.json"))
	b.must(b.Hosts["j1"].Freeze())
	b.ebb(1, says("j2"), "diff", "j2")
	b.must(b.Hosts["j1"].Thaw())
	b.ebb(0, nil, "diff", "j2")
}
