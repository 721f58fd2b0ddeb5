package sim

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"ebb/fleet"
	"ebb/probes/wire"
)

// lastWait lies between the second TERM and KILL.
const lastWait = 30 * time.Second

// begin takes an act, carries it out and answers; a repeat gets the first answer.
func (a *agent) begin(r wire.ActRequest) (wire.ActReply, error) {
	if err := a.checkAct(r); err != nil {
		return wire.ActReply{}, err
	}
	if old := a.acts[r.ID]; old != nil {
		if !sameAct(old.req, r) {
			return wire.ActReply{}, refuse(wire.CodeBadRequest)
		}
		return old.reply, nil
	}
	if err := a.fence(r); err != nil {
		return wire.ActReply{}, err
	}
	if err := a.write(); err != nil {
		return wire.ActReply{}, err
	}
	x := &acted{req: r, reply: wire.ActReply{ID: r.ID, State: wire.ActBegun, Begun: a.m.Clock()}}
	a.acts[r.ID] = x
	if a.m.Dies("begun") {
		a.up = false
		return wire.ActReply{}, errDied
	}
	if r.Kind == wire.ActQuiet { // it goes on by itself
		a.watchQuiet(x, quiet{began: a.m.Boottime()})
		return x.reply, nil
	}
	return a.finish(x)
}

// finish carries an act out and writes how it went.
func (a *agent) finish(x *acted) (wire.ActReply, error) {
	reply := x.reply
	err := a.perform(x.req, &reply)
	if err == errDied {
		return wire.ActReply{}, errDied
	}
	return a.close(x, reply, err)
}

// close writes the end of an act.
func (a *agent) close(x *acted, reply wire.ActReply, err error) (wire.ActReply, error) {
	reply.State, reply.OK, reply.Finished = wire.ActFinished, err == nil, a.m.Clock()
	if err != nil {
		reply.Reason, reply.Detail = reasonOf(err), err.Error()
	}
	werr := a.write()
	if werr == errDied {
		return wire.ActReply{}, errDied // begun for ever, in what is on the disk
	}
	x.unwritten = werr != nil
	x.reply = reply
	return reply, nil
}

func reasonOf(err error) fleet.Reason {
	if r, ok := err.(*refusal); ok {
		return fleet.Reason{Code: r.code}
	}
	return fleet.Because("failed", "error", err.Error())
}

func (a *agent) checkAct(r wire.ActRequest) error {
	if r.ID == "" {
		return refuse(wire.CodeBadRequest)
	}
	if err := a.isMachine(r.Machine, true); err != nil {
		return err
	}
	switch r.Kind {
	case wire.ActExec, wire.ActQuiet:
		return nil
	case wire.ActClean:
		if r.Identity == "" || r.Key.Kind != "netns" {
			return refuse(wire.CodeBadRequest)
		}
		return nil
	}
	bad := r.Kind != wire.ActSignal || r.Signal != "TERM" && r.Signal != "KILL" || len(r.Runs) == 0 || r.Grace < 0
	bad = bad || r.Signal == "KILL" && (r.Recorded == "" || r.Named == "")
	bad = bad || slices.ContainsFunc(r.Runs, func(x fleet.Run) bool { return x.PID <= 1 || x.Start == 0 || x.Boot == "" })
	if bad {
		return refuse(wire.CodeBadRequest)
	}
	return nil
}

func sameAct(a, b wire.ActRequest) bool {
	return a.Kind == b.Kind && a.Key == b.Key && a.Drain == b.Drain && a.Signal == b.Signal && a.Command == b.Command
}

// fence is asked when an act begins and again in its instant.
func (a *agent) fence(r wire.ActRequest) error {
	if err := a.notSealed(); err != nil {
		return err
	}
	if r.Drain == "" {
		switch {
		case r.Kind != wire.ActClean && (r.Kind != wire.ActSignal || r.Signal != "TERM"):
			return refuse(wire.CodeBadRequest)
		case !a.rec.holds.Any():
			return refuse(wire.CodeNotHeld)
		case len(a.open()) > 0:
			return refuse(wire.CodeTicketsOpen)
		}
		return nil
	}
	hold := a.rec.holds.Drain
	if hold != nil && hold.Drain != r.Drain {
		return &refusal{code: wire.CodeOtherDrain, hold: hold}
	}
	if hold == nil && r.Kind != wire.ActExec {
		return refuse(wire.CodeNotHeld)
	}
	if hold == nil && a.rec.holds.Cordon != nil && !a.begunFor(r) {
		return refuse(wire.CodeHeld)
	}
	top, announced := a.rec.epochs[r.Drain]
	switch {
	case !announced:
		return refuse(wire.CodeNotHeld)
	case r.Epoch < top:
		return a.notStale(r.Drain, r.Epoch)
	case r.Epoch > top:
		return a.raise(r.Drain, r.Epoch)
	}
	return nil
}

