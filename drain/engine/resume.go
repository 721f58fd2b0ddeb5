package engine

import (
	"context"
	"errors"

	"ebb/drain"
	"ebb/fleet"
)

// Resume asks for what is parked on a host to be resumed there, one workload or,
// with no key, all of them, and returns their names. Whoever drives the host's
// drain then carries it out. The drain is over with it, its holds stay; and it may
// be asked for after they have been lifted.
func (e *Engine) Resume(ctx context.Context, host fleet.HostID, key fleet.Key) (keys []fleet.Key, err error) {
	for range 5 { // somebody may write to the stream in between
		keys, err = e.resume(ctx, host, key)
		if !errors.Is(err, drain.ErrConflict) {
			break
		}
	}
	return keys, err
}

func (e *Engine) resume(ctx context.Context, host fleet.HostID, key fleet.Key) ([]fleet.Key, error) {
	s, err := e.State(ctx, host)
	if err != nil {
		return nil, err
	}
	refused := func(detail, next string) ([]fleet.Key, error) {
		return nil, &Refused{Verb: "resume", Host: host, Issues: []fleet.Issue{{Key: key, Detail: detail}}, Next: next}
	}
	ask := drain.AskResume{Key: key}
	keys := s.Resumable(key)
	switch {
	case len(keys) == 0 && key.IsZero():
		return refused("nothing is parked here", "")
	case len(keys) == 0:
		return refused(key.String()+" is not parked here", "ebb board "+host.Name())
	case !s.Phase.Ended() && !s.Undone:
		return refused("its drain is at work, and would park it again", "ebb ask "+host.Name()+" stop, then ebb resume "+host.Name())
	}
	return keys, e.append(ctx, host, s.Drain, 0, &s.Num, nil, ask)
}
