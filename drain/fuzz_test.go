package drain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

// FuzzFold folds arbitrary bodies of every kind into a running drain and lets
// Next decide on the result: whatever stands in a journal, nothing panics, and
// the state can be written and read.
func FuzzFold(f *testing.F) {
	names := make([]string, 0, len(kinds)+1)
	for k := range kinds {
		names = append(names, string(k))
	}
	f.Add("ask.more_time", `{"key":"vm/a","by":9223372036854775807}`)
	f.Add("drive.found", `{"items":[{"key":{"kind":"","id":""}},{"key":{"kind":"a/b","id":"c"}}]}`)
	f.Add("drive.found", `{"items":[{"key":"vm/a","run":"b1:1:1","budget":{"grace":9223372036854775807}}]}`)
	f.Add("drive.took", `{"blind":9223372036854775807}`)
	f.Add("drive.intent", `{"act":{"id":"x","key":"vm/a","step":"kill","signal":"KILL"}}`)
	f.Add("rec.accepted", `{"key":"/"}`)
	f.Add("ask.start", `null`)
	for _, n := range names {
		f.Add(n, `{}`)
	}
	f.Fuzz(func(t *testing.T, kind, raw string) {
		w := newWorld(t)
		w.add("a", fleet.Stuck)
		w.start(time.Hour)
		w.tick(30 * time.Second)
		e := Event{Kind: Kind(kind), V: 1, Drain: "d1", Epoch: 9, Num: 1000, At: w.now, Body: json.RawMessage(raw)}
		s, _ := Apply(w.s, e)
		s, _ = Fold(s, []Event{e, e})
		fresh, _ := Fold(State{}, []Event{e})
		if out, err := json.Marshal(s); err == nil {
			var back State
			if err := json.Unmarshal(out, &back); err != nil {
				t.Fatalf("a state that can't be read back: %v\n%s", err, out)
			}
		} else if !strings.Contains(err.Error(), "year") {
			t.Fatal(err)
		}
		for _, d := range []Decision{Next(s, w.view(), w.p, w.now), Next(fresh, w.view(), w.p, w.now)} {
			for _, a := range d.Acts {
				if a.Signal == "KILL" {
					t.Fatalf("one event made a KILL: %+v", a)
				}
			}
		}
	})
}

// crowd is a drain of n workloads that all wait for their expiry.
func crowd(b *testing.B, n int) *world {
	w := newWorld(&bench{b})
	for i := range n {
		w.add(fmt.Sprintf("w%04d", i), fleet.Ephemeral, ttl(20*time.Minute))
	}
	w.start(time.Hour)
	w.until(time.Minute, "draining", w.phase(Draining))
	w.tick(5 * time.Second)
	return w
}

type bench struct{ *testing.B }

func BenchmarkNext1000(b *testing.B) {
	w := crowd(b, 1000)
	v := w.view()
	for b.Loop() {
		Next(w.s, v, w.p, w.now)
	}
}

func BenchmarkApply1000(b *testing.B) {
	w := crowd(b, 1000)
	e, _ := NewEvent(source, "e", "d1", 1, Actor{Name: "x"}, AskHold{Key: wk("w0500")})
	e.Num, e.At = uint64(len(w.log)+1), w.now
	for b.Loop() {
		_, _ = Apply(w.s, e)
	}
}

// BenchmarkFold is what a screen pays to show a long drain of many workloads.
func BenchmarkFold1000(b *testing.B) {
	w := crowd(b, 1000)
	var events []Event
	for i := range 1000 {
		e, _ := NewEvent(source, "e", "d1", 1, Actor{Name: "x"}, AskHold{Key: wk(fmt.Sprintf("w%04d", i))})
		e.Num, e.At = uint64(len(w.log)+1+i), w.now
		events = append(events, e)
	}
	for b.Loop() {
		_, _ = Fold(w.s, events)
	}
}
