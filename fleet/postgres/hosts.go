package postgres

import (
	"cmp"
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
	f, err := p.hosts.ask(ctx, name)
	switch {
	case err != nil:
		return fleet.Host{}, p.explain("hosts", err)
	case f.rows == 0:
		return fleet.Host{}, &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("a host %q", name)}
	case f.rows > 1:
		return fleet.Host{}, p.explain("hosts", fmt.Errorf("host %q is there twice", name))
	}
	return f.host, p.explain("hosts", f.err)
}

// found is what the plane has under a host's name.
type found struct {
	rows int
	host fleet.Host
	err  error // its row can't be read
}

func (p *Plane) readHosts(ctx context.Context, names []string) (map[string]found, error) {
	rows, err := p.query(ctx, "hosts", `select * from (`+p.sql.Hosts+"\n"+`) as h where h.id::text = any(@hosts)`, pgx.NamedArgs{"hosts": names})
	out := make(map[string]found, len(names))
	for _, r := range rows {
		h, err := p.host(r)
		name := r.str("id")
		out[name] = found{rows: out[name].rows + 1, host: h, err: err}
	}
	return out, err
}

// Claims reads what is claimed about hosts; nil means all. Every host that was
// asked for has an entry, empty where nothing is claimed. Claims that are on no
// host are left out.
func (p *Plane) Claims(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	if len(hosts) == 1 {
		name, err := p.name(hosts[0])
		if err != nil {
			return nil, err
		}
		c, err := p.claims.ask(ctx, name)
		if err = cmp.Or(err, c.err); err != nil {
			return nil, p.explain("claims", err)
		}
		return map[fleet.HostID][]fleet.Claim{hosts[0]: c.list}, nil
	}
	var names []string // nil is null
	if hosts != nil {
		names = make([]string, 0, len(hosts))
	}
	for _, h := range hosts {
		name, err := p.name(h)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	read, err := p.readClaims(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make(map[fleet.HostID][]fleet.Claim, len(hosts))
	for _, h := range hosts {
		out[h] = nil
	}
	for name, c := range read {
		if c.err != nil {
			return nil, p.explain("claims", c.err)
		}
		id := fleet.NewHostID(p.cfg.Name, name)
		if _, asked := out[id]; asked || hosts == nil {
			out[id] = c.list
		}
	}
	return out, nil
}

// claimed is what is claimed about a host.
type claimed struct {
	list []fleet.Claim
	err  error // a row about it can't be read
}

// readClaims reads claims by the names of their hosts; nil means all.
func (p *Plane) readClaims(ctx context.Context, names []string) (map[string]claimed, error) {
	var list any // null
	if names != nil {
		list = names
	}
	rows, err := p.query(ctx, "claims", p.sql.Claims, pgx.NamedArgs{"hosts": list})
	if err != nil {
		return nil, err
	}
	out := map[string]claimed{}
	for _, r := range rows {
		host := r.str("agent_id")
		c, err := p.claim(r)
		switch have := out[host]; {
		case err != nil && host == "":
			return nil, p.explain("claims", err)
		case err != nil:
			out[host] = claimed{err: err}
		case host != "" && have.err == nil:
			out[host] = claimed{list: append(have.list, c)}
		}
	}
	for _, c := range out {
		slices.SortStableFunc(c.list, func(a, b fleet.Claim) int { return a.Key.Compare(b.Key) })
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
