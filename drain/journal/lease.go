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
	err := j.write(ctx, func(tx *sql.Tx) error {
		m, err := j.head(ctx, tx, 0)
		if err != nil {
			return err
		}
		have, until, err := j.lease(ctx, tx, drainID)
		if err != nil {
			return err
		}
		if have.Holder != "" && have.Holder != holder && until > m.now {
			return &HeldError{Lease: have}
		}
		got = drain.Lease{Drain: drainID, Holder: holder, Epoch: max(have.Epoch, minEpoch) + 1, Until: fromMicro(m.now + ttl)}
		return j.store(ctx, tx, got)
	})
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
	err := j.write(ctx, func(tx *sql.Tx) error {
		m, err := j.head(ctx, tx, 0)
		if err != nil {
			return err
		}
		if err := j.holds(ctx, tx, l, m.now); err != nil {
			return err
		}
		l.Until = fromMicro(m.now + ttl)
		return j.store(ctx, tx, l)
	})
	return l, j.fail("renew a lease in", err)
}

// Release gives a lease back. Its epoch stays known.
func (j *Journal) Release(ctx context.Context, l drain.Lease) error {
	err := j.write(ctx, func(tx *sql.Tx) error {
		if _, err := j.head(ctx, tx, 0); err != nil {
			return err
		}
		have, _, err := j.lease(ctx, tx, l.Drain)
		if err != nil {
			return err
		}
		if have.Holder != l.Holder || have.Epoch != l.Epoch || l.Holder == "" {
			return lost(l, have)
		}
		return j.store(ctx, tx, drain.Lease{Drain: l.Drain, Epoch: l.Epoch, Until: fromMicro(0)})
	})
	return j.fail("release a lease in", err)
}

// Leases lists the leases that were not given back, by drain. Those whose time
// is over stay in the list: their holders have gone without a word.
func (j *Journal) Leases(ctx context.Context) ([]drain.Lease, error) {
	rows, err := j.db.QueryContext(ctx, j.dialect.sql(`select drain, holder, epoch, until from {s}leases where holder <> '' order by drain`))
	if err != nil {
		return nil, j.fail("read", err)
	}
	defer rows.Close()
	var out []drain.Lease
	for rows.Next() {
		var l drain.Lease
		var epoch, until int64
		if err := rows.Scan(&l.Drain, &l.Holder, &epoch, &until); err != nil {
			return nil, j.fail("read", err)
		}
		l.Epoch, l.Until = uint64(epoch), fromMicro(until)
		out = append(out, l)
	}
	return out, j.fail("read", rows.Err())
}

const ttl = int64(drain.LeaseTTL / 1000) // microseconds

// lease reads the row of a drain; without one the lease is zero.
func (j *Journal) lease(ctx context.Context, tx *sql.Tx, id string) (drain.Lease, int64, error) {
	l := drain.Lease{Drain: id}
	var epoch, until int64
	err := tx.QueryRowContext(ctx, j.dialect.sql(`select holder, epoch, until from {s}leases where drain = $1`), id).Scan(&l.Holder, &epoch, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return l, 0, nil
	}
	l.Epoch, l.Until = uint64(epoch), fromMicro(until)
	return l, until, err
}

// holds refuses a lease that is not the one in force at this moment.
func (j *Journal) holds(ctx context.Context, tx *sql.Tx, l drain.Lease, now int64) error {
	have, until, err := j.lease(ctx, tx, l.Drain)
	if err != nil {
		return err
	}
	if have.Holder != l.Holder || have.Epoch != l.Epoch || l.Holder == "" {
		return lost(l, have)
	}
	if until <= now {
		return fmt.Errorf("drain %s: %w: it ran out at %s", l.Drain, ErrLeaseLost, have.Until.Format("15:04:05.000"))
	}
	return nil
}

func lost(l, have drain.Lease) error {
	by := "nobody"
	if have.Holder != "" {
		by = have.Holder
	}
	return fmt.Errorf("drain %s: %w: %s had epoch %d, %s has epoch %d now", l.Drain, ErrLeaseLost, l.Holder, l.Epoch, by, have.Epoch)
}

func (j *Journal) store(ctx context.Context, tx *sql.Tx, l drain.Lease) error {
	_, err := tx.ExecContext(ctx, j.dialect.sql(
		`insert into {s}leases (drain, holder, epoch, until) values ($1, $2, $3, $4)
		 on conflict (drain) do update set holder = excluded.holder, epoch = excluded.epoch, until = excluded.until`),
		l.Drain, l.Holder, int64(l.Epoch), l.Until.UnixMicro())
	return err
}

// cut shortens a lease that reaches further than any lease taken now would.
func (j *Journal) cut(ctx context.Context, held drain.Lease) error {
	_, err := j.db.ExecContext(ctx, j.dialect.sql(
		`update {s}leases set until = {now} + $2 where drain = $3 and holder = $4 and epoch = $5 and until > {now} + $2`),
		j.clock(), ttl, held.Drain, held.Holder, int64(held.Epoch))
	return err
}
