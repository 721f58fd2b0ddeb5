package postgres

import (
	"cmp"
	"strings"
	"time"
)

// Config is one plane.
type Config struct {
	Name       string // as in "name/host"
	URL        string // postgres://…
	Statements Statements
	Timeout    time.Duration // of one call; 15 s where it is zero
	MaxConns   int32         // 4 where it is zero
}

// Statements are SQL texts in place of the defaults; empty keeps a default.
//
//   - Hosts: columns id; optional address, draining, drain_reason, drained_at,
//     drained_by, heartbeat_at, labels (json, hstore or "k=v,k=v"), instance.
//     A plain select, without a semicolon: it is also used as a subquery.
//   - Claims: columns agent_id, id; optional kind, status, class, owner,
//     expires_at, changed_at, meta, uid (of the incarnation). @hosts is an array
//     of host ids, or null for all.
//   - Flag: sets the flag of @host with @reason and @actor, unless it is set.
//   - Unflag: clears the flag of @host that @actor had set.
//   - Eligible: what the scheduler believes about @host: columns eligible
//     (boolean), optional at (how fresh that is). There is no default.
//   - Settle: marks @kind @id on @host as gone, with @reason and @actor.
//   - Move: moves @kind @id from @from to @to.
//   - Rest: gives @kind @id on @host the status @status: "hibernated" where it has
//     been parked, "running" where it has been resumed.
//
// A schema that can't say who set its flag can have a Hosts statement that says
// 'ebb:' as drained_by, if nobody but ebb sets it. Without that, lifting the flag
// always needs explicit word.
type Statements struct {
	Hosts, Claims, Flag, Unflag, Eligible, Settle, Move, Rest string
}

var defaults = Statements{
	Hosts: `select id, address, draining, drain_reason, drained_at, drained_by, heartbeat_at, labels from agents`,
	Claims: `select id, agent_id, kind, status, class, owner, expires_at, meta from sandboxes
		where (@hosts::text[] is null or agent_id::text = any(@hosts::text[]))`,
	Flag: `update agents set draining = true, drain_reason = @reason, drained_at = now(), drained_by = @actor
		where id::text = @host and not coalesce(draining, false)`,
	Unflag: `update agents set draining = false, drain_reason = null, drained_at = null, drained_by = null
		where id::text = @host and drained_by is not distinct from @actor`,
	Settle: `update sandboxes set status = 'gone', meta = coalesce(meta, '{}'::jsonb)
			|| jsonb_build_object('settled_by', @actor::text, 'settled_reason', @reason::text)
		where id::text = @id and kind = @kind and agent_id::text = @host`,
	Move: `update sandboxes set agent_id = @to where id::text = @id and kind = @kind and agent_id::text = @from`,
	Rest: `update sandboxes set status = @status where id::text = @id and kind = @kind and agent_id::text = @host`,
}

func (s Statements) filled() Statements {
	pick := func(own, std string) string {
		return cmp.Or(strings.TrimRight(strings.TrimSpace(own), "; \n\t"), std)
	}
	return Statements{
		Hosts: pick(s.Hosts, defaults.Hosts), Claims: pick(s.Claims, defaults.Claims),
		Flag: pick(s.Flag, defaults.Flag), Unflag: pick(s.Unflag, defaults.Unflag),
		Eligible: pick(s.Eligible, defaults.Eligible),
		Settle:   pick(s.Settle, defaults.Settle), Move: pick(s.Move, defaults.Move), Rest: pick(s.Rest, defaults.Rest),
	}
}
