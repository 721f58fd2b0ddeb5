package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// errStill says that an act is under way at an agent.
var errStill = errors.New("the agent is at it")

// reach calls an agent.
func reach[T any](c *console, id fleet.HostID, name string, fn func(*host) (T, error)) (T, error) {
	return call(c, string(id), name, func() (T, error) {
		var none T
		h := c.w.hosts[id]
		if !h.answers() {
			return none, errFault
		}
		return fn(h)
	})
}

// decided turns an agent's refusals into what the engine tells apart, as the
// console's end of the wire does.
func decided(err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	switch {
	case r.code == wire.CodeOtherDrain && r.hold != nil:
		return &engine.HoldTaken{Hold: *r.hold}
	case r.code == wire.CodeStaleEpoch:
		return fmt.Errorf("%w: %s", drain.ErrLeaseLost, r.code)
	case r.code == wire.CodeNotRecorded:
		return err
	}
	return &final{r}
}

type final struct{ *refusal }

func (*final) Final() bool { return true }

// against are the reasons of a refused proof or seal.
func against(err error) []fleet.Issue {
	var r *refusal
	if !errors.As(err, &r) {
		return nil
	}
	switch r.code {
	case wire.CodeNotEmpty, wire.CodeChanged, wire.CodeBadProof, wire.CodeScoped, wire.CodeTicketsOpen:
		if len(r.issues) > 0 {
			return r.issues
		}
		return []fleet.Issue{{Check: fleet.CheckReach, Detail: r.code}}
	}
	return nil
}

// lookPort is an agent as the observer needs it.
type lookPort struct {
	c  *console
	id fleet.HostID
}

func (p *lookPort) Summary(context.Context) (fleet.Summary, error) {
	return fleet.Summary{}, errFault
}

func (p *lookPort) Watch(context.Context, func(fleet.Facts) error) error { return errFault }

func (p *lookPort) Facts(context.Context, bool) (fleet.Facts, error) {
	f, err := reach(p.c, p.id, "facts", func(h *host) (fleet.Facts, error) { return h.agent.facts(), nil })
	if err == nil && p.c.w.drains(p.id) && p.c.w.hosts[p.id].probe == "" {
		p.c.looked[p.id] = time.Now()
	}
	return f, err
}

// agentsPort opens channels to agents, and carries acts to them.
type agentsPort struct{ c *console }

func (p *agentsPort) Agent(_ context.Context, id fleet.HostID, role engine.Role) (engine.Agent, error) {
	key, err := reach(p.c, id, "open "+string(role), func(h *host) (ssh.PublicKey, error) { return h.Signer().PublicKey(), nil })
	return &agentPort{p.c, id, key}, err
}

// Act sends an act. A request may come later than its sender believes, or twice.
func (p *agentsPort) Act(_ context.Context, id fleet.HostID, m string, j drain.Job) (drain.Answer, error) {
	h := p.c.w.hosts[id]
	if m == "" {
		m = h.machine
	}
	r := wire.ActRequest{ID: j.Act.ID, Drain: j.Drain, Epoch: j.Epoch, Machine: m, Key: j.Act.Key}
	switch j.Act.Kind {
	case drain.ActSignal:
		r.Kind, r.Runs, r.Signal, r.Grace, r.Recorded, r.Named = wire.ActSignal, j.Act.Runs, j.Act.Signal, j.Act.Grace, j.Act.Record, j.Act.Named
	case drain.ActQuiet:
		r.Kind, r.Runs, r.Window, r.Timeout = wire.ActQuiet, j.Act.Runs, j.Act.Quiet.Window, 30*time.Second+j.Act.Quiet.Window
	default:
		r.Kind, r.Command = wire.ActExec, j.Act.Exec
	}
	return p.send(id, r, true)
}

