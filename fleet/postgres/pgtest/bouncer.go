package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var pooled struct {
	once    sync.Once
	bouncer *Bouncer
	err     error
}

// StartPooled returns the URL of a fresh, empty database on the server of Start
// that leads through a PgBouncer, which ends with the process.
func StartPooled(tb testing.TB) string {
	tb.Helper()
	needs(tb, "pgbouncer", "/usr/sbin/pgbouncer")
	direct := Start(tb)
	pooled.once.Do(func() { pooled.bouncer, pooled.err = bounce(shared.server) })
	if pooled.err != nil {
		tb.Fatalf("start PgBouncer: %v", pooled.err)
	}
	return pooled.bouncer.URL(direct)
}

// Bouncer is a PgBouncer in transaction mode: a client has a server's connection
// for one transaction at a time, and then perhaps another one.
type Bouncer struct {
	server *Server
	run    *Server // what runs it: a folder, a port, an owner
}

// NewBouncer starts a PgBouncer in front of a server, for one test.
func NewBouncer(tb testing.TB, s *Server) *Bouncer {
	tb.Helper()
	needs(tb, "pgbouncer", "/usr/sbin/pgbouncer")
	b, err := bounce(s)
	if err != nil {
		tb.Fatalf("start PgBouncer: %v", err)
	}
	tb.Cleanup(b.run.close)
	return b
}

// Database makes a database for one test and returns the URL that leads to it
// through the pooler.
func (b *Bouncer) Database(tb testing.TB) string {
	tb.Helper()
	return b.URL(b.server.Database(tb))
}

// URL leads a URL of the server through the pooler.
func (b *Bouncer) URL(direct string) string {
	u, err := url.Parse(direct)
	if err != nil {
		return direct
	}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(b.run.port))
	return u.String()
}

// bouncerConfig has clients share two connections of the server for each
// database, so that they meet one another's.
const bouncerConfig = `[databases]
* = host=127.0.0.1 port=%d user=ebb password=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
server_reset_query_always = 0
ignore_startup_parameters = extra_float_digits
logfile = %s
pidfile = %s
`

// superviseBouncer keeps the pooler no longer than its standard input is open.
const superviseBouncer = `"$0" -q bouncer.ini </dev/null >>log 2>&1 &
p=$!; read -r line; kill -INT $p; wait $p
dir=$PWD; cd / && rm -rf "$dir"`

func bounce(s *Server) (*Bouncer, error) {
	run, err := place("", nil)
	if err != nil {
		return nil, err
	}
	b := &Bouncer{server: s, run: run}
	for range 5 { // another process may take the port first
		if err = b.start("/usr/sbin/pgbouncer"); err == nil {
			return b, nil
		}
	}
	run.close()
	return nil, err
}

func (b *Bouncer) start(bin string) (err error) {
	run := b.run
	if err := os.MkdirAll(run.dir, 0o755); err != nil {
		return err
	}
	if run.port, err = freePort(); err != nil {
		return err
	}
	text := fmt.Sprintf(bouncerConfig, b.server.port, Password, run.port, filepath.Join(run.dir, "bouncer.log"), filepath.Join(run.dir, "bouncer.pid"))
	if err := os.WriteFile(filepath.Join(run.dir, "bouncer.ini"), []byte(text), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", superviseBouncer, bin)
	run.dress(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	run.cmd, run.hold = cmd, in
	address := b.URL(b.server.URL("postgres"))
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, address); err == nil {
			conn.Close(ctx)
			cancel()
			return nil
		}
		cancel()
	}
	log, _ := os.ReadFile(filepath.Join(run.dir, "bouncer.log"))
	run.Stop()
	return fmt.Errorf("the pooler does not answer: %w\n%s", err, log)
}
