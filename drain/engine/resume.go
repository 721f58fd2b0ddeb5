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
	ask := drain.AskResume{Key: key}
	if issues := drain.Against(s, ask); len(issues) > 0 {
		next := ""
		switch {
		case !s.Terminated.IsZero():
		case len(s.Resumable(key)) > 0:
			next = "ebb ask " + host.Name() + " stop, then ebb resume " + host.Name()
		case !key.IsZero():
			next = "ebb board " + host.Name()
		}
		return nil, &Refused{Verb: "resume", Host: host, Issues: issues, Next: next}
	}
	keys := s.Resumable(key)
	return keys, e.append(ctx, host, s.Drain, 0, &s.Num, nil, ask)
}
