package engine_test

import (
	"errors"
	"strings"
	"testing"

	"ebb/drain/engine"
	"ebb/fleet"
)

// A cordon set on a hunch gets its reason from whoever set it; who and since stay,
// and nobody puts words in another's mouth.
func TestReword(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		b, e := w.boxes[source], w.engine(ann)
		var refused *engine.Refused
		if err := e.Reword(t.Context(), source, "why"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "not cordoned") {
			t.Errorf("without a cordon: %v", err)
		}
		b.holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: ann.Name, Why: "on a hunch", Since: b.clock()}
		was := *b.holds.Cordon
		if err := w.engine(bob).Reword(t.Context(), source, "mine"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "theirs to change") {
			t.Errorf("of another: %v", err)
		}
		for range 2 { // the second time there is nothing to say
			if err := e.Reword(t.Context(), source, "its fan is loud"); err != nil {
				t.Fatal(err)
			}
		}
		was.Why = "its fan is loud"
		if *b.holds.Cordon != was || w.count("rec.cordon") != 1 {
			t.Errorf("%+v, %d records", b.holds.Cordon, w.count("rec.cordon"))
		}
	})
}

// An undrain that finds nothing to lift says so, and writes nothing down.
func TestUndrainOfNothing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		left, err := w.engine(ann).Undrain(t.Context(), source, false)
		if err != nil || !left.Nothing || w.count("rec.undrain") != 0 {
			t.Errorf("%v, %+v, %d records", err, left, w.count("rec.undrain"))
		}
	})
}
