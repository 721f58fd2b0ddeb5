package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet/postgres/pgtest"
)

// together writes pieces as one group.
func together(t *testing.T, j *Journal, pieces ...*piece) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &group{pieces: pieces, live: len(pieces), cancel: cancel}
	for _, p := range pieces {
		p.group, p.done = g, make(chan struct{})
	}
	j.writeGroup(ctx, g)
	cancel()
}

// a batch as Append makes a piece of it.
func batch(t *testing.T, b drain.Batch) *piece {
	t.Helper()
	return appending(b, must(checked(b))(t))
}

func one(t *testing.T, stream, id string, expect *uint64) *piece {
	t.Helper()
	return batch(t, drain.Batch{Stream: stream, Expect: expect, Events: []drain.Event{ask(t, stream, id)}})
}

// Each member of a group is decided upon by itself, as if they had come one after
// the other; what is refused leaves no gap.
func TestEachOfAGroupByItself(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		before := put(t, j, ask(t, "a", "before"))
		mine, gone := must(j.Acquire(ctx, "d1", "me", 0))(t), must(j.Acquire(ctx, "d2", "me", 0))(t)
		must(p.open().Acquire(ctx, "d2", "me", 0))(t)
		drive := func(l drain.Lease, id string) *piece {
			return batch(t, drain.Batch{Stream: "b", Lease: &l, Events: []drain.Event{event(t, "b", id, l.Drain, l.Epoch, drain.DriveReleased{})}})
		}
		repeat := one(t, "a", "before", num(0))
		first, second := one(t, "a", "first", num(1)), one(t, "a", "second", num(2))
		conflict, taken := one(t, "a", "conflict", num(2)), one(t, "b", "first", nil)
		twice := one(t, "a", "first", num(1))
		good, lost := drive(mine, "good"), drive(gone, "lost")
		last := batch(t, drain.Batch{Stream: "b", Events: []drain.Event{ask(t, "b", "x"), ask(t, "b", "y")}})
		together(t, j, repeat, first, second, conflict, taken, twice, good, lost, last)

		for name, c := range map[string]struct {
			p    *piece
			seqs []uint64
		}{"repeat": {repeat, []uint64{before[0].Seq}}, "first": {first, []uint64{2}}, "second": {second, []uint64{3}}, "twice": {twice, []uint64{2}},
			"drive": {good, []uint64{4}}, "last": {last, []uint64{5, 6}}} {
			var seqs []uint64
			for _, e := range c.p.stored {
				seqs = append(seqs, e.Seq)
			}
			if c.p.err != nil || fmt.Sprint(seqs) != fmt.Sprint(c.seqs) {
				t.Errorf("%s: %v, %v, want %v", name, seqs, c.p.err, c.seqs)
			}
		}
		var dup *DuplicateError
		var con *ConflictError
		if !errors.As(conflict.err, &con) || con.Have != 3 || !errors.As(taken.err, &dup) || dup.ID != "first" || !errors.Is(lost.err, ErrLeaseLost) {
			t.Errorf("refused: %v; %v; %v", conflict.err, taken.err, lost.err)
		}
		if got := must(j.All(ctx, 0, 0))(t); len(got) != 6 || got[5].Seq != 6 || got[5].Num != 3 || got[3].ID != "good" {
			t.Errorf("in the journal: %+v", got)
		}
		if next := put(t, j, ask(t, "c", "next")); next[0].Seq != 7 {
			t.Errorf("the next is %d", next[0].Seq)
		}
	})
}

// What the database itself does not take fails alone.
func TestPoisonInAGroup(t *testing.T) {
	j := place{t, pgtest.Start(t)}.open()
	var long strings.Builder // than a key may be, and nothing that could be packed
	for long.Len() < 20_000 {
		long.WriteString(rand.Text())
	}
	a, poison, b := one(t, "a", "1", nil), one(t, "a", long.String(), nil), one(t, "a", "2", nil)
	together(t, j, a, poison, b)
	if a.err != nil || b.err != nil || poison.err == nil {
		t.Errorf("got %v, %v; %v", a.err, b.err, poison.err)
	}
	if got := must(j.All(t.Context(), 0, 0))(t); len(got) != 2 || got[1].ID != "2" || got[1].Seq != 2 {
		t.Errorf("in the journal: %+v", got)
	}
}

