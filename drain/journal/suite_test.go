package journal

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet/postgres/pgtest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is an empty database; open opens the journal in it, as often as there
// are processes to be played.
type place struct {
	t   *testing.T
	url string
}

func (p place) open(opts ...Option) *Journal {
	p.t.Helper()
	j, err := Open(p.t.Context(), p.url, opts...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { j.Close() })
	return j
}

// each runs a test on both databases, and on one of them behind a pooler that
// gives every transaction another connection.
func each(t *testing.T, test func(*testing.T, place)) {
	t.Run("sqlite", func(t *testing.T) { test(t, place{t, "sqlite:" + filepath.Join(t.TempDir(), "journal.db")}) })
	t.Run("postgres", func(t *testing.T) { test(t, place{t, pgtest.Start(t)}) })
	t.Run("pooled", func(t *testing.T) { test(t, place{t, pgtest.StartPooled(t)}) })
}

var ann = drain.Actor{Name: "ann", Console: "console:1"}

func ask(t testing.TB, stream, id string) drain.Event {
	t.Helper()
	return event(t, stream, id, "d1", 0, drain.AskHandover{Note: "note of " + id})
}

func event(t testing.TB, stream, id, dr string, epoch uint64, body drain.Body) drain.Event {
	t.Helper()
	e, err := drain.NewEvent("", id, dr, epoch, ann, body)
	if err != nil {
		t.Fatal(err)
	}
	e.Stream = stream
	return e
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func put(t testing.TB, j *Journal, events ...drain.Event) []drain.Event {
	t.Helper()
	out, err := j.Append(context.Background(), drain.Batch{Stream: events[0].Stream, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func num(n uint64) *uint64 { return &n }

// within bounds a wait for something that other processes do.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func evID(a, b int) string { return fmt.Sprintf("e-%d-%d", a, b) }