func (p *agentsPort) send(id fleet.HostID, r wire.ActRequest, late bool) (drain.Answer, error) {
	w := p.c.w
	n := w.draw("net " + p.c.name + string(id))
	if late && w.faults && n%100 < 4 {
		w.count("act late")
		w.after(time.Duration(1+n/100%400)*time.Second, func() {
			if h := w.hosts[id]; h.answers() {
				w.late = true
				_, _ = h.begin(r)
				w.late = false
			}
		})
		if n%100 < 2 {
			return drain.Answer{}, errFault // it is on its way, and nobody knows
		}
	}
	reply, err := reach(p.c, id, "act", func(h *host) (wire.ActReply, error) { return h.begin(r) })
	var no *refusal
	if errors.As(err, &no) {
		switch no.code {
		case wire.CodeStaleEpoch, wire.CodeNotRecorded:
			return drain.Answer{}, decided(err)
		}
		return drain.Answer{Result: drain.Refused, Reason: fleet.Reason{Code: no.code}, Detail: no.code}, nil
	}
	if err != nil {
		return drain.Answer{}, err
	}
	return answerOf(reply)
}

func answerOf(r wire.ActReply) (drain.Answer, error) {
	a := drain.Answer{Result: drain.Done, Reason: r.Reason, Detail: r.Detail}
	switch {
	case r.State == wire.ActBegun:
		return drain.Answer{}, errStill
	case r.State == wire.ActInterrupted:
		a.Result = drain.Interrupted
	case !r.OK && r.Reason.Code == wire.CodeTooEarly:
		a.Result = drain.Refused
	case !r.OK:
		a.Result = drain.FailedAct
	}
	return a, nil
}

// begin is an act as it arrives at the host.
func (h *host) begin(r wire.ActRequest) (wire.ActReply, error) {
	reply, err := h.agent.begin(r)
	if err == nil {
		h.heard[r.Drain] = max(h.heard[r.Drain], h.agent.rec.epochs[r.Drain])
	}
	return reply, err
}

func (p *agentsPort) Outcome(_ context.Context, id fleet.HostID, act string) (drain.Answer, bool, error) {
	reply, err := reach(p.c, id, "outcome", func(h *host) (wire.ActReply, error) { return h.agent.follow(act) })
	var no *refusal
	if errors.As(err, &no) {
		return drain.Answer{}, false, nil
	}
	if err != nil {
		return drain.Answer{}, false, err
	}
	a, err := answerOf(reply)
	return a, true, err
}

func (p *agentsPort) Announce(ctx context.Context, id fleet.HostID, drainID string, epoch uint64) error {
	_, err := (&agentPort{p.c, id, nil}).Announce(ctx, drainID, epoch)
	return err
}

// agentPort is an agent as the engine needs it.
type agentPort struct {
	c   *console
	id  fleet.HostID
	key ssh.PublicKey
}

func (p *agentPort) HostKey() ssh.PublicKey { return p.key }

func (p *agentPort) Facts(context.Context, bool) (fleet.Facts, error) {
	return reach(p.c, p.id, "facts", func(h *host) (fleet.Facts, error) { return h.agent.facts(), nil })
}

func (p *agentPort) SetHold(_ context.Context, x fleet.Hold, m string) (engine.HoldAnswer, error) {
	return reach(p.c, p.id, "hold "+string(x.Kind), func(h *host) (engine.HoldAnswer, error) {
		var err error
		if x.Kind == fleet.CordonHold {
			err = h.agent.cordon(wire.CordonRequest{Who: x.Who, Why: x.Why, Machine: m})
		} else {
			err = h.agent.drain(wire.DrainRequest{Who: x.Who, Why: x.Why, Drain: x.Drain, Journal: x.Journal, Epoch: x.Epoch, Deadline: x.Deadline,
				Evacuate: x.Evacuate, For: x.For, Machine: m})
			if err == nil {
				h.heard[x.Drain] = max(h.heard[x.Drain], x.Epoch)
			}
		}
		return h.reply(), decided(err)
	})
}