func (a *agent) begunFor(r wire.ActRequest) bool {
	for _, x := range a.acts {
		if x.req.Kind == wire.ActExec && x.req.Drain == r.Drain && x.req.Key == r.Key {
			return true
		}
	}
	return false
}

func (a *agent) perform(r wire.ActRequest, reply *wire.ActReply) error {
	switch r.Kind {
	case wire.ActExec:
		return a.m.Exec(r)
	case wire.ActClean:
		return a.clean(r, reply)
	}
	boot := a.m.Boot()
	var targets []fleet.Run
	for _, run := range r.Runs {
		if run.Boot != boot {
			return refuse(wire.CodeOtherRun)
		}
	}
	for _, run := range r.Runs {
		key, _, runs := a.m.Owner(run)
		if !runs {
			continue
		}
		if key != r.Key && !slices.ContainsFunc(a.terms[run], func(s sent) bool { return s.key == r.Key }) {
			return refuse(wire.CodeOtherRun)
		}
		targets = append(targets, run)
	}
	if err := a.fence(r); err != nil {
		return err
	}
	if r.Signal == "KILL" {
		if err := a.dueKill(r, targets, reply); err != nil {
			return err
		}
	}
	for _, run := range targets {
		_, grace, _ := a.m.Owner(run)
		a.m.Signal(r, run)
		if r.Signal == "KILL" {
			continue
		}
		if a.m.Dies("sent") { // another TERM, never a KILL too early
			a.up = false
			return errDied
		}
		if err := a.write(); err != nil {
			return err
		}
		for _, s := range a.terms[run] {
			grace = max(grace, s.grace)
		}
		a.terms[run] = append(a.terms[run], sent{a.m.Boottime(), boot, r.Key, grace})
	}
	return nil
}

// dueKill refuses a KILL before TERM, the grace, TERM and thirty seconds.
func (a *agent) dueKill(r wire.ActRequest, targets []fleet.Run, reply *wire.ActReply) error {
	var wait time.Duration
	for _, run := range targets {
		_, grace, _ := a.m.Owner(run)
		grace = max(grace, r.Grace)
		terms := a.terms[run]
		for _, s := range terms {
			grace = max(grace, s.grace)
		}
		if len(terms) == 0 {
			return refuse(wire.CodeTooEarly)
		}
		second := slices.IndexFunc(terms, func(s sent) bool { return s.at-terms[0].at >= grace && s != terms[0] })
		now := a.m.Boottime()
		switch {
		case second >= 0:
			wait = max(wait, terms[second].at+lastWait-now)
		case now-terms[0].at >= grace:
			return refuse(wire.CodeTooEarly)
		default:
			wait = max(wait, terms[0].at+grace+lastWait-now)
		}
	}
	if wait > 0 {
		reply.NotYet = a.m.Clock().Add(wait)
		return refuse(wire.CodeTooEarly)
	}
	return nil
}

// follow says what became of an act.
func (a *agent) follow(id string) (wire.ActReply, error) {
	if x := a.acts[id]; x != nil {
		return x.reply, nil
	}
	return wire.ActReply{}, refuse(wire.CodeNotFound)
}

// admit gives a ticket to whoever will create something.
func (a *agent) admit(r wire.AdmissionRequest) (*fleet.Ticket, error) {
	if a.rec.seal != "" {
		return nil, refuse(wire.CodeSealed)
	}
	if !fleet.Admit(a.rec.holds, r.Op, false).Allowed {
		return nil, refuse(wire.CodeHeld)
	}
	switch r.Op { // what only concerns work that is here gets none
	case fleet.OpRenew, fleet.OpExec, fleet.OpHibernate, fleet.OpAdvertise:
		return nil, nil
	}
	if err := a.write(); err != nil {
		return nil, err
	}
	a.n++
	t := fleet.Ticket{ID: "T" + strconv.Itoa(a.n), Op: r.Op, Key: r.Key, Who: r.Who, At: a.m.Clock(), Due: a.m.Clock().Add(5 * time.Minute)}
	a.tickets[t.ID] = t
	return &t, nil
}

func (a *agent) settle(id, how string) error {
	t, ok := a.tickets[id]
	if !ok {
		return refuse(wire.CodeNotFound)
	}
	if !t.Open() {
		return nil
	}
	if err := a.write(); err != nil {
		return err
	}
	t.Closed = how
	a.tickets[id] = t
	return nil
}

// open lists the tickets that nobody has settled.
func (a *agent) open() []fleet.Ticket {
	var out []fleet.Ticket
	for _, t := range a.tickets {
		if t.Open() {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y fleet.Ticket) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID)) })
	return out
}
