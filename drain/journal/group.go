package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"ebb/drain"
)

// Writers that come while a transaction is under way are written together by the
// next one: a thousand drains cost the database a few commits a second, not one
// for each of their events. What a group can't change for its members: each is
// decided upon by itself, in the order in which they came, and has its own answer;
// a refused one leaves nothing behind.

// A piece is one caller's part of a group.
type piece struct {
	stream string        // whose end it has to know
	drain  string        // whose lease it has to know
	events []drain.Event // that it appends

	// decide looks at the books and writes into them. It may be called more than
	// once: what was decided by books that were never committed is void.
	decide func(*books) error
	stored []drain.Event
	err    error
	done   chan struct{}

	// Guarded by the journal's mutex.
	group *group // that it is part of
	bound bool   // it is being decided upon: its caller can't take it back
	left  bool   // its caller has gone
}

// group is what one transaction writes.
type group struct {
	pieces []*piece
	live   int                // whose callers still wait
	cancel context.CancelFunc // once nobody waits any more
}

// The most that one transaction takes in.
const (
	mostPieces = 2000
	mostEvents = 1000
)

// boundFor limits the time from the lock on the head row to the end of the commit:
// everybody waits, whether they have the time or not. It is well under that of a
// lease, but for what is large, as an import is.
func boundFor(events int) time.Duration {
	return 10*time.Second + time.Duration(events)*20*time.Millisecond
}

// join writes a piece with whatever else is to be written. A caller that stops
// waiting takes its piece back, or learns what became of it.
func (j *Journal) join(ctx context.Context, p *piece) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	if !j.enqueue(p) {
		return ErrClosed
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		if j.leave(p) {
			return ctx.Err()
		}
		<-p.done
	}
	return p.err
}

func (j *Journal) enqueue(p *piece) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Err() != nil {
		return false
	}
	j.queue = append(j.queue, p)
	if !j.writing {
		j.writing = true
		j.busy.Go(j.writeGroups)
	}
	return true
}

// leave takes a piece back, and reports whether that was still possible. Where all
// have gone, nothing is waited for any more.
func (j *Journal) leave(p *piece) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	p.left = true
	if p.group != nil {
		if p.group.live--; p.group.live == 0 {
			p.group.cancel()
		}
	}
	return !p.bound
}

// writeGroups writes until nothing is left to be written.
func (j *Journal) writeGroups() {
	for g, ctx := j.gather(); g != nil; g, ctx = j.gather() {
		j.writeGroup(ctx, g)
		g.cancel()
	}
}

// gather takes the next group off the queue.
func (j *Journal) gather() (*group, context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = slices.DeleteFunc(j.queue, func(p *piece) bool { return p.left })
	if len(j.queue) == 0 {
		j.writing = false
		return nil, nil
	}
	// Leases first: they run out.
	slices.SortStableFunc(j.queue, func(a, b *piece) int { return min(len(a.events), 1) - min(len(b.events), 1) })
	n, events := 0, 0
	for n < len(j.queue) && n < mostPieces && (n == 0 || events+len(j.queue[n].events) <= mostEvents) {
		events += len(j.queue[n].events)
		n++
	}
	g := &group{pieces: slices.Clone(j.queue[:n]), live: n}
	j.queue = slices.Delete(j.queue, 0, n)
	ctx, cancel := context.WithCancel(j.closed)
	g.cancel = cancel
	for _, p := range g.pieces {
		p.group = g
	}
	return g, ctx
}

