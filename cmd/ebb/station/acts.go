package station

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// act posts an act and follows it to its end.
func (a *agent) act(ctx context.Context, r wire.ActRequest) (drain.Answer, error) {
	reply, err := a.client.Act(ctx, r)
	if err == nil {
		reply, err = ended(ctx, a.client, reply, r.ID)
	}
	var p *client.Problem
	if errors.As(err, &p) && p.Code == wire.CodeStaleEpoch {
		return drain.Answer{}, decided(err) // a newer driver has been there
	}
	if errors.As(err, &p) && p.Refused() {
		return drain.Answer{Result: drain.Refused, Reason: fleet.Reason{Code: p.Code, Args: p.Args}, Detail: p.Error()}, nil
	}
	if err != nil {
		return drain.Answer{}, err
	}
	return answerOf(reply), nil
}

// ended follows an act until it is over: one that still runs has no outcome yet.
func ended(ctx context.Context, cl *client.Client, r wire.ActReply, id string) (wire.ActReply, error) {
	var err error
	for err == nil && r.State == wire.ActBegun {
		r, err = cl.Follow(ctx, id, 25*time.Second)
	}
	return r, err
}

func answerOf(r wire.ActReply) drain.Answer {
	a := drain.Answer{Result: drain.Done, Reason: r.Reason, Detail: r.Detail}
	switch {
	case r.State == wire.ActInterrupted:
		a.Result = drain.Interrupted
	case !r.OK && r.Reason.Code == wire.CodeTooEarly:
		a.Result = drain.Refused
	case !r.OK:
		a.Result = drain.FailedAct
		if r.Reason.Code == wire.ReasonTimedOut {
			a.Reason.Code = drain.TimedOut
		}
		if r.Exit != 0 {
			a.Detail = fmt.Sprintf("exit status %d: %s", r.Exit, r.Output)
		}
	}
	return a
}

// Act implements levers.Agents.
func (a *agents) Act(ctx context.Context, id fleet.HostID, machine string, j drain.Job) (drain.Answer, error) {
	h, err := a.host(ctx, id)
	if err != nil {
		return drain.Answer{}, err
	}
	cl, key, err := a.open(ctx, h, wire.Operate)
	if err != nil {
		return drain.Answer{}, err
	}
	if machine == "" {
		machine = cl.Hello().Machine
	}
	r := wire.ActRequest{ID: actID(j.Act.ID), Drain: j.Drain, Epoch: j.Epoch, Machine: machine, Key: j.Act.Key}
	switch j.Act.Kind {
	case drain.ActSignal:
		r.Kind, r.Runs, r.Signal, r.Grace = wire.ActSignal, j.Act.Runs, j.Act.Signal, j.Act.Grace
		r.Recorded, r.Named = j.Act.Record, j.Act.Named
	case drain.ActExec:
		r.Kind, r.Command, r.Timeout = wire.ActExec, j.Act.Exec, time.Minute
	case drain.ActQuiet:
		quietRequest(&r, j, a.cfg.Speed)
	default:
		return drain.Answer{}, fmt.Errorf("act %s: agents do not carry out %s", j.Act.ID, j.Act.Kind)
	}
	return (&agent{client: cl, key: key}).act(ctx, r)
}

// actID is an act's id as agents take it: few characters, and not long. A drain
// names its acts after workloads, and those have names of any kind.
func actID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "act-" + hex.EncodeToString(sum[:20])
}

// Outcome implements levers.Agents.
func (a *agents) Outcome(ctx context.Context, id fleet.HostID, act string) (drain.Answer, bool, error) {
	h, err := a.host(ctx, id)
	if err != nil {
		return drain.Answer{}, false, err
	}
	cl, _, err := a.open(ctx, h, wire.Operate)
	if err != nil {
		return drain.Answer{}, false, err
	}
	reply, err := cl.Follow(ctx, actID(act), time.Second)
	if client.HasCode(err, wire.CodeNotFound) {
		return drain.Answer{}, false, nil
	}
	if err == nil {
		reply, err = ended(ctx, cl, reply, actID(act))
	}
	if err != nil {
		return drain.Answer{}, false, err
	}
	return answerOf(reply), true, nil
}

// Announce implements levers.Agents.
func (a *agents) Announce(ctx context.Context, id fleet.HostID, drainID string, epoch uint64) error {
	h, err := a.host(ctx, id)
	if err != nil {
		return err
	}
	cl, key, err := a.open(ctx, h, wire.Operate)
	if err != nil {
		return err
	}
	_, err = (&agent{client: cl, key: key}).Announce(ctx, drainID, epoch)
	return err
}
