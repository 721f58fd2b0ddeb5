package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever prints to a reader that has stopped waits for a moment once, and then
// no more; when it reads again it has everything, in order.
func TestOutboxDoesNotWaitForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := &outbox{to: w}
		from := time.Now()
		var want strings.Builder
		for range 1000 {
			line := time.Now().Format(time.RFC3339Nano) + "\n"
			want.WriteString(line)
			if _, err := io.WriteString(o, line); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(from); waited > outboxMoment {
			t.Errorf("a thousand lines took %s", waited)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		from = time.Now()
		o.Flush(ended)
		if waited := time.Since(from); waited != outboxEnd {
			t.Errorf("the end waits for %s", waited)
		}
		go func() {
			o.Flush(t.Context())
			_ = w.Close()
		}()
		if got, err := io.ReadAll(r); err != nil || string(got) != want.String() {
			t.Errorf("it has read %d of %d bytes: %v", len(got), want.Len(), err)
		}
	})
}

// A reader that reads is waited for, so that two streams to one terminal do not
// overtake each other.
func TestOutboxKeepsTheOrderOfTwoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		out, errs := &outbox{to: &got}, &outbox{to: &got}
		for range 100 {
			_, _ = io.WriteString(out, "a")
			_, _ = io.WriteString(errs, "b")
		}
		if want := strings.Repeat("ab", 100); got.String() != want {
			t.Errorf("%q", got.String())
		}
	})
}

func TestOutboxTellsOfABrokenPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		_ = r.CloseWithError(errors.New("broken pipe"))
		o := &outbox{to: w}
		if _, err := io.WriteString(o, "x"); err == nil {
			t.Error("nothing is said of it")
		}
		o.Flush(t.Context())
	})
}

// Who only prints waits for the reader, and keeps nothing that is not read, until it
// is to end.
func TestPatientOutboxEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		o := &outbox{to: w, patience: ctx.Done()}
		wrote, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				_, _ = io.WriteString(o, "line\n")
				wrote++
			}
			o.Flush(ctx)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if wrote != 0 {
			t.Errorf("%d lines were taken, and none is read", wrote)
		}
		if _, err := io.ReadFull(r, make([]byte, len("line\n"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if wrote != 1 {
			t.Errorf("%d lines were taken, and one is read", wrote)
		}
		from := time.Now()
		cancel()
		<-ended
		if waited := time.Since(from); waited != outboxMoment {
			t.Errorf("the end took %s", waited)
		}
		_ = r.Close()
	})
}
