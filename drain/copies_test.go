package drain

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
)

// TestNeverTwoCopies plays histories of moves only: levers that fail, lie about
// failing, go on without their driver; drivers that die; people who stop, hold,
// extend and retry at the worst moment. What each act really did is looked at in
// the moment it comes about (see checkCopies and effect).
func TestNeverTwoCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.slow = time.Duration(rapid.SampledFrom([]int{0, 7, 45}).Draw(t, "slow")) * time.Second
		for i := range rapid.IntRange(1, 3).Draw(t, "n") {
			class := rapid.SampledFrom([]fleet.Class{fleet.Pausable, fleet.Durable}).Draw(t, "class")
			park := class == fleet.Pausable && rapid.Bool().Draw(t, "park")
			w.add(fmt.Sprintf("w%d", i), class, levered(rapid.IntRange(0, 2).Draw(t, "mode")), func(p *proc) { p.park = park })
		}
		flaky := rapid.IntRange(0, 6).Draw(t, "flaky")
		w.answer = func(Act) (Result, string) {
			if rapid.IntRange(0, 9).Draw(t, "luck") >= flaky {
				return Done, ""
			}
			return rapid.SampledFrom([]Result{FailedAct, Refused, Interrupted, NotDone, WaitAct}).Draw(t, "result"), "flaky"
		}
		w.start(time.Duration(rapid.IntRange(1, 20).Draw(t, "deadline")) * time.Minute)
		for i := range rapid.IntRange(5, 50).Draw(t, "steps") {
			disturb(t, w, i)
			w.tick(time.Duration(rapid.SampledFrom([]int{1, 1, 3, 10, 60}).Draw(t, "dt")) * time.Second)
		}
		checkFolds(t, w)
		settle(t, w)
	})
}

func disturb(t *rapid.T, w *world, i int) {
	k := wk(fmt.Sprintf("w%d", rapid.IntRange(0, 2).Draw(t, "who")))
	switch rapid.IntRange(0, 19).Draw(t, "what") {
	case 16, 17:
		w.askAny(AskResume{})
	case 18:
		w.askAny(AskPark{Key: k, Ship: rapid.Bool().Draw(t, "ship")})
	case 19:
		if rapid.Bool().Draw(t, "reboot") {
			w.reboot(fmt.Sprintf("b%d", i+2))
		}
	case 0:
		if !w.driverGone {
			w.driverGone, w.inflight = true, nil
		}
	case 1, 2:
		if w.driverGone {
			w.take(w.now.Sub(w.s.LastAt), false)
		}
	case 3:
		w.askAny(AskStop{})
	case 4:
		if w.s.Phase == Stopped {
			w.start(time.Duration(rapid.IntRange(1, 30).Draw(t, "again")) * time.Minute)
		}
	case 5:
		w.askAny(AskExtend{Until: w.now.Add(20 * time.Minute)})
	case 6:
		w.askAny(AskHold{Key: k})
	case 7, 8:
		w.askAny(AskRetry{Key: k})
	case 9:
		w.askAny(AskKeep{Key: k})
	case 10:
		if p := w.procs[k]; p != nil {
			w.respawn(p)
		}
	case 11:
		w.askAny(AskClass{Key: k, Class: rapid.SampledFrom(fleet.Classes).Draw(t, "as")})
	case 12:
		w.planeDown = !w.planeDown
	case 13:
		w.factsDown = !w.factsDown
	case 14:
		if p := w.procs[k]; p != nil && rapid.IntRange(0, 4).Draw(t, "end") == 0 {
			w.end(p, time.Duration(i)*time.Second)
		}
	}
}
