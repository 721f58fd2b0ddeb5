package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/drain/journal"
)

// asJournal is what both journals can do.
type asJournal interface {
	Append(context.Context, drain.Batch) ([]drain.Event, error)
	Stream(context.Context, string, uint64, int) ([]drain.Event, error)
	Acquire(context.Context, string, string, uint64) (drain.Lease, error)
	Renew(context.Context, drain.Lease) (drain.Lease, error)
	Release(context.Context, drain.Lease) error
	Leases(context.Context) ([]drain.Lease, error)
}

// sort names what kind of answer an error is.
func sort(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, drain.ErrConflict):
		return "conflict"
	case errors.Is(err, drain.ErrLeaseLost):
		return "lease lost"
	case errors.As(err, new(*journal.HeldError)):
		return "held"
	case errors.As(err, new(*journal.DuplicateError)):
		return "duplicate"
	case errors.Is(err, journal.ErrNoLease):
		return "no lease"
	}
	return "refused"
}

// TestLogIsTheJournal asks the journal in memory and the real one the same, at
// the same times: they give the same answers.
func TestLogIsTheJournal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		lite, err := journal.Open(t.Context(), "sqlite::memory:", journal.WithClock(clock))
		if err != nil {
			rt.Fatal(err)
		}
		defer lite.Close()
		both := [2]asJournal{lite, NewLog(clock)}
		var leases []drain.Lease
		var batches []drain.Batch
		for i := range rapid.IntRange(1, 30).Draw(rt, "calls") {
			what := rapid.IntRange(0, 9).Draw(rt, "what")
			id := rapid.SampledFrom([]string{"d1", "d2"}).Draw(rt, "drain")
			var got [2]any
			var errs [2]error
			var lease drain.Lease
			if len(leases) > 0 {
				lease = rapid.SampledFrom(leases).Draw(rt, "lease")
			}
			b := batch(rt, i, id, lease, batches)
			holder, least := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "holder"), uint64(rapid.IntRange(0, 4).Draw(rt, "least"))
			for k, j := range both {
				switch {
				case what < 4:
					got[k], errs[k] = j.Append(t.Context(), b)
				case what < 6:
					got[k], errs[k] = j.Acquire(t.Context(), id, holder, least)
				case what == 6:
					_, errs[k] = j.Renew(t.Context(), lease)
				case what == 7:
					errs[k] = j.Release(t.Context(), lease)
				case what == 8:
					got[k], errs[k] = j.Stream(t.Context(), b.Stream, least, 3)
				default:
					got[k], errs[k] = j.Leases(t.Context())
				}
			}
			if sort(errs[0]) != sort(errs[1]) || errs[0] == nil && fmt.Sprint(got[0]) != fmt.Sprint(got[1]) {
				rt.Fatalf("call %d (%d): %v, %v\n%v, %v", i, what, got[0], errs[0], got[1], errs[1])
			}
			if l, ok := got[0].(drain.Lease); ok && errs[0] == nil {
				leases = append(leases, l)
			}
			if what < 4 {
				batches = append(batches, b)
			}
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 4, 9, 20, -3600}).Draw(rt, "seconds")) * time.Second)
		}
		for _, stream := range []string{"p/h1", "p/h2"} {
			a, _ := both[0].Stream(t.Context(), stream, 0, 0)
			b, _ := both[1].Stream(t.Context(), stream, 0, 0)
			if len(a) != len(b) || len(a) > 0 && !reflect.DeepEqual(a, b) {
				rt.Fatalf("stream %s: %v and %v", stream, a, b)
			}
		}
	})
}

// batch draws one: new, the same as an earlier one, or one that shares an id.
func batch(rt *rapid.T, i int, id string, lease drain.Lease, old []drain.Batch) drain.Batch {
	if len(old) > 0 && rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
		return rapid.SampledFrom(old).Draw(rt, "old")
	}
	b := drain.Batch{Stream: rapid.SampledFrom([]string{"p/h1", "p/h2"}).Draw(rt, "stream")}
	if rapid.Bool().Draw(rt, "expect") {
		n := uint64(rapid.IntRange(0, 6).Draw(rt, "end"))
		b.Expect = &n
	}
	if lease.Holder != "" && rapid.Bool().Draw(rt, "leased") {
		b.Lease = &lease
	}
	for k := range rapid.IntRange(0, 3).Draw(rt, "events") {
		e := drain.Event{ID: fmt.Sprintf("e%d-%d", i, k), Kind: "ask.hold", V: 1, Drain: id, Body: []byte(`{"a":1}`)}
		switch rapid.IntRange(0, 5).Draw(rt, "kind") {
		case 0:
			e.ID = "same"
		case 1, 2:
			e.Kind, e.Epoch = "drive.took", lease.Epoch
		case 3:
			e.Body = []byte("{")
		}
		b.Events = append(b.Events, e)
	}
	return b
}

// TestExportIsAJournal carries a history into a real journal, and out again: what
// one prints, the other reads.
func TestExportIsAJournal(t *testing.T) {
	var printed, again bytes.Buffer
	if err := play(t, options(4)).Export(&printed); err != nil {
		t.Fatal(err)
	}
	lite, err := journal.Open(t.Context(), "sqlite::memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer lite.Close()
	if err := lite.Import(t.Context(), bytes.NewReader(printed.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := lite.Export(t.Context(), &again, ""); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(printed.Bytes(), again.Bytes()) {
		t.Fatalf("%d bytes, then %d:\n%.400s\n%.400s", printed.Len(), again.Len(), printed.String(), again.String())
	}
}
