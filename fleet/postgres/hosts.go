package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ebb/fleet"

	"github.com/jackc/pgx/v5"
)

// Hosts lists the plane's hosts by id.
func (p *Plane) Hosts(ctx context.Context) ([]fleet.Host, error) {
	rows, err := p.query(ctx, "hosts", p.sql.Hosts, nil)
	if err != nil {
		return nil, err
	}
	out := make([]fleet.Host, 0, len(rows))
	for _, r := range rows {
		h, err := p.host(r)
		if err != nil {
			return nil, p.explain("hosts", err)
		}
		h.DrainWho = strings.TrimPrefix(h.DrainWho, mark)
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b fleet.Host) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i := 1; i < len(out); i++ {
		if out[i].ID == out[i-1].ID {
			return nil, p.explain("hosts", fmt.Errorf("host %q is there twice", out[i].ID.Name()))
		}
	}
	return out, nil
}

// host turns a row into a host; DrainWho stays as it is stored.
func (p *Plane) host(r row) (fleet.Host, error) {
	id, err := r.need("id")
	if err != nil {
		return fleet.Host{}, err
	}
	h := fleet.Host{
		ID:       fleet.NewHostID(p.cfg.Name, id),
		Address:  r.str("address"),
		DrainWhy: r.str("drain_reason"),
		DrainWho: r.str("drained_by"),
	}
	if h.Draining, err = r.flag("draining"); err != nil {
		return h, inRow(id, err)
	}
	if h.Labels, err = r.labels("labels"); err != nil {
		return h, inRow(id, err)
	}
	if h.DrainAt, err = r.time("drained_at"); err != nil {
		return h, inRow(id, err)
	}
	if h.Heartbeat, err = r.time("heartbeat_at"); err != nil {
		return h, inRow(id, err)
	}
	if h.Instance = r.str("instance"); h.Instance == "" {
		h.Instance = h.Labels["instance"]
	}
	return h, nil
}

func inRow(id string, err error) error { return fmt.Errorf("row %.60q: %w", id, err) }

// Host reads one host, and reports whether the plane lists it.
func (p *Plane) Host(ctx context.Context, id fleet.HostID) (h fleet.Host, listed bool, err error) {
	h, err = p.one(ctx, id)
	var missing *MissingError
	if errors.As(err, &missing) {
		return fleet.Host{}, false, nil
	}
	h.DrainWho = strings.TrimPrefix(h.DrainWho, mark)
	return h, err == nil, err
}

// one reads a single host, as it is stored.
func (p *Plane) one(ctx context.Context, id fleet.HostID) (fleet.Host, error) {
	name, err := p.name(id)
	if err != nil {
		return fleet.Host{}, err
	}
	rows, err := p.query(ctx, "hosts", `select * from (`+p.sql.Hosts+"\n"+`) as h where h.id::text = @host`, pgx.NamedArgs{"host": name})
	if err != nil {
		return fleet.Host{}, err
	}
	switch len(rows) {
	case 0:
		return fleet.Host{}, &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("a host %q", name)}
	case 1:
		h, err := p.host(rows[0])
		return h, p.explain("hosts", err)
	}
	return fleet.Host{}, p.explain("hosts", fmt.Errorf("host %q is there twice", name))
}

// Claims reads what is claimed about hosts; nil means all. Every host that was
// asked for has an entry, empty where nothing is claimed. Claims that are on no
// host are left out.
func (p *Plane) Claims(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	out := make(map[fleet.HostID][]fleet.Claim, len(hosts))
	var names any // null
	if hosts != nil {
		list := make([]string, len(hosts))
		for i, h := range hosts {
			var err error
			if list[i], err = p.name(h); err != nil {
				return nil, err
			}
			out[h] = nil
		}
		names = list
	}
	rows, err := p.query(ctx, "claims", p.sql.Claims, pgx.NamedArgs{"hosts": names})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		c, err := p.claim(r)
		if err != nil {
			return nil, p.explain("claims", err)
		}
		_, asked := out[c.Host]
		if c.Host.Name() != "" && (asked || hosts == nil) {
			out[c.Host] = append(out[c.Host], c)
		}
	}
	for _, claims := range out {
		slices.SortStableFunc(claims, func(a, b fleet.Claim) int { return a.Key.Compare(b.Key) })
	}
	return out, nil
}

func (p *Plane) claim(r row) (fleet.Claim, error) {
	id, err := r.need("id")
	if err != nil {
		return fleet.Claim{}, err
	}
	if _, ok := r["agent_id"]; !ok {
		return fleet.Claim{}, fmt.Errorf("its result has no column %q", "agent_id")
	}
	c := fleet.Claim{
		Key:    fleet.Key{Kind: r.str("kind"), ID: id},
		Host:   fleet.NewHostID(p.cfg.Name, r.str("agent_id")),
		Status: r.str("status"),
		Owner:  r.str("owner"),
		Run:    fleet.Run{UID: r.str("uid")},
	}
	if c.Key.Kind == "" {
		c.Key.Kind = "sandbox"
	}
	if class := fleet.Class(strings.ToLower(r.str("class"))); class.Valid() {
		c.Class = class
	}
	c.Phase, _ = fleet.PhaseOf(c.Status)
	if c.Expires, err = r.time("expires_at"); err != nil {
		return c, inRow(id, err)
	}
	if c.Changed, err = r.time("changed_at"); err != nil {
		return c, inRow(id, err)
	}
	if c.Labels, err = r.labels("meta"); err != nil {
		return c, inRow(id, err)
	}
	return c, nil
}