// writeGroup writes a group and answers its callers.
func (j *Journal) writeGroup(ctx context.Context, g *group) {
	pieces := g.pieces
	var bound []*piece
	var err error
	for try := 0; ; try++ {
		bound, err = j.attempt(ctx, pieces)
		// Nothing was committed if the connection was cut before the commit, so
		// that may be tried again: a pool holds dead connections after a failover.
		var commit *commitError
		if err == nil || try == 2 || errors.As(err, &commit) || !lostConnection(err) || !pause(ctx, time.Duration(try)*200*time.Millisecond) {
			break
		}
	}
	var commit *commitError
	switch {
	case err == nil:
		answer(bound, nil)
	case errors.As(err, &commit):
		j.settle(bound, err)
	case len(bound) > 1 && ofData(err):
		// Something in it is what no database takes: it fails alone.
		for _, p := range bound {
			_, err := j.attempt(ctx, []*piece{p})
			if errors.As(err, &commit) {
				j.settle([]*piece{p}, err)
				continue
			}
			answer([]*piece{p}, err)
		}
	default:
		answer(pieces, err)
	}
}

// answer lets the callers go on: each with its own error, unless there is one for
// all.
func answer(pieces []*piece, err error) {
	for _, p := range pieces {
		if err != nil {
			p.stored, p.err = nil, err
		}
		close(p.done)
	}
}

// errVoid undoes a transaction in which nothing was written.
var errVoid = errors.New("nothing to commit")

// attempt writes pieces in one transaction. Those that it returns are decided
// upon; the others were taken back meanwhile.
func (j *Journal) attempt(ctx context.Context, pieces []*piece) (bound []*piece, err error) {
	n := 0
	for _, p := range pieces {
		n += len(p.events)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var slow *time.Timer
	defer func() {
		if slow != nil {
			slow.Stop()
		}
	}()
	var b *books
	err = j.write(ctx, func(tx *sql.Tx) error {
		m, err := j.head(ctx, tx, n)
		if err != nil {
			return err
		}
		most := boundFor(n)
		slow = time.AfterFunc(most, func() { cancel(fmt.Errorf("the database did not take it within %v", most)) })
		bound = j.bind(pieces)
		if b, err = j.read(ctx, tx, m, uint64(n), bound); err != nil {
			return err
		}
		for _, p := range bound {
			p.err = p.decide(b)
		}
		if b.clean() {
			return errVoid
		}
		return j.enter(ctx, tx, b, n)
	})
	switch {
	case errors.Is(err, errVoid):
		return bound, nil
	case err == nil && len(b.add) > 0:
		j.wake()
	case err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return bound, err
}

// bind takes the pieces whose callers still wait for them. From then on they wait
// for the outcome.
func (j *Journal) bind(pieces []*piece) []*piece {
	j.mu.Lock()
	defer j.mu.Unlock()
	var bound []*piece
	for _, p := range pieces {
		if p.bound = p.bound || !p.left; p.bound {
			bound = append(bound, p)
		}
	}
	return bound
}

// settle finds out what became of a group whose commit was not answered. Only the
// journal knows, and the answer is owed even to a caller that has stopped waiting.
func (j *Journal) settle(pieces []*piece, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.closed), j.settleFor)
	defer cancel()
	var events []drain.Event
	var again []*piece
	for _, p := range pieces {
		if p.err == nil {
			events = append(events, p.events...)
		}
	}
	var found []drain.Event
	var err error
	if len(events) > 0 {
		found, err = j.lookup(ctx, ids(events))
	}
	if len(found) > 0 {
		j.wake()
	}
	for _, p := range pieces {
		switch {
		case p.err != nil: // refused by books of which nobody knew whether they count
			again = append(again, p)
			continue
		case len(p.events) == 0:
			p.err = cause
		case err != nil:
			p.stored, p.err = nil, &UncertainError{IDs: ids(p.events), Err: errors.Join(cause, err)}
		default:
			if p.stored, p.err = match(p.events, byEventID(found)); p.stored == nil && p.err == nil {
				p.err = cause
			}
		}
		close(p.done)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range slices.Backward(again) {
		if p.left {
			close(p.done) // it will not be told more
			continue
		}
		p.group, p.bound = nil, false
		j.queue = slices.Insert(j.queue, 0, p)
	}
}
