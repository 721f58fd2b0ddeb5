//go:build linux

package lab_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/postgres/pgtest"
)

// The primary dies while a replacement is being started, and the standby is
// promoted: the drain goes on with it.
func TestFailover(t *testing.T) {
	t.Parallel()
	ownServer(t)
	pair := pgtest.NewPair(t)
	b := setUp(t, pair, "", "fa1", "fa2")
	drive := func() func() lab.Result {
		run := b.begin(append([]string{"drain", "fa1"}, kernel...)...)
		return func() lab.Result { return run.Wait(b.ctx) }
	}
	b.struck("fa1", "fa2", []lab.Work{page}, drive, func(blow) { pair.Failover(t) },
		blow{"the start's intent", intends(drain.ActExec, drain.StepStart)})
}

// Journal and control plane are behind a pooler that gives every transaction
// another connection.
func TestPooler(t *testing.T) {
	t.Parallel()
	ownServer(t)
	b := setUp(t, pgtest.NewBouncer(t, pgtest.New(t)), "", "po1", "po2")
	b.countMoves()
	b.run("po1", page)
	w, run, pid := b.hosting("po1")
	w.goes("po1", run, pid, "po2")
	b.serves("po2", page)
	b.ebb(0, says("open: "), "verify", "po1", "--out", b.File("proof.json"))
	b.ebb(0, says("terminated"), "terminate", "po1", "--proof", b.File("proof.json"), "--confirm", "po1")
	b.terminatedOnce("po1")
}

// A database that takes no writes for longer than a lease lasts: nothing is done
// meanwhile, and a cordon works as far as it can.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t)
	b := setUp(t, server, "", "ro1", "ro2")
	b.countMoves()
	w, run, pid := b.hosting("ro1")
	writes := func(off string) {
		pgtest.Exec(t, server.URL("postgres"), "alter system set default_transaction_read_only = "+off)
		pgtest.Exec(t, server.URL("postgres"), "select pg_reload_conf()")
	}
	writes("on")
	b.until("the lease has lapsed", func() error { return b.logged("the lease has lapsed") })
	cordon := b.begin("cordon", "ro2", "--reason", "smoke")
	b.until("the host is cordoned though its plane takes no writes", func() error {
		_, out := b.admit("ro2")
		return wants(out, "smoke")
	})
	b.refuses("ro1", "new kernel")
	writes("off")
	b.want(cordon.Wait(b.ctx), 0, "prod/ro2: cordoned")
	if got := b.flag("ro2"); got != "true ebb:ann smoke" {
		t.Errorf("in the database: %q", got)
	}
	w.goes("ro1", run, pid)
}

// logged looks for a text in ebb's own log.
func (b *bench) logged(text string) error {
	log, err := os.ReadFile(b.File("ebb.log"))
	if err != nil {
		return err
	}
	return wants(string(log), text)
}

// The database's clock jumps while an owner's notice runs: TERM still comes a
// minute after it, and nobody loses anything.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ownServer(t)
			server := pgtest.NewClocked(t)
			host := "cj-" + name
			b := setUp(t, server, "", host)
			b.countMoves()
			pid := b.run(host, quitter)[0]
			b.seen(host, fleet.Key{Kind: quitter.Kind, ID: quitter.ID})
			w := b.watch()
			run := b.begin("drain", host, "--deadline", "5h", "--reason", "new kernel")
			before := time.Now()
			w.sees(host, "the owner is told", body(func(d drain.DriveOutcome) bool { return strings.Contains(d.Act, "/notice/") }))
			told := time.Now()
			b.must(server.Jump(ahead))
			b.empties(host, run, pid)
			w.sound(host)
			deeds, err := b.Hosts[host].Deeds()
			b.must(err)
			for _, d := range deeds {
				if d.What == "term" && d.At.Before(before.Add(time.Minute)) {
					t.Errorf("TERM came %s after the owner was told", d.At.Sub(told))
				}
			}
		})
	}
}

