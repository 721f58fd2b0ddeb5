package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ebb/fleet"

	"github.com/jackc/pgx/v5"
)

// mark stands before the name of who set a flag through ebb. It is what tells
// ebb's flags from others, and is left out of what the package returns.
const mark = "ebb:"

func flagOf(h fleet.Host) fleet.Flag {
	if !h.Draining {
		return fleet.Flag{}
	}
	return fleet.Flag{Set: true, Why: h.DrainWhy, Who: strings.TrimPrefix(h.DrainWho, mark), At: h.DrainAt}
}

// Set flags a host, unless it is flagged, and returns the flag that stands: the
// caller sees by it whose it is. Setting it again changes nothing.
func (p *Plane) Set(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	if err := text(f.Why, f.Who); err != nil {
		return fleet.Flag{}, fmt.Errorf("flag %s: %w", host, err)
	}
	h, err := p.one(ctx, host)
	if err != nil || h.Draining {
		return flagOf(h), err
	}
	_, err = p.exec(ctx, "flag", p.sql.Flag, pgx.NamedArgs{"host": h.ID.Name(), "reason": f.Why, "actor": mark + f.Who})
	if err != nil {
		return fleet.Flag{}, err
	}
	if h, err = p.one(ctx, host); err != nil {
		return fleet.Flag{}, err
	}
	if !h.Draining {
		return fleet.Flag{}, p.explain("flag", errors.New("it ran, and the flag is not set: does it fit the statement \"hosts\"?"))
	}
	return flagOf(h), nil
}

// Lift clears the flag of a host. One that was not set through ebb is an
// ErrTheirs, unless theirs says that it is meant. A host without a flag is no
// error.
func (p *Plane) Lift(ctx context.Context, host fleet.HostID, theirs bool) error {
	h, err := p.one(ctx, host)
	if err != nil || !h.Draining {
		return err
	}
	if !theirs && !strings.HasPrefix(h.DrainWho, mark) {
		return &TheirsError{Host: host, Flag: flagOf(h)}
	}
	var who any // null, where the plane does not say
	if h.DrainWho != "" {
		who = h.DrainWho
	}
	// The statement names whose flag it clears: one that was set by someone else
	// since it was read stays.
	if _, err := p.exec(ctx, "unflag", p.sql.Unflag, pgx.NamedArgs{"host": h.ID.Name(), "actor": who, "reason": h.DrainWhy}); err != nil {
		return err
	}
	now, err := p.one(ctx, host)
	switch {
	case err != nil || !now.Draining:
		return err
	case now.DrainWho != h.DrainWho:
		return &TheirsError{Host: host, Flag: flagOf(now)}
	}
	return p.explain("unflag", errors.New("it ran, and the flag is still set: does it fit the statement \"hosts\"?"))
}

// Eligible reads back the flag, and what the scheduler believes where a
// statement tells it.
func (p *Plane) Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error) {
	h, err := p.one(ctx, host)
	if err != nil {
		return fleet.Eligibility{}, err
	}
	e := fleet.Eligibility{Flag: flagOf(h)}
	source, start := "plane "+p.cfg.Name, time.Now()
	if p.sql.Eligible == "" {
		e.Eligible = fleet.ReadNotApplicable[bool](source, start, "no statement tells what its scheduler believes")
		return e, nil
	}
	ok, at, err := p.eligible(ctx, h.ID.Name())
	if err != nil {
		e.Eligible = fleet.ReadFailed[bool](source, start, time.Since(start), err)
		return e, nil
	}
	if at.IsZero() {
		at = start
	}
	e.Eligible = fleet.Read(ok, source, at, time.Since(start))
	return e, nil
}

func (p *Plane) eligible(ctx context.Context, name string) (bool, time.Time, error) {
	rows, err := p.query(ctx, "eligible", p.sql.Eligible, pgx.NamedArgs{"host": name})
	if err != nil {
		return false, time.Time{}, err
	}
	if len(rows) != 1 {
		return false, time.Time{}, p.explain("eligible", fmt.Errorf("it returned %d rows, not one", len(rows)))
	}
	if _, err := rows[0].need("eligible"); err != nil {
		return false, time.Time{}, p.explain("eligible", err)
	}
	ok, err := rows[0].flag("eligible")
	if err != nil {
		return false, time.Time{}, p.explain("eligible", err)
	}
	at, err := rows[0].time("at")
	return ok, at, p.explain("eligible", err)
}
