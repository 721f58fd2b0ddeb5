package agent

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// proofRig is a host that is held by both holds and has a host key.
func proofRig(t *testing.T, options ...func(*Config)) (*rig, wire.ProofRequest) {
	t.Helper()
	keys := t.TempDir()
	print := writeHostKey(t, filepath.Join(keys, "ssh_host_ed25519_key"))
	r := newRig(t, append([]func(*Config){func(c *Config) { c.HostKeys = []string{filepath.Join(keys, "ssh_host_*_key")} }}, options...)...)
	r.cordon()
	ok(t, r.drain("d1", 1))
	asserted, err := json.Marshal(proof.Asserted{Claims: proof.ClaimsDigest(nil), Console: "ann@desk"})
	ok(t, err)
	return r, wire.ProofRequest{Drain: "d1", Epoch: 1, Machine: testMachine, Host: "prod/gpu-041", Nonce: "n1", HostKey: print, Asserted: asserted}
}

func sealOf(p wire.ProofReply) wire.SealRequest {
	return wire.SealRequest{Who: "ann", Proof: p.Proof, Signature: p.Signature, Terminator: "release", Machine: testMachine}
}

func TestProofOfAnEmptyHostAndItsSeal(t *testing.T) {
	r, req := proofRig(t)
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	doc, err := proof.Parse(p.Proof)
	ok(t, err)
	if doc.Machine != testMachine || doc.Boot != testBoot || doc.Drain != "d1" || doc.Nonce != "n1" || !doc.Holds.Both() || doc.MadeBoot != r.clock.Boottime() || doc.Asserted.Console != "ann@desk" {
		t.Fatalf("%+v", doc)
	}
	term := r.dial(wire.Terminate)
	s, err := term.Seal(t.Context(), sealOf(p))
	ok(t, err)
	if s.Sealed != "d1" || s.Boot != testBoot {
		t.Fatalf("%+v", s)
	}
	again, err := term.Seal(t.Context(), sealOf(p)) // asking twice is asking once
	ok(t, err)
	if !again.At.Equal(s.At) {
		t.Fatalf("sealed twice: %+v, %+v", s, again)
	}
	sealed(t, r)
	r.restart()
	sealed(t, r) // a seal outlives the agent …
	r.stop()
	r.cfg.Boot = "next-boot"
	r.start()
	f := r.agent.Facts()
	if f.Sealed != "" || !f.Holds.Both() { // … and ends with the boot, unlike the holds
		t.Fatalf("after a reboot: sealed %q, holds %+v", f.Sealed, f.Holds)
	}
}

// sealed asserts that nothing is admitted, lifted or done.
func sealed(t *testing.T, r *rig) {
	t.Helper()
	for _, op := range fleet.Ops {
		_, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: op, Key: vm1})
		if p := code(t, err, wire.CodeSealed); p.Status != 429 {
			t.Fatalf("%s: status %d", op, p.Status)
		}
	}
	c := r.dial(wire.Operate)
	_, err := c.Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
	code(t, err, wire.CodeSealed)
	_, err = c.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1"})
	code(t, err, wire.CodeSealed)
	_, err = c.Undrain(t.Context(), wire.LiftRequest{Who: "ann", Theirs: true})
	code(t, err, wire.CodeSealed)
	code(t, r.drain("d1", 2), wire.CodeSealed)
	_, err = r.act(signalOf("sealed", "TERM", vm1, fleet.Run{Boot: testBoot, PID: 99999, Start: 1}))
	code(t, err, wire.CodeSealed)
}

