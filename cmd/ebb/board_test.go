package main

import (
	"bytes"
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
