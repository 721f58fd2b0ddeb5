package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/probes/wire"
)

func TestARepeatedCordonKeepsTheFirst(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Cordon)
	first, err := c.Cordon(t.Context(), wire.CordonRequest{Who: "ann", Why: "hunch"})
	ok(t, err)
	r.clock.advance(time.Hour)
	second, err := c.Cordon(t.Context(), wire.CordonRequest{Who: "bob", Why: "other", Machine: testMachine})
	ok(t, err)
	if !first.Changed || second.Changed || !second.Holds.Equal(first.Holds) || second.Holds.Cordon.Who != "ann" {
		t.Fatalf("first %+v, second %+v", first, second)
	}
	if second.Machine != testMachine || second.Boot != testBoot || !second.At.Equal(r.clock.Now()) {
		t.Fatalf("reply does not say where and when: %+v", second)
	}
}

func TestLiftingOneHoldNeverLiftsTheOther(t *testing.T) {
	r := newRig(t)
	r.cordon()
	ok(t, r.drain("d1", 1))
	c := r.dial(wire.Operate)
	reply, err := c.Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	ok(t, err)
	if reply.Holds.Cordon != nil || reply.Holds.Drain == nil {
		t.Fatalf("after uncordon: %+v", reply.Holds)
	}
	r.cordon()
	_, err = c.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d2"})
	if p := code(t, err, wire.CodeOtherDrain); p.Hold == nil || p.Hold.Drain != "d1" {
		t.Fatalf("the holder is not named: %+v", p)
	}
	reply, err = c.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1", Epoch: 1})
	ok(t, err)
	if reply.Holds.Cordon == nil || reply.Holds.Drain != nil {
		t.Fatalf("after undrain: %+v", reply.Holds)
	}
}

func TestTheirDrainIsLiftedOnWord(t *testing.T) {
	r := newRig(t)
	ok(t, r.drain("dead", 9))
	code(t, r.drain("mine", 1), wire.CodeOtherDrain)
	_, err := r.dial(wire.Operate).Undrain(t.Context(), wire.LiftRequest{Who: "ann", Theirs: true, Why: "its journal is gone"})
	ok(t, err)
	ok(t, r.drain("mine", 1))
	if log := r.readAudit(); !strings.Contains(log, "undrain --theirs") || !strings.Contains(log, "its journal is gone") {
		t.Fatalf("not in the audit log:\n%s", log)
	}
}

func TestAnOlderEpochIsRefusedEvenAfterARestart(t *testing.T) {
	r := newRig(t)
	ok(t, r.drain("d1", 3))
	ok(t, r.drain("d1", 5))
	r.restart()
	p := code(t, r.drain("d1", 4), wire.CodeStaleEpoch)
	if p.Epoch != 5 {
		t.Fatalf("highest epoch %d, want 5", p.Epoch)
	}
	c := r.dial(wire.Operate)
	_, err := c.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1", Epoch: 4})
	code(t, err, wire.CodeStaleEpoch)
	_, err = c.Epoch(t.Context(), wire.EpochRequest{Drain: "d1", Epoch: 4})
	code(t, err, wire.CodeStaleEpoch)
	e, err := c.Epoch(t.Context(), wire.EpochRequest{Drain: "d1"})
	ok(t, err)
	if e.Epoch != 5 {
		t.Fatalf("asked for the highest epoch, got %d", e.Epoch)
	}
	e, err = c.Epoch(t.Context(), wire.EpochRequest{Drain: "d1", Epoch: 8})
	ok(t, err)
	if got := r.agent.Facts().Holds.Drain.Epoch; e.Epoch != 8 || got != 8 {
		t.Fatalf("announced 8, reply %d, hold %d", e.Epoch, got)
	}
	// A target hears of the drain, too, and remembers.
	_, err = c.Epoch(t.Context(), wire.EpochRequest{Drain: "d2", Epoch: 2})
	ok(t, err)
	r.restart()
	_, err = r.dial(wire.Operate).Epoch(t.Context(), wire.EpochRequest{Drain: "d2", Epoch: 1})
	code(t, err, wire.CodeStaleEpoch)
}

