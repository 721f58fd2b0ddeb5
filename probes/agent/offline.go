package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// Offline answers admissions where the daemon is down: from the slots, with
// tickets that the daemon finds when it comes up. What it can't make sure of it
// refuses.
type Offline struct {
	StateDir string
	Machine  string
	Boot     string
	Caps     config.Caps
	Clock    Clock
	// Wait is how long to wait for whoever owns the state directory now: a daemon
	// that is starting, or another call like this one.
	Wait time.Duration
}

// Refusal returns the problem behind an error of this package that is an answer
// and not a failure.
func Refusal(err error) (wire.Problem, bool) {
	var r *refusal
	if errors.As(err, &r) {
		return r.problem, true
	}
	return wire.Problem{}, false
}

// own runs do as the owner of an existing state directory.
func (o Offline) own(ctx context.Context, do func() error) error {
	if info, err := os.Stat(o.StateDir); err != nil || !info.IsDir() {
		return refuse(wire.CodeUnheld, "the agent is down, and this host has no record of its holds")
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		lock, err := lockState(o.StateDir)
		if err == nil {
			defer lock.Close()
			return do()
		}
		if !errors.Is(err, ErrLocked) {
			return notRecorded(err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("admit: %w, and does not answer", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Admit decides by the slots and writes the ticket.
func (o Offline) Admit(ctx context.Context, c Caller, req wire.AdmissionRequest) (reply wire.AdmissionReply, err error) {
	if err := checkAdmission(req); err != nil {
		return reply, err
	}
	err = o.own(ctx, func() error {
		rec, err := ReadHolds(o.StateDir)
		if err != nil || rec.Machine != o.Machine {
			rec = Record{Unheld: true}
		}
		dec, err := decide(rec, o.Boot, req)
		if err != nil {
			return err
		}
		all, err := readTickets(o.StateDir)
		if err != nil {
			return notRecorded(err)
		}
		open := openTickets(all)
		if dec.Capped {
			if err := room(o.Caps, open, fleet.Reading[[]fleet.Workload]{}, req); err != nil {
				return err
			}
		}
		reply = wire.AdmissionReply{Allowed: true, Until: dec.Until}
		if !takesTicket(req.Op) {
			return nil
		}
		if len(open) >= maxOpen {
			return refuse(wire.CodeFull, "too many open tickets")
		}
		t := newTicket(req.Op, req.Key, req.Who, req.TTL, o.Clock.Now())
		if err := o.note(c, "admit "+string(req.Op), req.Key.String(), t.ID, "admitted"); err != nil {
			return err
		}
		if err := writeTicket(o.StateDir, t); err != nil {
			return notRecorded(err)
		}
		reply.Ticket = &t
		return nil
	})
	return reply, err
}

// Settle closes a ticket.
func (o Offline) Settle(ctx context.Context, c Caller, id string, rep wire.TicketReport) (t fleet.Ticket, err error) {
	if rep.Closed != "done" && rep.Closed != "failed" {
		return t, refuse(wire.CodeBadRequest, "closed: want done or failed")
	}
	if !ticketID().MatchString(id) {
		return t, refuse(wire.CodeNotFound, "no such ticket")
	}
	err = o.own(ctx, func() error {
		all, err := readTickets(o.StateDir)
		if err != nil {
			return notRecorded(err)
		}
		var ok bool
		if t, ok = all[id]; !ok {
			return refuse(wire.CodeNotFound, "no such ticket")
		}
		if !t.Open() {
			return nil
		}
		t.Closed = rep.Closed
		if err := o.note(c, "ticket "+rep.Closed, t.Key.String(), id, "done"); err != nil {
			return err
		}
		if err := writeTicket(o.StateDir, t); err != nil {
			return notRecorded(err)
		}
		return nil
	})
	return t, err
}

func (o Offline) note(c Caller, verb, what, ticket, outcome string) error {
	log := newAuditLog(o.StateDir)
	defer log.close()
	err := log.append(auditLine{
		Time: o.Clock.Now(), UID: c.UID, SudoUID: c.SudoUID, PID: c.PID, Role: c.Role, Verb: verb, What: what,
		Why: "ticket " + ticket + ", while the agent was down", Outcome: outcome, Claimed: c.Claimed,
	})
	if err != nil {
		return notRecorded(err)
	}
	return nil
}
