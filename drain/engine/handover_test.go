package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// A drive goes from one process to another while an act runs, in the two ways
// that there are: a console is closed and a resident engine takes up what it
// leaves, or somebody takes a drain over, and the console that has it lets go.
// One call of the handover fails, loses its answer, or hangs. Afterwards exactly
// one drives, no act has run twice, every hold stands, and the drain ends.
func TestFaultAtEveryCallOfAHandover(t *testing.T) {
	for _, way := range []string{"closed", "taken over"} {
		for _, took := range []time.Duration{4 * time.Second, 25 * time.Second} { // who leaves waits for ten
			total := handedOver(t, way, took, 0, "")
			if total < 10 {
				t.Fatalf("a handover makes %d calls", total)
			}
			step := 1
			if !*every {
				step = max(1, total/(sampled/2))
			}
			for _, mode := range []string{"fail", "lose", "hang"} {
				for n := 1; n <= total; n += step {
					t.Run(fmt.Sprintf("%s, act of %v, %s %d", way, took, mode, n), func(t *testing.T) { handedOver(t, way, took, n, mode) })
				}
			}
		}
	}
}

// handedOver hands a drive over with the n-th call broken, and returns how many
// calls the handover made: from when the act has begun until the next driver has
// no act open.
func handedOver(t *testing.T, way string, took time.Duration, n int, mode string) (total int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("web", fleet.Stateless)
		w.add("old", fleet.Stuck, stubborn)
		begun := make(chan struct{})
		tell := sync.OnceFunc(func() { close(begun) })
		slowly := func(c *engine.Config) { c.Levers[drain.ActExec] = &slow{lever{w, "exec"}, took, tell} }
		a, b := w.engine(ann, slowly), w.engine(bob, slowly)
		id := start(t, a, 2*time.Hour)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			_, _ = a.Drive(ctx, source, func(ev drain.Event) {
				body, err := ev.Decode()
				if word, ok := body.(drain.AskHandover); err == nil && ok && way == "taken over" && word.To == ev.By.Console {
					leave() // as a console does that reads this
				}
			})
		}()
		<-begun
		first := w.made()
		w.mu.Lock()
		w.broken[first+n] = mode
		w.mu.Unlock()
		if way == "closed" {
			_ = handOver(t, a, id)
			leave()
		} else {
			for handOver(t, b, id) != nil { // whoever sees that it was not taken says it again
				time.Sleep(time.Second)
			}
		}
		done := make(chan drain.State)
		go func() { done <- takeUp(t, b) }()
		w.until(b, func(s drain.State) bool { return s.Driver == bob.Console && len(s.Open) == 0 })
		total = w.made() - first
		<-left
		s := <-done
		if s.Phase != drain.Empty || len(s.Open) > 0 || len(s.Lost) > 0 || copies(w) != 1 {
			t.Errorf("phase %s, open %v, lost %v, %d replacements, items %+v", s.Phase, s.Open, s.Lost, copies(w), s.Items)
		}
		if bad := w.judge(); bad != "" {
			t.Error(bad)
		}
		if bad := w.droveAfter(ann, bob); bad != "" {
			t.Error(bad)
		}
		w.held()
	})
	return total
}

// handOver leaves the word, with the time that a console takes for it.
func handOver(t *testing.T, by *engine.Engine, id string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	return by.Ask(ctx, source, id, drain.AskHandover{To: bob.Console, Note: "over to you"})
}

// takeUp drives as soon as nobody else does, again and again until there is
// nothing left to drive.
func takeUp(t *testing.T, e *engine.Engine) (s drain.State) {
	for range 600 {
		var err error
		if s, err = e.Drive(t.Context(), source, nil); err == nil && s.Phase.Ended() && len(s.Open) == 0 {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	return s
}

// made is how many calls have been made.
func (w *world) made() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// droveAfter says whether one still wrote as a driver after the other's turn had
// begun.
func (w *world) droveAfter(one, other drain.Actor) string {
	began := false
	for _, ev := range w.events() {
		switch {
		case !ev.Kind.IsDrive():
		case ev.By.Console == other.Console:
			began = true
		case began && ev.By.Console == one.Console:
			return fmt.Sprintf("%s wrote %s, number %d, while %s drove", one.Console, ev.Kind, ev.Num, other.Console)
		}
	}
	if !began {
		return other.Console + " never drove"
	}
	return ""
}

// slow is a lever whose starts take a while: the agent carries them out by
// itself, and whoever listens is told when that is over.
type slow struct {
	lever
	took  time.Duration
	begun func()
}

var errStill = errors.New("the act still runs")

func (l *slow) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	if j.Act.Step != drain.StepStart {
		return l.lever.Do(ctx, j)
	}
	b := l.box(j)
	_, err := through(ctx, l.w, string(b.id), "act "+j.Act.ID, func() (drain.Answer, error) { return drain.Answer{}, b.takeUp(j, l.took) })
	if err == nil {
		l.begun()
	}
	for err == nil {
		var a drain.Answer
		if a, _, err = l.Status(ctx, j); !errors.Is(err, errStill) {
			return a, err
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Second):
			err = nil
		}
	}
	return drain.Answer{}, err
}

func (l *slow) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	a, known, err := l.lever.Status(ctx, j)
	if err == nil && a.Result == drain.RunningAct {
		return drain.Answer{}, false, errStill
	}
	return a, known, err
}

// takeUp is act for what takes a while.
func (b *box) takeUp(j drain.Job, took time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if top := b.epochs[j.Drain]; j.Epoch < top {
		return fmt.Errorf("%w: epoch %d after %d", drain.ErrLeaseLost, j.Epoch, top)
	}
	if _, had := b.acts[j.Act.ID]; had {
		return nil
	}
	b.epochs[j.Drain] = j.Epoch
	b.ran[j.Act.ID]++
	b.ranIn = append(b.ranIn, j.Epoch)
	b.acts[j.Act.ID] = drain.Answer{Result: drain.RunningAct}
	time.AfterFunc(took, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.replicas[j.Act.Key]++
		b.acts[j.Act.ID] = drain.Answer{Result: drain.Done}
	})
	return nil
}