func TestOnlyTheTerminateRoleLiftsASeal(t *testing.T) {
	r, req := proofRig(t)
	term := r.dial(wire.Terminate)
	p, err := term.Proof(t.Context(), req)
	ok(t, err)
	_, err = term.Seal(t.Context(), sealOf(p))
	ok(t, err)
	_, err = r.dial(wire.Operate).Unseal(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1"})
	code(t, err, wire.CodeForbidden)
	_, err = term.Unseal(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d2"})
	code(t, err, wire.CodeOtherDrain)
	_, err = term.Unseal(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1"})
	ok(t, err)
	if f := r.agent.Facts(); f.Sealed != "" || !f.Holds.Both() {
		t.Fatalf("%+v", f)
	}
}

func TestAProofIsRefusedByName(t *testing.T) {
	r, req := proofRig(t)
	stray := fleet.Process{Run: fleet.Run{Boot: testBoot, PID: 4117, Start: 9}, Comm: "python3"}
	for name, c := range map[string]struct {
		show  func(*Readings)
		check string
		names string
	}{
		"a process": {func(rd *Readings) { rd.Processes.Value = []fleet.Process{stray} }, fleet.CheckLeft, "4117 (python3)"},
		"a workload": {func(rd *Readings) {
			rd.Workloads.Value = []fleet.Workload{{Key: vm1, Phase: fleet.AtRest}}
		}, fleet.CheckLeft, "vm/1"},
		"a namespace": {func(rd *Readings) {
			rd.Netns.Value = []fleet.Resource{{Key: fleet.Key{Kind: "netns", ID: "ns-7"}, Identity: "1", Owner: vm1}}
		}, fleet.CheckLeaks, "netns/ns-7"},
		"a failed probe": {func(rd *Readings) {
			rd.Dirs = fleet.ReadFailed[[]fleet.Resource]("d", rd.Dirs.At, 0, errors.New("hung"))
		}, fleet.CheckProbes, "dirs"},
		"a probe that never ran": {func(rd *Readings) { rd.GPUs = fleet.Reading[[]fleet.GPU]{} }, fleet.CheckProbes, "gpus"},
	} {
		t.Run(name, func(t *testing.T) {
			r.prober.set(func(now time.Time) Readings {
				rd := empty(now)
				c.show(&rd)
				return rd
			})
			_, err := r.dial(wire.Operate).Proof(t.Context(), req)
			named(t, code(t, err, wire.CodeNotEmpty), c.check, c.names)
		})
	}
	r.prober.set(empty)
	t.Run("an open ticket", func(t *testing.T) {
		reply, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpWake, Key: vm1, Who: "sched"})
		ok(t, err)
		_, err = r.dial(wire.Operate).Proof(t.Context(), req)
		named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckTickets, "sched")
		_, err = r.dial(wire.Admission).Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "failed"})
		ok(t, err)
	})
	t.Run("no cordon", func(t *testing.T) {
		_, err := r.dial(wire.Operate).Uncordon(t.Context(), wire.LiftRequest{Who: "ann"})
		ok(t, err)
		_, err = r.dial(wire.Operate).Proof(t.Context(), req)
		named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckHolds, "cordon")
		r.cordon()
	})
	t.Run("fences", func(t *testing.T) {
		for want, spoil := range map[string]func(*wire.ProofRequest){
			wire.CodeOtherDrain:   func(q *wire.ProofRequest) { q.Drain = "d2" },
			wire.CodeStaleEpoch:   func(q *wire.ProofRequest) { q.Epoch = 0 },
			wire.CodeOtherMachine: func(q *wire.ProofRequest) { q.Machine = "" },
			wire.CodeBadProof:     func(q *wire.ProofRequest) { q.HostKey = "SHA256:somebody-else" },
			wire.CodeBadRequest:   func(q *wire.ProofRequest) { q.Asserted = []byte("{") },
		} {
			bad := req
			spoil(&bad)
			_, err := r.dial(wire.Operate).Proof(t.Context(), bad)
			code(t, err, want)
		}
	})
}

func named(t *testing.T, p *client.Problem, check, text string) {
	t.Helper()
	if !slices.ContainsFunc(p.Issues, func(i fleet.Issue) bool { return i.Check == check && strings.Contains(i.Detail, text) }) {
		t.Fatalf("no issue of %q names %q: %+v", check, text, p.Issues)
	}
}

