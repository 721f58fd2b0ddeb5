package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// migrations bring the tables from one version to the next; their number is the
// version. A released one is never changed.
//
// Times are microseconds since 1970 and bodies are text in both databases: what
// was written is read back to the byte.
var migrations = []string{`
create table {s}head (one int primary key check (one = 1), seq bigint not null, at bigint not null);
insert into {s}head (one, seq, at) values (1, 0, 0);
create table {s}events (
	seq bigint primary key,
	stream text not null,
	num bigint not null,
	id text not null unique,
	at bigint not null,
	kind text not null,
	v int not null,
	drain text not null,
	epoch bigint not null,
	actor text not null,
	body text not null,
	sig text not null,
	unique (stream, num)
);
create table {s}leases (drain text primary key, holder text not null, epoch bigint not null, until bigint not null);
`}

// migrate creates the tables or brings them up to date. It writes only when
// there is something to do, so that a replica can be opened for reading.
func (j *Journal) migrate(ctx context.Context) error {
	have, err := j.version(ctx, j.db)
	if err != nil {
		return err
	}
	if have == len(migrations) {
		return nil
	}
	if have > len(migrations) {
		return &SchemaError{Have: have, Want: len(migrations)}
	}
	err = j.write(ctx, func(tx *sql.Tx) error { return j.upgrade(ctx, tx) })
	var newer *SchemaError
	if err == nil || errors.As(err, &newer) {
		return err
	}
	return &SchemaError{Have: have, Want: len(migrations), Err: advise(classify(err))}
}

// upgrade holds a lock, since several consoles may start at once.
func (j *Journal) upgrade(ctx context.Context, tx *sql.Tx) error {
	if j.dialect.pg {
		if _, err := tx.ExecContext(ctx, `select pg_advisory_xact_lock(7306020001)`); err != nil {
			return err
		}
	}
	have, err := j.version(ctx, tx)
	if err != nil {
		return err
	}
	if have > len(migrations) {
		return &SchemaError{Have: have, Want: len(migrations)}
	}
	if have == 0 {
		if err := j.prepare(ctx, tx); err != nil {
			return err
		}
	}
	for i := have; i < len(migrations); i++ {
		if err := j.script(ctx, tx, migrations[i]); err != nil {
			return fmt.Errorf("migration %d: %w", i+1, err)
		}
	}
	_, err = tx.ExecContext(ctx, j.dialect.sql(`update {s}journal_version set version = $1`), len(migrations))
	return err
}

// prepare makes the place for the tables and the row with their version.
func (j *Journal) prepare(ctx context.Context, tx *sql.Tx) error {
	if j.dialect.pg {
		var there bool
		if err := tx.QueryRowContext(ctx, `select exists (select 1 from pg_namespace where nspname = 'ebb')`).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.ExecContext(ctx, `create schema ebb`); err != nil {
				return err
			}
		}
	}
	return j.script(ctx, tx, `create table {s}journal_version (version int not null);
insert into {s}journal_version (version) values (0);`)
}

// version reads the version of the tables; 0 means that there are none.
func (j *Journal) version(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (int, error) {
	there := `select count(*) from sqlite_master where type = 'table' and name = 'journal_version'`
	if j.dialect.pg {
		there = `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
			where n.nspname = 'ebb' and c.relname = 'journal_version'`
	}
	var n, v int
	if err := q.QueryRowContext(ctx, there).Scan(&n); err != nil || n == 0 {
		return 0, err
	}
	err := q.QueryRowContext(ctx, j.dialect.sql(`select version from {s}journal_version`)).Scan(&v)
	return v, advise(err)
}

// advise adds what to do to an error of permission.
func advise(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return fmt.Errorf("%w; let its owner run: create schema if not exists ebb; grant all on schema ebb to USER; grant all on all tables in schema ebb to USER", err)
	}
	return err
}

// script runs statements one by one: without prepared statements PostgreSQL
// takes only one at a time. None of them has a semicolon inside.
func (j *Journal) script(ctx context.Context, tx *sql.Tx, text string) error {
	for _, one := range strings.Split(j.dialect.sql(text), ";") {
		if strings.TrimSpace(one) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}
