package postgres

import (
	"context"
	"errors"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/fleet/postgres/pgtest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func example(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("example.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// open makes a plane over a database after running some SQL in it.
func open(t testing.TB, dbURL, sql string, s Statements) *Plane {
	t.Helper()
	if sql != "" {
		pgtest.Exec(t, dbURL, sql)
	}
	p, err := Open(context.Background(), Config{Name: "prod", URL: dbURL, Statements: s, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

const some = `
insert into agents (id, address, heartbeat_at, labels) values
	('gpu-2', 'gpu-2.internal', '2026-11-29 12:00:00+00', '{"pool":"gpu","instance":"i-2","spot":true,"n":7,"none":null,"deep":{"a":1}}'),
	('gpu-1', '10.0.0.1', null, '{}');
insert into agents (id, address, draining, drain_reason, drained_at, drained_by) values
	('a/b', 'a', true, 'fan', '2026-11-29 11:00:00+00', 'bob');
insert into sandboxes (id, agent_id, kind, status, class, owner, expires_at, meta) values
	('s1', 'gpu-1', 'sandbox', 'running', 'ephemeral', 'ann', '2026-11-29 13:00:00+00', '{"app":"x"}'),
	('s2', 'gpu-1', 'vm', 'HIBERNATED', 'odd class', null, 'infinity', '{}'),
	('s3', 'gpu-1', 'vm', 'completed', 'Stateless', null, null, '{}'),
	('s4', 'gpu-2', 'vm', 'quiescing', null, null, null, '{}'),
	('s5', null, 'vm', 'pending', null, null, null, '{}');`

func TestHostsAndClaims(t *testing.T) {
	p, ctx := open(t, pgtest.Start(t), example(t)+some, Statements{}), t.Context()
	at := func(s string) time.Time { tm, _ := time.Parse(time.RFC3339, s); return tm }
	hosts, err := p.Hosts(ctx)
	want := []fleet.Host{
		{ID: "prod/a/b", Address: "a", Labels: map[string]string{}, Draining: true, DrainWhy: "fan", DrainWho: "bob", DrainAt: at("2026-11-29T11:00:00Z")},
		{ID: "prod/gpu-1", Address: "10.0.0.1", Labels: map[string]string{}},
		{ID: "prod/gpu-2", Address: "gpu-2.internal", Instance: "i-2", Heartbeat: at("2026-11-29T12:00:00Z"),
			Labels: map[string]string{"pool": "gpu", "instance": "i-2", "spot": "true", "n": "7", "deep": `{"a":1}`}},
	}
	if err != nil || !reflect.DeepEqual(hosts, want) {
		t.Errorf("hosts\n%+v\nwant\n%+v\n%v", hosts, want, err)
	}
	for _, h := range want {
		if got, listed, err := p.Host(ctx, h.ID); err != nil || !listed || !reflect.DeepEqual(got, h) {
			t.Errorf("host alone\n%+v, listed %v\nwant\n%+v\n%v", got, listed, h, err)
		}
	}
	for _, id := range []fleet.HostID{"prod/gpu-3", "other/gpu-1"} {
		if got, listed, err := p.Host(ctx, id); err != nil || listed {
			t.Errorf("%s: %+v, listed %v, %v", id, got, listed, err)
		}
	}

	all, err := p.Claims(ctx, nil)
	one := []fleet.Claim{
		{Key: fleet.Key{Kind: "sandbox", ID: "s1"}, Host: "prod/gpu-1", Phase: fleet.Running, Class: fleet.Ephemeral, Owner: "ann", Status: "running",
			Expires: at("2026-11-29T13:00:00Z"), Labels: map[string]string{"app": "x"}},
		{Key: fleet.Key{Kind: "vm", ID: "s2"}, Host: "prod/gpu-1", Phase: fleet.AtRest, Status: "HIBERNATED", Labels: map[string]string{}},
		{Key: fleet.Key{Kind: "vm", ID: "s3"}, Host: "prod/gpu-1", Phase: fleet.Gone, Class: fleet.Stateless, Status: "completed", Labels: map[string]string{}},
	}
	two := []fleet.Claim{{Key: fleet.Key{Kind: "vm", ID: "s4"}, Host: "prod/gpu-2", Phase: fleet.Running, Status: "quiescing", Labels: map[string]string{}}}
	if wantAll := map[fleet.HostID][]fleet.Claim{"prod/gpu-1": one, "prod/gpu-2": two}; err != nil || !reflect.DeepEqual(all, wantAll) {
		t.Errorf("claims\n%+v\nwant\n%+v\n%v", all, wantAll, err)
	}
	some, err := p.Claims(ctx, []fleet.HostID{"prod/gpu-2", "prod/a/b"})
	if wantSome := map[fleet.HostID][]fleet.Claim{"prod/gpu-2": two, "prod/a/b": nil}; err != nil || !reflect.DeepEqual(some, wantSome) {
		t.Errorf("claims of two\n%+v\nwant\n%+v\n%v", some, wantSome, err)
	}
	none, err := p.Claims(ctx, []fleet.HostID{})
	if err != nil || len(none) != 0 {
		t.Errorf("claims of no host: %+v, %v", none, err)
	}
	if _, err := p.Claims(ctx, []fleet.HostID{"other/gpu-1"}); err == nil {
		t.Error("claims of another plane's host were read")
	}
	if err := p.Ping(ctx); err != nil {
		t.Error(err)
	}
}

func TestFlag(t *testing.T) {
	dbURL := pgtest.Start(t)
	p, ctx := open(t, dbURL, example(t)+some, Statements{}), t.Context()
	const host = fleet.HostID("prod/gpu-1")

	f, err := p.Set(ctx, host, fleet.Flag{Set: true, Why: "on a hunch", Who: "ann"})
	if err != nil || !f.Set || f.Why != "on a hunch" || f.Who != "ann" || time.Since(f.At).Abs() > time.Minute {
		t.Fatalf("set: %+v, %v", f, err)
	}
	again, err := p.Set(ctx, host, fleet.Flag{Set: true, Why: "another", Who: "eve"})
	if err != nil || again != f {
		t.Errorf("set again: %+v, want %+v, %v", again, f, err)
	}
	e, err := p.Eligible(ctx, host)
	if err != nil || e.Flag != f || e.Eligible.Status != fleet.NotApplicable {
		t.Errorf("eligible: %+v, %v", e, err)
	}
	if err := p.Lift(ctx, host, false); err != nil {
		t.Errorf("lift what ebb set: %v", err)
	}
	if err := p.Lift(ctx, host, false); err != nil {
		t.Errorf("lift what is not set: %v", err)
	}
	if e, _ := p.Eligible(ctx, host); e.Flag.Set {
		t.Errorf("still flagged: %+v", e)
	}

	const bobs = fleet.HostID("prod/a/b")
	if f, err := p.Set(ctx, bobs, fleet.Flag{Set: true, Why: "x", Who: "ann"}); err != nil || f.Who != "bob" || f.Why != "fan" {
		t.Errorf("over bob's flag: %+v, %v", f, err)
	}
	err = p.Lift(ctx, bobs, false)
	var theirs *TheirsError
	if !errors.Is(err, ErrTheirs) || !errors.As(err, &theirs) || theirs.Flag.Who != "bob" || !theirs.Final() {
		t.Errorf("lift bob's: %v", err)
	}
	if err := p.Lift(ctx, bobs, true); err != nil {
		t.Errorf("lift bob's on word: %v", err)
	}
	pgtest.Exec(t, dbURL, `update agents set draining = true where id = 'gpu-1'`)
	if err := p.Lift(ctx, host, false); !errors.Is(err, ErrTheirs) {
		t.Errorf("lift a flag of nobody: %v", err)
	}
	if err := p.Lift(ctx, host, true); err != nil {
		t.Error(err)
	}
	var missing *MissingError
	for _, id := range []fleet.HostID{"prod/nobody", "other/gpu-1", "prod", ""} {
		if _, err := p.Set(ctx, id, fleet.Flag{}); !errors.As(err, &missing) {
			t.Errorf("set %q: %v", id, err)
		}
		if err := p.Lift(ctx, id, true); !errors.As(err, &missing) {
			t.Errorf("lift %q: %v", id, err)
		}
	}
}

func TestSettleAndMove(t *testing.T) {
	p, ctx := open(t, pgtest.Start(t), example(t)+some, Statements{}), t.Context()
	s1, vm := fleet.Key{Kind: "sandbox", ID: "s1"}, fleet.Key{Kind: "vm", ID: "s4"}
	for range 2 { // both may repeat
		if err := p.Move(ctx, s1, "prod/gpu-1", "prod/gpu-2"); err != nil {
			t.Fatal(err)
		}
		if err := p.Settle(ctx, vm, "prod/gpu-2", "it is not there", "ann"); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := p.Claims(ctx, []fleet.HostID{"prod/gpu-2"})
	got := claims["prod/gpu-2"]
	if err != nil || len(got) != 2 || got[0].Key != s1 || got[1].Phase != fleet.Gone || got[1].Labels["settled_reason"] != "it is not there" || got[1].Labels["settled_by"] != "ebb:ann" {
		t.Errorf("got %+v, %v", got, err)
	}
	var missing *MissingError
	for name, err := range map[string]error{
		"move what is elsewhere":     p.Move(ctx, vm, "prod/gpu-1", "prod/a/b"),
		"move to nowhere":            p.Move(ctx, s1, "prod/gpu-2", "prod/nowhere"),
		"move across kinds":          p.Move(ctx, fleet.Key{Kind: "vm", ID: "s1"}, "prod/gpu-2", "prod/gpu-1"),
		"settle what is elsewhere":   p.Settle(ctx, s1, "prod/gpu-1", "", ""),
		"settle what does not exist": p.Settle(ctx, fleet.Key{Kind: "vm", ID: "none"}, "prod/gpu-1", "", ""),
	} {
		if !errors.As(err, &missing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRestAndWake(t *testing.T) {
	p, ctx := open(t, pgtest.Start(t), example(t)+some, Statements{}), t.Context()
	s1 := fleet.Key{Kind: "sandbox", ID: "s1"}
	for _, turn := range []struct {
		phase fleet.Phase
		do    func(context.Context, fleet.Key, fleet.HostID) error
	}{{fleet.AtRest, p.Rest}, {fleet.AtRest, p.Rest}, {fleet.Running, p.Wake}} {
		if err := turn.do(ctx, s1, "prod/gpu-1"); err != nil {
			t.Fatal(err)
		}
		c, ok, err := p.find(ctx, s1, "prod/gpu-1")
		if err != nil || !ok || c.Phase != turn.phase {
			t.Errorf("%+v, %v, want %s", c, err, turn.phase)
		}
	}
	var missing *MissingError
	if err := p.Rest(ctx, s1, "prod/gpu-2"); !errors.As(err, &missing) {
		t.Errorf("what is elsewhere rests: %v", err)
	}
	if err := p.Settle(ctx, s1, "prod/gpu-1", "it is over", "ann"); err != nil {
		t.Fatal(err)
	}
	if err := p.Wake(ctx, s1, "prod/gpu-1"); err != nil {
		t.Fatal(err)
	}
	if c, _, _ := p.find(ctx, s1, "prod/gpu-1"); c.Phase != fleet.Gone {
		t.Errorf("what is gone is awake: %+v", c)
	}
}

func TestOddNames(t *testing.T) {
	p, ctx := open(t, pgtest.Start(t), example(t), Statements{}), t.Context()
	for _, name := range []string{
		`'; drop table agents; --`, `back\slash "quote" $1 @host %s`, "new\nline\x1b[2Jesc", "bidi \u202e evil", "ünï日本", strings.Repeat("long", 1024), " ",
	} {
		if _, err := p.pool.Exec(ctx, `insert into agents (id, address) values ($1, $1)`, name); err != nil {
			t.Fatal(err)
		}
		if _, err := p.pool.Exec(ctx, `insert into sandboxes (id, agent_id, kind, status) values ($1, $1, $1, 'running')`, name); err != nil {
			t.Fatal(err)
		}
		id := fleet.NewHostID("prod", name)
		f, err := p.Set(ctx, id, fleet.Flag{Set: true, Why: name, Who: name})
		if err != nil || f.Why != name || f.Who != name {
			t.Errorf("%.20q: set %+v, %v", name, f, err)
		}
		c, err := p.Claims(ctx, []fleet.HostID{id})
		if err != nil || len(c[id]) != 1 || c[id][0].Key != (fleet.Key{Kind: name, ID: name}) {
			t.Errorf("%.20q: claims %+v, %v", name, c, err)
		}
		if err := p.Lift(ctx, id, false); err != nil {
			t.Errorf("%.20q: lift: %v", name, err)
		}
	}
	for _, bad := range []string{"a\xffb", "a\x00b"} {
		if _, err := p.Set(ctx, fleet.NewHostID("prod", bad), fleet.Flag{}); err == nil {
			t.Errorf("%q was taken as a host", bad)
		}
		if _, err := p.Set(ctx, "prod/ ", fleet.Flag{Why: bad}); err == nil {
			t.Errorf("%q was taken as a reason", bad)
		}
	}
	if hosts, err := p.Hosts(ctx); err != nil || len(hosts) != 7 {
		t.Errorf("%d hosts, %v", len(hosts), err)
	}
}

// A schema with nothing but a truth value, numbers as ids, and a scheduler that
// tells what it believes.
func TestCustomStatements(t *testing.T) {
	dbURL := pgtest.Start(t)
	sql := `create table box (n int primary key, ip inet, off boolean);
		insert into box values (1, '10.0.0.1', false), (2, '10.0.0.2', null);
		create table sched (n int, ok boolean, seen timestamptz);
		insert into sched values (1, true, '2026-11-29 12:00:00+00');`
	st := Statements{
		Hosts:    "select n as id, ip as address, off as draining from box;\n",
		Claims:   "select 1 as agent_id, 'x' as id",
		Flag:     "update box set off = true where n = @host",
		Unflag:   "update box set off = false where n = @host",
		Eligible: "select ok as eligible, seen as at from sched where n = @host",
	}
	p, ctx := open(t, dbURL, sql, st), t.Context()
	if h, err := p.Hosts(ctx); err != nil || len(h) != 2 || h[0].ID != "prod/1" || h[0].Address != "10.0.0.1" {
		t.Errorf("hosts %+v, %v", h, err)
	}
	if c, err := p.Claims(ctx, nil); err != nil || len(c["prod/1"]) != 1 || c["prod/1"][0].Phase != fleet.Running {
		t.Errorf("claims %+v, %v", c, err)
	}
	if f, err := p.Set(ctx, "prod/1", fleet.Flag{Set: true, Why: "w", Who: "ann"}); err != nil || !f.Set {
		t.Errorf("set: %+v, %v", f, err)
	}
	e, err := p.Eligible(ctx, "prod/1")
	if ok, known := e.Eligible.Get(); err != nil || !known || !ok || !e.Flag.Set || !e.Eligible.At.Equal(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("eligible: %+v, %v", e, err)
	}
	if e, err := p.Eligible(ctx, "prod/2"); err != nil || e.Eligible.Status != fleet.Failed {
		t.Errorf("a host that the scheduler does not know: %+v, %v", e, err)
	}
	// Nobody can tell whose flag it is.
	if err := p.Lift(ctx, "prod/1", false); !errors.Is(err, ErrTheirs) {
		t.Errorf("lift: %v", err)
	}
	if err := p.Lift(ctx, "prod/1", true); err != nil {
		t.Errorf("lift on word: %v", err)
	}
	// Declared as ebb's own it needs no word.
	st.Hosts = "select n as id, off as draining, 'ebb:' as drained_by from box"
	own := open(t, dbURL, "", st)
	if _, err := own.Set(ctx, "prod/2", fleet.Flag{Set: true}); err != nil {
		t.Error(err)
	}
	if err := own.Lift(ctx, "prod/2", false); err != nil {
		t.Error(err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	dbURL := pgtest.Start(t)
	pgtest.Exec(t, dbURL, example(t)+some)
	change := func(f func(*url.URL)) string { u, _ := url.Parse(dbURL); f(u); return u.String() }
	role := "looker" + strings.ToLower(t.Name()[:4]) + dbURL[strings.LastIndex(dbURL, "/t_")+3:strings.Index(dbURL, "?")]
	pgtest.Exec(t, dbURL, "create role "+role+" login password '"+pgtest.Password+"'; grant select on agents to "+role)
	t.Cleanup(func() { pgtest.Exec(t, dbURL, "drop owned by "+role+"; drop role "+role) })
	asRole := change(func(u *url.URL) { u.User = url.UserPassword(role, pgtest.Password) })
	query := func(k, v string) string {
		return change(func(u *url.URL) { q := u.Query(); q.Set(k, v); u.RawQuery = q.Encode() })
	}
	read := func(p *Plane) error { _, err := p.Hosts(t.Context()); return err }
	claims := func(p *Plane) error { _, err := p.Claims(t.Context(), nil); return err }
	set := func(p *Plane) error {
		_, err := p.Set(t.Context(), "prod/gpu-1", fleet.Flag{Set: true})
		return err
	}
	for name, c := range map[string]struct {
		url   string
		st    Statements
		do    func(*Plane) error
		says  []string
		final bool
	}{
		"no table":       {dbURL, Statements{Hosts: "select * from machines"}, read, []string{"hosts", "machines", "example.sql"}, true},
		"no column":      {dbURL, Statements{Claims: "select id, host from sandboxes"}, claims, []string{"claims", "host", "plane.statements"}, true},
		"no id column":   {dbURL, Statements{Hosts: "select address from agents"}, read, []string{"hosts", `column "id"`}, false},
		"no agent":       {dbURL, Statements{Claims: "select id from sandboxes"}, claims, []string{"claims", "agent_id"}, false},
		"empty id":       {dbURL, Statements{Hosts: "select '' as id"}, read, []string{"hosts", "empty"}, false},
		"twice":          {dbURL, Statements{Hosts: "select 'x' as id from agents"}, read, []string{"hosts", "twice"}, false},
		"odd truth":      {dbURL, Statements{Hosts: "select id, 'perhaps' as draining from agents"}, read, []string{"draining", "perhaps", "gpu"}, false},
		"odd time":       {dbURL, Statements{Hosts: "select id, 'noon' as heartbeat_at from agents"}, read, []string{"heartbeat_at", "noon"}, false},
		"odd labels":     {dbURL, Statements{Hosts: "select id, 7 as labels from agents"}, read, []string{"labels"}, false},
		"syntax":         {dbURL, Statements{Hosts: "selekt 1"}, read, []string{"hosts", "correct"}, true},
		"may not read":   {asRole, Statements{}, claims, []string{"claims", "permission denied", "grant"}, true},
		"may not write":  {asRole, Statements{}, set, []string{"flag", "permission denied", "grant"}, true},
		"replica":        {query("default_transaction_read_only", "on"), Statements{}, set, []string{"flag", "primary"}, false},
		"no database":    {change(func(u *url.URL) { u.Path = "/nowhere" }), Statements{}, read, []string{"does not exist"}, false},
		"wrong password": {change(func(u *url.URL) { u.User = url.UserPassword("ebb", "wrong-secret") }), Statements{}, read, []string{"password"}, false},
		"down":           {change(func(u *url.URL) { u.Host = "127.0.0.1:1" }), Statements{}, read, []string{"hosts", "can't be reached"}, false},
		"does nothing":   {dbURL, Statements{Flag: "select 1"}, set, []string{"flag", "not set"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do(open(t, c.url, "", c.st))
			var se *StatementError
			if !errors.As(err, &se) || se.Final() != c.final {
				t.Fatalf("got %v", err)
			}
			for _, s := range append(c.says, "plane prod") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not in %q", s, err)
				}
			}
			if strings.Contains(err.Error(), pgtest.Password) || strings.Contains(err.Error(), "wrong-secret") {
				t.Errorf("a password is in %q", err)
			}
		})
	}
	for _, bad := range []Config{{Name: "", URL: dbURL}, {Name: "a/b", URL: dbURL}, {Name: "p", URL: "postgres://u:hush%zz@h/d"}} {
		if _, err := Open(t.Context(), bad); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestServerGoesAndComesBack(t *testing.T) {
	s := pgtest.New(t)
	p, ctx := open(t, s.Database(t), example(t)+some, Statements{}), t.Context()
	if _, err := p.Hosts(ctx); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	_, err := p.Hosts(ctx)
	if err == nil || !strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("while it is down: %v", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if h, err := p.Hosts(ctx); err != nil || len(h) != 3 {
		t.Errorf("back again: %d hosts, %v", len(h), err)
	}
	// Restarted between two calls: no connection of the pool is alive any more.
	s.Stop()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if f, err := p.Set(ctx, "prod/gpu-1", fleet.Flag{Set: true, Who: "ann"}); err != nil || !f.Set {
		t.Errorf("set after a restart: %+v, %v", f, err)
	}
}
