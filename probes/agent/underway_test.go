package agent

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// What is admitted and reported done while the host is looked at may have
// landed after the look: it is looked at again.
func TestAnAdmissionDuringTheLookIsSeen(t *testing.T) {
	r, req := proofRig(t)
	gate := make(chan struct{})
	scans := 0
	r.prober.mu.Lock()
	r.prober.gate, scans = gate, r.prober.scans
	r.prober.mu.Unlock()
	result := make(chan error, 1)
	op := r.dial(wire.Operate)
	go func() {
		_, err := op.Proof(context.WithoutCancel(t.Context()), req)
		result <- err
	}()
	until(t, "the look has begun", func() bool {
		r.prober.mu.Lock()
		defer r.prober.mu.Unlock()
		return r.prober.scans > scans
	})
	adm := r.dial(wire.Admission)
	reply, err := adm.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpWake, Key: vm1})
	ok(t, err)
	_, err = adm.Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "done"})
	ok(t, err)
	first := true
	r.prober.set(func(now time.Time) Readings {
		rd := empty(now)
		if !first { // the look that was under way does not see it
			rd.Workloads.Value = []fleet.Workload{{Key: vm1, Phase: fleet.Running}}
		}
		first = false
		return rd
	})
	r.prober.mu.Lock()
	r.prober.gate = nil
	r.prober.mu.Unlock()
	close(gate)
	named(t, code(t, <-result, wire.CodeNotEmpty), fleet.CheckLeft, "vm/1")
}

// A command that was begun here may start something: nothing is proved or
// sealed before it has ended.
func TestACommandUnderWayKeepsAHostFromBeingProved(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "go")
	r, req := proofRig(t, func(c *Config) {
		c.Commands = map[string]config.Command{"slow": {Run: []string{script(t, "while [ ! -e "+mark+" ]; do sleep 0.02; done")}}}
	})
	op := r.dial(wire.Operate)
	p, err := op.Proof(t.Context(), req)
	ok(t, err)
	_, err = op.Act(t.Context(), execOf("d1/service/web-7/start/1", "slow"))
	ok(t, err)
	_, err = op.Proof(t.Context(), req)
	named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckTickets, "d1/service/web-7/start/1")
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	named(t, code(t, err, wire.CodeChanged), fleet.CheckTickets, "d1/service/web-7/start/1")
	ok(t, os.WriteFile(mark, nil, 0o600))
	reply, err := op.Follow(t.Context(), "d1/service/web-7/start/1", time.Minute)
	ok(t, err)
	if !reply.OK {
		t.Fatalf("%+v", reply)
	}
	_, err = r.dial(wire.Terminate).Seal(t.Context(), sealOf(p))
	ok(t, err)
}

// Creators ask and a cordon comes: whatever the order, no ticket is younger
// than the cordon that was confirmed.
func TestNothingIsAdmittedAfterACordonIsConfirmed(t *testing.T) {
	r := newRig(t)
	for range 20 {
		var cordoned atomic.Bool
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for n := range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					after := cordoned.Load()
					reply, err := r.agent.admit(Caller{Role: wire.Admission}, wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
					if err != nil {
						continue
					}
					if after {
						t.Errorf("creator %d was admitted after the cordon", n)
					}
					if _, err := r.agent.settle(Caller{Role: wire.Admission}, reply.Ticket.ID, wire.TicketReport{Closed: "done"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		_, err := r.agent.cordon(Caller{Role: wire.Cordon}, wire.CordonRequest{Who: "ann"})
		ok(t, err)
		cordoned.Store(true)
		for range 50 {
			_, err := r.agent.admit(Caller{Role: wire.Admission}, wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
			if err == nil {
				t.Error("admitted after the cordon")
			}
		}
		close(stop)
		wg.Wait()
		_, err = r.agent.uncordon(Caller{Role: wire.Cordon}, wire.LiftRequest{Who: "ann"})
		ok(t, err)
	}
}
