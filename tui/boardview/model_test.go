package boardview

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

var now = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)

func named(id string) fleet.Key { return fleet.Key{Kind: "k", ID: id} }

func TestLinesStandInTheOrderOfClasses(t *testing.T) {
	s := drain.State{Drain: "d", First: true, Phase: drain.Verifying, Items: map[fleet.Key]drain.Item{}}
	for i, c := range []fleet.Class{fleet.Unclassified, fleet.Stuck, fleet.Durable, fleet.Pausable, fleet.Stateless, fleet.Ephemeral} {
		k := named(string(rune('a' + i)))
		s.Items[k] = drain.Item{Found: drain.Found{Key: k, Class: c}}
	}
	s.Items[named("left")] = drain.Item{Found: drain.Found{Key: named("left"), Class: fleet.Ephemeral}, End: drain.LeftHost}
	s.Issues = []fleet.Issue{{Check: fleet.CheckLeaks, Key: named("leak")}, {Check: fleet.CheckLeft, Key: named("a")}}
	s.Left = []drain.Left{{Key: named("late"), Reason: fleet.Because("issue", "check", fleet.CheckTickets)}, {Key: named("leak"), Reason: fleet.Because("issue", "check", fleet.CheckLeaks)}}
	d := &drawing{frame: feed.Frame{Policy: drain.DefaultPolicy()}, state: &s, known: true}
	var got []string
	for _, l := range d.lines() {
		name := l.it.Key.ID
		if l.kind == issue {
			name = "issue " + l.issue.Key.ID
		}
		got = append(got, name)
	}
	want := []string{"issue leak", "issue late", "f", "e", "d", "c", "b", "a", "left"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Before a drain has counted, the board shows what it will find.
func TestBeforeTheFirstInventory(t *testing.T) {
	w := &fleet.Workload{Key: named("w"), Phase: fleet.Running, Class: fleet.Stuck}
	v := fleet.HostView{Findings: []fleet.Finding{{Key: named("w"), Verdict: fleet.Agreed, Workload: w}, {Key: named("ghost"), Verdict: fleet.Ghost}}}
	d := &drawing{frame: feed.Frame{Policy: drain.DefaultPolicy()}, view: v, state: &drain.State{Drain: "d", Phase: drain.Cordoning}, known: true}
	rows := d.lines()
	if len(rows) != 1 || rows[0].kind != runs || rows[0].it.Class != fleet.Stuck {
		t.Errorf("%+v", rows)
	}
}

func TestLabelsOfProcesses(t *testing.T) {
	p := &fleet.Process{Run: fleet.Run{PID: 7, Start: 70}, Comm: "a\x1bb"}
	d := &drawing{view: fleet.HostView{Findings: []fleet.Finding{{Key: p.Key(), Process: p}}}}
	if got := d.label(drain.Item{Found: drain.Found{Key: p.Key(), Run: p.Run}}); got != "a‹1b›b 7" {
		t.Error(got)
	}
	other := fleet.Process{Run: fleet.Run{PID: 8, Start: 80}}
	if got := d.label(drain.Item{Found: drain.Found{Key: other.Key(), Run: other.Run}}); got != "process 8" {
		t.Error(got)
	}
}

func TestBurnDown(t *testing.T) {
	items := map[fleet.Key]drain.Item{
		named("a"): {FoundAt: now},
		named("b"): {FoundAt: now, End: drain.LeftHost, EndAt: now.Add(2 * time.Minute)},
		named("c"): {FoundAt: now.Add(3 * time.Minute)},
	}
	for minute, want := range []int{2, 2, 1, 2, 2} {
		if got := leftAt(items, now.Add(time.Duration(minute)*time.Minute)); got != want {
			t.Errorf("after %d minutes %d, want %d", minute, got, want)
		}
	}
}

// The cursor's row is among those that are drawn.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 100).Draw(t, "n")
		fit := rapid.IntRange(1, 100).Draw(t, "fit")
		cur := rapid.IntRange(0, n-1).Draw(t, "cur")
		from := window(cur, n, fit)
		if from < 0 || cur < from || cur >= from+fit || from > 0 && from+fit > n {
			t.Fatalf("from %d", from)
		}
	})
}
