//go:build linux

package lab_test

import (
	"os"
	"testing"
)

// A full disk does not defeat a cordon; a disk that can't be written at all
// does, and then nothing is changed and the side is named.
func TestDisk(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "x1")
	h := b.Hosts["x1"]
	b.must(h.KillAgent(b.ctx))
	b.in("x1", "mount", "-t", "tmpfs", "-o", "size=3m", "state", "/var/lib/ebb")
	b.in("x1", "ebbd", "init")
	b.must(h.StartAgent(b.ctx))
	b.must(h.Fill("/var/lib/ebb/filler"))
	b.ebb(0, says("prod/x1: cordoned", "audit"), "cordon", "x1", "--reason", "disk")
	b.refuses("x1", "disk")
	b.must(h.KillAgent(b.ctx))
	b.refuses("x1", "")
	b.must(h.StartAgent(b.ctx))
	b.refuses("x1", "disk")
	b.must(os.Remove(h.Path("/var/lib/ebb/filler")))
	b.ebb(0, says("serving"), "uncordon", "x1")

	b.must(h.KillAgent(b.ctx))
	b.in("x1", "mount", "-o", "remount,ro", "/var/lib/ebb")
	b.must(ignoreEnd(h.StartAgent(b.ctx)))
	b.ebb(1, says("the host could not be told"), "cordon", "x1", "--reason", "never")
	if code, out := b.admit("x1"); code != 75 {
		t.Errorf("exit status %d of a host that can't write: %s", code, out)
	}
}

// in runs a command on a host.
func (b *bench) in(host string, argv ...string) {
	b.Helper()
	if out, err := b.Hosts[host].Exec(b.ctx, argv...); err != nil {
		b.Fatalf("%s: %v: %v: %s", host, argv, err, out)
	}
}

// ignoreEnd lets an agent refuse to start.
func ignoreEnd(error) error { return nil }
