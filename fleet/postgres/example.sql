-- Tables that the default statements fit. A schema that looks different needs no
-- change: its own statements go under [plane.statements] of fleet.toml.

create table agents (
	id           text primary key,
	address      text not null,              -- what SSH dials
	draining     boolean not null default false,
	drain_reason text,
	drained_at   timestamptz,
	drained_by   text,                       -- "ebb:NAME" where ebb set the flag
	heartbeat_at timestamptz,
	labels       jsonb not null default '{}' -- "pool", and "instance": the provider's immutable id
);

create table sandboxes (
	id         text primary key,
	agent_id   text references agents (id),  -- null: on no host
	kind       text not null default 'sandbox',
	status     text not null,                -- running, hibernated, gone, …
	class      text,                         -- ephemeral, stateless, pausable, durable, stuck
	owner      text,
	expires_at timestamptz,
	meta       jsonb not null default '{}'
);

create index sandboxes_agent on sandboxes (agent_id);

-- What ebb's role needs:
--   grant select, update on agents, sandboxes to ebb;
-- A role that only looks needs select alone.
