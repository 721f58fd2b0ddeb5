package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"ebb/drain"
)

// Acquire takes the lease of a drain, with an epoch above every earlier one and
// above minEpoch (the highest that an agent has seen). A live lease of another
// holder is a HeldError; the same holder gets a new epoch.
//
// Taking a lease locks the head row like an append does: once Acquire returns,
// no event of an earlier epoch is committed any more.
func (j *Journal) Acquire(ctx context.Context, drainID, holder string, minEpoch uint64) (drain.Lease, error) {
	var got drain.Lease
	if drainID == "" || holder == "" {
		return got, j.fail("take a lease in", errors.New("it needs a drain and a holder"))
	}
	if _, err := number("epoch", minEpoch); err != nil {
		return got, j.fail("take a lease in", err)
	}
	err := j.join(ctx, &piece{drain: drainID, decide: func(b *books) (err error) {
		got, err = b.acquire(drainID, holder, minEpoch)
		return err
	}})
	// A lease that another process had before its clock was set back would seem to
	// last for as long as that step. It is cut to what a lease can be; a living
	// holder renews it.
	var held *HeldError
	if errors.As(err, &held) {
		err = errors.Join(err, j.cut(ctx, held.Lease))
	}
	return got, j.fail("take a lease in", err)
}

// Renew extends a lease that is still held. One that ran out is lost even where
// nobody has taken it: whoever drives on must take it anew and account for the gap.
func (j *Journal) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	next := l
	if err := j.join(ctx, renewing(l, &next)); err != nil {
		return l, j.fail("renew a lease in", err)
	}
	return next, nil
}

func renewing(l drain.Lease, next *drain.Lease) *piece {
	return &piece{drain: l.Drain, decide: func(b *books) (err error) {
		*next, err = b.renew(l)
		return err
	}}
}

// Release gives a lease back. Its epoch stays known.
func (j *Journal) Release(ctx context.Context, l drain.Lease) error {
	err := j.join(ctx, &piece{drain: l.Drain, decide: func(b *books) error { return b.release(l) }})
	return j.fail("release a lease in", err)
}

// Leases lists the leases that were not given back, by drain. Those whose time
// is over stay in the list: their holders have gone without a word.
func (j *Journal) Leases(ctx context.Context) ([]drain.Lease, error) {
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(`select drain, holder, epoch, until from {s}leases where holder <> '' order by drain`))
	var out []drain.Lease
	err = scanAll(rows, err, func() error {
		l, err := scanLease(rows)
		out = append(out, l)
		return err
	})
	return out, j.fail("read", err)
}

const ttl = int64(drain.LeaseTTL / 1000) // microseconds

func scanLease(rows *sql.Rows) (drain.Lease, error) {
	var l drain.Lease
	var epoch, until int64
	err := rows.Scan(&l.Drain, &l.Holder, &epoch, &until)
	l.Epoch, l.Until = uint64(epoch), fromMicro(until)
	return l, err
}

func lost(l, have drain.Lease) error {
	by := "nobody"
	if have.Holder != "" {
		by = have.Holder
	}
	return fmt.Errorf("drain %s: %w: %s had epoch %d, %s has epoch %d now", l.Drain, ErrLeaseLost, l.Holder, l.Epoch, by, have.Epoch)
}

// cut shortens a lease that reaches further than any lease taken now would.
func (j *Journal) cut(ctx context.Context, held drain.Lease) error {
	_, err := j.db.ExecContext(ctx, j.dialect.sql(
		`update {s}leases set until = {now} + $2 where drain = $3 and holder = $4 and epoch = $5 and until > {now} + $2`),
		j.clock(), ttl, held.Drain, held.Holder, int64(held.Epoch))
	return err
}