func (h *host) reply() engine.HoldAnswer {
	return engine.HoldAnswer{Holds: h.agent.rec.holds, Machine: h.machine, Boot: h.boot, At: h.Clock()}
}

func (p *agentPort) LiftHold(_ context.Context, l engine.Lift) (engine.HoldAnswer, error) {
	return reach(p.c, p.id, "lift", func(h *host) (engine.HoldAnswer, error) {
		r := wire.LiftRequest{Who: l.Who, Why: l.Why, Drain: l.Drain, Epoch: l.Epoch, Theirs: l.Theirs, Machine: l.Machine}
		var err error
		if l.Kind == fleet.CordonHold {
			err = h.agent.uncordon(r)
		} else {
			err = h.agent.undrain(r)
		}
		return h.reply(), decided(err)
	})
}

func (p *agentPort) Announce(_ context.Context, id string, epoch uint64) (uint64, error) {
	return reach(p.c, p.id, "announce", func(h *host) (uint64, error) {
		top, err := h.agent.announce(wire.EpochRequest{Drain: id, Epoch: epoch})
		if err == nil {
			h.heard[id] = max(h.heard[id], epoch)
		}
		return top, decided(err)
	})
}

func (p *agentPort) Accept(_ context.Context, k fleet.Key, reason, who, typed, m string) error {
	_, err := reach(p.c, p.id, "accept", func(h *host) (int, error) {
		return 0, decided(h.agent.accept(wire.AcceptRequest{Key: k, Reason: reason, Who: who, Typed: typed, Machine: m}))
	})
	return err
}

func (p *agentPort) Clean(_ context.Context, c engine.Cleaning) (drain.Answer, error) {
	a := &agentsPort{p.c}
	return a.send(p.id, wire.ActRequest{ID: c.ID, Machine: c.Machine, Kind: wire.ActClean, Key: c.Resource.Key, Identity: c.Resource.Identity}, true)
}

func (p *agentPort) Prove(_ context.Context, a engine.ProofAsk) (engine.SignedProof, []fleet.Issue, error) {
	var issues []fleet.Issue
	got, err := reach(p.c, p.id, "proof", func(h *host) (engine.SignedProof, error) {
		r, err := h.agent.prove(wire.ProofRequest{Drain: a.Drain, Epoch: a.Epoch, Machine: a.Machine, Host: string(a.Host), Nonce: a.Nonce,
			HostKey: ssh.FingerprintSHA256(p.key), Asserted: a.Asserted})
		if err == nil {
			doc, _ := proof.Parse(r.Proof)
			p.c.w.checkProved(h, doc)
			p.c.w.count("proof")
		}
		return engine.SignedProof{Proof: r.Proof, Signature: r.Signature}, err
	})
	if issues = against(err); issues != nil {
		return engine.SignedProof{}, issues, nil
	}
	return got, nil, decided(err)
}

func (p *agentPort) Seal(_ context.Context, s engine.SealAsk) ([]fleet.Issue, error) {
	_, err := reach(p.c, p.id, "seal", func(h *host) (int, error) {
		err := h.agent.confirm(wire.SealRequest{Who: s.Who, Proof: s.Proof, Signature: s.Signature, Terminator: s.Terminator, Machine: s.Machine})
		if err == nil {
			p.c.w.count("sealed")
		}
		return 0, err
	})
	if issues := against(err); issues != nil {
		return issues, nil
	}
	return nil, decided(err)
}

func (p *agentPort) Poweroff(_ context.Context, id, who, m string) error {
	_, err := reach(p.c, p.id, "poweroff", func(h *host) (int, error) {
		return 0, decided(h.agent.poweroff(wire.PoweroffRequest{Who: who, Drain: id, Machine: m}))
	})
	return err
}

// Rebound changes nothing there.
func (p *agentPort) Rebound(context.Context, fleet.HostID, string, string, string, string) error {
	_, err := reach(p.c, p.id, "rebind", func(*host) (int, error) { return 0, nil })
	return err
}
