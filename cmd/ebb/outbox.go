package main

import (
	"context"
	"io"
	"sync"
	"time"
)

// outbox writes what it is given without making whoever gives it wait for a
// reader that has stopped: a terminal that hangs, a pager that is not scrolled.
// What is driven by this process must not stand still because of that, and nor
// must its end. A reader that goes on reads everything, in its order.
type outbox struct {
	to io.Writer

	// patience is how long whoever writes waits for the reader: until it is closed.
	// Nil: for a moment only. Who only prints need not get ahead of who reads.
	patience <-chan struct{}

	mu    sync.Mutex
	queue []byte
	busy  chan struct{} // closed when all is written; nil: all is
	late  bool          // the reader has let a moment pass
	err   error
}

const (
	// outboxMoment is how long a write waits for a reader, so that lines to two
	// streams that are one terminal keep their order.
	outboxMoment = 100 * time.Millisecond
	// outboxEnd is how long the end of the process waits for one that hangs.
	outboxEnd = 2 * time.Second
)

// Write takes b. It fails once an earlier write has failed.
func (o *outbox) Write(b []byte) (int, error) {
	o.mu.Lock()
	if o.err != nil {
		defer o.mu.Unlock()
		return 0, o.err
	}
	o.queue = append(o.queue, b...)
	if o.busy == nil {
		o.busy = make(chan struct{})
		go o.write(o.busy)
	}
	busy, late := o.busy, o.late && o.patience == nil
	o.mu.Unlock()
	if late {
		return len(b), nil
	}
	o.wait(busy)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late = o.busy != nil
	return len(b), o.err
}

// wait gives the reader the time that it has.
func (o *outbox) wait(read <-chan struct{}) {
	if o.patience != nil {
		select {
		case <-read:
		case <-o.patience:
		}
		return
	}
	t := time.NewTimer(outboxMoment)
	defer t.Stop()
	select {
	case <-read:
	case <-t.C:
	}
}

func (o *outbox) write(done chan struct{}) {
	for {
		o.mu.Lock()
		b := o.queue
		o.queue = nil
		if len(b) == 0 || o.err != nil {
			o.busy, o.late = nil, false
			close(done)
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		if _, err := o.to.Write(b); err != nil {
			o.mu.Lock()
			o.err = err
			o.mu.Unlock()
		}
	}
}

// Flush waits until all is written, however long that takes; once ctx has ended,
// it waits for a moment only.
func (o *outbox) Flush(ctx context.Context) {
	o.mu.Lock()
	busy := o.busy
	o.mu.Unlock()
	if busy == nil {
		return
	}
	select {
	case <-busy:
		return
	case <-ctx.Done():
	}
	limit := outboxEnd
	if o.patience != nil { // what it printed can be printed again
		limit = outboxMoment
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-busy:
	case <-t.C:
	}
}

// unhurried has what is printed from now on go through an outbox. The function
// that it returns is called in the end.
func (a *app) unhurried(ctx context.Context) (flush func()) {
	box := &outbox{to: a.out}
	a.out = box
	return func() { box.Flush(ctx) }
}

// interruptible has what is printed from now on wait for its reader only until ctx
// ends: a command that prints to a terminal that hangs can be ended all the same. The
// function that it returns is called in the end.
func (a *app) interruptible(ctx context.Context) (flush func()) {
	box := &outbox{to: a.out, patience: ctx.Done()}
	a.out = box
	return func() { box.Flush(ctx) }
}
