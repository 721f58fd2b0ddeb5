package journal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet/postgres/pgtest"
)

// The connection dies in the commit. Whatever became of it, the caller learns
// the truth, and the event is there once or not at all.
func TestUnansweredCommit(t *testing.T) {
	direct := pgtest.Start(t)
	p, url := through(t, direct)
	j, plain := place{t, url}.open(), place{t, direct}.open()
	first := put(t, j, ask(t, "a", "before"))

	p.set(func(p *proxy) { p.commit = "lose" })
	got, err := j.Append(t.Context(), drain.Batch{Stream: "a", Expect: num(1), Events: []drain.Event{ask(t, "a", "kept")}})
	if err != nil || len(got) != 1 || got[0].Seq != first[0].Seq+1 || got[0].Num != 2 {
		t.Fatalf("committed, but the answer was lost: got %+v, %v", got, err)
	}
	p.set(func(p *proxy) { p.commit = "drop" })
	b := drain.Batch{Stream: "a", Expect: num(2), Events: []drain.Event{ask(t, "a", "dropped")}}
	_, err = j.Append(t.Context(), b)
	var unsure *UncertainError
	if err == nil || errors.As(err, &unsure) {
		t.Fatalf("never committed: got %v, want a plain error", err)
	}
	if have := must(plain.Stream(t.Context(), "a", 0, 0))(t); len(have) != 2 {
		t.Fatalf("%d events, want 2", len(have))
	}
	if got := must(j.Append(t.Context(), b))(t); got[0].Num != 3 {
		t.Errorf("tried again: %+v", got)
	}
}

// Nobody can be asked after the commit: that is said, with the ids, and the same
// batch can be appended later without harm.
func TestUncertainCommit(t *testing.T) {
	direct := pgtest.Start(t)
	p, url := through(t, direct)
	j := place{t, url}.open(withSettle(time.Second))
	put(t, j, ask(t, "a", "before"))
	p.set(func(p *proxy) { p.commit, p.refuse = "lose", true })
	b := drain.Batch{Stream: "a", Expect: num(1), Events: []drain.Event{ask(t, "a", "x1"), ask(t, "a", "x2")}}
	_, err := j.Append(t.Context(), b)
	var unsure *UncertainError
	if !errors.As(err, &unsure) || strings.Join(unsure.IDs, " ") != "x1 x2" {
		t.Fatalf("got %v, want uncertainty about x1 and x2", err)
	}
	if strings.Contains(err.Error(), pgtest.Password) {
		t.Errorf("the password is in %q", err)
	}
	plain := place{t, direct}.open()
	if got := must(plain.Append(t.Context(), b))(t); got[1].Num != 3 {
		t.Errorf("appended again: %+v", got)
	}
	if have := must(plain.All(t.Context(), 0, 0))(t); len(have) != 3 {
		t.Errorf("%d events, want 3", len(have))
	}
}

// A pool's connections die with a failover; that is no reason to fail.
func TestAppendAfterServerRestart(t *testing.T) {
	s := pgtest.New(t)
	j := place{t, s.Database(t)}.open()
	put(t, j, ask(t, "a", "1"))
	s.Stop()
	if _, err := j.Append(t.Context(), drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", "2")}}); err == nil ||
		!strings.Contains(err.Error(), j.Name()) {
		t.Fatalf("got %v, want an error that names %s", err, j.Name())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got := put(t, j, ask(t, "a", "2")); got[0].Num != 2 {
		t.Errorf("got %+v", got)
	}
}
