package embedded

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ebb/fleet"
)

const hostColumns = "id, address, draining, drain_reason, drained_at, drained_by, heartbeat_at, labels, instance"

// Hosts lists the plane's hosts by id.
func (p *Plane) Hosts(ctx context.Context) ([]fleet.Host, error) {
	rows, err := p.db.QueryContext(ctx, `select `+hostColumns+` from agents order by id`)
	if err != nil {
		return nil, p.fail("read hosts", err)
	}
	defer rows.Close()
	var out []fleet.Host
	for rows.Next() {
		h, err := p.host(rows.Scan)
		if err != nil {
			return nil, p.fail("read hosts", err)
		}
		h.DrainWho = strings.TrimPrefix(h.DrainWho, mark)
		out = append(out, h)
	}
	return out, p.fail("read hosts", rows.Err())
}

// host reads a row; DrainWho stays as it is stored.
func (p *Plane) host(scan func(...any) error) (fleet.Host, error) {
	var h fleet.Host
	var id, drainAt, heartbeat, labels string
	err := scan(&id, &h.Address, &h.Draining, &h.DrainWhy, &drainAt, &h.DrainWho, &heartbeat, &labels, &h.Instance)
	if err != nil {
		return h, err
	}
	h.ID = fleet.NewHostID(p.name, id)
	if h.DrainAt, err = unstamp(drainAt); err != nil {
		return h, fmt.Errorf("host %q: %w", id, err)
	}
	if h.Heartbeat, err = unstamp(heartbeat); err != nil {
		return h, fmt.Errorf("host %q: %w", id, err)
	}
	if err := json.Unmarshal([]byte(labels), &h.Labels); err != nil {
		return h, fmt.Errorf("host %q: its labels: %w", id, err)
	}
	if h.Instance == "" {
		h.Instance = h.Labels["instance"]
	}
	return h, nil
}

// Host reads one host, and reports whether the plane lists it.
func (p *Plane) Host(ctx context.Context, id fleet.HostID) (h fleet.Host, listed bool, err error) {
	h, err = p.one(ctx, p.db, id)
	var missing *MissingError
	if errors.As(err, &missing) {
		return fleet.Host{}, false, nil
	}
	h.DrainWho = strings.TrimPrefix(h.DrainWho, mark)
	return h, err == nil, p.fail("read host", err)
}

type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// one reads a single host, as it is stored.
func (p *Plane) one(ctx context.Context, q querier, host fleet.HostID) (fleet.Host, error) {
	id, err := p.id(host)
	if err != nil {
		return fleet.Host{}, err
	}
	h, err := p.host(q.QueryRowContext(ctx, `select `+hostColumns+` from agents where id = $1`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return h, &MissingError{Plane: p.name, What: fmt.Sprintf("a host %q", id)}
	}
	return h, err
}

// AddHost adds a host, or gives one that is there another address, instance and
// labels. Its flag and heartbeat are left alone.
func (p *Plane) AddHost(ctx context.Context, h fleet.Host) error {
	id, err := p.id(h.ID)
	if err != nil {
		return err
	}
	labels, err := encode(h.Labels)
	if err != nil {
		return p.fail("add host", err)
	}
	_, err = p.db.ExecContext(ctx, `insert into agents (id, address, labels, instance, heartbeat_at) values ($1, $2, $3, $4, $5)
		on conflict (id) do update set address = excluded.address, labels = excluded.labels, instance = excluded.instance`,
		id, h.Address, labels, h.Instance, stamp(h.Heartbeat))
	return p.fail("add host", err)
}

// SetHeartbeat says when the plane last heard from a host.
func (p *Plane) SetHeartbeat(ctx context.Context, host fleet.HostID, at time.Time) error {
	id, err := p.id(host)
	if err != nil {
		return err
	}
	res, err := p.db.ExecContext(ctx, `update agents set heartbeat_at = $1 where id = $2`, stamp(at), id)
	return p.changed("set heartbeat", fmt.Sprintf("a host %q", id), res, err)
}

// changed turns an update that met nothing into a MissingError.
func (p *Plane) changed(op, what string, res sql.Result, err error) error {
	if err != nil {
		return p.fail(op, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(p.fail(op, err), &MissingError{Plane: p.name, What: what})
	}
	return nil
}

func encode(m map[string]string) (string, error) {
	if m == nil {
		return "{}", nil
	}
	b, err := json.Marshal(m)
	return string(b), err
}
