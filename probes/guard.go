package probes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ebb/fleet"
)

// guard lets one probe run at a time, and knows since when.
type guard struct {
	mu   sync.Mutex
	busy time.Time
}

func (g *guard) enter() (since time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.busy.IsZero() {
		return g.busy, false
	}
	g.busy = time.Now()
	return g.busy, true
}

func (g *guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = time.Time{}
}

// run runs one probe and gives up on it after the timeout. A read that hangs in
// the kernel can't be ended, so its goroutine stays; until it is back, later
// calls fail at once instead of adding another.
func run[T any](ctx context.Context, g *guard, timeout time.Duration, source string, now time.Time, probe func(context.Context) (T, error)) fleet.Reading[T] {
	begun, ok := g.enter()
	if !ok {
		stuck := time.Since(begun).Round(time.Millisecond)
		return fleet.ReadFailed[T](source, now, 0, fmt.Errorf("read %s: still waiting for a read that began %v ago", source, stuck))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := probe(ctx)
		g.leave() // before the answer: whoever has it may ask again at once
		done <- result{v, err}
	}()
	select {
	case res := <-done:
		took := time.Since(begun)
		if na, is := res.err.(notApplicable); is {
			return fleet.ReadNotApplicable[T](source, now, na.why)
		}
		if res.err != nil {
			return fleet.ReadFailed[T](source, now, took, res.err)
		}
		return fleet.Read(res.value, source, now, took)
	case <-ctx.Done():
		took := time.Since(begun)
		err := fmt.Errorf("read %s: timed out after %v", source, took.Round(time.Millisecond))
		if took < timeout {
			err = fmt.Errorf("read %s: %w", source, ctx.Err())
		}
		return fleet.ReadFailed[T](source, now, took, err)
	}
}
