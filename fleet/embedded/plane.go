package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ebb/fleet"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Config is one plane.
type Config struct {
	Name  string           // as in "name/host"
	URL   string           // "sqlite:PATH", or "sqlite::memory:", which ends with the plane
	Clock func() time.Time // time.Now where it is nil
}

// Plane is a control plane in SQLite. Its methods may be called from many
// goroutines, and several processes may open one file.
type Plane struct {
	name  string
	where string // for errors
	db    *sql.DB
	now   func() time.Time
}

const tables = `
create table if not exists agents (
	id text primary key, address text not null, draining int not null default 0,
	drain_reason text not null default '', drained_at text not null default '', drained_by text not null default '',
	heartbeat_at text not null default '', labels text not null default '{}', instance text not null default ''
);
create table if not exists sandboxes (
	kind text not null, id text not null, agent_id text not null, status text not null,
	class text not null default '', owner text not null default '', expires_at text not null default '',
	changed_at text not null default '', run text not null default '', meta text not null default '{}',
	primary key (kind, id)
);
create index if not exists sandboxes_agent on sandboxes (agent_id);
create table if not exists scheduler_view (agent_id text primary key, eligible int not null, seen_at text not null);
create table if not exists refused_placements (
	n integer primary key, at text not null, agent_id text not null, kind text not null, id text not null,
	who text not null, why text not null
);`

// Open opens a plane and creates its tables where they are missing.
func Open(ctx context.Context, cfg Config) (*Plane, error) {
	if cfg.Name == "" || strings.Contains(cfg.Name, "/") {
		return nil, fmt.Errorf("open plane %q: its name must be there, without a slash", cfg.Name)
	}
	p := &Plane{name: cfg.Name, where: cfg.URL, now: cfg.Clock}
	if p.now == nil {
		p.now = time.Now
	}
	path, ok := strings.CutPrefix(cfg.URL, "sqlite:")
	if !ok || path == "" {
		return nil, fmt.Errorf("open plane %s: its URL must be sqlite:PATH", cfg.Name)
	}
	dsn, conns, err := source(path)
	if err != nil {
		return nil, fmt.Errorf("open plane %s: %w", cfg.Name, err)
	}
	if p.db, err = sql.Open("sqlite", dsn); err != nil {
		return nil, fmt.Errorf("open plane %s: %w", cfg.Name, err)
	}
	p.db.SetMaxOpenConns(conns)
	p.db.SetMaxIdleConns(conns)
	if _, err := p.db.ExecContext(ctx, tables); err != nil {
		p.db.Close()
		return nil, fmt.Errorf("open plane %s: prepare %s: %w", cfg.Name, path, err)
	}
	return p, nil
}

// source turns a path into what the driver wants, and how many connections it
// may have: each has a memory of its own.
func source(path string) (string, int, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(normal)"}}
	if path == ":memory:" {
		return "file::memory:?" + q.Encode(), 1, nil
	}
	abs, err := filepath.Abs(strings.TrimPrefix(path, "//"))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(abs), 0o700)
	}
	if err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", 0, err
	}
	f.Close()
	return (&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String(), 4, nil
}

// Close closes the database.
func (p *Plane) Close() error { return p.db.Close() }

// Ping asks whether the database answers.
func (p *Plane) Ping(ctx context.Context) error { return p.fail("ping", p.db.PingContext(ctx)) }

func (p *Plane) fail(op string, err error) error {
	var missing *MissingError
	var theirs *TheirsError
	if err == nil || errors.As(err, &missing) || errors.As(err, &theirs) {
		return err
	}
	return fmt.Errorf("plane %s: %s in %s: %w", p.name, op, p.where, err)
}

// write runs fn in a transaction.
func (p *Plane) write(ctx context.Context, op string, fn func(*sql.Tx) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return p.fail(op, err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // what made it necessary is reported
		return p.fail(op, err)
	}
	return p.fail(op, tx.Commit())
}

// id returns the plane's own id of a host.
func (p *Plane) id(h fleet.HostID) (string, error) {
	if h.Plane() != p.name || h.Name() == "" {
		return "", &MissingError{Plane: p.name, What: fmt.Sprintf("a host %q", h)}
	}
	return h.Name(), nil
}

// MissingError says that the plane does not know a host or a claim.
type MissingError struct{ Plane, What string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("plane %s does not know %s", e.Plane, e.What)
}

// Final says that trying again does not help.
func (e *MissingError) Final() bool { return true }

// ErrTheirs says that a flag was set by someone else.
var ErrTheirs = errors.New("the plane's flag was not set by ebb")

// TheirsError is an ErrTheirs with the flag that stands.
type TheirsError struct {
	Host fleet.HostID
	Flag fleet.Flag
}

func (e *TheirsError) Error() string {
	return fmt.Sprintf("lift the flag of %s: %v but by %q (%q): it is lifted only on explicit word (--theirs)", e.Host, ErrTheirs, e.Flag.Who, e.Flag.Why)
}

func (e *TheirsError) Unwrap() error { return ErrTheirs }

// Final says that trying again does not help.
func (e *TheirsError) Final() bool { return true }

// Times are stored as text that sorts, empty where there is none.
const layout = "2006-01-02T15:04:05.000000000Z"

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

func unstamp(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(layout, s)
}
