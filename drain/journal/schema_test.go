package journal

import (
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ebb/drain"
	"ebb/fleet/postgres/pgtest"
)

func TestOpenTogether(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				j, err := Open(t.Context(), p.url)
				if err != nil {
					t.Error(err)
					return
				}
				j.Close()
			})
		}
		wg.Wait()
	})
}

func TestSchemaVersions(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j := p.open()
		if _, err := j.db.Exec(j.dialect.sql(`update {s}journal_version set version = 99`)); err != nil {
			t.Fatal(err)
		}
		var s *SchemaError
		if _, err := Open(t.Context(), p.url); !errors.As(err, &s) || s.Have != 99 || s.Want != len(migrations) {
			t.Errorf("got %v, want to hear that the tables are newer", err)
		}
	})
}

func TestReadOnlyServer(t *testing.T) {
	fresh, made := pgtest.Start(t), pgtest.Start(t)
	put(t, place{t, made}.open(), ask(t, "a", "1"))
	readOnly := func(u string) string { return u + "&default_transaction_read_only=on" }

	var s *SchemaError
	if _, err := Open(t.Context(), readOnly(fresh)); !errors.As(err, &s) || !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v, want to hear that the tables can't be created", err)
	}
	j := place{t, readOnly(made)}.open()
	if got := must(j.All(t.Context(), 0, 0))(t); len(got) != 1 {
		t.Errorf("a replica shows %+v", got)
	}
	_, err := j.Append(t.Context(), drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", "2")}})
	if !errors.Is(err, ErrReadOnly) || !errors.Is(j.Writable(t.Context()), ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
	if err := (place{t, made}).open().Writable(t.Context()); err != nil {
		t.Error(err)
	}
}

// A role that may not create the schema learns what its owner has to run; after
// that it can work.
func TestSchemaByAnotherOwner(t *testing.T) {
	owner := pgtest.Start(t)
	u, _ := url.Parse(owner)
	role := "r" + strings.TrimPrefix(u.Path, "/t_")
	pgtest.Exec(t, owner, "create role "+role+" login password '"+pgtest.Password+"'")
	u.User = url.UserPassword(role, pgtest.Password)
	_, err := Open(t.Context(), u.String())
	if err == nil || !strings.Contains(err.Error(), "create schema") {
		t.Errorf("got %v, want advice", err)
	}
	place{t, owner}.open()
	if _, err := Open(t.Context(), u.String()); err == nil || !strings.Contains(err.Error(), "grant") {
		t.Errorf("got %v, want advice", err)
	}
	pgtest.Exec(t, owner, "grant usage on schema ebb to "+role+"; grant all on all tables in schema ebb to "+role)
	put(t, place{t, u.String()}.open(), ask(t, "a", "1"))
	pgtest.Exec(t, owner, "drop owned by "+role+"; drop role "+role)
}

func TestNamesAndErrorsHoldNoPassword(t *testing.T) {
	good := pgtest.Start(t)
	j := place{t, good}.open()
	if strings.Contains(j.Name(), pgtest.Password) || !strings.HasPrefix(j.Name(), "postgres://ebb@127.0.0.1:") {
		t.Errorf("name %q", j.Name())
	}
	const secret = "se%2Fcret"
	for _, bad := range []string{
		"postgres://ebb:" + secret + "@127.0.0.1:1/x",
		strings.Replace(good, pgtest.Password, secret, 1),
		"postgres://ebb:" + secret + "%zz@h/x",
		"postgres://ebb:" + secret + "@h:port/x",
		"postgres://h/x?password=" + secret + "&sslmode=nonsense",
		"mysql://ebb:" + secret + "@h/x",
		"ebb:" + secret + "@h/x",
		"sqlite:",
	} {
		_, err := Open(t.Context(), bad)
		if err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full.db")
	j := place{t, "sqlite:" + path}.open(withPragma("max_page_count(40)"))
	big := ask(t, "a", "big")
	big.Body = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	_, err := j.Append(t.Context(), drain.Batch{Stream: "a", Events: []drain.Event{big}})
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrFull with the file's name", err)
	}
	if got := put(t, j, ask(t, "a", "small")); got[0].Seq != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestSQLiteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new folder?&#", "j ä.db")
	j := place{t, "sqlite:" + path}.open()
	put(t, j, ask(t, "a", "1"))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if j.Name() != "sqlite:"+path {
		t.Errorf("name %q", j.Name())
	}
	ro := place{t, "sqlite:" + path}.open(withPragma("query_only(1)"))
	if got := must(ro.All(t.Context(), 0, 0))(t); len(got) != 1 {
		t.Errorf("a journal that can only be read shows %+v", got)
	}
	if err := ro.Writable(t.Context()); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrReadOnly with the file's name", err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{garbage, t.TempDir(), garbage + "/below"} {
		if _, err := Open(t.Context(), "sqlite:"+bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// A writer that stops in the middle must not keep the others out for longer than
// five seconds; the limit ends with the transaction.
func TestHeadIsGuarded(t *testing.T) {
	j := place{t, pgtest.Start(t)}.open()
	j.db.SetMaxOpenConns(1)
	setting := `select current_setting('idle_in_transaction_session_timeout')`
	var inside, outside string
	err := j.write(t.Context(), func(tx *sql.Tx) error {
		if _, err := j.head(t.Context(), tx, 0); err != nil {
			return err
		}
		return tx.QueryRow(setting).Scan(&inside)
	})
	if err := errors.Join(err, j.db.QueryRow(setting).Scan(&outside)); err != nil {
		t.Fatal(err)
	}
	if inside != "5s" || outside != "0" {
		t.Errorf("%q in the transaction, %q after it", inside, outside)
	}
}
