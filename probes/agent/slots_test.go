package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/probes/wire"
)

func held(who string) Record {
	return Record{Machine: testMachine, Holds: fleet.Holds{Cordon: &fleet.Hold{Kind: fleet.CordonHold, Who: who}}}
}

func newSlots(t *testing.T, dir string) *slots {
	t.Helper()
	s, _, err := openSlots(dir)
	if err != nil && !errors.Is(err, ErrNoRecord) {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestADirectoryWithoutARecordSaysSo(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadHolds(dir); !errors.Is(err, ErrNoRecord) {
		t.Fatalf("empty directory: %v", err)
	}
	newSlots(t, dir)
	if _, err := ReadHolds(dir); !errors.Is(err, ErrNoRecord) {
		t.Fatalf("preallocated slots: %v", err)
	}
	for _, name := range slotNames {
		info, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
		if info.Size() != slotSize {
			t.Fatalf("%s has %d bytes, want %d", name, info.Size(), slotSize)
		}
	}
}

func TestATornWriteLosesTheNewRecordOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		s := newSlots(t, dir)
		writes := rapid.IntRange(1, 5).Draw(rt, "writes")
		for i := range writes {
			ok(t, s.save(held(string(rune('a'+i)))))
		}
		// The next write is cut after some bytes, or leaves garbage.
		torn := slotNames[s.next]
		path := filepath.Join(dir, torn)
		raw, err := os.ReadFile(path)
		ok(t, err)
		other, err := os.ReadFile(filepath.Join(dir, slotNames[1-s.next]))
		ok(t, err)
		n := rapid.IntRange(0, 200).Draw(rt, "bytes written")
		copy(raw[:n], other[:n])
		if n > 10 {
			raw[rapid.IntRange(8, n-1).Draw(rt, "spoiled")] ^= 0x55
		}
		ok(t, os.WriteFile(path, raw, 0o600))
		got, err := ReadHolds(dir)
		ok(t, err)
		if want := string(rune('a' + writes - 1)); got.Holds.Cordon.Who != want {
			rt.Fatalf("after a torn write the record is %q, want %q", got.Holds.Cordon.Who, want)
		}
	})
}

func TestBothSlotsSpoiledMeansNoRecord(t *testing.T) {
	dir := t.TempDir()
	s := newSlots(t, dir)
	ok(t, s.save(held("a")))
	ok(t, s.save(held("b")))
	for _, name := range slotNames {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		ok(t, err)
		raw[slotHeader+3] ^= 1
		ok(t, os.WriteFile(path, raw, 0o600))
	}
	if _, err := ReadHolds(dir); !errors.Is(err, ErrNoRecord) {
		t.Fatalf("got %v", err)
	}
	r := unstarted(t)
	r.cfg.StateDir = dir
	r.start()
	_, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: fleet.Key{Kind: "vm", ID: "1"}})
	code(t, err, wire.CodeUnheld)
}

// failing is a slot on a disk that stops working.
type failing struct {
	slotFile
	write, sync error
}

func (f *failing) WriteAt(p []byte, off int64) (int, error) {
	if f.write != nil {
		n, _ := f.slotFile.WriteAt(p[:len(p)/2], off)
		return n, f.write
	}
	return f.slotFile.WriteAt(p, off)
}

func (f *failing) Sync() error {
	if f.sync != nil {
		return f.sync
	}
	return f.slotFile.Sync()
}

func TestAWriteThatFailsChangesNothing(t *testing.T) {
	for _, broken := range []*failing{{write: unix.ENOSPC}, {write: unix.EROFS}, {write: unix.EIO}, {sync: unix.EIO}} {
		r := newRig(t)
		r.cordon()
		r.agent.mu.Lock()
		good := r.agent.slots.files
		for i := range good {
			r.agent.slots.files[i] = &failing{good[i], broken.write, broken.sync}
		}
		r.agent.mu.Unlock()
		c := r.dial(wire.Operate)
		_, err := c.Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
		if p := code(t, err, wire.CodeNotRecorded); p.Status != 500 {
			t.Fatalf("status %d", p.Status)
		}
		code(t, r.drain("d1", 1), wire.CodeNotRecorded)
		f := r.agent.Facts()
		if f.Holds.Cordon == nil || f.Holds.Drain != nil {
			t.Fatalf("something changed in memory: %+v", f.Holds)
		}
		r.agent.mu.Lock()
		r.agent.slots.files = good
		r.agent.mu.Unlock()
		r.restart()
		if f := r.agent.Facts(); f.Holds.Cordon == nil || f.Holds.Drain != nil {
			t.Fatalf("something changed on the disk: %+v", f.Holds)
		}
	}
}

