package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// connect prepares the database; nothing is dialled yet.
func (j *Journal) connect(target string) error {
	scheme, rest, ok := strings.Cut(target, ":")
	switch {
	case ok && scheme == "sqlite" && rest != "":
		return j.connectSQLite(rest)
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return j.connectPG(target)
	}
	return errors.New(`open journal: its URL must begin with "sqlite:" or "postgres://"`)
}

// connectSQLite opens PATH, or a journal in memory that ends with the process.
// The file is created readable by its owner only: reasons and names are in it.
func (j *Journal) connectSQLite(path string) error {
	j.dialect = sqliteDialect()
	j.writer = make(chan struct{}, 1)
	q := url.Values{"_txlock": {"immediate"}}
	q["_pragma"] = append([]string{"busy_timeout(10000)", "journal_mode(wal)", "synchronous(full)"}, j.pragmas...)
	if path == ":memory:" {
		j.name = "sqlite::memory:"
		return j.openSQLite("file::memory:?"+q.Encode(), 1) // each connection has a memory of its own
	}
	abs, err := filepath.Abs(strings.TrimPrefix(path, "//"))
	if err != nil {
		return fmt.Errorf("open journal %s: %w", path, err)
	}
	j.name, j.file = "sqlite:"+abs, true
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return fmt.Errorf("open journal %s: %w", j.name, err)
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	switch {
	case errors.Is(err, os.ErrPermission) || err != nil && strings.Contains(err.Error(), "read-only"):
		return fmt.Errorf("open journal %s: %w: %w", j.name, ErrReadOnly, err)
	case err != nil:
		return fmt.Errorf("open journal %s: %w", j.name, err)
	}
	f.Close()
	return j.openSQLite((&url.URL{Scheme: "file", Path: abs, RawQuery: q.Encode()}).String(), 6)
}

func (j *Journal) openSQLite(dsn string, conns int) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return fmt.Errorf("open journal %s: %w", j.name, err)
	}
	j.db, j.writes = pool(db, conns), db
	if conns > 1 {
		if db, err = sql.Open("sqlite", dsn); err != nil {
			return fmt.Errorf("open journal %s: %w", j.name, err)
		}
		j.writes = pool(db, 1) // there is one writer at a time
	}
	return nil
}

// pool keeps connections that are not in use: a new one costs more than many
// statements.
func pool(db *sql.DB, conns int) *sql.DB {
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// connectPG prepares connections that also work behind a transaction pooler:
// no prepared statement outlives its use.
func (j *Journal) connectPG(target string) error {
	cfg, err := pgx.ParseConfig(target)
	if err != nil {
		return errors.New("open journal: the postgres URL can't be read; it should look like postgres://USER@HOST:PORT/DATABASE")
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "ebb journal"
	}
	j.dialect = pgDialect()
	j.listen = cfg
	j.name = pgName(cfg)
	j.db, j.writes = pool(stdlib.OpenDB(*cfg), 6), pool(stdlib.OpenDB(*cfg), 2)
	for _, db := range []*sql.DB{j.db, j.writes} {
		db.SetConnMaxIdleTime(time.Minute)
	}
	return nil
}

// pgName writes a server's place as a URL without its password.
func pgName(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") {
		u.RawQuery = url.Values{"host": {cfg.Host}}.Encode()
	} else {
		u.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	return u.String()
}
