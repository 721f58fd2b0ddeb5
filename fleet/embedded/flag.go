package embedded

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"ebb/fleet"
)

// mark stands before the name of who set a flag through ebb, and is left out of
// what the package returns.
const mark = "ebb:"

func flagOf(h fleet.Host) fleet.Flag {
	if !h.Draining {
		return fleet.Flag{}
	}
	return fleet.Flag{Set: true, Why: h.DrainWhy, Who: strings.TrimPrefix(h.DrainWho, mark), At: h.DrainAt}
}

// Set flags a host, unless it is flagged, and returns the flag that stands: the
// caller sees by it whose it is.
func (p *Plane) Set(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	return p.flag(ctx, host, mark+f.Who, f.Why)
}

// SetTheirs flags a host as somebody does who does not use ebb.
func (p *Plane) SetTheirs(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	return p.flag(ctx, host, f.Who, f.Why)
}

func (p *Plane) flag(ctx context.Context, host fleet.HostID, who, why string) (fleet.Flag, error) {
	var stands fleet.Flag
	err := p.write(ctx, "flag", func(tx *sql.Tx) error {
		h, err := p.one(ctx, tx, host)
		if err != nil {
			return err
		}
		if !h.Draining {
			h.Draining, h.DrainWho, h.DrainWhy, h.DrainAt = true, who, why, p.now().UTC().Round(0)
			_, err = tx.ExecContext(ctx, `update agents set draining = 1, drain_reason = $1, drained_by = $2, drained_at = $3 where id = $4`,
				h.DrainWhy, h.DrainWho, stamp(h.DrainAt), h.ID.Name())
		}
		stands = flagOf(h)
		return err
	})
	if err != nil {
		return fleet.Flag{}, err
	}
	return stands, nil
}

// Lift clears the flag of a host. One that was not set through ebb is an
// ErrTheirs, unless theirs says that it is meant.
func (p *Plane) Lift(ctx context.Context, host fleet.HostID, theirs bool) error {
	return p.write(ctx, "unflag", func(tx *sql.Tx) error {
		h, err := p.one(ctx, tx, host)
		if err != nil || !h.Draining {
			return err
		}
		if !theirs && !strings.HasPrefix(h.DrainWho, mark) {
			return &TheirsError{Host: host, Flag: flagOf(h)}
		}
		_, err = tx.ExecContext(ctx, `update agents set draining = 0, drain_reason = '', drained_by = '', drained_at = '' where id = $1`, h.ID.Name())
		return err
	})
}

// Eligible reads back the flag, and what the scheduler last believed and when.
func (p *Plane) Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error) {
	start := p.now()
	h, err := p.one(ctx, p.db, host)
	if err != nil {
		return fleet.Eligibility{}, p.fail("read eligibility", err)
	}
	e := fleet.Eligibility{Flag: flagOf(h)}
	source := "scheduler of plane " + p.name
	ok, at, err := p.believed(ctx, h.ID.Name())
	took := p.now().Sub(start)
	switch {
	case errors.Is(err, errNoScheduler):
		e.Eligible = fleet.ReadNotApplicable[bool](source, start, err.Error())
	case err != nil:
		e.Eligible = fleet.ReadFailed[bool](source, start, took, err)
	default:
		e.Eligible = fleet.Read(ok, source, at, took)
	}
	return e, nil
}

var errNoScheduler = errors.New("no scheduler has run here")

// believed reads the scheduler's view of a host.
func (p *Plane) believed(ctx context.Context, id string) (ok bool, at time.Time, err error) {
	var seen string
	err = p.db.QueryRowContext(ctx, `select eligible, seen_at from scheduler_view where agent_id = $1`, id).Scan(&ok, &seen)
	if errors.Is(err, sql.ErrNoRows) {
		var n int
		if err = p.db.QueryRowContext(ctx, `select count(*) from scheduler_view`).Scan(&n); err == nil && n == 0 {
			return false, at, errNoScheduler
		}
		return false, at, errors.Join(err, errors.New("the scheduler has not seen this host yet"))
	}
	if err == nil {
		at, err = unstamp(seen)
	}
	return ok, at, err
}
