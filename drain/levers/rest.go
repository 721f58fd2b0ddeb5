package levers

import (
	"context"
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// Rester is a control plane that can be told that a workload rests where it is,
// with its state kept, and that it runs again.
type Rester interface {
	Rest(ctx context.Context, key fleet.Key, host fleet.HostID) error
	Wake(ctx context.Context, key fleet.Key, host fleet.HostID) error
}

// Rest parks a workload by its lever, where that does something for it, and then
// says at the control plane that it is at rest; and says there that it runs, once
// it has been resumed. A plane that is no Rester has no word for it: then only the
// journal knows.
type Rest struct {
	Programs Programs
	Plane    func(fleet.HostID) (any, error)
}

// Do does both. What the lever says stands until it is done.
func (l Rest) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	said := drain.Answer{Result: drain.Done}
	if j.Act.Lever != "" {
		var err error
		if said, err = l.Programs.Do(ctx, j); err != nil || said.Result != drain.Done {
			return said, err
		}
	}
	if err := l.tell(ctx, j); err != nil {
		return drain.Answer{}, err
	}
	return said, nil
}

// tell changes the claim: a park that is taken back is one that runs.
func (l Rest) tell(ctx context.Context, j drain.Job) error {
	plane, err := l.Plane(j.Source.ID)
	if err != nil {
		return err
	}
	p, ok := plane.(Rester)
	if !ok {
		return nil
	}
	word, tell := "at rest", p.Rest
	if j.Act.Step == drain.StepWake || j.Act.Op == drain.OpUndo {
		word, tell = "running", p.Wake
	}
	if err := tell(ctx, j.Act.Key, j.Source.ID); err != nil {
		return fmt.Errorf("claim %s as %s: %w", j.Act.Key, word, err)
	}
	return nil
}

// Status says that nothing is known: either may be repeated, since what has been
// done stays as it is.
func (l Rest) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}
