package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// terminations is what a host's stream says about earlier terminates.
type terminations struct {
	open drain.RecTerminateIntent // the first intent without an outcome
	done time.Time                // when it was terminated, unless it came back into service since
	num  uint64                   // where the stream ended
}

func (e *Engine) terminations(ctx context.Context, host fleet.HostID) (t terminations, err error) {
	pending := map[string]drain.RecTerminateIntent{}
	var order []string
	t.num, err = e.each(ctx, host, func(ev drain.Event, body drain.Body) {
		switch b := body.(type) {
		case drain.RecTerminateIntent:
			pending[b.Act] = b
			order = append(order, b.Act)
		case drain.RecTerminateOutcome:
			delete(pending, b.Act)
			if b.Done {
				t.done = ev.At
			}
		case drain.AskStart:
			t.done = time.Time{}
		}
	})
	for _, id := range order {
		if b, is := pending[id]; is {
			t.open = b
			break
		}
	}
	return t, err
}

// inTheWay says why no terminate may begin, if so. A terminator is never run
// twice: a person must find out what became of it.
func (t terminations) inTheWay() string {
	switch {
	case t.open.Act != "":
		return fmt.Sprintf("an earlier terminate (%s, digest %.12s) has no outcome: find out what became of %q, then settle it", t.open.Type, t.open.Digest, t.open.Instance)
	case !t.done.IsZero():
		return "it was terminated at " + t.done.UTC().Format(time.RFC3339)
	}
	return ""
}

// Settle records what a person found out about a terminate without an outcome.
func (e *Engine) Settle(ctx context.Context, host fleet.HostID, done bool, found string) error {
	s, err := e.State(ctx, host)
	if err != nil {
		return err
	}
	past, err := e.terminations(ctx, host)
	if err != nil {
		return err
	}
	if past.open.Act == "" {
		return &Refused{Verb: "settle", Host: host, Issues: refusal(fleet.CheckReach, "no terminate is without an outcome")}
	}
	return e.append(ctx, host, s.Drain, 0, nil, nil, drain.RecTerminateOutcome{Act: past.open.Act, Done: done, Error: found})
}
