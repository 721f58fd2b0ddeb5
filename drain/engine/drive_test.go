package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/journal"
	"ebb/fleet"
)

// play runs a test in virtual time.
func play(t *testing.T, fn func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newWorld(t)) })
}

// playOnFile is play on a real journal, in a file.
func playOnFile(t *testing.T, fn func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newWorldOn(t, true)) })
}

// start asks for a drain as the command line does.
func start(t *testing.T, e *engine.Engine, deadline time.Duration) string {
	t.Helper()
	return startOn(t, e, source, deadline)
}

func startOn(t *testing.T, e *engine.Engine, host fleet.HostID, deadline time.Duration) string {
	t.Helper()
	r := engine.Request{Deadline: deadline, Reason: "kernel"}
	plan, err := e.Plan(t.Context(), host, r)
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := e.Start(t.Context(), host, r, plan)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func drive(t *testing.T, e *engine.Engine) drain.State {
	t.Helper()
	s, err := e.Drive(t.Context(), source, nil)
	if err != nil {
		t.Fatalf("drive: %v", err)
	}
	return s
}

// driving is a drive beside the test.
type driving struct {
	done chan struct{}
	stop context.CancelFunc
	s    drain.State
	err  error
}

func beside(t *testing.T, e *engine.Engine, sink func(drain.Event)) *driving {
	return besideOn(t, e, source, sink)
}

func besideOn(t *testing.T, e *engine.Engine, host fleet.HostID, sink func(drain.Event)) *driving {
	ctx, stop := context.WithCancel(t.Context())
	d := &driving{done: make(chan struct{}), stop: stop}
	go func() {
		defer close(d.done)
		d.s, d.err = e.Drive(ctx, host, sink)
	}()
	t.Cleanup(func() { stop(); <-d.done })
	return d
}

func (d *driving) end() (drain.State, error) {
	<-d.done
	return d.s, d.err
}

func (w *world) events() []drain.Event {
	w.t.Helper()
	all, err := w.log.Stream(w.t.Context(), string(source), 0, 100000)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) count(kind drain.Kind) int {
	n := 0
	for _, ev := range w.events() {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

// state is what the journal says, past all faults.
func (w *world) state() (drain.State, error) { return drain.Fold(drain.State{}, w.events()) }

// phase waits until the journal says that the drain is in it.
func (w *world) phase(e *engine.Engine, p drain.Phase) drain.State {
	w.t.Helper()
	return w.until(e, func(s drain.State) bool { return s.Phase == p })
}

func (w *world) until(_ *engine.Engine, is func(drain.State) bool) drain.State {
	w.t.Helper()
	var s drain.State
	for range 14400 {
		events, err := w.log.Stream(w.t.Context(), string(source), s.Num, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range events {
			s, _ = drain.Apply(s, ev)
		}
		if is(s) {
			return s
		}
		time.Sleep(250 * time.Millisecond)
	}
	w.t.Fatal("it did not happen within an hour")
	return drain.State{}
}

// sound checks what must hold after every history.
func (w *world) sound() string {
	for _, b := range w.boxes {
		if bad := b.sound(); bad != "" {
			return bad
		}
	}
	drivers := map[uint64]string{}
	for _, ev := range w.events() {
		if !ev.Kind.IsDrive() {
			continue
		}
		if by, ok := drivers[ev.Epoch]; ok && by != ev.By.Console {
			return "two drivers in one epoch"
		}
		drivers[ev.Epoch] = ev.By.Console
	}
	return ""
}

func (b *box) sound() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for act, n := range b.ran {
		if n != 1 {
			return "act " + act + " ran more than once on " + string(b.id)
		}
	}
	if !slices.IsSorted(b.ranIn) {
		return "an act of an older epoch ran after one of a newer on " + string(b.id)
	}
	return ""
}

func (w *world) held() {
	w.t.Helper()
	b := w.boxes[source]
	b.mu.Lock()
	if b.holds.Cordon == nil || b.holds.Drain == nil || len(b.lifted) > 0 {
		w.t.Errorf("holds %+v, lifted %v", b.holds, b.lifted)
	}
	b.mu.Unlock()
	if !w.plane.flags[source].Set {
		w.t.Error("the plane's flag is not set")
	}
	if bad := w.sound(); bad != "" {
		w.t.Error(bad)
	}
}

func TestDriveToEmpty(t *testing.T) {
	playOnFile(t, func(t *testing.T, w *world) {
		w.add("job", fleet.Ephemeral, expiresIn(3*time.Minute))
		w.add("web", fleet.Stateless)
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		start(t, e, time.Hour)
		s := drive(t, e)
		if s.Phase != drain.Empty || len(s.Lost) > 0 {
			t.Fatalf("phase %s, waiting %v, lost %v, items %+v", s.Phase, s.Waiting, s.Lost, s.Items)
		}
		if n := w.boxes[target].replicas[vm("web")]; n != 1 {
			t.Errorf("%d replacements of web", n)
		}
		w.held()
		if l, err := w.log.Leases(t.Context()); err != nil || len(l) > 0 {
			t.Errorf("leases %v, %v", l, err)
		}
	})
}

func TestDeadlineNames(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		w.add("vm", fleet.Pausable)
		e := w.engine(ann)
		start(t, e, 10*time.Minute)
		began := time.Now()
		s := drive(t, e)
		if s.Phase != drain.DeadlineReached || len(s.Left) != 2 || s.Left[0].Owner != "team-db" || s.Left[0].Reason.Code != drain.WaitNoStrategy {
			t.Fatalf("phase %s, left %+v", s.Phase, s.Left)
		}
		if late := time.Since(began) - 10*time.Minute; late < 0 || late > 10*time.Second {
			t.Errorf("%v late", late)
		}
		w.held()
		// More time is asked for, the owner ends one, and accepts the end of the other.
		now, _ := w.log.Now(t.Context())
		if err := e.Ask(t.Context(), source, s.Drain, drain.AskExtend{Until: now.Add(20 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
		d := beside(t, e, nil)
		w.until(e, func(s drain.State) bool { return s.Driver != "" })
		time.Sleep(10 * time.Second)
		b := w.boxes[source]
		b.mu.Lock()
		if !b.holds.Drain.Deadline.Equal(now.Add(20 * time.Minute)) {
			t.Errorf("the hold's deadline is %v", b.holds.Drain.Deadline)
		}
		b.leave(vm("db"))
		b.leave(vm("vm"))
		b.mu.Unlock()
		if s, err := d.end(); err != nil || s.Phase != drain.Empty {
			t.Fatalf("%v, phase %s", err, s.Phase)
		}
	})
}

func TestStop(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		id := start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		if err := w.engine(bob).Ask(t.Context(), source, id, drain.AskStop{}); err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		s, err := d.end()
		if err != nil || s.Phase != drain.Stopped || time.Since(asked) > 3*time.Second {
			t.Fatalf("%v, phase %s after %v", err, s.Phase, time.Since(asked))
		}
		w.held()
		// The same command takes the same drain up again.
		if again := start(t, e, time.Hour); again != id {
			t.Errorf("drain %s, was %s", again, id)
		}
	})
}

func TestCancelReleases(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		d.stop()
		if _, err := d.end(); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if n := w.count("drive.released"); n != 1 {
			t.Errorf("%d releases", n)
		}
		w.held()
		other := beside(t, w.engine(bob), nil)
		began := time.Now()
		w.until(e, func(s drain.State) bool { return s.Driver == bob.Console })
		if time.Since(began) > 2*time.Second {
			t.Errorf("the next driver waited %v", time.Since(began))
		}
		other.stop()
	})
}

