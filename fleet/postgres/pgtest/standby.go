package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Pair is a primary and a standby that has everything that the primary has
// confirmed.
type Pair struct {
	Primary, Standby *Server
}

// NewPair starts a primary and a standby that follows it, synchronously.
func NewPair(tb testing.TB) *Pair {
	tb.Helper()
	p := &Pair{Primary: New(tb, Durable)}
	s, err := p.Primary.follow()
	if err != nil {
		tb.Fatalf("start a standby of PostgreSQL: %v", err)
	}
	tb.Cleanup(s.close)
	p.Standby = s
	Exec(tb, p.Primary.URL("postgres"), "alter system set synchronous_standby_names = '*'")
	Exec(tb, p.Primary.URL("postgres"), "select pg_reload_conf()")
	return p
}

// follow makes a standby of a running server.
func (s *Server) follow() (*Server, error) {
	n, err := place(s.bin, s.set)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(s.bin, "pg_basebackup"), "-D", n.data(), "-d", s.URL("postgres"), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	n.dress(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(n.dir)
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return n.begin()
}

// Database makes a database for one test. Its URL leads to whichever of the two
// takes writes.
func (p *Pair) Database(tb testing.TB) string {
	tb.Helper()
	direct := p.Primary.Database(tb)
	both := strings.Replace(direct, p.Primary.Address(), p.Primary.Address()+","+p.Standby.Address(), 1)
	return both + "&target_session_attrs=read-write"
}

// Failover kills the primary and promotes the standby.
func (p *Pair) Failover(tb testing.TB) {
	tb.Helper()
	if err := p.Primary.Kill(); err != nil {
		tb.Fatal(err)
	}
	Exec(tb, p.Standby.URL("postgres"), "select pg_promote(true, 60)")
}
