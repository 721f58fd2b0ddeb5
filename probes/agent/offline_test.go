package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

func offline(dir string) Offline {
	return Offline{StateDir: dir, Machine: testMachine, Boot: testBoot, Clock: newClock()}
}

// refusedAs asserts that an answer without the daemon is this refusal.
func refusedAs(t *testing.T, err error, want string) {
	t.Helper()
	if p, ok := Refusal(err); !ok || p.Code != want {
		t.Fatalf("got %v, want a refusal %q", err, want)
	}
}

var claim = wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1, Who: "sched"}

func TestWithoutTheDaemonTheSlotsDecide(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o := offline(dir)
	_, err := o.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeUnheld)
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("asking made a state directory")
	}
	ok(t, Init(dir, testMachine))
	reply, err := o.Admit(t.Context(), Caller{}, claim)
	ok(t, err)
	if reply.Ticket == nil {
		t.Fatal("no ticket")
	}

	full := o
	full.Caps = config.Caps{Claim: 1}
	_, err = full.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeFull)
	full.Caps = config.Caps{Total: 100} // what runs here can't be counted
	_, err = full.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeFull)

	other := o
	other.Machine = "another"
	_, err = other.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeUnheld)

	s := newSlots(t, dir)
	ok(t, s.save(Record{Machine: testMachine, Seal: &Seal{Drain: "d1", Boot: testBoot}}))
	_, err = o.Admit(t.Context(), Caller{}, wire.AdmissionRequest{Op: fleet.OpExec, Key: vm1})
	refusedAs(t, err, wire.CodeSealed)
	ok(t, s.save(held("ann")))
	_, err = o.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeHeld)
	_, err = o.Admit(t.Context(), Caller{}, wire.AdmissionRequest{Op: fleet.OpRenew, Key: vm1})
	ok(t, err)

	done, err := o.Settle(t.Context(), Caller{}, reply.Ticket.ID, wire.TicketReport{Closed: "done"})
	ok(t, err)
	if done.Closed != "done" || len(openTickets(must(readTickets(dir)))) != 0 {
		t.Fatalf("%+v", done)
	}
	_, err = o.Settle(t.Context(), Caller{}, reply.Ticket.ID, wire.TicketReport{Closed: "settled"})
	refusedAs(t, err, wire.CodeBadRequest)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestADaemonThatDoesNotAnswerIsNotGoneRound(t *testing.T) {
	r := newRig(t)
	_, err := offline(r.cfg.StateDir).Admit(t.Context(), Caller{}, claim)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v", err)
	}
}

func TestADaemonWaitsForAnAdmissionUnderWay(t *testing.T) {
	r := unstarted(t, func(c *Config) { c.LockWait = 10 * time.Second })
	ok(t, Init(r.cfg.StateDir, testMachine))
	lock, err := lockState(r.cfg.StateDir)
	ok(t, err)
	time.AfterFunc(50*time.Millisecond, func() { lock.Close() })
	r.start()
	r.cordon()
}

func TestWithoutTheDaemonNothingIsAdmittedThatCantBeWritten(t *testing.T) {
	dir := smallDisk(t)
	o := offline(filepath.Join(dir, "state"))
	ok(t, Init(o.StateDir, testMachine))
	first, err := o.Admit(t.Context(), Caller{}, claim)
	ok(t, err)
	ok(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = o.Admit(t.Context(), Caller{}, claim)
	refusedAs(t, err, wire.CodeNotRecorded)
	_, err = o.Settle(t.Context(), Caller{}, first.Ticket.ID, wire.TicketReport{Closed: "done"})
	refusedAs(t, err, wire.CodeNotRecorded)
	_, err = o.Admit(t.Context(), Caller{}, wire.AdmissionRequest{Op: fleet.OpRenew, Key: vm1})
	ok(t, err) // existing work needs no ticket
}

func TestWhoBecameRootIsReadFromItsEnvironment(t *testing.T) {
	proc := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(proc, "77"), 0o755))
	ok(t, os.WriteFile(filepath.Join(proc, "77/environ"), []byte("A=1\x00NOT_SUDO_UID=5\x00SUDO_UID=1000\x00"), 0o600))
	if got := sudoUID(proc, 77); got != "1000" {
		t.Fatalf("got %q", got)
	}
	if got := sudoUID(proc, 78); got != "" {
		t.Fatalf("got %q", got)
	}
	if strings.Contains(printable("a\x1b[2J\nb\x7f"), "\x1b") {
		t.Fatal("not cleaned")
	}
}
