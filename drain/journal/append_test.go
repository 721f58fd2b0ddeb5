package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/drain"
)

func TestAppendAndRead(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		odd := ask(t, "prod/gpu-041 \u202e'; drop table events; --", "odd")
		odd.Body = json.RawMessage(`{"note":"\u0000  \"x\"" , "unknown":[1,2]}`)
		odd.V, odd.Kind, odd.Sig = 9, "ask.from_the_future", "-----BEGIN SSH SIGNATURE-----\nx"
		bare := ask(t, "b", "bare")
		bare.Body = nil

		first := put(t, j, ask(t, "a", "1"), ask(t, "a", "2"))
		second := put(t, j, odd)
		third := put(t, j, bare)
		fourth := put(t, j, ask(t, "a", "3"))
		want := append(append(append(first, second...), third...), fourth...)
		for i, e := range want {
			if e.Seq != uint64(i+1) || e.At.IsZero() {
				t.Errorf("event %s: seq %d, want %d; at %v", e.ID, e.Seq, i+1, e.At)
			}
		}
		if fourth[0].Num != 3 || second[0].Num != 1 {
			t.Errorf("numbers %d and %d, want 3 and 1", fourth[0].Num, second[0].Num)
		}
		if string(second[0].Body) != string(odd.Body) {
			t.Errorf("body came back as %s", second[0].Body)
		}
		if got := must(j.All(ctx, 0, 0))(t); !reflect.DeepEqual(got, want) {
			t.Errorf("All:\n%+v\nwant\n%+v", got, want)
		}
		if got := must(j.All(ctx, 2, 2))(t); !reflect.DeepEqual(got, want[2:4]) {
			t.Errorf("All after 2, 2 of them: %+v", got)
		}
		if got := must(j.Stream(ctx, "a", 1, 0))(t); !reflect.DeepEqual(got, []drain.Event{first[1], fourth[0]}) {
			t.Errorf("Stream: %+v", got)
		}
		if got := must(j.Streams(ctx))(t); !reflect.DeepEqual(got, []string{"a", "b", odd.Stream}) {
			t.Errorf("Streams: %q", got)
		}
		if now := must(j.Now(ctx))(t); now.Before(fourth[0].At) || now.Sub(fourth[0].At) > time.Minute {
			t.Errorf("now is %v, the last event was at %v", now, fourth[0].At)
		}
	})
}

func TestExpect(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		put(t, j, ask(t, "a", "1"))
		_, err := j.Append(ctx, drain.Batch{Stream: "a", Expect: num(0), Events: []drain.Event{ask(t, "a", "2")}})
		var c *ConflictError
		if !errors.As(err, &c) || !errors.Is(err, drain.ErrConflict) || c.Have != 1 || c.Want != 0 {
			t.Fatalf("got %v, want a conflict with 1", err)
		}
		if _, err := j.Append(ctx, drain.Batch{Stream: "a", Expect: num(1), Events: []drain.Event{ask(t, "a", "2")}}); err != nil {
			t.Fatal(err)
		}
		// A refused batch leaves no gap behind.
		if got := must(j.All(ctx, 0, 0))(t); len(got) != 2 || got[1].Seq != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRepeatedAppend(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		l := must(j.Acquire(ctx, "d1", "me", 0))(t)
		b := drain.Batch{Stream: "a", Expect: num(0), Lease: &l, Events: []drain.Event{
			event(t, "a", "x", "d1", l.Epoch, drain.DriveTook{Driver: "me"}), ask(t, "a", "y")}}
		first := must(j.Append(ctx, b))(t)
		put(t, j, ask(t, "a", "later"))

		// Expect no longer fits, and then the lease is gone too: still the answer
		// is what was stored.
		if again := must(j.Append(ctx, b))(t); !reflect.DeepEqual(again, first) {
			t.Errorf("again: %+v, want %+v", again, first)
		}
		if err := j.Release(ctx, l); err != nil {
			t.Fatal(err)
		}
		b.Expect = nil
		if again := must(j.Append(ctx, b))(t); !reflect.DeepEqual(again, first) {
			t.Errorf("after release: %+v, want %+v", again, first)
		}

		var d *DuplicateError
		other := ask(t, "a", "y")
		other.Body = json.RawMessage(`{"note":"another"}`)
		for name, events := range map[string][]drain.Event{
			"other content": {other},
			"other stream":  {ask(t, "b", "y")},
			"half new":      {ask(t, "a", "y"), ask(t, "a", "new")},
		} {
			if _, err := j.Append(ctx, drain.Batch{Stream: events[0].Stream, Events: events}); !errors.As(err, &d) || d.ID != "y" {
				t.Errorf("%s: got %v, want a duplicate of y", name, err)
			}
		}
		if got := must(j.All(ctx, 0, 0))(t); len(got) != 3 {
			t.Errorf("%d events, want 3", len(got))
		}
	})
}

