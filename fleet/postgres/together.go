package postgres

import (
	"context"
	"errors"
	"sync"
)

// together answers many who ask about single hosts at about the same time with one
// statement about all of them. An answer is never older than its question: who asks
// while a statement runs waits for the next one.
type together[V any] struct {
	read func(ctx context.Context, names []string) (map[string]V, error)

	mu   sync.Mutex
	next *question[V] // of those who wait for their turn
	busy bool
	wg   sync.WaitGroup
}

// question is about hosts, by name, and for whoever waits for it.
type question[V any] struct {
	names  map[string]bool
	live   int
	ctx    context.Context // ends when nobody waits any more
	cancel context.CancelFunc
	done   chan struct{}
	answer map[string]answer[V]
}

type answer[V any] struct {
	value V
	err   error
}

// ask asks about a host. Without a value it is zero.
func (t *together[V]) ask(ctx context.Context, name string) (V, error) {
	q := t.join(name)
	select {
	case <-q.done:
		a := q.answer[name]
		return a.value, a.err
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.live--; q.live == 0 {
			q.cancel()
			if t.next == q {
				t.next = nil
			}
		}
		var none V
		return none, ctx.Err()
	}
}

func (t *together[V]) join(name string) *question[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = &question[V]{names: map[string]bool{}, done: make(chan struct{})}
		t.next.ctx, t.next.cancel = context.WithCancel(context.Background())
	}
	q := t.next
	q.names[name] = true
	q.live++
	if !t.busy {
		t.busy = true
		t.wg.Go(t.run)
	}
	return q
}

// run asks for as long as somebody waits.
func (t *together[V]) run() {
	for {
		t.mu.Lock()
		q := t.next
		t.next = nil
		if t.busy = q != nil; !t.busy {
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		q.answer = t.resolve(q)
		q.cancel()
		close(q.done)
	}
}

// resolve answers a question. Where the statement fails for what it was asked, and
// not for want of a server, it may be for one of the hosts: each is asked about by
// itself.
func (t *together[V]) resolve(q *question[V]) map[string]answer[V] {
	names := make([]string, 0, len(q.names))
	for n := range q.names {
		names = append(names, n)
	}
	out := make(map[string]answer[V], len(names))
	values, err := t.read(q.ctx, names)
	alone := err != nil && len(names) > 1 && q.ctx.Err() == nil && !lostConnection(err) && !errors.Is(err, context.DeadlineExceeded)
	for _, n := range names {
		if alone {
			values, err = t.read(q.ctx, []string{n})
		}
		out[n] = answer[V]{values[n], err}
	}
	return out
}
