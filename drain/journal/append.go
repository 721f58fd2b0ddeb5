package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ebb/drain"
)

// Append writes a batch whole, or nothing of it, and returns its events with
// Seq, Num and At filled in.
//
// Appending a batch again, with the same ids and content, returns the stored
// events whatever else has happened since. Otherwise the errors that matter are
// ConflictError, ErrLeaseLost, ErrNoLease, DuplicateError and UncertainError.
func (j *Journal) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	events, err := checked(b)
	if err != nil {
		return nil, j.fail("append to", err)
	}
	p := appending(b, events)
	if err := j.join(ctx, p); err != nil {
		return nil, j.fail("append to", err)
	}
	return p.stored, nil
}

func appending(b drain.Batch, events []drain.Event) *piece {
	p := &piece{stream: b.Stream, events: events}
	if b.Lease != nil {
		p.drain = b.Lease.Drain
	}
	p.decide = func(books *books) (err error) {
		p.stored, err = books.append(b, events)
		return err
	}
	return p
}

// checked refuses a batch that can't be right, and fills in what follows from it.
func checked(b drain.Batch) ([]drain.Event, error) {
	if b.Stream == "" || len(b.Events) == 0 {
		return nil, errors.New("a batch needs a stream and events")
	}
	seen := make(map[string]bool, len(b.Events))
	out := make([]drain.Event, len(b.Events))
	for i, e := range b.Events {
		if e.Stream == "" {
			e.Stream = b.Stream
		}
		if err := check(e); err != nil {
			return nil, fmt.Errorf("event %d (%s): %w", i+1, e.Kind, err)
		}
		switch {
		case e.Stream != b.Stream:
			return nil, fmt.Errorf("event %d is of stream %s, the batch of %s", i+1, e.Stream, b.Stream)
		case seen[e.ID]:
			return nil, &DuplicateError{ID: e.ID}
		case e.Kind.IsDrive() && b.Lease == nil:
			return nil, fmt.Errorf("event %d (%s): %w", i+1, e.Kind, ErrNoLease)
		case e.Kind.IsDrive() && (e.Drain != b.Lease.Drain || e.Epoch != b.Lease.Epoch):
			return nil, fmt.Errorf("event %d (%s): drain %s in epoch %d is not what the lease is for: %w", i+1, e.Kind, e.Drain, e.Epoch, ErrLeaseLost)
		}
		seen[e.ID] = true
		out[i] = e
	}
	return out, nil
}

// check refuses what a database could not give back as it was.
func check(e drain.Event) error {
	if e.ID == "" || e.Kind == "" || e.Stream == "" {
		return errors.New("it needs a stream, an id and a kind")
	}
	if len(e.Body) > 0 && !json.Valid(e.Body) {
		return errors.New("its body is not JSON")
	}
	if _, err := number("epoch", e.Epoch); err != nil {
		return err
	}
	for _, s := range []string{e.Stream, e.ID, string(e.Kind), e.Drain, string(e.Body), e.Sig} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return errors.New("its text is not UTF-8, or has a zero byte in it")
		}
	}
	return nil
}

func ids(events []drain.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}

const columns = "seq, stream, num, id, at, kind, v, drain, epoch, actor, body, sig"

// insert writes events whose numbers are set, many in a statement: the head row is
// held meanwhile, and every round trip makes everybody wait.
func (j *Journal) insert(ctx context.Context, tx *sql.Tx, events []drain.Event) error {
	for part := range slices.Chunk(events, rowsAtOnce) {
		values := make([]any, 0, len(part)*12)
		for _, e := range part {
			actor, err := json.Marshal(e.By)
			if err != nil {
				return err
			}
			values = append(values, int64(e.Seq), e.Stream, int64(e.Num), e.ID, e.At.UnixMicro(), string(e.Kind), e.V, e.Drain, int64(e.Epoch), string(actor), string(e.Body), e.Sig)
		}
		if _, err := tx.ExecContext(ctx, j.dialect.sql("insert into {s}events ("+columns+") values "+places(len(part), 12)), values...); err != nil {
			return err
		}
	}
	return nil
}

// notify wakes the watches of other processes; SQLite's look for themselves.
func (j *Journal) notify(ctx context.Context, tx *sql.Tx) error {
	if !j.dialect.pg {
		return nil
	}
	_, err := tx.ExecContext(ctx, `select pg_notify($1, '')`, channel)
	return err
}
