package engine_test

import (
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// A clock is an hour ahead, or behind, during a whole drive: the host's, the
// journal's, or that of the console, from which all the others are away then.
// Notice, grace and what lies between the second TERM and KILL pass in full, by
// no clock but the one that measures spans; the deadline comes when it was asked
// for, and names what is left.
func TestClocksAnHourAway(t *testing.T) {
	for name, away := range map[string]func(*world, time.Duration){
		"host":    func(w *world, d time.Duration) { w.boxes[source].skew = d },
		"journal": func(w *world, d time.Duration) { w.skew = d },
		"console": func(w *world, d time.Duration) {
			w.skew, w.plane.skew = -d, -d
			for _, b := range w.boxes {
				b.skew = -d
			}
		},
	} {
		for _, d := range []time.Duration{time.Hour, -time.Hour} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					away(w, d)
					spans(t, w)
				})
			})
		}
	}
}

// spans drives to a deadline and measures what lies between the steps.
func spans(t *testing.T, w *world) {
	const deadline = 20 * time.Minute
	w.add("old", fleet.Stuck, stubborn)
	w.add("db", fleet.Durable)
	at := map[drain.Step]time.Time{}
	w.hand(func(call string) {
		for _, s := range []drain.Step{drain.StepNotice, drain.StepTerm, drain.StepTerm2, drain.StepKill} {
			if strings.Contains(call, "/old/"+string(s)+"/") && !strings.Contains(call, " outcome ") && at[s].IsZero() {
				at[s] = time.Now()
			}
		}
	})
	e := w.engine(ann)
	start(t, e, deadline)
	began := time.Now()
	s := drive(t, e)
	if took := time.Since(began); s.Phase != drain.DeadlineReached || took < deadline || took > deadline+15*time.Second {
		t.Errorf("phase %s after %v", s.Phase, took)
	}
	if len(s.Left) != 1 || s.Left[0].Key != vm("db") || s.Items[vm("old")].End != drain.LeftHost || len(s.Lost) > 0 {
		t.Errorf("left %+v, lost %v, old %+v", s.Left, s.Lost, s.Items[vm("old")])
	}
	for _, c := range []struct {
		from, to drain.Step
		least    time.Duration
	}{{drain.StepNotice, drain.StepTerm, 20 * time.Second}, {drain.StepTerm, drain.StepTerm2, 90 * time.Second}, {drain.StepTerm2, drain.StepKill, 30 * time.Second}} {
		if gap := at[c.to].Sub(at[c.from]); at[c.from].IsZero() || gap < c.least || gap > c.least+15*time.Second {
			t.Errorf("%s came %v after %s, and %v are due: %v", c.to, gap, c.from, c.least, at)
		}
	}
	if bad := w.judge(); bad != "" {
		t.Error(bad)
	}
	w.held()
}
