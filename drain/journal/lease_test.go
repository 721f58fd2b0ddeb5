package journal

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ebb/drain"

	"pgregory.net/rapid"
)

// expire makes a lease run out without waiting for the database's clock.
func expire(t testing.TB, j *Journal, id string) {
	t.Helper()
	if _, err := j.db.Exec(j.dialect.sql(`update {s}leases set until = 1 where drain = $1`), id); err != nil {
		t.Fatal(err)
	}
}

func TestLease(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, other, ctx := p.open(), p.open(), t.Context()
		a := must(j.Acquire(ctx, "d1", "ann", 0))(t)
		now := must(j.Now(ctx))(t)
		if a.Epoch != 1 || a.Until.Before(now.Add(drain.LeaseTTL-5*time.Second)) || a.Until.After(now.Add(drain.LeaseTTL)) {
			t.Fatalf("got %+v at %v", a, now)
		}
		var held *HeldError
		if _, err := other.Acquire(ctx, "d1", "bob", 0); !errors.As(err, &held) || held.Lease != a {
			t.Fatalf("got %v, want a refusal that names ann", err)
		}
		again := must(other.Acquire(ctx, "d1", "ann", 0))(t)
		if again.Epoch != 2 {
			t.Errorf("the same holder got epoch %d, want 2", again.Epoch)
		}
		if _, err := j.Renew(ctx, a); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("an older epoch was renewed: %v", err)
		}
		if err := j.Release(ctx, a); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("an older epoch was released: %v", err)
		}
		renewed := must(j.Renew(ctx, again))(t)
		if renewed.Epoch != 2 || renewed.Until.Before(again.Until) {
			t.Errorf("renewed to %+v", renewed)
		}
		if l := must(j.Leases(ctx))(t); len(l) != 1 || l[0] != renewed {
			t.Errorf("Leases: %+v", l)
		}

		expire(t, j, "d1")
		if _, err := j.Renew(ctx, renewed); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a lease that ran out was renewed: %v", err)
		}
		drive := event(t, "a", "x", "d1", 2, drain.DriveReleased{})
		if _, err := j.Append(ctx, drain.Batch{Stream: "a", Lease: &renewed, Events: []drain.Event{drive}}); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("appended under a lease that ran out: %v", err)
		}
		if l := must(j.Leases(ctx))(t); len(l) != 1 || l[0].Holder != "ann" {
			t.Errorf("who left without a word is not listed: %+v", l)
		}
		b := must(other.Acquire(ctx, "d1", "bob", 7))(t)
		if b.Epoch != 8 {
			t.Errorf("epoch %d, want one above what agents have seen", b.Epoch)
		}
		if err := other.Release(ctx, b); err != nil {
			t.Fatal(err)
		}
		if l := must(j.Leases(ctx))(t); len(l) != 0 {
			t.Errorf("a released lease is listed: %+v", l)
		}
		if c := must(j.Acquire(ctx, "d1", "ann", 3))(t); c.Epoch != 9 {
			t.Errorf("epoch %d after a release, want 9", c.Epoch)
		}
		for _, bad := range [][2]string{{"", "x"}, {"d", ""}} {
			if _, err := j.Acquire(ctx, bad[0], bad[1], 0); err == nil {
				t.Errorf("took a lease for %q", bad)
			}
		}
	})
}

// Of many who want a lease at once one gets it.
func TestLeaseRace(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		procs := []*Journal{p.open(), p.open()}
		got := make(chan drain.Lease, 10)
		var wg sync.WaitGroup
		for i := range cap(got) {
			wg.Go(func() {
				l, err := procs[i%2].Acquire(t.Context(), "d1", fmt.Sprint("p", i), 0)
				var held *HeldError
				switch {
				case err == nil:
					got <- l
				case !errors.As(err, &held):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Errorf("%d hold the lease", len(got))
		}
	})
}

// A clock that is set back does not make a lease last for as long as that step.
func TestLeaseAfterClockStep(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	j := place{t, "sqlite::memory:"}.open(WithClock(func() time.Time { return now }))
	must(j.Acquire(t.Context(), "d1", "ann", 0))(t)
	now = now.Add(-time.Hour)
	var held *HeldError
	if _, err := j.Acquire(t.Context(), "d1", "bob", 0); !errors.As(err, &held) {
		t.Fatalf("got %v, want a refusal: ann may be alive", err)
	}
	now = now.Add(drain.LeaseTTL)
	must(j.Acquire(t.Context(), "d1", "bob", 0))(t)
}

// Over any history of drivers that take, renew, release, stall and write: every
// drive in the journal was written in the epoch in force, epochs only rise, and
// no two drivers ever hold the lease at one moment.
func TestLeaseSafety(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		j, err := Open(t.Context(), "sqlite::memory:", WithClock(func() time.Time { return now }))
		if err != nil {
			rt.Fatal(err)
		}
		defer j.Close()
		ctx := t.Context()
		names := []string{"ann", "bob", "eve"}
		mine := map[string]drain.Lease{} // as each believes
		var force drain.Lease            // as it is
		written := 0
		for step := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			who := rapid.SampledFrom(names).Draw(rt, "who")
			alive := force.Holder != "" && force.Until.After(now)
			valid := alive && mine[who] == force && force.Holder == who
			switch rapid.SampledFrom([]string{"take", "renew", "release", "drive", "wait"}).Draw(rt, "act") {
			case "take":
				least := uint64(rapid.IntRange(0, 20).Draw(rt, "least"))
				l, err := j.Acquire(ctx, "d", who, least)
				if free := !alive || force.Holder == who; (err == nil) != free {
					rt.Fatalf("%s takes what %+v holds: %v", who, force, err)
				}
				if err == nil {
					if l.Epoch <= force.Epoch || l.Epoch <= least {
						rt.Fatalf("epoch %d after %d, least %d", l.Epoch, force.Epoch, least)
					}
					force, mine[who] = l, l
				}
			case "renew":
				l, err := j.Renew(ctx, mine[who])
				if (err == nil) != valid {
					rt.Fatalf("%s renews %+v at %v: %v, in force is %+v", who, mine[who], now, err, force)
				}
				if err == nil {
					force, mine[who] = l, l
				}
			case "release":
				// A lease that ran out may still be given back, as long as nobody took it.
				err := j.Release(ctx, mine[who])
				if own := mine[who] == force && force.Holder == who; (err == nil) != own {
					rt.Fatalf("%s releases %+v: %v, in force is %+v", who, mine[who], err, force)
				}
				if err == nil {
					force.Holder, force.Until = "", time.Time{}
				}
			case "drive":
				l := mine[who]
				_, err := j.Append(ctx, drain.Batch{Stream: "h", Lease: &l,
					Events: []drain.Event{event(t, "h", evID(0, step), "d", l.Epoch, drain.DriveReleased{Why: who})}})
				if (err == nil) != valid {
					rt.Fatalf("%s drives under %+v at %v: %v, in force is %+v", who, l, now, err, force)
				}
				if err == nil {
					written++
				}
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
			}
		}
		var epoch uint64
		events, err := j.All(ctx, 0, 0)
		if err != nil || len(events) != written {
			rt.Fatalf("%d events, want %d: %v", len(events), written, err)
		}
		for _, e := range events {
			if e.Epoch < epoch {
				rt.Fatalf("epoch %d was written after %d", e.Epoch, epoch)
			}
			epoch = e.Epoch
		}
	})
}
