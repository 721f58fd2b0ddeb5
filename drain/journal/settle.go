package journal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"ebb/drain"
)

// settle decides what a failed append means. A conflict, a lost lease and a
// repeated id may all come from the very same batch having been committed
// before; and after a commit without an answer only the journal knows.
func (j *Journal) settle(ctx context.Context, events []drain.Event, cause error) ([]drain.Event, error) {
	var conflict *ConflictError
	var commit *commitError
	uncertain := errors.As(cause, &commit)
	if !uncertain && !errors.As(cause, &conflict) && !errors.Is(cause, ErrLeaseLost) && !isDuplicate(cause) {
		return nil, cause
	}
	if uncertain {
		// The answer is owed even to a caller that has stopped waiting.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), j.settleFor)
		defer cancel()
	}
	stored, err := j.lookup(ctx, events, uncertain)
	switch {
	case err == nil && stored != nil:
		j.wake()
		return stored, nil
	case err == nil:
		return nil, cause
	case uncertain && !errors.As(err, new(*DuplicateError)):
		return nil, &UncertainError{IDs: ids(events), Err: errors.Join(cause, err)}
	default:
		return nil, err
	}
}

// lookup returns the stored events of a batch, nil where none is stored, and a
// DuplicateError where its ids belong to something else. With insist it tries
// again while the server can't be reached.
//
// It takes the head row first: a commit that is still under way on the server
// holds it, so that the answer "not there" is final.
func (j *Journal) lookup(ctx context.Context, events []drain.Event, insist bool) ([]drain.Event, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var stored []drain.Event
		err := j.write(ctx, func(tx *sql.Tx) error {
			if _, err := j.head(ctx, tx, 0); err != nil {
				return err
			}
			var err error
			stored, err = j.byID(ctx, tx, ids(events))
			return err
		})
		if err == nil {
			return match(events, stored)
		}
		if !insist || !pause(ctx, wait) {
			return nil, err
		}
	}
}

// match compares what a batch holds with what is stored under its ids.
func match(want, have []drain.Event) ([]drain.Event, error) {
	if len(have) == 0 {
		return nil, nil
	}
	stored := make(map[string]drain.Event, len(have))
	for _, e := range have {
		stored[e.ID] = e
	}
	out := make([]drain.Event, 0, len(want))
	for _, w := range want {
		h, ok := stored[w.ID]
		same := h.Stream == w.Stream && h.Kind == w.Kind && h.V == w.V && h.Drain == w.Drain &&
			h.Epoch == w.Epoch && h.By == w.By && string(h.Body) == string(w.Body)
		if !ok {
			return nil, &DuplicateError{ID: have[0].ID}
		}
		if !same {
			return nil, &DuplicateError{ID: w.ID}
		}
		out = append(out, h)
	}
	return out, nil
}

// pause waits, and reports whether there is still time.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
