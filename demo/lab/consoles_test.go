//go:build linux

package lab_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/fleet"
)

// A console is frozen with an act in its hands, for longer than its lease lasts,
// and wakes up in the moment in which another one has taken the drain over: both
// believe that they drive, and only what the second one does counts. The second
// one then has the same happen to it.
func TestTwoConsoles(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil, "", "tc1", "tc2")
	b.countMoves()
	pid := b.run("tc1", page)[0]
	b.seen("tc1", fleet.Key{Kind: page.Kind, ID: page.ID})
	b.must(b.Hosts["tc2"].Slow(0, 2*time.Second))
	w := b.watch()
	first := b.begin(append([]string{"drain", "tc1"}, kernel...)...)
	w.sees("tc1", "the start's intent", intends(drain.ActExec, drain.StepStart))
	second := w.overtakes("tc1", first)
	w.sees("tc1", "the intent to flip", intends(drain.ActFlip, drain.StepFlip))
	overtaken := second.last()
	third := w.overtakes("tc1", overtaken)

	again := uint64(0)
	for _, old := range []*lab.Run{first, overtaken} {
		// One that wakes up when the drain has already been brought to its end, and
		// released, may take it up again, and finds the host empty.
		r := old.Wait(b.ctx)
		switch {
		case r.Code != 0:
		case strings.Contains(r.String(), "tc1 is empty"):
			again++
		default:
			t.Errorf("a console that was overtaken went on:\n%s", r)
		}
	}
	b.want(third.wait(), 0, "tc1 is empty")
	if b.Hosts["tc1"].Runs(pid) {
		t.Error("the old page still runs")
	}
	b.refuses("tc1", "new kernel")
	w.sound("tc1", "tc2")
	b.serves("tc2", page)
	if st := w.state("tc1"); st.Epoch != 3+again {
		t.Errorf("epoch %d after two takeovers, and %d consoles that found it done", st.Epoch, again)
	}
}

// overtakes freezes a driver until another console drives, and lets it go on in
// that moment.
func (w *witness) overtakes(host string, old *lab.Run) *relay {
	w.Helper()
	w.must(old.Signal(syscall.SIGSTOP))
	next := w.relay(host)
	w.sees(host, "another console drives", body(func(drain.DriveTook) bool { return true }))
	w.must(old.Signal(syscall.SIGCONT))
	return next
}

// last is the console that is there now; no other follows it.
func (r *relay) last() *lab.Run {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}
