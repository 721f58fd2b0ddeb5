package agent

import (
	"context"
	"testing"
	"time"

	"ebb/fleet"
)

// The end of a workload's process is told at once, not at the next tick.
func TestTheEndOfAWorkloadIsToldAtOnce(t *testing.T) {
	h := newServingHost(t, func(c *Config) { c.Quick, c.Full = time.Hour, time.Hour })
	_, ended := h.server("a")
	h.server("b")
	f, err := h.op.Facts(t.Context(), true)
	ok(t, err)
	if len(f.Workloads.Value) != 2 {
		t.Fatalf("%+v", f.Workloads)
	}
	seen := make(chan int, 16)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.op.Watch(ctx, fleet.Facts{}, func(f fleet.Facts) error {
			n := 0
			for _, w := range f.Workloads.Value {
				if w.Phase == fleet.Running && w.Key.Kind == "service" {
					n++
				}
			}
			seen <- n
			return nil
		})
	}()
	defer func() { stop(); <-done }()
	if n := <-seen; n != 2 {
		t.Fatalf("%d run", n)
	}
	ok(t, h.hold())
	h.term(ended)
	for deadline := time.After(10 * time.Second); ; {
		select {
		case n := <-seen:
			if n == 1 {
				return
			}
		case <-deadline:
			t.Fatal("the end was not told")
		}
	}
}