// A real full disk: a small tmpfs, filled to the last byte after the slots
// were made.
func TestAFullDiskDoesNotDefeatACordon(t *testing.T) {
	dir := smallDisk(t)
	r := unstarted(t)
	r.cfg.StateDir = filepath.Join(dir, "state")
	ok(t, Init(r.cfg.StateDir, testMachine))
	r.start()
	fill(t, dir)
	reply, err := r.dial(wire.Cordon).Cordon(t.Context(), wire.CordonRequest{Who: "ann", Why: "hunch"})
	ok(t, err)
	if !reply.Changed || reply.Holds.Cordon == nil {
		t.Fatalf("not cordoned: %+v", reply)
	}
	if reply.Audit == "" {
		t.Fatal("the audit log can't have been written, and the reply does not say so")
	}
	_, err = r.dial(wire.Cordon).Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	code(t, err, wire.CodeNotRecorded)
	code(t, r.drain("d1", 1), wire.CodeNotRecorded)
	r.restart()
	if h := r.agent.Facts().Holds; h.Cordon == nil || h.Drain != nil {
		t.Fatalf("after a restart: %+v", h)
	}
}

func TestAReadOnlyDiskRefusesAndStillHolds(t *testing.T) {
	dir := smallDisk(t)
	r := unstarted(t)
	r.cfg.StateDir = filepath.Join(dir, "state")
	ok(t, Init(r.cfg.StateDir, testMachine))
	r.start()
	r.cordon()
	r.stop()
	ok(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	r.start()
	if r.agent.Facts().Holds.Cordon == nil {
		t.Fatal("the cordon is not held from a read-only disk")
	}
	code(t, r.drain("d1", 1), wire.CodeNotRecorded)
	_, err := r.dial(wire.Cordon).Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	code(t, err, wire.CodeNotRecorded)
}

func TestAnotherMachinesRecordHoldsNothingHere(t *testing.T) {
	r := unstarted(t)
	ok(t, Init(r.cfg.StateDir, "another"))
	r.start()
	if !r.agent.Facts().Unheld {
		t.Fatal("a disk copied from another machine was believed")
	}
}

func TestARecordAlwaysHasRoomForACordon(t *testing.T) {
	s := newSlots(t, t.TempDir())
	long := strings.Repeat("\x01", maxText) // six bytes each in JSON
	rec := Record{Machine: testMachine}
	for i := range maxAccepted {
		rec.Accepted = append(rec.Accepted, AcceptedInBoot{fleet.Accepted{
			Key: fleet.Key{Kind: "vm", ID: itoa(i)}, Reason: long, Who: "ann"}, testBoot})
	}
	for rec.fits() == nil {
		rec.Moved = append(rec.Moved, fleet.Key{Kind: strings.Repeat("k", 100), ID: itoa(len(rec.Moved))})
	}
	for i := range 2 * maxEpochs {
		rec = rec.withEpoch("drain-"+itoa(i), uint64(i))
	}
	rec.Holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: long, Why: long}
	rec.Holds.Drain = &fleet.Hold{Kind: fleet.DrainHold, Who: long, Why: long, Drain: strings.Repeat("\x01", maxID), Journal: long}
	ok(t, s.save(rec))
}

func TestEpochsOfTheHoldingDrainAreNeverForgotten(t *testing.T) {
	rec := Record{Holds: fleet.Holds{Drain: &fleet.Hold{Drain: "mine"}}}.withEpoch("mine", 7)
	for i := range 5 * maxEpochs {
		rec = rec.withEpoch("other-"+itoa(i), 1)
	}
	if e, ok := rec.epoch("mine"); !ok || e != 7 || len(rec.Epochs) != maxEpochs {
		t.Fatalf("epoch %d %v of %d", e, ok, len(rec.Epochs))
	}
}

// smallDisk mounts a small file system of its own.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	ok(t, err)
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}

// badSectors is a slot whose sectors are gone.
type badSectors struct{ slotFile }

func (badSectors) ReadAt([]byte, int64) (int, error) { return 0, unix.EIO }

func TestASlotThatCantBeReadMayHoldTheNewerRecord(t *testing.T) {
	dir := t.TempDir()
	s := newSlots(t, dir)
	ok(t, s.save(held("a")))
	s.files[s.next] = badSectors{s.files[s.next]}
	if _, err := s.load(); !errors.Is(err, ErrNoRecord) || !errors.Is(err, unix.EIO) {
		t.Fatalf("got %v", err)
	}
}

func TestInitLeavesARunningAgentAlone(t *testing.T) {
	r := unstarted(t)
	r.start()
	if err := Init(r.cfg.StateDir, testMachine); !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v", err)
	}
}

func TestTheAuditLogIsKeptInPieces(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "audit.log"), append(make([]byte, auditSize), "cut short"...), 0o600))
	l := newAuditLog(dir)
	defer l.close()
	for i := range 3 {
		ok(t, l.append(auditLine{Verb: "v" + itoa(i)}))
	}
	first, err := os.ReadFile(filepath.Join(dir, "audit.log.1"))
	ok(t, err)
	now, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	ok(t, err)
	if !strings.Contains(string(first), "cut short\n{") || !strings.Contains(string(first), `"v0"`) || strings.Count(string(now), "\n") != 2 {
		t.Fatalf("the pieces have %d and %d bytes", len(first), len(now))
	}
}
