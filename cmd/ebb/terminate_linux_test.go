package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/demo"
	"ebb/drain"
	"ebb/fleet"
)

// A host from its cordon to its end, on the screens alone: what runs on it
// leaves, the host signs that it is empty, its name is typed, its agent ends, and
// the journal has the outcome.
func confirmedTerminate(t *testing.T, f testFleet) {
	const host = "gpu-046"
	f.runs(host,
		demo.Spec{Kind: "service", ID: "web-last", Class: fleet.Stateless, Owner: "search", Serve: true, Grace: time.Second})
	c := f.console("zoe", 120, 36, "")
	c.drains(host, "service/web-last")
	c.keys("2")
	c.sees("web-last", "empty since")

	c.keys("4")
	c.sees("can it be terminated?")
	// A proof is good for a while only: on a slow machine it may be over before it
	// is used, and then a person verifies again.
	c.until("the question", func(screen string) bool {
		switch {
		case strings.Contains(screen, "type "+host+" to terminate"):
			return true
		case strings.Contains(screen, "refused: "):
			c.keys("Escape")
		case strings.Contains(screen, "the proof holds"):
			c.keys("t")
		default:
			c.keys("v")
		}
		time.Sleep(time.Second) // a person reads what came of a key
		return false
	})
	c.keys("Enter") // alone
	c.sees("not done: terminate " + host)
	if !f.answers(host) {
		t.Fatal("Enter alone has ended the host")
	}
	c.presses("t", "type "+host+" to terminate")
	c.sees("terminate " + host)
	c.keys("gpu-047", "Enter")
	c.sees("that is not " + host)
	for range len("gpu-047") {
		c.keys("BSpace")
	}
	c.keys(host)
	c.sees("gpu-046_")
	c.keys("Enter")
	c.sees("done, and written down")

	f.until("its agent ends", func() bool { return !f.answers(host) })
	kinds := []drain.Kind{}
	for _, ev := range f.events(host) {
		kinds = append(kinds, ev.Kind)
	}
	proof, intent, outcome := slices.Index(kinds, "rec.proof"), slices.Index(kinds, "rec.terminate_intent"), slices.Index(kinds, "rec.terminate_outcome")
	if proof < 0 || intent < proof || outcome < intent {
		t.Errorf("the journal has no proof, intent and outcome, in this order: %v", kinds)
	}
	if s := f.state(host); s.Terminated.IsZero() || s.TerminatedBy != "zoe" {
		t.Errorf("the journal says terminated %v by %q", s.Terminated, s.TerminatedBy)
	}
	c.keys("1")
	c.sees("terminated")
	c.keys("q")
	c.ended(0)
}

// answers says whether the agent of a host does.
func (f testFleet) answers(host string) bool {
	_, err := f.Host(host).Facts(f.t.Context())
	return err == nil
}
