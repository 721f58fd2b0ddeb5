package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"ebb/fleet"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Plane is a control plane in PostgreSQL. Its methods may be called from many
// goroutines.
type Plane struct {
	cfg  Config
	sql  Statements
	pool *pgxpool.Pool

	hosts  *together[found]
	claims *together[claimed]
}

// Open prepares a plane. Nothing is dialled: a console starts while a plane is
// down, and says so.
func Open(ctx context.Context, cfg Config) (*Plane, error) {
	if cfg.Name == "" || strings.Contains(cfg.Name, "/") {
		return nil, fmt.Errorf("open plane %q: its name must be there, without a slash", cfg.Name)
	}
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// The cause would quote the URL, and the password in it.
		return nil, fmt.Errorf("open plane %s: its URL can't be read; it should look like postgres://USER@HOST:PORT/DATABASE", cfg.Name)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	pc.MaxConns = 4
	if cfg.MaxConns > 0 {
		pc.MaxConns = cfg.MaxConns
	}
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "ebb"
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open plane %s: %w", cfg.Name, err)
	}
	p := &Plane{cfg: cfg, sql: cfg.Statements.filled(), pool: pool}
	p.hosts, p.claims = &together[found]{read: p.readHosts}, &together[claimed]{read: p.readClaims}
	return p, nil
}

// Close closes the connections.
func (p *Plane) Close() {
	p.pool.Close()
	p.hosts.wg.Wait()
	p.claims.wg.Wait()
}

// Ping asks whether the server answers.
func (p *Plane) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	return p.explain("ping", p.pool.Ping(ctx))
}

// query reads all rows of a statement. Reading changes nothing, so it is tried
// once more when a connection turns out to be dead, as all are after a failover.
func (p *Plane) query(ctx context.Context, name, sql string, args pgx.NamedArgs) ([]row, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	for try := 0; ; try++ {
		rows, err := p.pool.Query(ctx, sql, args)
		if err == nil {
			var out []row
			if out, err = pgx.CollectRows(rows, toRow); err == nil {
				return out, nil
			}
		}
		if try > 0 || !lostConnection(err) {
			return nil, p.explain(name, err)
		}
		p.pool.Reset()
	}
}

// exec runs a statement that changes something, once.
func (p *Plane) exec(ctx context.Context, name, sql string, args pgx.NamedArgs) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	tag, err := p.pool.Exec(ctx, sql, args)
	if lostConnection(err) {
		p.pool.Reset()
	}
	return tag.RowsAffected(), p.explain(name, err)
}

// name returns the plane's own id of a host.
func (p *Plane) name(h fleet.HostID) (string, error) {
	if h.Plane() != p.cfg.Name || h.Name() == "" {
		return "", &MissingError{Plane: p.cfg.Name, What: fmt.Sprintf("a host %q", h)}
	}
	return h.Name(), text(h.Name())
}

// text refuses what PostgreSQL can't hold, before it is sent.
func text(parts ...string) error {
	for _, s := range parts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return errors.New("text that is not UTF-8, or has a zero byte in it, can't be stored")
		}
	}
	return nil
}
