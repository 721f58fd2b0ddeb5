package drain

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"ebb/fleet"
)

// history is a small stream that is written event by event.
type history struct {
	t   *testing.T
	s   State
	num uint64
}

func (h *history) apply(drain string, epoch uint64, b Body) error {
	h.t.Helper()
	h.num++
	e, err := NewEvent(source, "e", drain, epoch, Actor{Name: "ann"}, b)
	if err != nil {
		h.t.Fatal(err)
	}
	e.Num, e.At = h.num, noon.Add(time.Duration(h.num)*time.Minute)
	before := clone(h.t, h.s)
	s, err := Apply(h.s, e)
	if !reflect.DeepEqual(before, clone(h.t, h.s)) {
		h.t.Fatalf("%s changed the state that it was given", b.Kind())
	}
	if s.Num != h.num {
		h.t.Fatalf("%s: the stream's position is %d, want %d", b.Kind(), s.Num, h.num)
	}
	h.s = s
	return err
}

func (h *history) must(b Body) {
	h.t.Helper()
	if err := h.apply("d1", 1, b); err != nil {
		h.t.Fatal(err)
	}
}

func begun(t *testing.T) *history {
	h := &history{t: t}
	h.must(AskStart{Deadline: noon.Add(10 * time.Hour), MayDie: []fleet.Key{wk("a")}})
	h.must(DriveTook{Driver: "x", Machine: "m1", Boot: "b1"})
	h.must(DrivePhase{Phase: Cordoning})
	h.must(DrivePhase{Phase: Draining})
	h.must(DriveFound{Items: []Found{
		{Key: wk("a"), Run: fleet.Run{UID: "1"}, Class: fleet.Stuck, MayDie: true, Budget: fleet.Budget{Grace: time.Minute, Move: time.Minute}},
		{Key: wk("b"), Run: fleet.Run{UID: "2"}, Class: fleet.Stateless},
	}})
	return h
}

func TestIllegal(t *testing.T) {
	kill := Act{ID: "d1/vm/a/kill/1", Key: wk("a"), Kind: ActSignal, Step: StepKill, Signal: "KILL", Runs: []fleet.Run{{UID: "1"}}, Record: "e"}
	cases := []struct {
		name   string
		before []Body
		drain  string
		epoch  uint64
		body   Body
	}{
		{"a second drain", nil, "d2", 0, AskStart{Deadline: noon.Add(time.Hour)}},
		{"the same drain twice", nil, "d1", 0, AskStart{Deadline: noon.Add(time.Hour)}},
		{"no deadline", []Body{AskStop{}}, "d1", 0, AskStart{}},
		{"an outcome without an intent", nil, "d1", 1, DriveOutcome{Act: "x", Result: Done}},
		{"an intent twice", []Body{DriveIntent{Act: Act{ID: "x", Key: wk("a"), Step: StepNotice}}}, "d1", 1, DriveIntent{Act: Act{ID: "x", Key: wk("a"), Step: StepNotice}}},
		{"an intent without an id", nil, "d1", 1, DriveIntent{Act: Act{Key: wk("a")}}},
		{"an act on a stranger", nil, "d1", 1, DriveIntent{Act: Act{ID: "x", Key: wk("z"), Step: StepTerm}}},
		{"an act on something that ended", []Body{DriveEnded{Ends: []Ended{{Key: wk("a"), End: LeftHost}}}}, "d1", 1, DriveIntent{Act: Act{ID: "x", Key: wk("a"), Step: StepTerm}}},
		{"an act in a stopped drain", []Body{AskStop{}}, "d1", 1, DriveIntent{Act: Act{ID: "x", Key: wk("a"), Step: StepTerm}}},
		{"KILL from nothing", nil, "d1", 1, DriveIntent{Act: kill}},
		{"a record before the second TERM", nil, "d1", 1, DriveRecord{Key: wk("a")}},
		{"phases out of order", nil, "d1", 1, DrivePhase{Phase: Empty}},
		{"on after a stop", []Body{AskStop{}}, "d1", 1, DrivePhase{Phase: Draining}},
		{"an older epoch", []Body{DriveTook{Driver: "y"}}, "d1", 0, DriveLate{Keys: []fleet.Key{wk("a")}}},
		{"extended into the past", nil, "d1", 0, AskExtend{Until: noon}},
		{"extended when stopped", []Body{AskStop{}}, "d1", 0, AskExtend{Until: noon.Add(9 * time.Hour)}},
		{"less time", nil, "d1", 0, AskMoreTime{Key: wk("a"), By: -time.Second}},
		{"endless time", nil, "d1", 0, AskMoreTime{Key: wk("a"), By: math.MaxInt64}},
		{"no such class", nil, "d1", 0, AskClass{Key: wk("a"), Class: "immortal"}},
		{"another incarnation", nil, "d1", 0, AskEscalate{Key: wk("a"), Run: fleet.Run{UID: "7"}}},
		{"escalate what nobody has seen", nil, "d1", 0, AskEscalate{Key: wk("z")}},
		{"retry a stranger", nil, "d1", 0, AskRetry{Key: wk("z")}},
		{"hold what has ended", []Body{DriveEnded{Ends: []Ended{{Key: wk("a"), End: LeftHost}}}}, "d1", 0, AskHold{Key: wk("a")}},
		{"asks after the hold was lifted", []Body{RecUndrain{}}, "d1", 0, AskExtend{Until: noon.Add(9 * time.Hour)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := begun(t)
			for _, b := range c.before {
				h.must(b)
			}
			before := h.s
			if err := h.apply(c.drain, c.epoch, c.body); !errors.Is(err, ErrIllegal) {
				t.Fatalf("got %v", err)
			}
			before.Num = h.s.Num
			if !reflect.DeepEqual(before, h.s) {
				t.Fatal("an illegal event changed the state")
			}
		})
	}
}

