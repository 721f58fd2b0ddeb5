package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// While nobody drives, the board says what takes the drain up, and promises
// nothing that only a driver does.
func TestBoardOfADrainThatNobodyDrives(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	etl, ci := fleet.Key{Kind: "job", ID: "etl"}, fleet.Key{Kind: "job", ID: "ci"}
	driven := drain.State{Drain: "d-1", Host: "p/a", Phase: drain.Draining, Driver: "bastion", Started: at.Add(-time.Hour), Deadline: at.Add(2 * time.Hour), First: true,
		Items: map[fleet.Key]drain.Item{
			etl: {Found: drain.Found{Key: etl, Class: fleet.Stuck, MayDie: true}, NoticeAt: at.Add(-6 * time.Minute), Accepted: true, TermAt: at.Add(-time.Minute), Extra: time.Hour},
			ci:  {Found: drain.Found{Key: ci, Class: fleet.Ephemeral}, FoundAt: at.Add(-time.Hour)},
		}}
	it := driven.Items[ci]
	it.Expires = at.Add(9 * time.Minute)
	driven.Items[ci] = it
	left := driven
	left.Driver = ""
	for name, x := range map[string]struct {
		s          drain.State
		shows, not []string
	}{
		"driven": {driven, []string{"driven by bastion", "KILL ", "expires "}, []string{"nobody drives"}},
		"left":   {left, []string{"nobody drives it: ebb drain a takes it up", "expires "}, []string{"KILL "}},
	} {
		var out bytes.Buffer
		if err := boardText(&out, x.s, drain.DefaultPolicy(), at); err != nil {
			t.Fatal(err)
		}
		for _, w := range x.shows {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: no %q in\n%s", name, w, out.String())
			}
		}
		for _, w := range x.not {
			if strings.Contains(out.String(), w) {
				t.Errorf("%s: %q in\n%s", name, w, out.String())
			}
		}
	}
}

// What needs somebody is followed by what to type, once for all that is answered
// alike.
func TestBoardSaysWhatToType(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	s := drain.State{Drain: "d-1", Host: "p/a", Phase: drain.Draining, Driver: "bastion", Deadline: at.Add(time.Hour), First: true, Items: map[fleet.Key]drain.Item{}}
	add := func(kind, id string, f func(*drain.Item)) {
		k := fleet.Key{Kind: kind, ID: id}
		it := drain.Item{Found: drain.Found{Key: k, Class: fleet.Pausable, Verdict: fleet.Agreed}}
		f(&it)
		s.Items[k] = it
	}
	add("nb", "1", func(it *drain.Item) { it.Reason = fleet.Because(drain.WaitNoStrategy, "class", "pausable") })
	add("nb", "2", func(it *drain.Item) { it.Reason = fleet.Because(drain.WaitNoStrategy, "class", "pausable") })
	add("nb", "held one", func(it *drain.Item) { it.Held, it.Reason = true, fleet.Because(drain.WaitHeld, "why", "x") })
	add("process", "7:1", func(it *drain.Item) {
		it.Class, it.Verdict, it.Reason = fleet.Unclassified, fleet.Unattributed, fleet.Because(drain.WaitUnclassified, "verdict", "unattributed")
	})
	add("web", "3", func(it *drain.Item) { it.Reason = fleet.Because(drain.WaitTargetGone, "target", "b") })
	add("web", "4", func(it *drain.Item) { it.Reason = fleet.Because(drain.WaitTurn, "limit", "8", "running", "8") })
	var out bytes.Buffer
	if err := boardText(&out, s, drain.DefaultPolicy(), at); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if _, ask, ok := strings.Cut(line, "answer it: "); ok {
			got = append(got, strings.TrimSpace(ask))
		}
	}
	want := []string{
		"ebb ask a/nb/1 keep --reason TEXT (or escalate, or class CLASS)",
		"ebb ask 'a/nb/held one' retry (or escalate, or keep --reason TEXT)",
		"ebb ask a/web/3 target-gone",
		"ebb ask a/process/7:1 keep --reason TEXT (or escalate)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