func TestARenewedDrainKeepsWhoAndSince(t *testing.T) {
	r := newRig(t)
	ok(t, r.drain("d1", 1))
	before := *r.agent.Facts().Holds.Drain
	log := r.readAudit()
	ok(t, r.drain("d1", 1))
	if r.readAudit() != log {
		t.Fatal("a hold that was renewed as it is was written to the audit log")
	}
	r.clock.advance(time.Minute)
	c := r.dial(wire.Operate)
	reply, err := c.Drain(t.Context(), wire.DrainRequest{Who: "bob", Drain: "d1", Journal: "db", Epoch: 2, Deadline: r.clock.Now().Add(2 * time.Hour), Evacuate: true})
	ok(t, err)
	h := reply.Holds.Drain
	if h.Who != "ann" || !h.Since.Equal(before.Since) || h.Epoch != 2 || !h.Evacuate || h.Journal != "db" || !h.Deadline.After(before.Deadline) {
		t.Fatalf("renewed: %+v, before %+v", h, before)
	}
}

func TestWhatIsMeantForAnotherMachineIsRefused(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Operate)
	_, err := c.Cordon(t.Context(), wire.CordonRequest{Who: "ann", Machine: "other"})
	code(t, err, wire.CodeOtherMachine)
	_, err = c.Uncordon(t.Context(), wire.LiftRequest{Who: "ann", Machine: "other"})
	code(t, err, wire.CodeOtherMachine)
	_, err = c.Drain(t.Context(), wire.DrainRequest{Who: "ann", Drain: "d", Epoch: 1, Deadline: r.clock.Now(), Machine: "other"})
	code(t, err, wire.CodeOtherMachine)
	_, err = c.Act(t.Context(), wire.ActRequest{ID: "1", Kind: wire.ActMoved, Drain: "d", Key: fleet.Key{Kind: "vm", ID: "1"}})
	code(t, err, wire.CodeOtherMachine)
	_, err = c.Rebind(t.Context(), wire.RebindRequest{Who: "ann", Host: "prod/h1", Machine: "other"})
	code(t, err, wire.CodeOtherMachine)
	if r.agent.Facts().Holds.Any() {
		t.Fatal("something was set")
	}
}

func TestWithoutARecordNothingIsAdmittedUntilTold(t *testing.T) {
	claim := wire.AdmissionRequest{Op: fleet.OpClaim, Key: fleet.Key{Kind: "vm", ID: "1"}}
	renew := wire.AdmissionRequest{Op: fleet.OpRenew, Key: fleet.Key{Kind: "vm", ID: "1"}}
	for name, tell := range map[string]func(*rig){
		"uncordon": func(r *rig) {
			_, err := r.dial(wire.Cordon).Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
			ok(t, err)
		},
		"cordon": func(r *rig) { r.cordon() },
		"drain":  func(r *rig) { ok(t, r.drain("d1", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := unstarted(t)
			r.start()
			adm := r.dial(wire.Admission)
			for _, req := range []wire.AdmissionRequest{claim, renew} {
				_, err := adm.Admit(t.Context(), req)
				if p := code(t, err, wire.CodeUnheld); p.Status != 429 {
					t.Fatalf("status %d", p.Status)
				}
			}
			if _, err := r.dial(wire.Operate).Epoch(t.Context(), wire.EpochRequest{Drain: "x", Epoch: 1}); err != nil {
				t.Fatal(err)
			}
			if !r.agent.Facts().Unheld {
				t.Fatal("hearing of a driver was taken for being told of holds")
			}
			tell(r)
			r.restart()
			if r.agent.Facts().Unheld {
				t.Fatal("forgotten over a restart")
			}
			_, err := r.dial(wire.Admission).Admit(t.Context(), renew)
			ok(t, err)
		})
	}
}

// Whatever is asked for in whatever order, what a restarted agent holds is what
// was confirmed, and a hold goes only when it was asked to go.
func TestHoldsFollowOnlyWhatWasConfirmed(t *testing.T) {
	r := newRig(t)
	a := r.agent
	var want fleet.Holds
	top := map[string]uint64{}
	rapid.Check(t, func(rt *rapid.T) {
		who := Caller{Role: wire.Operate}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			id := rapid.SampledFrom([]string{"d1", "d2"}).Draw(rt, "drain")
			epoch := rapid.Uint64Range(1, 4).Draw(rt, "epoch")
			switch rapid.IntRange(0, 4).Draw(rt, "verb") {
			case 0:
				_, err := a.cordon(who, wire.CordonRequest{Who: "ann"})
				ok(t, err)
				if want.Cordon == nil {
					want.Cordon = a.Facts().Holds.Cordon
				}
			case 1:
				_, err := a.uncordon(who, wire.LiftRequest{Who: "ann"})
				ok(t, err)
				want.Cordon = nil
			case 2:
				_, err := a.drain(who, wire.DrainRequest{Who: "ann", Drain: id, Epoch: epoch, Deadline: a.cfg.Clock.Now()})
				allowed := (want.Drain == nil || want.Drain.Drain == id) && epoch >= top[id]
				if (err == nil) != allowed {
					rt.Fatalf("drain %s epoch %d: %v; held %+v, highest %d", id, epoch, err, want.Drain, top[id])
				}
				if allowed {
					want.Drain, top[id] = a.Facts().Holds.Drain, epoch
				}
			case 3:
				_, err := a.undrain(who, wire.LiftRequest{Who: "ann", Drain: id})
				if err == nil && want.Drain != nil && want.Drain.Drain != id {
					rt.Fatalf("drain %s was lifted by %s", want.Drain.Drain, id)
				}
				if err == nil {
					want.Drain = nil
				}
			case 4:
				_, err := a.announce(who, wire.EpochRequest{Drain: id, Epoch: epoch})
				if (err == nil) != (epoch >= top[id]) {
					rt.Fatalf("announce %s %d: %v, highest %d", id, epoch, err, top[id])
				}
				top[id] = max(top[id], epoch)
				if want.Drain != nil && want.Drain.Drain == id {
					want.Drain = a.Facts().Holds.Drain
				}
			}
			rec, err := ReadHolds(r.cfg.StateDir)
			ok(t, err)
			if !rec.Holds.Equal(want) || !a.Facts().Holds.Equal(want) {
				rt.Fatalf("disk %+v, memory %+v, want %+v", rec.Holds, a.Facts().Holds, want)
			}
		}
	})
}

