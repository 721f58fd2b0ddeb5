package postgres

import (
	"context"
	"fmt"

	"ebb/fleet"

	"github.com/jackc/pgx/v5"
)

// Settle resolves a ghost: the plane marks the claim as gone, with who found it
// so and why. A claim that is gone already is no error.
func (p *Plane) Settle(ctx context.Context, key fleet.Key, host fleet.HostID, reason, actor string) error {
	name, err := p.name(host)
	if err == nil {
		err = text(key.Kind, key.ID, reason, actor)
	}
	if err != nil {
		return fmt.Errorf("settle %s on %s: %w", key, host, err)
	}
	n, err := p.exec(ctx, "settle", p.sql.Settle, pgx.NamedArgs{
		"kind": key.Kind, "id": key.ID, "host": name, "reason": reason, "actor": mark + actor})
	if err != nil || n > 0 {
		return err
	}
	return p.settled(ctx, key, host)
}

func (p *Plane) settled(ctx context.Context, key fleet.Key, host fleet.HostID) error {
	c, ok, err := p.find(ctx, key, host)
	if err != nil || ok && c.Phase == fleet.Gone {
		return err
	}
	return &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("%s on %s", key, host)}
}

// Move turns a claim over to another host. One that is there already is no
// error: a repeated act finds it done.
func (p *Plane) Move(ctx context.Context, key fleet.Key, from, to fleet.HostID) error {
	src, err := p.name(from)
	if err != nil {
		return err
	}
	dst, err := p.one(ctx, to)
	if err == nil {
		err = text(key.Kind, key.ID)
	}
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", key, to, err)
	}
	n, err := p.exec(ctx, "move", p.sql.Move, pgx.NamedArgs{"kind": key.Kind, "id": key.ID, "from": src, "to": dst.ID.Name()})
	if err != nil || n > 0 {
		return err
	}
	if _, ok, err := p.find(ctx, key, to); err != nil || ok {
		return err
	}
	return &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("%s on %s", key, from)}
}

// Rest says that a workload is at rest on its host, with its state kept.
func (p *Plane) Rest(ctx context.Context, key fleet.Key, host fleet.HostID) error {
	return p.turn(ctx, key, host, "hibernated")
}

// Wake says that a workload runs on its host again.
func (p *Plane) Wake(ctx context.Context, key fleet.Key, host fleet.HostID) error {
	return p.turn(ctx, key, host, "running")
}

// turn changes the status of a claim that is there. One that is gone, or another
// host's, stays so: whoever ended or moved it has the last word.
func (p *Plane) turn(ctx context.Context, key fleet.Key, host fleet.HostID, status string) error {
	src, err := p.name(host)
	if err == nil {
		err = text(key.Kind, key.ID)
	}
	if err != nil {
		return fmt.Errorf("claim %s as %s: %w", key, status, err)
	}
	c, ok, err := p.find(ctx, key, host)
	switch {
	case err != nil || ok && c.Phase == fleet.Gone:
		return err
	case !ok:
		return &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("%s on %s", key, host)}
	}
	_, err = p.exec(ctx, "rest", p.sql.Rest, pgx.NamedArgs{"kind": key.Kind, "id": key.ID, "host": src, "status": status})
	return err
}

func (p *Plane) find(ctx context.Context, key fleet.Key, host fleet.HostID) (fleet.Claim, bool, error) {
	claims, err := p.Claims(ctx, []fleet.HostID{host})
	if err != nil {
		return fleet.Claim{}, false, err
	}
	for _, c := range claims[host] {
		if c.Key == key {
			return c, true, nil
		}
	}
	return fleet.Claim{}, false, nil
}
