//go:build linux

package lab_test

import (
	"os"
	"strings"
	"testing"

	"ebb/fleet/postgres/pgtest"
)

// The database goes away at the worst moments: at the cordon, during the drain,
// at the terminate.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t)
	b := setUp(t, server, "", "d1", "d2")
	run, pid := b.drains("d2")

	server.Stop()
	cordon := b.begin("cordon", "prod/d1", "--reason", "smoke")
	b.until("the host is cordoned though its plane is away", func() error {
		_, out := b.admit("d1")
		return wants(out, "smoke")
	})
	b.must(server.Start())
	b.want(cordon.Wait(b.ctx), 0, "prod/d1: cordoned")
	if got := b.flag("d1"); got != "true ebb:ann smoke" {
		t.Errorf("in the database: %q", got)
	}
	b.empties("d2", run, pid)
	b.ebb(0, says("open: "), "verify", "d2", "--out", b.File("proof.json"))

	server.Stop()
	if r := b.Ebb(b.ctx, "terminate", "prod/d2", "--proof", b.File("proof.json"), "--confirm", "prod/d2"); r.Code != 1 || !strings.Contains(r.Err, "hint: ") {
		t.Errorf("terminate without a database:\n%s", r)
	}
	if _, err := os.Stat(b.File("terminated")); err == nil {
		t.Fatal("the terminator ran")
	}
	b.must(server.Start())
	b.ebb(0, says("open: "), "verify", "d2", "--out", b.File("proof.json"))
	b.ebb(0, says("terminated"), "terminate", "d2", "--proof", b.File("proof.json"), "--confirm", "d2")
}

// A plane that stays away: the cordon stands at the host, the exit status and
// the error say which side is missing, and a drain refuses.
func TestPlaneStaysAway(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t)
	b := setUp(t, server, "", "p1")
	server.Stop()
	b.ebb(1, says("the plane could not be told"), "cordon", "p1", "--reason", "smoke")
	b.refuses("p1", "smoke")
	b.must(server.Start())
	b.ebb(0, says("prod/p1: cordoned"), "cordon", "p1", "--reason", "smoke")
	if got := b.flag("p1"); got != "true ebb:ann smoke" {
		t.Errorf("in the database: %q", got)
	}
}
