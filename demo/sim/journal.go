package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ebb/drain"
	"ebb/drain/journal"
)

// Log is a journal in memory. It keeps the rules of the real one for numbers,
// expected ends, ids, leases and epochs, and so much faster that thousands of
// histories can be played.
type Log struct {
	now   func() time.Time
	saw   func(drain.Event) // what was appended, after the rules have let it in
	mu    sync.Mutex
	at    time.Time
	all   []drain.Event
	ends  map[string][]int // places in all, by stream
	ids   map[string]int
	lease map[string]drain.Lease
}

// NewLog makes an empty one with a clock of its own.
func NewLog(now func() time.Time) *Log {
	return &Log{now: now, saw: func(drain.Event) {}, ends: map[string][]int{}, ids: map[string]int{}, lease: map[string]drain.Lease{}}
}

// Name stands in holds.
func (l *Log) Name() string { return "sim" }

// clock is the journal's clock, as precise as a database keeps it.
func (l *Log) clock() time.Time { return l.now().UTC().Truncate(time.Microsecond) }

// Now implements engine.Journal.
func (l *Log) Now(context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock(), nil
}

// Append implements engine.Journal.
func (l *Log) Append(_ context.Context, b drain.Batch) ([]drain.Event, error) {
	events, err := checked(b)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out, err := l.append(b, events)
	if err == nil {
		return out, nil
	}
	// What fails may be the very batch that was committed before.
	if errors.Is(err, drain.ErrConflict) || errors.Is(err, drain.ErrLeaseLost) || errors.As(err, new(*journal.DuplicateError)) {
		stored, lerr := l.lookup(events)
		if stored != nil || lerr != nil {
			return stored, lerr
		}
	}
	return nil, err
}

func (l *Log) append(b drain.Batch, events []drain.Event) ([]drain.Event, error) {
	num := uint64(len(l.ends[b.Stream]))
	if b.Expect != nil && *b.Expect != num {
		return nil, &journal.ConflictError{Stream: b.Stream, Want: *b.Expect, Have: num}
	}
	now := l.clock()
	if b.Lease != nil {
		if err := l.holds(*b.Lease, now); err != nil {
			return nil, err
		}
	}
	for _, e := range events {
		if _, there := l.ids[e.ID]; there {
			return nil, &journal.DuplicateError{ID: e.ID}
		}
	}
	if now.After(l.at) {
		l.at = now
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Num, e.At = uint64(len(l.all))+1, num+uint64(i)+1, l.at
		l.ids[e.ID] = len(l.all)
		l.ends[e.Stream] = append(l.ends[e.Stream], len(l.all))
		l.all = append(l.all, *e)
		l.saw(*e)
	}
	return slices.Clone(events), nil
}

func (l *Log) lookup(events []drain.Event) ([]drain.Event, error) {
	var out []drain.Event
	for _, e := range events {
		i, there := l.ids[e.ID]
		if !there {
			continue
		}
		h := l.all[i]
		if h.Stream != e.Stream || h.Kind != e.Kind || h.V != e.V || h.Drain != e.Drain || h.Epoch != e.Epoch || h.By != e.By || !bytes.Equal(h.Body, e.Body) {
			return nil, &journal.DuplicateError{ID: e.ID}
		}
		out = append(out, h)
	}
	if len(out) > 0 && len(out) < len(events) {
		return nil, &journal.DuplicateError{ID: out[0].ID}
	}
	return out, nil
}