// The database is away when a host is cordoned: the record of it is kept, and
// stands in the journal once, later.
func TestCordonIsRecordedLater(t *testing.T) {
	t.Parallel()
	ownServer(t)
	server := pgtest.New(t)
	b := setUp(t, server, "", "sp1")
	b.ebb(0, nil, "hosts") // the journal is there by now
	server.Stop()
	b.ebb(1, says("the plane could not be told"), "cordon", "sp1", "--reason", "smoke")
	b.refuses("sp1", "smoke")
	b.must(server.Start())
	w := b.watch()
	b.ebb(0, says("prod/sp1: cordoned"), "cordon", "sp1", "--reason", "smoke")
	w.sees("sp1", "the record of the cordon", body(func(r drain.RecCordon) bool { return r.Reason == "smoke" }))
	b.ebb(0, says("smoke"), "log", "sp1")
	b.refuses("sp1", "smoke")
}

// Plane only: the host's agent is away when it is cordoned, and is told once it
// is back.
func TestPlaneOnly(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "pl1")
	h := b.Hosts["pl1"]
	b.must(h.KillAgent(b.ctx))
	cordon := b.begin("cordon", "pl1", "--reason", "smoke")
	b.until("the plane is told", func() error { return wants(b.flag("pl1"), "true ebb:ann smoke") })
	b.must(h.StartAgent(b.ctx))
	b.want(cordon.Wait(b.ctx), 0, "prod/pl1: cordoned")
	b.refuses("pl1", "smoke")
}

// A flag that the platform's own people have set is theirs: a drain works with
// it, and leaves it when everything of its own is undone.
func TestForeignCordon(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "fc1")
	b.must(b.SQL(b.ctx, `update agents set draining = true, drained_by = 'platform', drain_reason = 'disk', drained_at = now() where id = 'fc1'`))
	w, run, pid := b.hosting("fc1")
	b.ebb(0, says("asked"), "ask", "fc1", "stop")
	b.want(run.Wait(b.ctx), 5, "stopped with 1 left")
	if !b.Hosts["fc1"].Runs(pid) {
		t.Error("a stopped drain has ended the guest")
	}
	w.stillHeld("fc1")
	b.ebb(0, says("still cordoned"), "undrain", "fc1")
	b.ebb(3, says("platform", "--theirs"), "uncordon", "fc1")
	b.refuses("fc1", "")
	if got := b.flag("fc1"); got != "true platform disk" {
		t.Errorf("in the database: %q", got)
	}
	b.ebb(0, says("serving"), "uncordon", "fc1", "--theirs")
	if got := b.flag("fc1"); got != "false" {
		t.Errorf("in the database: %q", got)
	}
}

// A cordon that is lifted while a drain runs: the drain's own hold stays, the
// plane keeps work away, and the drain says what it waits for until somebody
// cordons the host again.
func TestUncordonInMidDrain(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "uc1")
	b.countMoves()
	w, run, pid := b.hosting("uc1")
	b.ebb(0, says("drain"), "uncordon", "uc1")
	w.sees("uc1", "the drain waits for the cordon", body(func(d drain.DriveWaits) bool {
		for _, r := range d.Reasons {
			if r.Key.IsZero() && !r.Reason.IsZero() {
				b.Logf("waits: %v", r.Reason)
				return true
			}
		}
		return false
	}))
	b.refuses("uc1", "new kernel")
	if got := b.flag("uc1"); !strings.HasPrefix(got, "true") {
		t.Errorf("in the database: %q", got)
	}
	if !b.Hosts["uc1"].Runs(pid) {
		t.Error("the guest was ended")
	}
	b.ebb(0, says("asked"), "ask", "uc1", "retry")
	w.sees("uc1", "it goes on", enters(drain.Draining))
	b.must(b.Hosts["uc1"].Signal(pid, 2))
	b.want(run.Wait(b.ctx), 0, "uc1 is empty")
	b.refuses("uc1", "new kernel")
	b.ebb(0, says("open: "), "verify", "uc1", "--out", b.File("proof.json"))
}
