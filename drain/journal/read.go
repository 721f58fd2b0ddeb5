package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ebb/drain"
)

// Stream returns the events of one stream after a number, in order; a limit of 0
// means all of them. Many may follow their streams by it: as long as there is
// nothing new, one question to the database answers all who ask meanwhile.
func (j *Journal) Stream(ctx context.Context, stream string, after uint64, limit int) ([]drain.Event, error) {
	nothing, era, err := j.quiet(ctx, stream, after)
	if err != nil || nothing {
		return nil, j.fail("read", err)
	}
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(
		`select `+columns+` from {s}events where stream = $1 and num > $2 order by num limit $3`),
		stream, position(after), most(limit))
	events, err := collect(rows, err)
	if err == nil && int64(len(events)) < most(limit) {
		if len(events) > 0 {
			after = events[len(events)-1].Num
		}
		j.tail.ended(stream, after, era)
	}
	return events, j.fail("read", err)
}

// All returns the events of all streams after a sequence number, in the order in
// which they were committed; a limit of 0 means all of them.
func (j *Journal) All(ctx context.Context, after uint64, limit int) ([]drain.Event, error) {
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(
		`select `+columns+` from {s}events where seq > $1 order by seq limit $2`), position(after), most(limit))
	events, err := collect(rows, err)
	return events, j.fail("read", err)
}

// Streams lists the streams by name.
func (j *Journal) Streams(ctx context.Context) ([]string, error) {
	// Every stream has exactly one event with number 1.
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(`select stream from {s}events where num = 1`))
	if err != nil {
		return nil, j.fail("read", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, j.fail("read", err)
		}
		out = append(out, s)
	}
	slices.Sort(out) // not by the database: its collation is anybody's guess
	return out, j.fail("read", rows.Err())
}

// last returns the sequence number of the last event.
func (j *Journal) last(ctx context.Context) (uint64, error) {
	var seq int64
	err := j.db.QueryRowContext(ctx, j.dialect.sql(`select seq from {s}head where one = 1`)).Scan(&seq)
	return uint64(seq), j.fail("read", err)
}

// byID finds events by their ids, in the order of the journal.
func (j *Journal) byID(ctx context.Context, tx *sql.Tx, ids []string) ([]drain.Event, error) {
	var out []drain.Event
	for part := range slices.Chunk(ids, 500) {
		marks := make([]string, len(part))
		args := make([]any, len(part))
		for i, id := range part {
			marks[i], args[i] = "$"+strconv.Itoa(i+1), id
		}
		rows, err := tx.QueryContext(ctx, j.dialect.sql(
			`select `+columns+` from {s}events where id in (`+strings.Join(marks, ", ")+`) order by seq`), args...)
		found, err := collect(rows, err)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func collect(rows *sql.Rows, err error) ([]drain.Event, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []drain.Event
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

func scan(rows *sql.Rows) (drain.Event, error) {
	var e drain.Event
	var seq, num, at, epoch int64
	var kind, actor, body string
	err := rows.Scan(&seq, &e.Stream, &num, &e.ID, &at, &kind, &e.V, &e.Drain, &epoch, &actor, &body, &e.Sig)
	if err != nil {
		return e, err
	}
	e.Seq, e.Num, e.Epoch = uint64(seq), uint64(num), uint64(epoch)
	e.At, e.Kind = fromMicro(at), drain.Kind(kind)
	if body != "" {
		e.Body = json.RawMessage(body)
	}
	if err := json.Unmarshal([]byte(actor), &e.By); err != nil {
		return e, fmt.Errorf("event %d: its actor is damaged: %w", e.Seq, err)
	}
	return e, nil
}

func most(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}

func position(after uint64) int64 { return int64(min(after, math.MaxInt64)) }
