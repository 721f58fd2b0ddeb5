package agent

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// The states of the admission table, and what each takes, column by column.
var table = []struct {
	state string
	set   func(*testing.T, *rig)
	yes   []fleet.Op
}{
	{"serving", func(*testing.T, *rig) {}, fleet.Ops},
	{"cordoned", func(_ *testing.T, r *rig) { r.cordon() },
		[]fleet.Op{fleet.OpRenew, fleet.OpExec, fleet.OpWake, fleet.OpHibernate, fleet.OpMoveIn}},
	{"draining", func(t *testing.T, r *rig) { ok(t, r.drain("d1", 1)) },
		[]fleet.Op{fleet.OpRenew, fleet.OpExec, fleet.OpWake, fleet.OpHibernate}},
	{"draining with evacuation", evacuating,
		[]fleet.Op{fleet.OpRenew, fleet.OpExec, fleet.OpWake, fleet.OpHibernate}},
	{"cordoned and draining", func(t *testing.T, r *rig) { r.cordon(); ok(t, r.drain("d1", 1)) },
		[]fleet.Op{fleet.OpRenew, fleet.OpExec, fleet.OpWake, fleet.OpHibernate}},
	{"evacuating, the workload moved", func(t *testing.T, r *rig) { evacuating(t, r); moved(t, r) }, nil},
	{"cordoned and draining, the workload moved", func(t *testing.T, r *rig) {
		r.cordon()
		ok(t, r.drain("d1", 1))
		moved(t, r)
	}, nil},
}

func evacuating(t *testing.T, r *rig) {
	_, err := r.dial(wire.Operate).Drain(t.Context(), wire.DrainRequest{
		Who: "ann", Drain: "d1", Epoch: 1, Deadline: r.clock.Now().Add(time.Hour), Evacuate: true})
	ok(t, err)
}

var vm1 = fleet.Key{Kind: "vm", ID: "1"}

func moved(t *testing.T, r *rig) {
	reply, err := r.act(wire.ActRequest{ID: "moved-1", Drain: "d1", Epoch: 1, Kind: wire.ActMoved, Key: vm1})
	ok(t, err)
	if !reply.OK {
		t.Fatalf("moved: %+v", reply)
	}
}

func TestAdmissionTable(t *testing.T) {
	for _, row := range table {
		t.Run(row.state, func(t *testing.T) {
			r := newRig(t)
			row.set(t, r)
			r.restart() // every cell holds over a restart
			c := r.dial(wire.Admission)
			for _, op := range fleet.Ops {
				t.Run(string(op), func(t *testing.T) {
					want := false
					for _, o := range row.yes {
						want = want || o == op
					}
					reply, err := c.Admit(t.Context(), wire.AdmissionRequest{Op: op, Key: vm1, Who: "scheduler"})
					if !want {
						if p := code(t, err, wire.CodeHeld); p.Status != 429 || p.Hold == nil || p.Problem.Error == "" {
							t.Fatalf("the refusal does not name hold and reason: %+v", p)
						}
						return
					}
					ok(t, err)
					if (reply.Ticket != nil) != takesTicket(op) {
						t.Fatalf("ticket: %+v", reply.Ticket)
					}
					draining := r.agent.Facts().Holds.Drain
					if op == fleet.OpRenew && draining != nil && !reply.Until.Equal(draining.Deadline) {
						t.Fatalf("renewed until %v, past the outer deadline %v", reply.Until, draining.Deadline)
					}
				})
			}
		})
	}
}

func TestARefusalSaysWhenToAskAgain(t *testing.T) {
	r := newRig(t)
	r.cordon()
	resp := r.http(wire.Admission, "POST", wire.PathAdmission, `{"op":"claim","key":"vm/1"}`)
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "30" {
		t.Fatalf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}

func TestATicketStaysOpenUntilItsCreatorReports(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Admission)
	reply, err := c.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1, TTL: time.Minute, Who: "sched"})
	ok(t, err)
	r.cordon()
	r.clock.advance(24 * time.Hour) // overdue
	r.restart()
	open := r.agent.Facts().OpenTickets()
	if len(open) != 1 || open[0].ID != reply.Ticket.ID || open[0].Key != vm1 || !open[0].Due.Before(r.clock.Now()) {
		t.Fatalf("open: %+v", open)
	}
	c = r.dial(wire.Admission)
	_, err = c.Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "settled"})
	code(t, err, wire.CodeForbidden)
	_, err = r.dial(wire.Operate).Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "done"})
	code(t, err, wire.CodeForbidden)
	_, err = c.Settle(t.Context(), "AAAAAAAAAAAAAAAAAAAAAAAAAA", wire.TicketReport{Closed: "done"})
	code(t, err, wire.CodeNotFound)
	for range 2 { // a repeat is answered as the first
		done, err := c.Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "failed"})
		ok(t, err)
		if done.Closed != "failed" {
			t.Fatalf("closed %q", done.Closed)
		}
	}
	r.restart()
	if open := r.agent.Facts().OpenTickets(); len(open) != 0 {
		t.Fatalf("settled, and open again: %+v", open)
	}
}

func TestAnOperatorSettlesAnAbandonedTicket(t *testing.T) {
	r := newRig(t)
	reply, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpFork, Key: vm1})
	ok(t, err)
	_, err = r.dial(wire.Operate).Settle(t.Context(), reply.Ticket.ID, wire.TicketReport{Closed: "settled", Who: "ann"})
	ok(t, err)
	if len(r.agent.Facts().OpenTickets()) != 0 {
		t.Fatal("still open")
	}
}

