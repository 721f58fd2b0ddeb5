package engine_test

import (
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// The target's agent dies in the middle of a start. What it has left there is
// adopted, and where it has left nothing it is started anew: there is never more
// than one replacement, on however many targets.
func TestAgentDiesInStart(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		for _, away := range []time.Duration{0, 10 * time.Minute} {
			t.Run(when+" "+away.String(), func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					w.boxes["prod/h3"] = newBox(w, "prod/h3")
					w.add("web", fleet.Stateless)
					died := fleet.HostID("")
					for _, b := range w.boxes {
						b.dies = func(a drain.Act) string {
							if a.Step != drain.StepStart || died != "" {
								return ""
							}
							died = b.id
							w.cut(string(b.id), away)
							return when
						}
					}
					e := w.engine(ann)
					start(t, e, 2*time.Hour)
					d := beside(t, e, nil)
					if away > 0 {
						w.until(e, func(s drain.State) bool { return s.Items[vm("web")].Reason.Code == drain.WaitUnsure })
						time.Sleep(away / 2)
						if n := started(w); n != 1 {
							t.Errorf("%d starts while the target can't be read", n)
						}
					}
					s, err := d.end()
					if err != nil || s.Phase != drain.Empty || len(s.Lost) > 0 {
						t.Fatalf("%v, phase %s, items %+v", err, s.Phase, s.Items)
					}
					if n := copies(w); n != 1 {
						t.Errorf("%d replacements", n)
					}
					if n, want := started(w), map[string]int{"before": 2, "after": 1}[when]; n != want {
						t.Errorf("%d starts, want %d", n, want)
					}
					w.held()
				})
			})
		}
	}
}

// started counts the starts that reached an agent, copies what has come of them.
func started(w *world) int {
	n := 0
	for _, b := range w.boxes {
		for _, act := range b.acted() {
			if strings.Contains(act, "/start/") {
				n++
			}
		}
	}
	return n
}

func copies(w *world) int {
	n := 0
	for _, b := range w.boxes {
		b.mu.Lock()
		for _, m := range b.replicas {
			n += m
		}
		b.mu.Unlock()
	}
	return n
}
