package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

func TestCordonIsProved(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e := w.engine(ann)
		began := time.Now()
		var told time.Time
		r, err := e.Cordon(t.Context(), source, "a hunch", true, func(engine.CordonReport) { told = time.Now() })
		if err != nil || r.State != fleet.Cordoned || r.Weaker != "" || r.Journal != "" || r.Hold == nil {
			t.Fatalf("%v, %+v", err, r)
		}
		if told.IsZero() || told.After(began.Add(time.Second)) || time.Since(began) < window {
			t.Errorf("told after %v, proved after %v", told.Sub(began), time.Since(began))
		}
		if got := strings.Join(r.Proved, "; "); !strings.Contains(got, "no longer offers") || !strings.Contains(got, "nothing has started") {
			t.Errorf("proved: %s", got)
		}
		if w.count("rec.cordon") != 1 || w.count("rec.cordoned") != 1 {
			t.Error("the journal has no record of it")
		}
	})
}

// Neither side waits for the other, nor for a journal that hangs.
func TestCordonTellsBothAtOnce(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		began := time.Now()
		at := make(chan string, 10)
		w.hand(func(call string) {
			switch {
			case strings.HasPrefix(call, "journal append"):
				time.Sleep(4 * time.Second)
			case call == "plane set" || strings.HasSuffix(call, "hold cordon"):
				at <- call + " " + time.Since(began).String()
				time.Sleep(3 * time.Second)
			}
		})
		if _, err := w.engine(ann).Cordon(t.Context(), source, "", false, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if call := <-at; !strings.HasSuffix(call, " 0s") {
				t.Error(call)
			}
		}
	})
}

func TestCordonNamesTheMissingSide(t *testing.T) {
	for way, want := range map[string]struct {
		side  string
		state fleet.CordonState
	}{"plane": {"plane", fleet.HostOnly}, string(source): {"host", fleet.PlaneOnly}} {
		play(t, func(t *testing.T, w *world) {
			w.cut(way, time.Hour)
			began := time.Now()
			r, err := w.engine(ann).Cordon(t.Context(), source, "", true, nil)
			if err == nil || r.Missing() != want.side || r.State != want.state || !strings.Contains(err.Error(), "the "+want.side+" could not be told") {
				t.Errorf("%v, %+v", err, r)
			}
			if took := time.Since(began); took < time.Minute || took > 70*time.Second {
				t.Errorf("gave up after %v", took)
			}
		})
	}
}

func TestCordonWithoutJournal(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var spooled []drain.Event
		e := w.engine(ann, func(c *engine.Config) {
			c.Spool = func(ev drain.Event) error { spooled = append(spooled, ev); return nil }
		})
		w.cut("journal", time.Hour)
		r, err := e.Cordon(t.Context(), source, "", true, nil)
		if err != nil || r.State != fleet.Cordoned || !strings.Contains(r.Journal, "kept here") {
			t.Fatalf("%v, %+v", err, r)
		}
		if len(spooled) != 2 || spooled[0].Kind != "rec.cordon" || spooled[1].Kind != "rec.cordoned" || spooled[0].ID == "" {
			t.Errorf("spooled %+v", spooled)
		}
	})
}

