package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ebb/drain"
)

// Followers of many streams miss nothing that this process or another one appends,
// and what was appended before a question is in its answer.
func TestFollowersMissNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		quick := withPragma("synchronous(off)")
		ours, theirs := p.open(quick), p.open(quick)
		ctx := within(t, 2*time.Minute)
		const streams, events = 6, 25
		var wg sync.WaitGroup
		for s := range streams {
			stream := fmt.Sprint("s", s)
			told := make(chan uint64)
			wg.Go(func() {
				defer close(told)
				for i := range events {
					j := []*Journal{ours, theirs}[i%2]
					got, err := j.Append(ctx, drain.Batch{Stream: stream, Events: []drain.Event{ask(t, stream, evID(s, i))}})
					if err != nil {
						t.Error(err)
						return
					}
					told <- got[0].Num
				}
			})
			wg.Go(func() {
				var have uint64
				for num := range told {
					for range 2 { // there is something new, and then nothing
						got, err := ours.Stream(ctx, stream, have, 0)
						if err != nil || len(got) > 0 && got[0].Num != have+1 {
							t.Errorf("%s after %d: %v, %v", stream, have, got, err)
						}
						have += uint64(len(got))
					}
					if have < num {
						t.Errorf("%s ends at %d, when %d was there", stream, have, num)
					}
				}
			})
		}
		wg.Wait()
	})
}

// However many ask about streams in which nothing happens, the database is not
// asked about each of them.
func TestQuietStreamsAreAskedAboutTogether(t *testing.T) {
	j := place{t, "sqlite::memory:"}.open()
	var streams []string
	for i := range 50 {
		s := fmt.Sprint("s", i)
		put(t, j, ask(t, s, s))
		streams = append(streams, s)
		for range 3 { // until it is known
			must(j.Stream(t.Context(), s, 1, 0))(t)
		}
	}
	conn := must(j.db.Conn(t.Context()))(t) // the only one: whoever reads waits
	var wg sync.WaitGroup
	ctx := within(t, time.Minute)
	asked := j.db.Stats().WaitCount
	for _, s := range streams {
		wg.Go(func() {
			if got, err := j.Stream(ctx, s, 1, 0); len(got) > 0 || err != nil {
				t.Errorf("%s: %v, %v", s, got, err)
			}
		})
	}
	for j.db.Stats().WaitCount == asked { // until somebody asks
		if ctx.Err() != nil {
			t.Fatal("nobody asks")
		}
	}
	conn.Close()
	wg.Wait()
	if n := j.db.Stats().WaitCount - asked; n > 5 {
		t.Errorf("%d questions", n)
	}
}

// A journal without the event that was seen last is another one: what was known of
// the first says nothing about it.
func TestTailOfAnotherJournal(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		put(t, j, ask(t, "a", "1"), ask(t, "a", "2"))
		put(t, j, ask(t, "b", "3"))
		follow := func(after uint64) []drain.Event {
			t.Helper()
			return must(j.Stream(ctx, "a", after, 0))(t)
		}
		for range 3 {
			if got := follow(2); len(got) > 0 {
				t.Fatalf("got %+v", got)
			}
		}
		// It loses its newest events, and others get their numbers.
		for _, text := range []string{`delete from {s}events where seq > 1`, `update {s}head set seq = 1`} {
			if _, err := j.db.Exec(j.dialect.sql(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.lookTail(ctx); !errors.Is(err, ErrRewound) {
			t.Errorf("a shorter journal: %v", err)
		}
		put(t, j, ask(t, "b", "4"), ask(t, "b", "5"))
		put(t, j, ask(t, "a", "6"), ask(t, "a", "7"))
		for range 3 {
			if got := follow(2); len(got) != 1 || got[0].ID != "7" {
				t.Errorf("got %+v, want event 7", got)
			}
			if got := follow(1); len(got) != 2 {
				t.Errorf("got %+v, want events 6 and 7", got)
			}
		}
	})
}

// Who stops waiting does not keep the others from their answer.
func TestTailOutlivesWhoAsked(t *testing.T) {
	j := place{t, "sqlite::memory:"}.open()
	put(t, j, ask(t, "a", "1"))
	conn := must(j.db.Conn(t.Context()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { gone <- j.lookTail(ctx) }()
	go func() { stays <- j.lookTail(t.Context()) }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	conn.Close()
	if err := <-stays; err != nil {
		t.Errorf("who stayed got %v", err)
	}
}