func TestRefusedBatches(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j, ctx := p.open(), t.Context()
		l := must(j.Acquire(ctx, "d1", "me", 0))(t)
		drive := func(dr string, epoch uint64) drain.Event {
			return event(t, "a", "x", dr, epoch, drain.DriveReleased{})
		}
		edit := func(f func(*drain.Event)) drain.Event { e := ask(t, "a", "x"); f(&e); return e }
		older := l
		older.Epoch--
		stolen := l
		stolen.Holder = "other"
		for name, c := range map[string]struct {
			lease *drain.Lease
			e     drain.Event
			want  error
		}{
			"drive without lease":    {nil, drive("d1", 1), ErrNoLease},
			"drive of another drain": {&l, drive("d2", 1), ErrLeaseLost},
			"drive of another epoch": {&l, drive("d1", 2), ErrLeaseLost},
			"older epoch":            {&older, drive("d1", older.Epoch), ErrLeaseLost},
			"another holder":         {&stolen, drive("d1", 1), ErrLeaseLost},
			"ask under a lost lease": {&older, ask(t, "a", "x"), ErrLeaseLost},
			"no id":                  {nil, edit(func(e *drain.Event) { e.ID = "" }), nil},
			"no kind":                {nil, edit(func(e *drain.Event) { e.Kind = "" }), nil},
			"broken body":            {nil, edit(func(e *drain.Event) { e.Body = json.RawMessage("{") }), nil},
			"zero byte":              {nil, edit(func(e *drain.Event) { e.Drain = "a\x00b" }), nil},
			"not UTF-8":              {nil, edit(func(e *drain.Event) { e.Sig = "\xff" }), nil},
			"other stream":           {nil, edit(func(e *drain.Event) { e.Stream = "b" }), nil},
			"huge epoch":             {nil, edit(func(e *drain.Event) { e.Epoch = 1 << 63 }), nil},
		} {
			_, err := j.Append(ctx, drain.Batch{Stream: "a", Lease: c.lease, Events: []drain.Event{c.e}})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
		if _, err := j.Append(ctx, drain.Batch{Stream: "a"}); err == nil {
			t.Error("an empty batch was taken")
		}
		if _, err := j.Append(ctx, drain.Batch{Stream: "a", Events: []drain.Event{ask(t, "a", "x"), ask(t, "a", "x")}}); err == nil {
			t.Error("a batch with the same id twice was taken")
		}
		if got := must(j.All(ctx, 0, 0))(t); len(got) != 0 {
			t.Errorf("refused batches left %+v", got)
		}
	})
}

// Eight writers in two processes, while readers follow: no number is skipped,
// by writers or by readers, and time does not run back.
func TestConcurrentWritersAndReaders(t *testing.T) {
	const writers, each8 = 8, 200
	each(t, func(t *testing.T, p place) {
		quick := withPragma("synchronous(off)") // it is about order, not about power cuts
		procs := []*Journal{p.open(quick), p.open(quick)}
		ctx := within(t, 2*time.Minute)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each8 {
					stream := fmt.Sprintf("s%d", w%3)
					_, err := procs[w%2].Append(ctx, drain.Batch{Stream: stream, Events: []drain.Event{ask(t, stream, evID(w, i))}})
					if err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
			})
		}
		done := errors.New("done")
		for r := range 2 {
			wg.Go(func() {
				var next uint64
				var at time.Time
				nums := map[string]uint64{}
				err := procs[r].Watch(ctx, 0, func(events []drain.Event) error {
					for _, e := range events {
						if e.Seq != next+1 || e.Num != nums[e.Stream]+1 || e.At.Before(at) {
							return fmt.Errorf("reader %d: after %d (%v) came %+v", r, next, at, e)
						}
						next, at, nums[e.Stream] = e.Seq, e.At, e.Num
					}
					if next == writers*each8 {
						return done
					}
					return nil
				})
				if !errors.Is(err, done) {
					t.Errorf("reader %d stopped at %d: %v", r, next, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestTimeNeverRunsBack(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	j := place{t, "sqlite::memory:"}.open(WithClock(func() time.Time { return now }))
	a := put(t, j, ask(t, "a", "1"))[0].At
	now = now.Add(-time.Hour)
	b := put(t, j, ask(t, "a", "2"))[0].At
	now = now.Add(2 * time.Hour)
	c := put(t, j, ask(t, "a", "3"))[0].At
	if !b.Equal(a) || !c.Equal(now) {
		t.Errorf("times %v, %v, %v", a, b, c)
	}
}

func TestLargeBatch(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j := p.open()
		var events []drain.Event
		for i := range 1100 {
			events = append(events, ask(t, "a", evID(0, i)))
		}
		events[0].Body = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		put(t, j, events...)
		again := put(t, j, events...) // looked up in several parts
		if len(again) != 1100 || again[1099].Num != 1100 {
			t.Errorf("%d events, the last is %+v", len(again), again[len(again)-1].Num)
		}
	})
}

func TestCancelledAppendIsWholeOrNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		j := p.open()
		for i := range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*300*time.Microsecond)
			e := ask(t, "a", evID(0, i))
			_, err := j.Append(ctx, drain.Batch{Stream: "a", Events: []drain.Event{e}})
			cancel()
			there := 0
			for _, have := range must(j.Stream(t.Context(), "a", 0, 0))(t) {
				if have.ID == e.ID {
					there++
				}
			}
			if (err == nil) != (there == 1) {
				t.Fatalf("append said %v, and the event is there %d times", err, there)
			}
		}
	})
}
