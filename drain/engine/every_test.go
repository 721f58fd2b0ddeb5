package engine_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// every makes TestFaultAtEveryCall break each single call of a drive in turn;
// without it, some of them spread over the drive.
var every = flag.Bool("every", false, "break every call of a drive in turn, not only some")

const sampled = 14

// A drive in which one call fails: of the journal, an agent, the plane, a lever;
// before it has taken effect, after it (its answer is lost), or by hanging. After
// each the drain ends, no act has run twice, nothing is lost, and every hold stands.
func TestFaultAtEveryCall(t *testing.T) {
	total := faulted(t, 0, "")
	if total < 100 {
		t.Fatalf("a drive makes %d calls", total)
	}
	step := 1
	if !*every {
		step = total / sampled
	}
	for _, mode := range []string{"fail", "lose", "hang"} {
		for n := 1; n <= total; n += step {
			t.Run(fmt.Sprintf("%s %d", mode, n), func(t *testing.T) { faulted(t, n, mode) })
		}
	}
}

// faulted drives a host with one call broken and returns how many were made.
func faulted(t *testing.T, n int, mode string) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.add("job", fleet.Ephemeral, expiresIn(3*time.Minute))
		w.add("web", fleet.Stateless)
		w.add("old", fleet.Stuck, stubborn)
		w.add("soft", fleet.Stuck)
		w.add("nb", fleet.Pausable)
		w.add("pg", fleet.Durable)
		w.add("shop", fleet.Stateless)
		e := w.engine(ann, withMover(w))
		id := start(t, e, 2*time.Hour)
		w.mu.Lock()
		w.calls = 0
		if mode != "" {
			w.broken = map[int]string{n: mode}
		}
		w.mu.Unlock()
		var s drain.State
		var err error
		for range 10 { // a driver that ends is followed by another, as a resident engine would
			if s, err = w.engine(ann, withMover(w)).Drive(t.Context(), source, nil); s.Phase.Ended() && len(s.Open) == 0 {
				break
			}
			time.Sleep(drain.LeaseTTL)
			w.say(t, id, "retry")
		}
		w.mu.Lock()
		calls = w.calls
		w.mu.Unlock()
		if s.Phase != drain.Empty || len(s.Lost) > 0 || copies(w) != 2 {
			t.Errorf("%v, phase %s, lost %v, %d replacements, items %+v", err, s.Phase, s.Lost, copies(w), s.Items)
		}
		for _, bad := range []string{w.judge(), w.moves()} {
			if bad != "" {
				t.Error(bad)
			}
		}
		w.held()
	})
	return calls
}