func TestCordonWeakerProof(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.plane.blind = true
		r, err := w.engine(ann).Cordon(t.Context(), source, "", true, nil)
		if err != nil || r.State != fleet.Cordoned || !strings.Contains(r.Weaker, "no scheduler view") {
			t.Errorf("%v, %+v", err, r)
		}
	})
	play(t, func(t *testing.T, w *world) { // the scheduler goes on offering it
		w.plane.stale = true
		r, err := w.engine(ann).Cordon(t.Context(), source, "", true, nil)
		if err == nil || r.State != fleet.Cordoning {
			t.Errorf("%v, %+v", err, r)
		}
	})
	play(t, func(t *testing.T, w *world) { // somebody lifts it while it is being proved
		go func() {
			time.Sleep(5 * time.Second)
			w.boxes[source].mu.Lock()
			w.boxes[source].holds.Cordon = nil
			w.boxes[source].mu.Unlock()
		}()
		r, err := w.engine(ann).Cordon(t.Context(), source, "", true, nil)
		if err == nil || r.State == fleet.Cordoned {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestUncordon(t *testing.T) {
	hold := func(who string) *fleet.Hold { return &fleet.Hold{Kind: fleet.CordonHold, Who: who} }
	cases := []struct {
		name   string
		cordon *fleet.Hold
		drain  bool
		flag   string
		theirs bool
		cut    string
		fails  string
		lifted bool // the host's cordon
		flags  bool // the plane's flag is left
	}{
		{name: "ours", cordon: hold("ann"), flag: "ann", lifted: true},
		{name: "theirs", cordon: hold("bob"), flag: "bob", fails: "it is theirs", flags: true},
		{name: "theirs, meant", cordon: hold("bob"), flag: "bob", theirs: true, lifted: true},
		{name: "a flag of somebody else", cordon: hold("ann"), flag: "somebody", fails: "not set by ebb", flags: true},
		{name: "a flag of somebody else, meant", cordon: hold("ann"), flag: "somebody", theirs: true, lifted: true},
		{name: "a drain still holds it", cordon: hold("ann"), drain: true, flag: "ann", lifted: true, flags: true},
		{name: "the plane only", flag: "ann", lifted: true},
		{name: "the plane is away", cordon: hold("ann"), flag: "ann", cut: "plane", fails: "nothing is lifted", flags: true},
		{name: "the host is away", cordon: hold("ann"), flag: "ann", cut: string(source), fails: "down", flags: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				b := w.boxes[source]
				b.holds.Cordon = c.cordon
				if c.drain {
					b.holds.Drain = &fleet.Hold{Kind: fleet.DrainHold, Drain: "d"}
				}
				w.plane.flags[source] = fleet.Flag{Set: true, Who: c.flag}
				if c.cut != "" {
					w.cut(c.cut, time.Hour)
				}
				_, err := w.engine(ann).Uncordon(t.Context(), source, "done", c.theirs)
				if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("got %v, want %q", err, c.fails)
				}
				var f engine.Final
				if strings.Contains(c.fails, "their") || strings.Contains(c.fails, "not set by ebb") {
					if !errors.As(err, &f) || !f.Final() {
						t.Errorf("%v is no refusal", err)
					}
				}
				if lifted := b.holds.Cordon == nil; c.cordon != nil && lifted != c.lifted {
					t.Errorf("the host's cordon: %+v", b.holds.Cordon)
				}
				if w.plane.flags[source].Set != c.flags {
					t.Errorf("the flag: %+v", w.plane.flags[source])
				}
				if n := w.count("rec.uncordon"); (n == 1) != (c.fails == "") {
					t.Errorf("%d records", n)
				}
				if !c.lifted {
					return
				}
				again, err := w.engine(ann).Uncordon(t.Context(), source, "done", c.theirs)
				if n := w.count("rec.uncordon"); err != nil || !again.Nothing || n != 1 {
					t.Errorf("again: %v, %+v, %d records", err, again, n)
				}
			})
		})
	}
}

func TestUndrain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.add("db", fleet.Durable)
		e := w.engine(ann)
		b := w.boxes[source]
		b.holds.Drain = &fleet.Hold{Kind: fleet.DrainHold, Drain: "d-other", Who: "carl", Journal: "elsewhere", Epoch: 7}
		w.plane.flags[source] = fleet.Flag{Set: true, Who: "carl"}
		var refused *engine.Refused
		if _, err := e.Undrain(t.Context(), source, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "carl") {
			t.Errorf("another journal's drain: %v", err)
		}
		if _, err := e.Undrain(t.Context(), source, true); err != nil || b.holds.Drain != nil || w.plane.flags[source].Set {
			t.Errorf("meant: %v, %+v, %+v", err, b.holds.Drain, w.plane.flags[source])
		}
		// A drain that never set its hold is undone all the same.
		id := start(t, e, time.Hour)
		if _, err := e.Undrain(t.Context(), source, false); err != nil {
			t.Error(err)
		}
		if s, err := e.State(t.Context(), source); err != nil || s.Drain != id || !s.Undone {
			t.Errorf("%v, %+v", err, s)
		}
	})
}