func TestOneDriver(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		_, err := w.engine(bob).Drive(t.Context(), source, nil)
		var held *journal.HeldError
		if !errors.As(err, &held) || held.Lease.Holder != ann.Console {
			t.Fatalf("got %v", err)
		}
		d.stop()
		_, _ = d.end()
	})
}

func TestOtherMachineAndOtherDrain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		d.stop()
		_, _ = d.end()
		b := w.boxes[source]
		b.machine = "m-other"
		_, err := e.Drive(t.Context(), source, nil)
		var refused *engine.Refused
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "another machine") {
			t.Errorf("another machine: %v", err)
		}
		b.machine = "m-h1"
		b.holds.Drain = &fleet.Hold{Kind: fleet.DrainHold, Drain: "d-other", Who: "carl", Journal: "elsewhere"}
		_, err = e.Drive(t.Context(), source, nil)
		var taken *engine.HoldTaken
		if !errors.As(err, &taken) || taken.Hold.Who != "carl" {
			t.Errorf("another drain: %v", err)
		}
		if n := w.count("drive.took"); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

// An agent that has met a newer driver ends the turn of the older one.
func TestFencedByAgent(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("old", fleet.Stuck, stubborn)
		e := w.engine(ann)
		id := start(t, e, time.Hour)
		d := beside(t, e, nil)
		w.phase(e, drain.Draining)
		b := w.boxes[source]
		b.mu.Lock()
		b.epochs[id] = 99
		b.mu.Unlock()
		_, err := d.end()
		if !errors.Is(err, drain.ErrLeaseLost) {
			t.Fatalf("got %v", err)
		}
		if len(b.acted()) > 0 {
			t.Errorf("acts %v", b.acted())
		}
		w.held()
	})
}
