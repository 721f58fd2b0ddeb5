package embedded

import (
	"context"
	"time"

	"ebb/fleet"
)

// Refused is one placement that a host did not take.
type Refused struct {
	At   time.Time
	Host fleet.HostID
	Key  fleet.Key
	Who  string // the scheduler
	Why  string
}

// Refused lists the refused placements, the oldest first.
func (p *Plane) Refused(ctx context.Context) ([]Refused, error) {
	rows, err := p.db.QueryContext(ctx, `select at, agent_id, kind, id, who, why from refused_placements order by n`)
	if err != nil {
		return nil, p.fail("read refused placements", err)
	}
	defer rows.Close()
	var out []Refused
	for rows.Next() {
		var r Refused
		var at, host string
		if err := rows.Scan(&at, &host, &r.Key.Kind, &r.Key.ID, &r.Who, &r.Why); err != nil {
			return nil, p.fail("read refused placements", err)
		}
		if r.At, err = unstamp(at); err != nil {
			return nil, p.fail("read refused placements", err)
		}
		r.Host = fleet.NewHostID(p.name, host)
		out = append(out, r)
	}
	return out, p.fail("read refused placements", rows.Err())
}

func (p *Plane) refuse(ctx context.Context, r Refused) error {
	_, err := p.db.ExecContext(ctx, `insert into refused_placements (at, agent_id, kind, id, who, why) values ($1, $2, $3, $4, $5, $6)`,
		stamp(r.At), r.Host.Name(), r.Key.Kind, r.Key.ID, r.Who, r.Why)
	return p.fail("record a refused placement", err)
}