func TestASealOnAChangedHostNamesTheChange(t *testing.T) {
	r, req := proofRig(t)
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		rd.Processes.Value = []fleet.Process{{Run: fleet.Run{Boot: testBoot, PID: 4117, Start: 9}, Comm: "python3"}}
		return rd
	})
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	problem := code(t, err, wire.CodeChanged)
	named(t, problem, fleet.CheckLeft, "process 4117 (python3) started")
	if r.agent.Facts().Sealed != "" {
		t.Fatal("sealed all the same")
	}
	r.restart() // what the proof was made from is forgotten: still refused
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	named(t, code(t, err, wire.CodeChanged), fleet.CheckLeft, "4117 (python3)")
	r.prober.set(empty)
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	ok(t, err) // as it was proved
}

func TestASealByABadProof(t *testing.T) {
	r, req := proofRig(t)
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	term := r.dial(wire.Terminate)
	refused := func(name string, s wire.SealRequest, want string) {
		t.Helper()
		_, err := term.Seal(t.Context(), s)
		if !client.HasCode(err, want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	edited := sealOf(p)
	edited.Proof = []byte(strings.Replace(string(p.Proof), "gpu-041", "gpu-042", 1))
	refused("edited", edited, wire.CodeBadProof)
	cut := sealOf(p)
	cut.Signature = cut.Signature[:len(cut.Signature)/2]
	refused("signature cut", cut, wire.CodeBadProof)
	machine := sealOf(p)
	machine.Machine = "other"
	refused("other machine", machine, wire.CodeOtherMachine)
	word := sealOf(p)
	word.Terminator = "explode"
	refused("unknown terminator", word, wire.CodeBadRequest)

	// Another host, with another key, made one that is good for itself.
	r2, req2 := proofRig(t)
	p2, err := r2.dial(wire.Operate).Proof(t.Context(), req2)
	ok(t, err)
	refused("another host's key", sealOf(p2), wire.CodeBadProof)

	ok(t, r.drain("d1", 2))
	_, err = r.dial(wire.Operate).Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d1"})
	ok(t, err)
	refused("no drain hold", sealOf(p), wire.CodeNotHeld)
	ok(t, r.drain("d2", 1))
	refused("another drain", sealOf(p), wire.CodeOtherDrain)
	_, err = r.dial(wire.Operate).Undrain(t.Context(), wire.LiftRequest{Who: "ann", Drain: "d2"})
	ok(t, err)
	r.clock.advance(time.Second)
	ok(t, r.drain("d1", 2)) // held again, but since another time: another hold
	refused("lifted and set again", sealOf(p), wire.CodeChanged)

	r.clock.mu.Lock()
	r.clock.now = r.clock.now.Add(-time.Hour) // setting the clock back does not make it younger
	r.clock.boot += proof.Lifetime + time.Second
	r.clock.mu.Unlock()
	refused("old", sealOf(p), wire.CodeBadProof)

	r.cfg.Boot = "next-boot"
	r.restart()
	term = r.dial(wire.Terminate)
	refused("another boot", sealOf(p), wire.CodeBadProof)
	if r.agent.Facts().Sealed != "" {
		t.Fatal("sealed")
	}
}

func TestAScopedAgentRefusesRealTerminators(t *testing.T) {
	ended := make(chan struct{}, 1)
	r, req := proofRig(t, func(c *Config) {
		c.Scope = "demo-7"
		c.Poweroff = func() error { ended <- struct{}{}; return nil }
	})
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	term := r.dial(wire.Terminate)
	s := sealOf(p)
	s.Terminator = "command"
	_, err = term.Seal(t.Context(), s)
	code(t, err, wire.CodeScoped)
	off := wire.PoweroffRequest{Who: "ann", Drain: "d1", Machine: testMachine}
	_, err = term.Poweroff(t.Context(), off)
	code(t, err, wire.CodeNotHeld)
	s.Terminator = "poweroff"
	_, err = term.Seal(t.Context(), s)
	ok(t, err)
	off.Drain = "d2"
	_, err = term.Poweroff(t.Context(), off)
	code(t, err, wire.CodeNotHeld)
	off.Drain = "d1"
	_, err = term.Poweroff(t.Context(), off)
	ok(t, err)
	select {
	case <-ended:
	default:
		t.Fatal("nothing was powered off")
	}
}

func TestAProofOfAScopeDoesNotSealTheWholeHost(t *testing.T) {
	r, req := proofRig(t, func(c *Config) { c.Scope = "demo-7" })
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	r.cfg.Scope = ""
	r.restart()
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	code(t, err, wire.CodeBadProof)
}

func TestAnExceptionIsTypedAndStandsInTheProof(t *testing.T) {
	r, req := proofRig(t)
	leak := fleet.Resource{Key: fleet.Key{Kind: "netns", ID: "ns-7"}, Identity: "1"}
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		rd.Netns.Value = []fleet.Resource{leak}
		return rd
	})
	term := r.dial(wire.Terminate)
	acc := wire.AcceptRequest{Key: leak.Key, Reason: "belongs to the monitoring", Who: "ann", Typed: "netns/ns-8"}
	_, err := term.Accept(t.Context(), acc)
	code(t, err, wire.CodeBadRequest)
	acc.Typed = "netns/ns-7"
	_, err = r.dial(wire.Operate).Accept(t.Context(), acc)
	code(t, err, wire.CodeForbidden)
	_, err = term.Accept(t.Context(), acc)
	ok(t, err)
	r.restart()
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	doc, err := proof.Parse(p.Proof)
	ok(t, err)
	if len(doc.Accepted) != 1 || doc.Accepted[0].Key != leak.Key || doc.Accepted[0].Who != "ann" {
		t.Fatalf("%+v", doc.Accepted)
	}
	r.cfg.Boot = "next-boot"
	r.restart()
	if f := r.agent.Facts(); len(f.Accepted) != 0 {
		t.Fatalf("an exception outlived the boot: %+v", f.Accepted)
	}
}

