package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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
	for try := 0; ; try++ {
		var stored []drain.Event
		stored, err = j.append(ctx, b, events)
		if err == nil {
			j.wake()
			return stored, nil
		}
		// Nothing was committed if the connection was cut before the commit, so
		// that may be tried again: a pool holds dead connections after a failover.
		var commit *commitError
		if try == 2 || errors.As(err, &commit) || !lostConnection(err) || !pause(ctx, time.Duration(try)*200*time.Millisecond) {
			break
		}
	}
	stored, err := j.settle(ctx, events, err)
	return stored, j.fail("append to", err)
}

// append is one attempt.
func (j *Journal) append(ctx context.Context, b drain.Batch, events []drain.Event) ([]drain.Event, error) {
	out := make([]drain.Event, len(events))
	copy(out, events)
	err := j.write(ctx, func(tx *sql.Tx) error {
		m, err := j.head(ctx, tx, len(events))
		if err != nil {
			return err
		}
		num, err := j.end(ctx, tx, b.Stream)
		if err != nil {
			return err
		}
		if b.Expect != nil && *b.Expect != num {
			return &ConflictError{Stream: b.Stream, Want: *b.Expect, Have: num}
		}
		if b.Lease != nil {
			if err := j.holds(ctx, tx, *b.Lease, m.now); err != nil {
				return err
			}
		}
		for i := range out {
			out[i].Seq = m.seq - uint64(len(out)-1-i)
			out[i].Num = num + uint64(i) + 1
			out[i].At = fromMicro(m.at)
		}
		if err := j.insert(ctx, tx, out); err != nil {
			return err
		}
		return j.notify(ctx, tx)
	})
	return out, err
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

// end returns the number of a stream's last event.
func (j *Journal) end(ctx context.Context, tx *sql.Tx, stream string) (uint64, error) {
	var n int64
	err := tx.QueryRowContext(ctx, j.dialect.sql(`select coalesce(max(num), 0) from {s}events where stream = $1`), stream).Scan(&n)
	return uint64(n), err
}

const columns = "seq, stream, num, id, at, kind, v, drain, epoch, actor, body, sig"

// insert writes events whose numbers are set, as many to a statement as both
// databases take without complaint: the head row is held meanwhile, and every
// round trip makes everybody wait.
func (j *Journal) insert(ctx context.Context, tx *sql.Tx, events []drain.Event) error {
	const most = 100
	for len(events) > 0 {
		n := min(most, len(events))
		var text strings.Builder
		text.WriteString("insert into {s}events (" + columns + ") values ")
		args := make([]any, 0, n*12)
		for i, e := range events[:n] {
			actor, err := json.Marshal(e.By)
			if err != nil {
				return err
			}
			row := []any{int64(e.Seq), e.Stream, int64(e.Num), e.ID, e.At.UnixMicro(), string(e.Kind), e.V, e.Drain, int64(e.Epoch), string(actor), string(e.Body), e.Sig}
			sep := "("
			if i > 0 {
				sep = ", ("
			}
			for k := range row {
				text.WriteString(sep + "$" + strconv.Itoa(len(args)+k+1))
				sep = ", "
			}
			text.WriteString(")")
			args = append(args, row...)
		}
		if _, err := tx.ExecContext(ctx, j.dialect.sql(text.String()), args...); err != nil {
			return err
		}
		events = events[n:]
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
