package postgres

import (
	"maps"
	"strings"
	"testing"
	"time"

	"ebb/fleet/postgres/pgtest"
)

// Whatever types a schema uses, the same values come out.
func TestTypes(t *testing.T) {
	dbURL := pgtest.Start(t)
	pgtest.Exec(t, dbURL, `create extension hstore; create type state as enum ('running', 'stopped')`)
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for sql, want := range map[string]string{
		`'5e0b0b3c-1f4e-4b9e-8a57-0d5f1d2f3a4b'::uuid`: "5e0b0b3c-1f4e-4b9e-8a57-0d5f1d2f3a4b",
		`42`: "42", `42::bigint`: "42", `42.5::numeric`: "42.5", `'x'::varchar`: "x", `'x'::name`: "x",
		`'stopped'::state`: "stopped", `'10.1.2.3'::inet`: "10.1.2.3", `'10.0.0.0/8'::cidr`: "10.0.0.0/8",
	} {
		p := open(t, dbURL, "", Statements{Hosts: "select " + sql + " as id"})
		if h, err := p.Hosts(t.Context()); err != nil || len(h) != 1 || h[0].ID.Name() != want {
			t.Errorf("%s: %+v, %v", sql, h, err)
		}
	}
	for _, sql := range []string{
		`timestamptz '2026-11-29 13:00:00+01'`, `timestamp '2026-11-29 12:00:00'`, `'2026-11-29T12:00:00Z'`,
		`'2026-11-29 12:00:00+00'`, `1795953600`, `1795953600::bigint`,
	} {
		p := open(t, dbURL, "", Statements{Hosts: "select 'x' as id, " + sql + " as heartbeat_at"})
		if h, err := p.Hosts(t.Context()); err != nil || !h[0].Heartbeat.Equal(noon) {
			t.Errorf("%s: %+v, %v", sql, h, err)
		}
	}
	labels := map[string]string{"pool": "gpu", "q": `a "b" \`}
	for _, sql := range []string{
		`'{"pool":"gpu","q":"a \"b\" \\","no":null}'::jsonb`, `'{"pool":"gpu","q":"a \"b\" \\"}'::json`, `'{"pool":"gpu","q":"a \"b\" \\"}'::text`,
		`hstore(array['pool','gpu','q','a "b" \','no',null])`, `'pool=gpu, q=a "b" \'`,
	} {
		p := open(t, dbURL, "", Statements{Hosts: "select 'x' as id, " + sql + " as labels"})
		if h, err := p.Hosts(t.Context()); err != nil || !maps.Equal(h[0].Labels, labels) {
			t.Errorf("%s: %+v, %v", sql, h, err)
		}
	}
	for _, sql := range []string{`null`, `''`, `'null'`, `'null'::jsonb`} {
		p := open(t, dbURL, "", Statements{Hosts: "select 'x' as id, " + sql + " as labels, null as draining, 'infinity'::timestamptz as heartbeat_at"})
		if h, err := p.Hosts(t.Context()); err != nil || len(h[0].Labels) != 0 || h[0].Draining || !h[0].Heartbeat.IsZero() {
			t.Errorf("%s: %+v, %v", sql, h, err)
		}
	}
}

func FuzzHstore(f *testing.F) {
	for _, s := range []string{`"a"=>"b"`, `"a"=>NULL, "b"=>"c\"d\\"`, `"a"=>`, `"`, `"a"=>"b",`, `"\`, ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := hstore(s)
		if err != nil {
			return
		}
		// What was read can be written and read again.
		esc := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		var parts []string
		for k, v := range m {
			parts = append(parts, `"`+esc.Replace(k)+`"=>"`+esc.Replace(v)+`"`)
		}
		again, err := hstore(strings.Join(parts, ", "))
		if err != nil || !maps.Equal(m, again) {
			t.Errorf("%q: %q, then %q, %v", s, m, again, err)
		}
	})
}
