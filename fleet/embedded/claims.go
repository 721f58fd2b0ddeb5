package embedded

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"ebb/fleet"
)

const claimColumns = "kind, id, agent_id, status, class, owner, expires_at, changed_at, run, meta"

// Claims reads what is claimed about hosts; nil means all. Every host that was
// asked for has an entry.
func (p *Plane) Claims(ctx context.Context, hosts []fleet.HostID) (map[fleet.HostID][]fleet.Claim, error) {
	out := make(map[fleet.HostID][]fleet.Claim, len(hosts))
	for _, h := range hosts {
		if _, err := p.id(h); err != nil {
			return nil, err
		}
		out[h] = nil
	}
	rows, err := p.db.QueryContext(ctx, `select `+claimColumns+` from sandboxes order by kind, id`)
	if err != nil {
		return nil, p.fail("read claims", err)
	}
	defer rows.Close()
	for rows.Next() {
		c, err := p.claim(rows.Scan)
		if err != nil {
			return nil, p.fail("read claims", err)
		}
		if _, asked := out[c.Host]; asked || hosts == nil {
			out[c.Host] = append(out[c.Host], c)
		}
	}
	return out, p.fail("read claims", rows.Err())
}

func (p *Plane) claim(scan func(...any) error) (fleet.Claim, error) {
	var c fleet.Claim
	var host, class, expires, changed, run, meta string
	err := scan(&c.Key.Kind, &c.Key.ID, &host, &c.Status, &class, &c.Owner, &expires, &changed, &run, &meta)
	if err != nil {
		return c, err
	}
	c.Host = fleet.NewHostID(p.name, host)
	if fleet.Class(class).Valid() {
		c.Class = fleet.Class(class)
	}
	c.Phase, _ = fleet.PhaseOf(c.Status)
	var errs [4]error
	c.Expires, errs[0] = unstamp(expires)
	c.Changed, errs[1] = unstamp(changed)
	errs[2] = c.Run.UnmarshalText([]byte(run))
	errs[3] = json.Unmarshal([]byte(meta), &c.Labels)
	if err := errors.Join(errs[:]...); err != nil {
		return c, fmt.Errorf("claim %q: %w", c.Key.String(), err)
	}
	return c, nil
}

// words are what the plane calls the phases.
var words = map[fleet.Phase]string{fleet.Running: "running", fleet.AtRest: "hibernated", fleet.Gone: "gone"}

// Put writes a claim, in place of one with the same key. Without a status it
// gets the plane's word for its phase, without either it runs.
func (p *Plane) Put(ctx context.Context, c fleet.Claim) error {
	id, err := p.id(c.Host)
	if err != nil {
		return err
	}
	if c.Key.Kind == "" || c.Key.ID == "" {
		return p.fail("put claim", errors.New("it needs a kind and an id"))
	}
	meta, err := encode(c.Labels)
	if err != nil {
		return p.fail("put claim", err)
	}
	run, err := c.Run.MarshalText()
	if err != nil {
		return p.fail("put claim", err)
	}
	if c.Changed.IsZero() {
		c.Changed = p.now()
	}
	status := cmp.Or(c.Status, words[cmp.Or(c.Phase, fleet.Running)])
	_, err = p.db.ExecContext(ctx, `insert into sandboxes (`+claimColumns+`) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		on conflict (kind, id) do update set agent_id = excluded.agent_id, status = excluded.status, class = excluded.class,
			owner = excluded.owner, expires_at = excluded.expires_at, changed_at = excluded.changed_at, run = excluded.run, meta = excluded.meta`,
		c.Key.Kind, c.Key.ID, id, status, string(c.Class), c.Owner, stamp(c.Expires), stamp(c.Changed), string(run), meta)
	return p.fail("put claim", err)
}

// End says that a workload is gone.
func (p *Plane) End(ctx context.Context, key fleet.Key) error { return p.become(ctx, key, fleet.Gone) }

// Rest says that a workload is at rest on a host, with its state kept.
func (p *Plane) Rest(ctx context.Context, key fleet.Key, host fleet.HostID) error {
	return p.turn(ctx, key, host, fleet.AtRest)
}

// Wake says that a workload runs on a host again.
func (p *Plane) Wake(ctx context.Context, key fleet.Key, host fleet.HostID) error {
	return p.turn(ctx, key, host, fleet.Running)
}

// turn changes the claim of a workload that is there. One that is gone, or another
// host's, stays so: whoever ended or moved it has the last word.
func (p *Plane) turn(ctx context.Context, key fleet.Key, host fleet.HostID, phase fleet.Phase) error {
	return p.write(ctx, "change claim", func(tx *sql.Tx) error {
		c, err := p.find(ctx, tx, key, host)
		if err != nil || c.Phase == fleet.Gone {
			return err
		}
		_, err = tx.ExecContext(ctx, `update sandboxes set status = $1, changed_at = $2 where kind = $3 and id = $4`,
			words[phase], stamp(p.now()), key.Kind, key.ID)
		return err
	})
}

func (p *Plane) become(ctx context.Context, key fleet.Key, phase fleet.Phase) error {
	res, err := p.db.ExecContext(ctx, `update sandboxes set status = $1, changed_at = $2 where kind = $3 and id = $4`,
		words[phase], stamp(p.now()), key.Kind, key.ID)
	return p.changed("change claim", key.String(), res, err)
}

// Settle resolves a ghost: the claim is marked as gone, with who found it so and
// why. A claim that is gone already is no error.
func (p *Plane) Settle(ctx context.Context, key fleet.Key, host fleet.HostID, reason, actor string) error {
	return p.write(ctx, "settle", func(tx *sql.Tx) error {
		c, err := p.find(ctx, tx, key, host)
		if err != nil || c.Phase == fleet.Gone {
			return err
		}
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels["settled_by"], c.Labels["settled_reason"] = mark+actor, reason
		meta, err := encode(c.Labels)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `update sandboxes set status = 'gone', changed_at = $1, meta = $2 where kind = $3 and id = $4`,
			stamp(p.now()), meta, key.Kind, key.ID)
		return err
	})
}

// Move turns a claim over to another host. One that is there already is no
// error: a repeated act finds it done.
func (p *Plane) Move(ctx context.Context, key fleet.Key, from, to fleet.HostID) error {
	return p.write(ctx, "move", func(tx *sql.Tx) error {
		dst, err := p.one(ctx, tx, to)
		if err != nil {
			return err
		}
		if _, err := p.find(ctx, tx, key, from); err != nil {
			if _, there := p.find(ctx, tx, key, to); there == nil {
				return nil
			}
			return err
		}
		_, err = tx.ExecContext(ctx, `update sandboxes set agent_id = $1 where kind = $2 and id = $3`, dst.ID.Name(), key.Kind, key.ID)
		return err
	})
}

// find reads the claim of a key on a host.
func (p *Plane) find(ctx context.Context, tx *sql.Tx, key fleet.Key, host fleet.HostID) (fleet.Claim, error) {
	id, err := p.id(host)
	if err != nil {
		return fleet.Claim{}, err
	}
	c, err := p.claim(tx.QueryRowContext(ctx, `select `+claimColumns+` from sandboxes where kind = $1 and id = $2 and agent_id = $3`, key.Kind, key.ID, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return c, &MissingError{Plane: p.name, What: fmt.Sprintf("%s on %s", key, host)}
	}
	return c, err
}
