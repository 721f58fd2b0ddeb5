package journal

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ebb/drain"
)

// Export writes the events of a stream, or of all streams where it is empty, as
// JSON, one event a line, in the order of the journal.
func (j *Journal) Export(ctx context.Context, w io.Writer, stream string) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false) // bodies stay as they are, for they may be signed
	for after := uint64(0); ; {
		var events []drain.Event
		var err error
		if stream == "" {
			events, err = j.All(ctx, after, readAtOnce)
		} else {
			events, err = j.Stream(ctx, stream, after, readAtOnce)
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := enc.Encode(e); err != nil {
				return j.fail("export", err)
			}
			if after = e.Num; stream == "" {
				after = e.Seq
			}
		}
		if len(events) < readAtOnce {
			return j.fail("export", out.Flush())
		}
	}
}

// Import reads what Export wrote, all of it or nothing. Events keep their ids,
// numbers and times; the order over all streams is given anew. An id that is
// there already, or a number that does not follow the one before it in its
// stream, is an error that names the event.
//
// Leases are not imported, but their epochs count: whoever takes an imported
// drain gets a higher one.
func (j *Journal) Import(ctx context.Context, r io.Reader) error {
	events, err := decode(r)
	if err != nil || len(events) == 0 {
		return j.fail("import into", err)
	}
	err = j.write(ctx, func(tx *sql.Tx) error {
		m, err := j.head(ctx, tx, len(events))
		if err != nil {
			return err
		}
		ends := map[string]uint64{}
		for _, e := range events {
			ends[e.Stream] = 0
		}
		if err := j.ends(ctx, tx, ends); err != nil {
			return err
		}
		epochs := map[string]uint64{}
		last := m.at
		for i := range events {
			e := &events[i]
			if e.Num != ends[e.Stream]+1 {
				return fmt.Errorf("event %s: number %d of stream %s follows %d", e.ID, e.Num, e.Stream, ends[e.Stream])
			}
			ends[e.Stream] = e.Num
			epochs[e.Drain] = max(epochs[e.Drain], e.Epoch)
			last = max(last, e.At.UnixMicro())
			e.Seq = m.seq - uint64(len(events)-1-i)
		}
		if err := j.fresh(ctx, tx, events); err != nil {
			return err
		}
		if err := j.insert(ctx, tx, events); err != nil {
			return err
		}
		if err := j.raise(ctx, tx, epochs, last); err != nil {
			return err
		}
		return j.notify(ctx, tx)
	})
	if err == nil {
		j.wake()
	}
	return j.fail("import into", err)
}

// decode reads events, each checked by itself, and their ids against each other.
func decode(r io.Reader) ([]drain.Event, error) {
	dec := json.NewDecoder(r)
	seen := map[string]bool{}
	var out []drain.Event
	for n := 1; ; n++ {
		var e drain.Event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err == nil {
			err = check(e)
		}
		if err == nil && seen[e.ID] {
			err = &DuplicateError{ID: e.ID}
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", n, err)
		}
		seen[e.ID] = true
		out = append(out, e)
	}
}

// fresh refuses ids that are in the journal.
func (j *Journal) fresh(ctx context.Context, tx *sql.Tx, events []drain.Event) error {
	have, err := j.byID(ctx, tx, ids(events))
	if err == nil && len(have) > 0 {
		err = &DuplicateError{ID: have[0].ID}
	}
	return err
}

// raise makes later epochs and times come after the imported ones.
func (j *Journal) raise(ctx context.Context, tx *sql.Tx, epochs map[string]uint64, at int64) error {
	for id, epoch := range epochs {
		if epoch == 0 {
			continue
		}
		_, err := tx.ExecContext(ctx, j.dialect.sql(
			`insert into {s}leases (drain, holder, epoch, until) values ($1, '', $2, 0)
			 on conflict (drain) do update set epoch = excluded.epoch, holder = '', until = 0
			  where excluded.epoch > {s}leases.epoch`), id, int64(epoch))
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, j.dialect.sql(`update {s}head set at = $1 where one = 1 and at < $1`), at)
	return err
}
