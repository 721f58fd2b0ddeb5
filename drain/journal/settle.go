package journal

import (
	"context"
	"database/sql"
	"time"

	"ebb/drain"
)

// lookup returns the events that are stored under ids. It tries again while the
// server can't be reached.
//
// It takes the head row first: a commit that is still under way on the server
// holds it, so that the answer "not there" is final.
func (j *Journal) lookup(ctx context.Context, ids []string) ([]drain.Event, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var stored []drain.Event
		err := j.write(ctx, func(tx *sql.Tx) error {
			if _, err := j.head(ctx, tx, 0); err != nil {
				return err
			}
			var err error
			stored, err = j.byID(ctx, tx, ids)
			return err
		})
		if err == nil || !pause(ctx, wait) {
			return stored, err
		}
	}
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