func (r *rig) readAudit() string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.cfg.StateDir, "audit.log"))
	ok(r.t, err)
	return string(b)
}

func TestAuditNamesTheCallerAndRefusesWithoutALog(t *testing.T) {
	r := newRig(t)
	r.cordon()
	log := r.readAudit()
	for _, want := range []string{`"uid":` + itoa(os.Getuid()), `"pid":` + itoa(os.Getpid()), `"verb":"cordon"`, `"outcome":"done"`, `"operator":"ann@desk"`, `"role":"cordon"`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
	// The log becomes a directory: nothing can be appended.
	r.stop()
	path := filepath.Join(r.cfg.StateDir, "audit.log")
	ok(t, os.Remove(path))
	ok(t, os.Mkdir(path, 0o700))
	r.start()
	code(t, r.drain("d1", 1), wire.CodeNotRecorded)
	_, err := r.dial(wire.Cordon).Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	code(t, err, wire.CodeNotRecorded)
	if h := r.agent.Facts().Holds; h.Cordon == nil || h.Drain != nil {
		t.Fatalf("changed without an audit log: %+v", h)
	}
	reply, err := r.dial(wire.Cordon).Cordon(t.Context(), wire.CordonRequest{Who: "bob"})
	ok(t, err)
	if reply.Audit == "" {
		t.Fatal("the reply does not say that the audit log can't be written")
	}
}

// Whoever cordoned it may say why later; anybody else's words change nothing.
func TestRewordingACordon(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Cordon)
	say := func(who, why string, reword bool) wire.HoldReply {
		t.Helper()
		reply, err := c.Cordon(t.Context(), wire.CordonRequest{Who: who, Why: why, Reword: reword})
		ok(t, err)
		return reply
	}
	first := say("ann", "on a hunch", false)
	r.clock.advance(time.Hour)
	say("ann", "again", false)
	say("bob", "other", true)
	if got := say("ann", "on a hunch", true); got.Changed || !got.Holds.Equal(first.Holds) {
		t.Fatalf("the words of %+v have changed: %+v", first.Holds.Cordon, got.Holds.Cordon)
	}
	got := say("ann", "its fan is loud", true)
	if h := got.Holds.Cordon; !got.Changed || h.Why != "its fan is loud" || h.Who != "ann" || !h.Since.Equal(first.Holds.Cordon.Since) {
		t.Fatalf("%+v", got)
	}
}