func TestTheSignatureIsOneThatSSHKeygenKnows(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("no ssh-keygen")
	}
	r, req := proofRig(t)
	c := r.dial(wire.Observe)
	signer, err := c.Signer(t.Context())
	ok(t, err)
	if len(signer.Keys) != 1 || signer.Keys[0].Fingerprint != req.HostKey {
		t.Fatalf("%+v", signer)
	}
	p, err := r.dial(wire.Operate).Proof(t.Context(), req)
	ok(t, err)
	dir := t.TempDir()
	ok(t, os.WriteFile(dir+"/signers", []byte("gpu-041 "+signer.Keys[0].Public), 0o600))
	ok(t, os.WriteFile(dir+"/proof.sig", []byte(p.Signature), 0o600))
	cmd := exec.Command(keygen, "-Y", "verify", "-f", dir+"/signers", "-I", "gpu-041", "-n", "ebb-proof", "-s", dir+"/proof.sig")
	cmd.Stdin = strings.NewReader(string(p.Proof))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// What the console itself leaves unexplained is refused before anything is
// signed, unless it has been accepted by name.
func TestWhatTheConsoleAssertsMustBeExplainedToo(t *testing.T) {
	r, req := proofRig(t)
	ghost := proof.Asserted{
		Claims: proof.ClaimsDigest(nil), Console: "ann@desk", Verdicts: map[fleet.Verdict]int{fleet.Ghost: 1},
		Findings: []proof.Finding{{Key: vm1, Verdict: fleet.Ghost}},
	}
	var err error
	req.Asserted, err = json.Marshal(ghost)
	ok(t, err)
	op := r.dial(wire.Operate)
	_, err = op.Proof(t.Context(), req)
	named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckClaims, "vm/1")
	_, err = r.dial(wire.Terminate).Accept(t.Context(), wire.AcceptRequest{Key: vm1, Reason: "known", Who: "ann", Typed: vm1.String()})
	ok(t, err)
	_, err = op.Proof(t.Context(), req)
	ok(t, err)
	req.Asserted = nil
	_, err = op.Proof(t.Context(), req)
	named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckClaims, "claims were not read")
}