func checked(b drain.Batch) ([]drain.Event, error) {
	if b.Stream == "" || len(b.Events) == 0 {
		return nil, errors.New("a batch needs a stream and events")
	}
	seen := map[string]bool{}
	out := slices.Clone(b.Events)
	for i := range out {
		e := &out[i]
		if e.Stream == "" {
			e.Stream = b.Stream
		}
		switch {
		case e.ID == "" || e.Kind == "" || len(e.Body) > 0 && !json.Valid(e.Body):
			return nil, errors.New("an event needs an id, a kind, and a body of JSON")
		case slices.ContainsFunc([]string{e.Stream, e.ID, string(e.Kind), e.Drain, string(e.Body), e.Sig}, func(s string) bool {
			return !utf8.ValidString(s) || strings.ContainsRune(s, 0)
		}):
			return nil, errors.New("an event's text is not UTF-8, or has a zero byte in it")
		case e.Stream != b.Stream:
			return nil, fmt.Errorf("event %d is of stream %s, the batch of %s", i+1, e.Stream, b.Stream)
		case seen[e.ID]:
			return nil, &journal.DuplicateError{ID: e.ID}
		case e.Kind.IsDrive() && b.Lease == nil:
			return nil, journal.ErrNoLease
		case e.Kind.IsDrive() && (e.Drain != b.Lease.Drain || e.Epoch != b.Lease.Epoch):
			return nil, fmt.Errorf("event %d: %w", i+1, drain.ErrLeaseLost)
		}
		seen[e.ID] = true
	}
	return out, nil
}

func (l *Log) holds(want drain.Lease, now time.Time) error {
	have := l.lease[want.Drain]
	if have.Holder == "" || have.Holder != want.Holder || have.Epoch != want.Epoch {
		return fmt.Errorf("drain %s: %w: %s has epoch %d now", want.Drain, drain.ErrLeaseLost, have.Holder, have.Epoch)
	}
	if !have.Until.After(now) {
		return fmt.Errorf("drain %s: %w: it ran out", want.Drain, drain.ErrLeaseLost)
	}
	return nil
}

// Stream implements engine.Journal.
func (l *Log) Stream(_ context.Context, stream string, after uint64, limit int) ([]drain.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := l.ends[stream]
	places = places[min(after, uint64(len(places))):]
	if limit > 0 && len(places) > limit {
		places = places[:limit]
	}
	var out []drain.Event
	for _, i := range places {
		out = append(out, l.all[i])
	}
	return out, nil
}

// Acquire implements engine.Journal.
func (l *Log) Acquire(_ context.Context, id, holder string, least uint64) (drain.Lease, error) {
	if id == "" || holder == "" {
		return drain.Lease{}, errors.New("a lease needs a drain and a holder")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, have := l.clock(), l.lease[id]
	if have.Holder != "" && have.Holder != holder && have.Until.After(now) {
		if limit := now.Add(drain.LeaseTTL); have.Until.After(limit) { // taken before a clock was set back
			cut := have
			cut.Until = limit
			l.lease[id] = cut
		}
		return drain.Lease{}, &journal.HeldError{Lease: have}
	}
	got := drain.Lease{Drain: id, Holder: holder, Epoch: max(have.Epoch, least) + 1, Until: now.Add(drain.LeaseTTL)}
	l.lease[id] = got
	return got, nil
}

// Renew implements engine.Journal.
func (l *Log) Renew(_ context.Context, want drain.Lease) (drain.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if err := l.holds(want, now); err != nil {
		return want, err
	}
	want.Until = now.Add(drain.LeaseTTL)
	l.lease[want.Drain] = want
	return want, nil
}

// Release implements engine.Journal.
func (l *Log) Release(_ context.Context, want drain.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.lease[want.Drain]
	if want.Holder == "" || have.Holder != want.Holder || have.Epoch != want.Epoch {
		return fmt.Errorf("drain %s: %w", want.Drain, drain.ErrLeaseLost)
	}
	l.lease[want.Drain] = drain.Lease{Drain: want.Drain, Epoch: want.Epoch, Until: time.UnixMicro(0).UTC()}
	return nil
}

// Leases implements engine.Journal.
func (l *Log) Leases(context.Context) ([]drain.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []drain.Lease
	for _, x := range l.lease {
		if x.Holder != "" {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b drain.Lease) int { return strings.Compare(a.Drain, b.Drain) })
	return out, nil
}

// Export writes the journal as the real one does.
func (l *Log) Export(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, e := range l.all {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return nil
}
