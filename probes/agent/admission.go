package agent

import (
	"fmt"
	"slices"

	"ebb/fleet"
	"ebb/fleet/config"
	"ebb/probes/wire"
)

// admit answers a local creator. Decision and ticket are one step under the
// agent's lock: no cordon can come between them.
func (a *Agent) admit(c Caller, req wire.AdmissionRequest) (wire.AdmissionReply, error) {
	if err := checkAdmission(req); err != nil {
		return wire.AdmissionReply{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return wire.AdmissionReply{}, notRecorded(errEnding)
	}
	f, _ := a.store.get()
	dec, err := decide(a.rec, a.cfg.Boot, req)
	if err != nil {
		return wire.AdmissionReply{}, err
	}
	if dec.Capped {
		if err := room(a.cfg.Caps, openTickets(a.tickets), f.Workloads, req); err != nil {
			return wire.AdmissionReply{}, err
		}
	}
	reply := wire.AdmissionReply{Allowed: true, Until: dec.Until}
	if !takesTicket(req.Op) {
		return reply, nil
	}
	if len(openTickets(a.tickets)) >= maxOpen {
		return wire.AdmissionReply{}, refuse(wire.CodeFull, "too many open tickets").hint("their creators never reported done or failed")
	}
	now := a.cfg.Clock.Now()
	t := newTicket(req.Op, req.Key, req.Who, req.TTL, now)
	what := note{"admit " + string(req.Op), req.Key.String(), "ticket " + t.ID}
	if err := a.audit.append(a.auditLine(c, what, "admitted")); err != nil {
		return wire.AdmissionReply{}, notRecorded(err)
	}
	if err := writeTicket(a.cfg.StateDir, t); err != nil {
		return wire.AdmissionReply{}, notRecorded(err)
	}
	a.sweep()
	a.tickets[t.ID] = t
	a.admissions++
	a.publish()
	reply.Ticket = &t
	return reply, nil
}

func checkAdmission(req wire.AdmissionRequest) error {
	if !slices.Contains(fleet.Ops, req.Op) {
		return refuse(wire.CodeBadRequest, "unknown operation "+string(req.Op))
	}
	if req.TTL < 0 {
		return refuse(wire.CodeBadRequest, "a negative ttl")
	}
	if req.Op != fleet.OpAdvertise && req.Op != fleet.OpRefill {
		return checkKey(req.Key)
	}
	return nil
}

// decide is the admission table on a record, for the daemon and without it.
func decide(rec Record, boot string, req wire.AdmissionRequest) (fleet.Admission, error) {
	if drain := rec.sealedIn(boot); drain != "" {
		return fleet.Admission{}, seal429(drain).hold(rec.Holds.Drain)
	}
	if rec.Unheld {
		return fleet.Admission{}, refuse(wire.CodeUnheld, "this host has no record of its holds").
			hint("cordon it, or uncordon it to say that nothing holds it")
	}
	dec := fleet.Admit(rec.Holds, req.Op, rec.moved(req.Key))
	if !dec.Allowed {
		return dec, refuse(wire.CodeHeld, dec.Reason).hold(dec.Hold)
	}
	return dec, nil
}

func seal429(drain string) *refusal {
	r := refuse(wire.CodeSealed, "the host has been sealed for termination by drain "+drain)
	r.status = 429
	return r
}

// room refuses what a cap has no room for: too many admissions open at once, or
// too many workloads on the host. An open ticket counts as the work it admits.
func room(caps config.Caps, open []fleet.Ticket, workloads fleet.Reading[[]fleet.Workload], req wire.AdmissionRequest) error {
	op, key := req.Op, req.Key
	at, limit := "claim", caps.Claim
	if op == fleet.OpMoveIn {
		at, limit = "move_in", caps.MoveIn
	}
	same := 0
	for _, t := range open {
		if (op == fleet.OpMoveIn) == (t.Op == fleet.OpMoveIn) && capped(t.Op) {
			same++
		}
	}
	if limit > 0 && same >= limit {
		return full(at, same, limit)
	}
	if caps.Total == 0 && caps.Kind[key.Kind] == 0 {
		return nil
	}
	if workloads.Status != fleet.OK {
		return refuse(wire.CodeFull, "it is not known how much runs here: workloads could not be read")
	}
	there := map[fleet.Key]bool{}
	for _, w := range workloads.Value {
		if w.Phase == fleet.Running {
			there[w.Key] = true
		}
	}
	for _, t := range open {
		there[t.Key] = true
	}
	delete(there, key)
	kind := 0
	for k := range there {
		if k.Kind == key.Kind {
			kind++
		}
	}
	if caps.Total > 0 && len(there) >= caps.Total {
		return full("total", len(there), caps.Total)
	}
	if n := caps.Kind[key.Kind]; n > 0 && kind >= n {
		return full("kind."+key.Kind, kind, n)
	}
	return nil
}

func capped(op fleet.Op) bool { return fleet.Admit(fleet.Holds{}, op, false).Capped }

func full(which string, there, limit int) error {
	return refuse(wire.CodeFull, fmt.Sprintf("no room: %d of %d (cap %s)", there, limit, which)).
		arg("cap", which).arg("there", itoa(there)).arg("limit", itoa(limit))
}

// settle closes a ticket. Creators report done or failed through their own
// socket; only a person, as operator, settles somebody else's.
func (a *Agent) settle(c Caller, id string, rep wire.TicketReport) (fleet.Ticket, error) {
	person := rep.Closed == "settled"
	switch {
	case !ticketID().MatchString(id):
		return fleet.Ticket{}, refuse(wire.CodeNotFound, "no such ticket")
	case !person && rep.Closed != "done" && rep.Closed != "failed":
		return fleet.Ticket{}, refuse(wire.CodeBadRequest, "closed: want done, failed or settled")
	case person && !c.Role.Covers(wire.Operate):
		return fleet.Ticket{}, forbidden(c.Role, wire.Operate)
	case !person && !c.Role.Covers(wire.Admission):
		return fleet.Ticket{}, forbidden(c.Role, wire.Admission)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.tickets[id]
	if !ok {
		return fleet.Ticket{}, refuse(wire.CodeNotFound, "no such ticket")
	}
	if !t.Open() {
		return t, nil
	}
	t.Closed = rep.Closed
	err := a.audited(c, note{"ticket " + rep.Closed, t.Key.String(), "ticket " + id + " " + clip(rep.Who, maxText)}, func() error {
		if err := writeTicket(a.cfg.StateDir, t); err != nil {
			return notRecorded(err)
		}
		a.tickets[id] = t
		a.admissions++
		a.publish()
		return nil
	})
	if err == nil {
		a.scan.kick()
	}
	return t, err
}