// Of many leases that are renewed together, one that is lost is lost alone.
func TestRenewedTogether(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, other, ctx := p.open(), p.open(), t.Context()
		const n = 150
		var leases []drain.Lease
		for i := range n {
			leases = append(leases, must(j.Acquire(ctx, fmt.Sprint("d", i), "me", 0))(t))
		}
		expire(t, j, "d7")
		expire(t, j, "d8")
		must(other.Acquire(ctx, "d8", "other", 0))(t)
		next := make([]drain.Lease, n)
		var pieces []*piece
		for i, l := range leases {
			pieces = append(pieces, renewing(l, &next[i]))
		}
		together(t, j, pieces...)
		for i, p := range pieces {
			if wantLost := i == 7 || i == 8; errors.Is(p.err, ErrLeaseLost) != wantLost || !wantLost && p.err != nil {
				t.Errorf("lease %d: %v", i, p.err)
			} else if !wantLost && next[i].Until.Before(leases[i].Until) {
				t.Errorf("lease %d until %v, then %v", i, leases[i].Until, next[i].Until)
			}
		}
		for _, l := range must(j.Leases(ctx))(t) {
			if want := "me"; (l.Drain == "d8") != (l.Holder != want) {
				t.Errorf("in force: %+v", l)
			}
		}
	})
}

// The answer to the commit of a group is lost: each learns the truth, and nobody
// is written twice.
func TestUnansweredCommitOfAGroup(t *testing.T) {
	direct := pgtest.Start(t)
	p, url := through(t, direct)
	j, plain, ctx := place{t, url}.open(), place{t, direct}.open(), t.Context()
	lease := must(j.Acquire(ctx, "d1", "me", 0))(t)
	for _, how := range []string{"lose", "drop"} {
		p.set(func(p *proxy) { p.commit = how })
		var next drain.Lease
		first, second := one(t, how, how+"1", num(0)), one(t, how, how+"2", num(1))
		refused, renewed := one(t, how, how+"3", num(1)), renewing(lease, &next)
		together(t, j, first, second, refused, renewed)
		if how == "lose" && (first.err != nil || second.err != nil || len(second.stored) != 1 || second.stored[0].Num != 2) {
			t.Errorf("committed: %v, %v, %+v", first.err, second.err, second.stored)
		}
		var unsure *UncertainError
		if how == "drop" && (first.err == nil || errors.As(first.err, &unsure) || second.err == nil || second.stored != nil) {
			t.Errorf("never committed: %v, %v, %+v", first.err, second.err, second.stored)
		}
		if renewed.err == nil {
			t.Errorf("%s: whether the lease was renewed is not known, and it says so: %+v", how, next)
		}
		// What was refused by what may never have been is decided upon anew.
		go j.writeGroups()
		<-refused.done
		var con *ConflictError
		want := map[string]uint64{"lose": 2, "drop": 0}[how]
		if !errors.As(refused.err, &con) || con.Have != want {
			t.Errorf("%s: refused by %v, want the end at %d", how, refused.err, want)
		}
		if have := must(plain.Stream(ctx, how, 0, 0))(t); len(have) != int(want) {
			t.Errorf("%s: %d events, want %d", how, len(have), want)
		}
	}
}

// While another process holds everything up, who stops waiting goes at once and
// leaves nothing behind; the others are written when their turn comes.
func TestLeavingAGroup(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, other := p.open(), p.open()
		tx := must(other.db.BeginTx(t.Context(), nil))(t)
		must(other.head(t.Context(), tx, 0))(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone, stays := make(chan error, 8), make(chan error, 8)
		for i := range cap(gone) {
			go func() {
				_, err := j.Append(ctx, drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", evID(1, i))}})
				gone <- err
			}()
			go func() {
				_, err := j.Append(within(t, time.Minute), drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", evID(2, i))}})
				stays <- err
			}()
		}
		cancel()
		for range cap(gone) {
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		for range cap(stays) {
			if err := <-stays; err != nil {
				t.Errorf("who stayed got %v", err)
			}
		}
		got := must(j.All(t.Context(), 0, 0))(t)
		for i, e := range got {
			if e.Seq != uint64(i+1) || strings.HasPrefix(e.ID, "e-1-") {
				t.Errorf("%+v is there", e)
			}
		}
		if len(got) != cap(stays) {
			t.Errorf("%d events", len(got))
		}
	})
}

// A journal that is closed takes nothing more, and says so.
func TestAppendToClosedJournal(t *testing.T) {
	j := place{t, "sqlite::memory:"}.open()
	l := must(j.Acquire(t.Context(), "d1", "me", 0))(t)
	j.Close()
	if _, err := j.Append(t.Context(), drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", "1")}}); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := j.Renew(t.Context(), l); !errors.Is(err, ErrClosed) {
		t.Errorf("renew: %v", err)
	}
}
