package journal

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet/postgres/pgtest"
)

// follower runs a Watch and hands over the ids it sees.
type follower struct {
	ids  chan string
	err  chan error
	stop context.CancelFunc
}

func follow(t *testing.T, j *Journal, after uint64) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{ids: make(chan string, 1000), err: make(chan error, 1), stop: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		f.err <- j.Watch(ctx, after, func(events []drain.Event) error {
			for _, e := range events {
				f.ids <- e.ID
			}
			return nil
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func (f *follower) want(t *testing.T, ids ...string) {
	t.Helper()
	late := time.After(15 * time.Second)
	for _, id := range ids {
		select {
		case got := <-f.ids:
			if got != id {
				t.Fatalf("saw %s, want %s", got, id)
			}
		case <-late:
			t.Fatalf("%s did not arrive", id)
		}
	}
}

func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, other := p.open(), p.open()
		put(t, j, ask(t, "a", "1"), ask(t, "a", "2"))
		f := follow(t, j, 1)
		f.want(t, "2")
		put(t, j, ask(t, "a", "3")) // by this process
		f.want(t, "3")
		put(t, other, ask(t, "b", "4")) // by another
		f.want(t, "4")
		f.stop()
		if err := <-f.err; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}

		broken := errors.New("broken pipe")
		if err := j.Watch(t.Context(), 0, func([]drain.Event) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v, want what the function returned", err)
		}
		if err := j.Watch(t.Context(), 99, func([]drain.Event) error { return nil }); !errors.Is(err, ErrRewound) {
			t.Errorf("got %v, want to hear that the journal is shorter", err)
		}
		g := follow(t, other, 4)
		other.Close()
		if err := <-g.err; !errors.Is(err, ErrClosed) {
			t.Errorf("a closed journal ended a watch with %v", err)
		}
	})
}

// troubles collects what a watch reports.
type troubles chan error

func (c troubles) option() Option { return WithTrouble(func(err error) { c <- err }) }

func (c troubles) wait(t *testing.T, ok func(error) bool) error {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case err := <-c:
			if ok(err) {
				return err
			}
		case <-late:
			t.Fatal("no such report")
		}
	}
}

func TestWatchBehindAPooler(t *testing.T) {
	direct := pgtest.Start(t)
	p, url := through(t, direct)
	p.set(func(p *proxy) { p.deaf = true })
	c := make(troubles, 100)
	j, other := place{t, url}.open(c.option()), place{t, direct}.open()
	f := follow(t, j, 0)
	c.wait(t, func(err error) bool { return errors.Is(err, ErrNoListen) })
	put(t, other, ask(t, "a", "1"))
	f.want(t, "1")
	put(t, other, ask(t, "a", "2"))
	f.want(t, "2")
}

// The server goes away and comes back: the watch says so, and misses nothing.
func TestWatchAcrossARestart(t *testing.T) {
	s := pgtest.New(t)
	url := s.Database(t)
	c := make(troubles, 100)
	j := place{t, url}.open(c.option())
	put(t, j, ask(t, "a", "1"))
	f := follow(t, j, 0)
	f.want(t, "1")
	listens(t, j)
	s.Stop()
	err := c.wait(t, func(err error) bool { return err != nil })
	if strings.Contains(err.Error(), pgtest.Password) {
		t.Errorf("the password is in %q", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	put(t, place{t, url}.open(), ask(t, "a", "2"))
	f.want(t, "2")
	c.wait(t, func(err error) bool { return err == nil })
}

// listens waits until somebody listens on the journal's server.
func listens(t *testing.T, j *Journal) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
		var n int
		if err := j.db.QueryRow(`select count(*) from pg_stat_activity where query = 'listen ' || $1`, channel).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nobody listens")
}

func TestWatchSeesALostTail(t *testing.T) {
	s := pgtest.New(t)
	url := s.Database(t)
	j := place{t, url}.open()
	put(t, j, ask(t, "a", "1"), ask(t, "a", "2"))
	f := follow(t, j, 0)
	f.want(t, "1", "2")
	// A replica that lacked the last event was promoted.
	pgtest.Exec(t, url, "delete from ebb.events where seq = 2; update ebb.head set seq = 1")
	s.Stop()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-f.err; !errors.Is(err, ErrRewound) {
		t.Errorf("ended with %v", err)
	}
}
