package levers

import (
	"context"
	"fmt"

	"ebb/drain"
	"ebb/fleet"
)

// Mover is a control plane whose claims can be moved to another host.
type Mover interface {
	Move(ctx context.Context, key fleet.Key, from, to fleet.HostID) error
}

// Flip moves a workload's claim to the host where its replacement answers.
type Flip struct {
	// Plane finds the control plane of a host; one that is no Mover has no
	// claims to move, and the flip is done with nothing to do.
	Plane func(fleet.HostID) (any, error)
}

// Do moves the claim.
func (l Flip) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	plane, err := l.Plane(j.Source.ID)
	if err != nil {
		return drain.Answer{}, err
	}
	mover, ok := plane.(Mover)
	if !ok {
		return drain.Answer{Result: drain.Done, Detail: "the plane keeps no claims of its own"}, nil
	}
	from := j.Source.ID
	if last := j.Item.FlippedTo; last != "" && last != j.Act.Target { // to a host that is gone since
		from = last
	}
	if err := mover.Move(ctx, j.Act.Key, from, j.Act.Target); err != nil {
		return drain.Answer{}, fmt.Errorf("move the claim of %s to %s: %w", j.Act.Key, j.Act.Target, err)
	}
	return drain.Answer{Result: drain.Done}, nil
}

// Status says that nothing is known: moving a claim to where it already is
// changes nothing, so the act may be repeated.
func (l Flip) Status(context.Context, drain.Job) (drain.Answer, bool, error) {
	return drain.Answer{}, false, nil
}
