package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
)

// asked is a statement that runs, until it is answered.
type asked struct {
	ctx    context.Context
	names  []string
	answer chan error
}

// slow makes questions whose statements a test answers by hand: about each host,
// its own name.
func slow() (*together[string], chan asked) {
	asking := make(chan asked)
	return &together[string]{read: func(ctx context.Context, names []string) (map[string]string, error) {
		a := asked{ctx, slices.Sorted(slices.Values(names)), make(chan error)}
		asking <- a
		out := map[string]string{}
		for _, n := range names {
			out[n] = n
		}
		return out, <-a.answer
	}}, asking
}

// asks asks beside the test about hosts, one after the other.
func asks(t *testing.T, q *together[string], names ...string) *sync.WaitGroup {
	var wg sync.WaitGroup
	for _, n := range names {
		wg.Go(func() {
			if v, err := q.ask(t.Context(), n); v != n || err != nil {
				t.Errorf("%s: %q, %v", n, v, err)
			}
		})
	}
	synctest.Wait()
	return &wg
}

// Whoever asks while a statement runs is answered by the next one, all together,
// and never by the one that began before.
func TestAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, asking := slow()
		early := asks(t, q, "a")
		first := <-asking
		late := asks(t, q, "a", "b", "c", "b")
		first.answer <- nil
		early.Wait()
		second := <-asking
		if fmt.Sprint(first.names, second.names) != "[a] [a b c]" {
			t.Errorf("asked %v, then %v", first.names, second.names)
		}
		second.answer <- nil
		late.Wait()
		q.wg.Wait()
	})
}

// A statement that fails for one host fails for that one; one that fails for want
// of a server fails for all, and is not tried for each.
func TestFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, asking := slow()
		errs := map[string]error{}
		var mu sync.Mutex
		for _, n := range []string{"first", "a", "bad", "c"} {
			go func() {
				_, err := q.ask(t.Context(), n)
				mu.Lock()
				defer mu.Unlock()
				errs[n] = err
			}()
			synctest.Wait()
		}
		bad := &pgconn.PgError{Code: "22P02"}
		for _, c := range []struct {
			names string
			err   error
		}{{"[first]", nil}, {"[a bad c]", bad}, {"", nil}, {"", nil}, {"", nil}} {
			a := <-asking
			if c.names != "" && fmt.Sprint(a.names) != c.names {
				t.Errorf("asked %v, want %s", a.names, c.names)
			}
			if len(a.names) == 1 && a.names[0] == "bad" {
				c.err = bad
			}
			a.answer <- c.err
		}
		synctest.Wait()
		if got := slices.Sorted(maps.Keys(errs)); len(got) != 4 || errs["a"] != nil || errs["c"] != nil || !errors.Is(errs["bad"], bad) {
			t.Errorf("errors: %v", errs)
		}

		gone := &pgconn.PgError{Code: "57P01"}
		for i, n := range []string{"first", "x", "y"} {
			go func() {
				if _, err := q.ask(t.Context(), n); (err != nil) != (i > 0) {
					t.Errorf("%s: %v", n, err)
				}
			}()
			synctest.Wait()
		}
		(<-asking).answer <- nil
		(<-asking).answer <- gone
		q.wg.Wait() // nobody asks any more
	})
}

// A statement goes on while one waits for it, and ends when nobody does; who asks
// afterwards is not given what was given up.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, asking := slow()
		leaver := func(name string) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if _, err := q.ask(ctx, name); !errors.Is(err, context.Canceled) {
					t.Errorf("who left got %v", err)
				}
			}()
			synctest.Wait()
			return cancel
		}
		x := asks(t, q, "x")
		running := <-asking
		one, other := leaver("a"), leaver("b")
		running.answer <- nil
		x.Wait()
		running = <-asking
		one()
		synctest.Wait()
		if running.ctx.Err() != nil {
			t.Error("it was given up while one waited")
		}
		other()
		synctest.Wait()
		if running.ctx.Err() == nil {
			t.Error("it goes on, and nobody waits")
		}
		leaver("queued")()
		synctest.Wait()
		y := asks(t, q, "y")
		running.answer <- running.ctx.Err()
		running = <-asking
		if fmt.Sprint(running.names) != "[y]" || running.ctx.Err() != nil {
			t.Errorf("asked %v, %v", running.names, running.ctx.Err())
		}
		running.answer <- nil
		y.Wait()
		q.wg.Wait()
	})
}
