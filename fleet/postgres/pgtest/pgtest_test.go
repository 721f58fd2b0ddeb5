package pgtest_test

import (
	"context"
	"testing"
	"time"

	"ebb/fleet/postgres/pgtest"

	"github.com/jackc/pgx/v5"
)

// A server that is stopped and started again has kept what was in it; two
// databases have nothing in common.
func TestStopStart(t *testing.T) {
	s := pgtest.New(t)
	url, other := s.Database(t), s.Database(t)
	pgtest.Exec(t, url, "create table kept (n int); insert into kept values (7)")
	s.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := pgx.Connect(ctx, url); err == nil {
		t.Fatal("a stopped server answers")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var n int
	if err := conn.QueryRow(ctx, "select n from kept").Scan(&n); err != nil || n != 7 {
		t.Fatalf("read %d, %v", n, err)
	}
	second, err := pgx.Connect(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(ctx)
	if err := second.QueryRow(ctx, "select n from kept").Scan(&n); err == nil {
		t.Fatal("a fresh database is not empty")
	}
}

func TestSharedServerGivesFreshDatabases(t *testing.T) {
	if a, b := pgtest.Start(t), pgtest.Start(t); a == b {
		t.Fatalf("twice the same database: %s", a)
	}
}

// A server that is killed comes back with everything that it had confirmed.
func TestKill(t *testing.T) {
	s := pgtest.New(t, pgtest.Durable)
	url := s.Database(t)
	pgtest.Exec(t, url, "create table kept (n int)")
	for range 3 {
		pgtest.Exec(t, url, "insert into kept values (7)")
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, url, "do $$ begin if (select count(*) from kept) <> 3 then raise 'something is missing'; end if; end $$")
}

// Behind the pooler, a client does not keep a server's connection.
func TestPooled(t *testing.T) {
	url := pgtest.StartPooled(t)
	pgtest.Exec(t, url, "create table kept (n int)")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backends := map[uint32]bool{}
	var open []*pgx.Conn
	for range 10 {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		open = append(open, conn)
	}
	for _, conn := range open {
		var pid uint32
		if err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		backends[pid] = true
	}
	if len(backends) > 2 {
		t.Fatalf("10 clients had %d backends", len(backends))
	}
}

// A standby that is promoted has everything that the primary had confirmed.
func TestFailover(t *testing.T) {
	pair := pgtest.NewPair(t)
	url := pair.Database(t)
	pgtest.Exec(t, url, "create table kept (n int); insert into kept values (7)")
	pair.Failover(t)
	pgtest.Exec(t, url, "insert into kept values (8)")
	pgtest.Exec(t, url, "do $$ begin if (select count(*) from kept) <> 2 then raise 'something is missing'; end if; end $$")
}

// A clock that jumps does so for connections that are there already.
func TestClocked(t *testing.T) {
	s := pgtest.NewClocked(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		if err := s.Jump(ahead); err != nil {
			t.Fatal(err)
		}
		var now time.Time
		if err := conn.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		if off := time.Until(now) - ahead; off.Abs() > 30*time.Minute {
			t.Errorf("set %s ahead, it is %s off", ahead, off)
		}
	}
}
