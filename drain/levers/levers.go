package levers

import (
	"context"
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// Agents runs acts on hosts. It is the console's end of the agents' wire.
type Agents interface {
	// Act asks the agent of a host for an act and waits for its outcome. The
	// machine is empty where the host is a target: then the agent's own is taken.
	Act(ctx context.Context, host fleet.HostID, machine string, j drain.Job) (drain.Answer, error)
	// Outcome asks what became of an act; known is false if the agent never heard
	// of it.
	Outcome(ctx context.Context, host fleet.HostID, id string) (a drain.Answer, known bool, err error)
	// Announce tells a target the epoch of the driver, before its first act there.
	Announce(ctx context.Context, host fleet.HostID, drain string, epoch uint64) error
}

// Signal sends TERM and KILL through the source's agent.
type Signal struct{ Agents Agents }

// Do sends the signal.
func (l Signal) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	return l.Agents.Act(ctx, j.Source.ID, j.Machine, j)
}

// Status asks the source's agent.
func (l Signal) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	return l.Agents.Outcome(ctx, j.Source.ID, j.Act.ID)
}

// Exec runs a named command for a workload on another host: its start, or the
// question whether it answers.
type Exec struct{ Agents Agents }

// Do announces the epoch to the target and runs the command there.
func (l Exec) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if j.Act.Target == "" {
		return drain.Answer{}, fmt.Errorf("run %s for %s: the act names no target", j.Act.Exec, j.Act.Key)
	}
	if err := l.Agents.Announce(ctx, j.Act.Target, j.Drain, j.Epoch); err != nil {
		return drain.Answer{}, fmt.Errorf("announce the drain to %s: %w", j.Act.Target, err)
	}
	return l.Agents.Act(ctx, j.Act.Target, "", j)
}

// Status asks the target's agent.
func (l Exec) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	return l.Agents.Outcome(ctx, j.Act.Target, j.Act.ID)
}