func TestAnotherDrainAfterUndrain(t *testing.T) {
	h := begun(t)
	h.must(RecUndrain{})
	if h.s.Phase != Stopped {
		t.Fatalf("phase %s", h.s.Phase)
	}
	if err := h.apply("d2", 0, AskStart{Deadline: noon.Add(9 * time.Hour)}); err != nil || h.s.Drain != "d2" || len(h.s.Items) != 0 {
		t.Fatalf("%v %+v", err, h.s)
	}
	if err := h.apply("d1", 9, DriveLate{}); err != nil || h.s.Epoch != 0 {
		t.Fatalf("an event of the old drain counts: %v", err)
	}
}

// TestNewIncarnation: what was sent to the old processes counts for nothing, an
// answer that comes late does not either, and no id of an act comes again.
func TestNewIncarnation(t *testing.T) {
	h := begun(t)
	old := fleet.Run{UID: "1"}
	h.must(DriveIntent{Act: Act{ID: "n1", Key: wk("a"), Kind: ActNotice, Step: StepNotice, Runs: []fleet.Run{old}}})
	h.must(DriveOutcome{Act: "n1", Result: Done})
	h.must(DriveIntent{Act: Act{ID: "t1", Key: wk("a"), Kind: ActSignal, Step: StepTerm, Signal: "TERM", Runs: []fleet.Run{old}}})
	h.must(DriveFound{Items: []Found{{Key: wk("a"), Run: fleet.Run{UID: "9"}, Class: fleet.Stuck, MayDie: true}}, Late: true})
	h.must(DriveOutcome{Act: "t1", Result: Done})
	it := h.s.Items[wk("a")]
	if !it.NoticeAt.IsZero() || !it.TermAt.IsZero() || !it.SignalAt.IsZero() || it.Tries[StepTerm] != 1 || !it.Late {
		t.Fatalf("%+v", it)
	}
}

func TestStateAndBodiesSurviveJSON(t *testing.T) {
	h := begun(t)
	h.must(AskHold{Key: wk("early"), Reason: "x"})
	h.must(RecAccepted{Key: wk("b"), Reason: "y"})
	h.must(DriveEnded{Ends: []Ended{{Key: wk("b"), End: Lost, By: "z"}}})
	if got := clone(t, clone(t, h.s)); !reflect.DeepEqual(got, clone(t, h.s)) {
		t.Fatalf("%+v", got)
	}
	for kind, fresh := range kinds {
		body, err := fresh(nil)
		if err != nil || body.Kind() != kind {
			t.Fatalf("%s: %v %v", kind, body, err)
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Event{Kind: kind, V: 1, Body: raw}.Decode()
		if err != nil || !reflect.DeepEqual(back, body) {
			t.Errorf("%s: %+v became %+v (%v)", kind, body, back, err)
		}
	}
}

func TestUnknownKindIsShown(t *testing.T) {
	b, err := Event{Kind: "rec.future", V: 4, Body: json.RawMessage(`{"a":1}`)}.Decode()
	if u, ok := b.(Unrecognised); err != nil || !ok || u.Kind() != "rec.future" || u.Version != 4 {
		t.Fatalf("%+v %v", b, err)
	}
	h := begun(t)
	s, err := Apply(h.s, Event{Drain: "d1", Num: 99, Kind: "rec.future", V: 4})
	if err != nil || s.Newer != "" {
		t.Fatalf("a record that is not understood stops the drain: %v", err)
	}
}

func TestExactEpochs(t *testing.T) {
	h := begun(t)
	if err := h.apply("d1", 2, DriveTook{Driver: "y", Machine: "other", Boot: "b9"}); err != nil {
		t.Fatal(err)
	}
	if h.s.Machine != "m1" || h.s.Boot != "b1" || h.s.Epoch != 2 || h.s.Driver != "y" {
		t.Fatalf("%+v", h.s)
	}
	if err := h.apply("d1", 1, DriveReleased{}); !errors.Is(err, ErrIllegal) || h.s.Driver != "y" {
		t.Fatalf("%v", err)
	}
}

func TestEndsOnce(t *testing.T) {
	h := begun(t)
	lost := DriveEnded{Ends: []Ended{{Key: wk("a"), End: Lost, By: "x"}, {Key: wk("a"), End: LeftHost, By: "ttl"}, {Key: wk("z"), End: Lost}}}
	h.must(lost)
	h.must(lost)
	if it := h.s.Items[wk("a")]; it.End != Lost || it.EndBy != "x" || len(h.s.Lost) != 1 || h.s.Count().Lost != 1 {
		t.Fatalf("%+v %+v", it, h.s.Lost)
	}
}