func TestATicketThatCantBeReadIsOpen(t *testing.T) {
	r := newRig(t)
	r.stop()
	dir := filepath.Join(r.cfg.StateDir, ticketDir)
	ok(t, os.MkdirAll(dir, 0o700))
	ok(t, os.WriteFile(filepath.Join(dir, strings.Repeat("A", 26)+".json"), []byte("{torn"), 0o600))
	r.start()
	if open := r.agent.Facts().OpenTickets(); len(open) != 1 {
		t.Fatalf("open: %+v", open)
	}
}

func TestTicketsThatCantBeReadKeepTheGateShut(t *testing.T) {
	r, req := proofRig(t)
	r.stop()
	ok(t, os.RemoveAll(filepath.Join(r.cfg.StateDir, ticketDir)))
	ok(t, os.WriteFile(filepath.Join(r.cfg.StateDir, ticketDir), nil, 0o600)) // not a directory
	r.start()
	if !r.agent.Facts().Holds.Both() {
		t.Fatal("the holds are not held")
	}
	_, err := r.dial(wire.Operate).Proof(t.Context(), req)
	named(t, code(t, err, wire.CodeNotEmpty), fleet.CheckTickets, "can't be read")
	_, err = r.dial(wire.Operate).Settle(t.Context(), unreadable, wire.TicketReport{Closed: "settled"})
	code(t, err, wire.CodeNotRecorded)
}

func TestWhereATicketCantBeWrittenNothingIsAdmitted(t *testing.T) {
	r := newRig(t)
	ok(t, os.WriteFile(filepath.Join(r.cfg.StateDir, ticketDir), nil, 0o600)) // not a directory
	_, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
	code(t, err, wire.CodeNotRecorded)
}

func TestCaps(t *testing.T) {
	running := func(keys ...fleet.Key) func(time.Time) Readings {
		return func(now time.Time) Readings {
			rd := empty(now)
			for _, k := range keys {
				rd.Workloads.Value = append(rd.Workloads.Value, fleet.Workload{Key: k, Phase: fleet.Running})
			}
			return rd
		}
	}
	vm2, db1 := fleet.Key{Kind: "vm", ID: "2"}, fleet.Key{Kind: "db", ID: "1"}
	for name, c := range map[string]struct {
		caps config.Caps
		here []fleet.Key
		op   fleet.Op
		key  fleet.Key
		full bool
	}{
		"total":            {config.Caps{Total: 1}, []fleet.Key{vm1}, fleet.OpClaim, vm2, true},
		"total has room":   {config.Caps{Total: 2}, []fleet.Key{vm1}, fleet.OpClaim, vm2, false},
		"kind":             {config.Caps{Kind: map[string]int{"vm": 1}}, []fleet.Key{vm1}, fleet.OpFork, vm2, true},
		"other kind":       {config.Caps{Kind: map[string]int{"vm": 1}}, []fleet.Key{vm1}, fleet.OpClaim, db1, false},
		"the same again":   {config.Caps{Total: 1}, []fleet.Key{vm1}, fleet.OpRestore, vm1, false},
		"existing work":    {config.Caps{Total: 1}, []fleet.Key{vm1}, fleet.OpWake, vm2, false},
		"moves are capped": {config.Caps{Total: 1}, []fleet.Key{vm1}, fleet.OpMoveIn, vm2, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := unstarted(t, func(cfg *Config) { cfg.Caps = c.caps })
			r.prober.show = running(c.here...)
			ok(t, Init(r.cfg.StateDir, testMachine))
			r.start()
			_, err := r.dial(wire.Operate).Facts(t.Context(), true)
			ok(t, err)
			_, err = r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: c.op, Key: c.key})
			if c.full {
				code(t, err, wire.CodeFull)
			} else {
				ok(t, err)
			}
		})
	}
	t.Run("open tickets count", func(t *testing.T) {
		r := newRig(t, func(cfg *Config) { cfg.Caps = config.Caps{Claim: 1, MoveIn: 1} })
		c := r.dial(wire.Admission)
		first, err := c.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
		ok(t, err)
		_, err = c.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpRestore, Key: vm2})
		code(t, err, wire.CodeFull)
		_, err = c.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpMoveIn, Key: vm2})
		ok(t, err)
		_, err = c.Settle(t.Context(), first.Ticket.ID, wire.TicketReport{Closed: "done"})
		ok(t, err)
		_, err = c.Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm2})
		ok(t, err)
	})
	t.Run("unknown is full", func(t *testing.T) {
		r := unstarted(t, func(cfg *Config) { cfg.Caps = config.Caps{Total: 100} })
		r.prober.show = func(now time.Time) Readings {
			rd := empty(now)
			rd.Workloads = fleet.ReadFailed[[]fleet.Workload]("rules", now, 0, os.ErrPermission)
			return rd
		}
		ok(t, Init(r.cfg.StateDir, testMachine))
		r.start()
		_, err := r.dial(wire.Admission).Admit(t.Context(), wire.AdmissionRequest{Op: fleet.OpClaim, Key: vm1})
		code(t, err, wire.CodeFull)
	})
}

// http makes one plain HTTP/1 request on a role's socket.
func (r *rig) http(role wire.Role, method, path, body string) *http.Response {
	r.t.Helper()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return DialSocket(ctx, filepath.Join(r.cfg.RunDir, role.Socket()))
	}}
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://ebbd"+path, strings.NewReader(body))
	ok(r.t, err)
	resp, err := tr.RoundTrip(req)
	ok(r.t, err)
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}
