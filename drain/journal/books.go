package journal

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ebb/drain"
)

// books are what a transaction that has locked the head row knows: where streams
// end, who holds leases, which ids are taken. Pieces are decided upon in them, one
// after the other, and each sees what those before it wrote.
type books struct {
	moment
	last   uint64                 // sequence number of the last event
	ends   map[string]uint64      // by stream
	leases map[string]drain.Lease // by drain; none is zero
	stored map[string]drain.Event // by id

	add    []drain.Event   // to be written
	leased map[string]bool // drains whose lease has changed
}

// clean reports whether nothing is to be written.
func (b *books) clean() bool { return len(b.add) == 0 && len(b.leased) == 0 }

// append enters a batch, or says why it can't be. One that is there already is
// answered with what is stored, whatever else has happened since.
func (b *books) append(batch drain.Batch, events []drain.Event) ([]drain.Event, error) {
	if stored, err := match(events, b.stored); stored != nil || err != nil {
		return stored, err
	}
	num := b.ends[batch.Stream]
	if batch.Expect != nil && *batch.Expect != num {
		return nil, &ConflictError{Stream: batch.Stream, Want: *batch.Expect, Have: num}
	}
	if batch.Lease != nil {
		if err := b.holds(*batch.Lease); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(events)
	for i := range out {
		e := &out[i]
		b.last, num = b.last+1, num+1
		e.Seq, e.Num, e.At = b.last, num, fromMicro(b.at)
		b.stored[e.ID] = *e
	}
	b.ends[batch.Stream] = num
	b.add = append(b.add, out...)
	return out, nil
}

// acquire gives a lease out that nobody else holds.
func (b *books) acquire(id, holder string, minEpoch uint64) (drain.Lease, error) {
	have := b.leases[id]
	if have.Holder != "" && have.Holder != holder && have.Until.UnixMicro() > b.now {
		return drain.Lease{}, &HeldError{Lease: have}
	}
	return b.lend(drain.Lease{Drain: id, Holder: holder, Epoch: max(have.Epoch, minEpoch) + 1, Until: fromMicro(b.now + ttl)}), nil
}

// renew extends a lease that is in force.
func (b *books) renew(l drain.Lease) (drain.Lease, error) {
	if err := b.holds(l); err != nil {
		return l, err
	}
	l.Until = fromMicro(b.now + ttl)
	return b.lend(l), nil
}

// release takes a lease back; one that ran out too, as long as nobody has taken it.
func (b *books) release(l drain.Lease) error {
	if have := b.leases[l.Drain]; have.Holder != l.Holder || have.Epoch != l.Epoch || l.Holder == "" {
		return lost(l, have)
	}
	b.lend(drain.Lease{Drain: l.Drain, Epoch: l.Epoch, Until: fromMicro(0)})
	return nil
}

func (b *books) lend(l drain.Lease) drain.Lease {
	b.leases[l.Drain], b.leased[l.Drain] = l, true
	return l
}

// holds refuses a lease that is not the one in force at this moment.
func (b *books) holds(l drain.Lease) error {
	have := b.leases[l.Drain]
	if have.Holder != l.Holder || have.Epoch != l.Epoch || l.Holder == "" {
		return lost(l, have)
	}
	if have.Until.UnixMicro() <= b.now {
		return fmt.Errorf("drain %s: %w: it ran out at %s", l.Drain, ErrLeaseLost, have.Until.Format("15:04:05.000"))
	}
	return nil
}

// match compares what a batch holds with what is stored under its ids. It returns
// nil where nothing is, and a DuplicateError where an id is something else's.
func match(want []drain.Event, stored map[string]drain.Event) ([]drain.Event, error) {
	var out []drain.Event
	for _, w := range want {
		h, ok := stored[w.ID]
		if !ok {
			continue
		}
		if h.Stream != w.Stream || h.Kind != w.Kind || h.V != w.V || h.Drain != w.Drain ||
			h.Epoch != w.Epoch || h.By != w.By || string(h.Body) != string(w.Body) {
			return nil, &DuplicateError{ID: w.ID}
		}
		out = append(out, h)
	}
	if len(out) > 0 && len(out) < len(want) {
		return nil, &DuplicateError{ID: out[0].ID}
	}
	return out, nil
}

func byEventID(events []drain.Event) map[string]drain.Event {
	out := make(map[string]drain.Event, len(events))
	for _, e := range events {
		out[e.ID] = e
	}
	return out
}

// read opens the books for pieces. The head row has been moved on by n already.
func (j *Journal) read(ctx context.Context, tx *sql.Tx, m moment, n uint64, pieces []*piece) (*books, error) {
	b := &books{moment: m, last: m.seq - n, ends: map[string]uint64{}, leases: map[string]drain.Lease{},
		stored: map[string]drain.Event{}, leased: map[string]bool{}}
	var new []string
	for _, p := range pieces {
		if p.stream != "" {
			b.ends[p.stream] = 0
		}
		if p.drain != "" {
			b.leases[p.drain] = drain.Lease{Drain: p.drain}
		}
		new = append(new, ids(p.events)...)
	}
	if err := j.ends(ctx, tx, b.ends); err != nil {
		return nil, err
	}
	if err := j.leases(ctx, tx, b.leases); err != nil {
		return nil, err
	}
	found, err := j.byID(ctx, tx, new)
	b.stored = byEventID(found)
	return b, err
}

// enter writes what the books have taken in. What the head row was moved on for
// and was refused is given back: there are no gaps.
func (j *Journal) enter(ctx context.Context, tx *sql.Tx, b *books, n int) error {
	if spare := n - len(b.add); spare > 0 {
		if _, err := tx.ExecContext(ctx, j.dialect.sql(`update {s}head set seq = seq - $1 where one = 1`), spare); err != nil {
			return err
		}
	}
	if err := j.insert(ctx, tx, b.add); err != nil {
		return err
	}
	if err := j.store(ctx, tx, b); err != nil {
		return err
	}
	if len(b.add) == 0 {
		return nil
	}
	return j.notify(ctx, tx)
}

// rowsAtOnce is how many rows or names a statement takes: as many as both
// databases take without complaint.
const rowsAtOnce = 500

// ends fills in the numbers of the last events of streams.
func (j *Journal) ends(ctx context.Context, tx *sql.Tx, of map[string]uint64) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(of)), rowsAtOnce) {
		rows, err := tx.QueryContext(ctx, j.dialect.sql(
			`select s.column1, (select coalesce(max(num), 0) from {s}events where stream = s.column1) from (values `+places(len(part), 1)+`) as s`), args(part)...)
		err = scanAll(rows, err, func() error {
			var stream string
			var num int64
			err := rows.Scan(&stream, &num)
			of[stream] = uint64(num)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// leases fills in the leases of drains.
func (j *Journal) leases(ctx context.Context, tx *sql.Tx, of map[string]drain.Lease) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(of)), rowsAtOnce) {
		rows, err := tx.QueryContext(ctx, j.dialect.sql(
			`select drain, holder, epoch, until from {s}leases where drain in (values `+places(len(part), 1)+`)`), args(part)...)
		err = scanAll(rows, err, func() error {
			l, err := scanLease(rows)
			of[l.Drain] = l
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// store writes the leases that have changed.
func (j *Journal) store(ctx context.Context, tx *sql.Tx, b *books) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(b.leased)), rowsAtOnce) {
		var values []any
		for _, id := range part {
			l := b.leases[id]
			values = append(values, l.Drain, l.Holder, int64(l.Epoch), l.Until.UnixMicro())
		}
		_, err := tx.ExecContext(ctx, j.dialect.sql(`insert into {s}leases (drain, holder, epoch, until) values `+places(len(part), 4)+`
			 on conflict (drain) do update set holder = excluded.holder, epoch = excluded.epoch, until = excluded.until`), values...)
		if err != nil {
			return err
		}
	}
	return nil
}

// scanAll scans rows one by one.
func scanAll(rows *sql.Rows, err error, scan func() error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// places writes the places of values: ($1, $2), ($3, $4).
func places(rows, columns int) string {
	var text strings.Builder
	for i := range rows * columns {
		switch {
		case i == 0:
			text.WriteString("($")
		case i%columns == 0:
			text.WriteString("), ($")
		default:
			text.WriteString(", $")
		}
		text.WriteString(strconv.Itoa(i + 1))
	}
	return text.String() + ")"
}

func args(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
