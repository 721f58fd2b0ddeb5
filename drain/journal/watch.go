package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
)

const (
	readAtOnce = 500
	filePoll   = time.Second / 4 // SQLite: has another process written?
)

// Watch calls fn with every event after a sequence number, in order and without
// gaps, and goes on as events are appended by anybody. It outlives the loss of
// the database, which it reports to WithTrouble, and returns when ctx ends, the
// journal is closed, fn fails, or the journal turns out to be shorter than what
// was read from it (ErrRewound).
func (j *Journal) Watch(ctx context.Context, after uint64, fn func([]drain.Event) error) error {
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(j.closed, cancel)
	wake := make(chan struct{}, 1)
	h := &health{tell: j.trouble}
	var wg sync.WaitGroup
	wg.Go(func() { j.signal(inner, wake, h) })
	defer func() { stop(); cancel(); wg.Wait() }()

	err := j.follow(inner, after, fn, wake, h)
	if j.closed.Err() != nil && ctx.Err() == nil {
		return ErrClosed
	}
	return err
}

// health puts together what ails the two halves of a watch. It tells every
// trouble, and once that both are well again.
type health struct {
	tell func(error)

	mu               sync.Mutex
	reading, hearing error
}

func (h *health) set(half *error, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sick := h.reading != nil || h.hearing != nil
	*half = err
	if err != nil || sick && h.reading == nil && h.hearing == nil {
		h.tell(err)
	}
}

func (j *Journal) follow(ctx context.Context, after uint64, fn func([]drain.Event) error, wake <-chan struct{}, h *health) error {
	wait, sure := 100*time.Millisecond, false
	for {
		local := j.next() // before reading, or an append in between would be slept through
		events, err := j.step(ctx, after, &sure)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrRewound):
			return err
		case err != nil:
			h.set(&h.reading, err)
			sure = false
			pause(ctx, wait)
			wait = min(2*wait, 5*time.Second)
			continue
		}
		h.set(&h.reading, nil)
		wait = 100 * time.Millisecond
		if len(events) > 0 {
			if err := fn(events); err != nil {
				return err
			}
			after = events[len(events)-1].Seq
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-local:
		case <-wake:
		}
	}
}

// step reads on. At the start and after every trouble it makes sure that this is
// still the journal that was read before: a replica that was promoted may lack
// the newest events, and would give their numbers to others.
func (j *Journal) step(ctx context.Context, after uint64, sure *bool) ([]drain.Event, error) {
	if !*sure {
		last, err := j.last(ctx)
		if err != nil {
			return nil, err
		}
		if last < after {
			return nil, fmt.Errorf("watch journal %s: it ends at %d, and %d was read: %w", j.name, last, after, ErrRewound)
		}
		*sure = true
	}
	events, err := j.All(ctx, after, readAtOnce)
	if err == nil && len(events) > 0 && events[0].Seq != after+1 {
		return nil, fmt.Errorf("watch journal %s: event %d follows %d: %w", j.name, events[0].Seq, after, ErrRewound)
	}
	return events, err
}

// signal writes to wake whenever there may be something new.
func (j *Journal) signal(ctx context.Context, wake chan<- struct{}, h *health) {
	switch {
	case j.dialect.pg:
		j.signalPG(ctx, wake, h)
	case j.file:
		j.signalFile(ctx, wake)
	}
}

func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// signalFile asks SQLite whether another connection has changed the file. The
// answer is a number that only one and the same connection can compare.
func (j *Journal) signalFile(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		_ = j.watchFile(ctx, wake) // whatever ails the database, the reader meets it too
		poke(wake)
		pause(ctx, time.Second)
	}
}

func (j *Journal) watchFile(ctx context.Context, wake chan<- struct{}) error {
	conn, err := j.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for last := int64(-1); ; {
		var version int64
		if err := conn.QueryRowContext(ctx, `pragma data_version`).Scan(&version); err != nil {
			return err
		}
		if version != last {
			last = version
			poke(wake)
		}
		if !pause(ctx, filePoll) {
			return ctx.Err()
		}
	}
}
