package drain

import (
	"errors"
	"testing"
	"time"
)

func TestBinding(t *testing.T) {
	var s State
	num := uint64(0)
	put := func(drain string, epoch uint64, b Body) error {
		t.Helper()
		e, err := NewEvent(source, "e", drain, epoch, Actor{Name: "ann"}, b)
		if err != nil {
			t.Fatal(err)
		}
		num++
		e.Num, e.At = num, noon.Add(time.Duration(num)*time.Second)
		s, err = Apply(s, e)
		if s.Num != num {
			t.Fatalf("event %d was not passed", num)
		}
		return err
	}
	bound := func(want string) {
		t.Helper()
		if s.Bound != want {
			t.Fatalf("bound to %q, want %q", s.Bound, want)
		}
	}
	_ = put("", 0, RecBound{Machine: "m1"})
	_ = put("", 0, RecBound{Machine: "m2"}) // whoever came first
	bound("m1")
	if err := put("", 0, AskRebind{Machine: "m3", Was: "m2"}); !errors.Is(err, ErrIllegal) {
		t.Errorf("rebound from what it is not: %v", err)
	}
	if err := put("", 0, AskRebind{Machine: "", Was: "m1"}); !errors.Is(err, ErrIllegal) {
		t.Errorf("rebound to nothing: %v", err)
	}
	bound("m1")
	_ = put("", 0, AskRebind{Machine: "m2", Was: "m1"})
	bound("m2")
	_ = put("d1", 0, AskStart{Deadline: noon.Add(time.Hour)})
	bound("m2") // a drain of the host is one of that machine
	_ = put("d1", 1, DriveTook{Driver: "x", Machine: "m2"})
	_ = put("", 0, AskRebind{Machine: "m4", Was: "m2"})
	bound("m4")
	if s.Machine != "m2" {
		t.Errorf("the drain is of machine %q now", s.Machine)
	}
	_ = put("d1", 0, RecTerminateOutcome{Act: "a", Done: true})
	bound("")
	_ = put("d1", 2, DriveTook{Driver: "late", Machine: "m2"}) // has not heard of it yet
	_ = put("", 0, RecBound{Machine: "m2"})
	bound("")
	_ = put("d2", 0, AskStart{Deadline: noon.Add(time.Hour)})
	_ = put("d2", 1, DriveTook{Driver: "x", Machine: "m9"})
	bound("m9")
}

// A drain whose driver has not seen its host yet acts on no other machine than the
// one that the host is bound to.
func TestBoundBeforeTheFirstReading(t *testing.T) {
	w := newWorld(t)
	w.s.Bound = "m0"
	w.ask(AskStart{Deadline: w.now.Add(time.Hour)})
	w.epoch++
	if err := w.append(w.epoch, DriveTook{Driver: "test"}); err != nil {
		t.Fatal(err)
	}
	w.idle(time.Minute)
	if len(w.did) > 0 || w.s.Waiting.Code != WaitOtherMachine || w.s.Waiting.Args["want"] != "m0" {
		t.Errorf("did %v, waiting %v", w.did, w.s.Waiting)
	}
}
