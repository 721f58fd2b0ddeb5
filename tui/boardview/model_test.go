package boardview

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
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

// The cursor's card is among those that are drawn, and they fit but for a single
// one that is too high.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards := make([][]string, rapid.IntRange(1, 60).Draw(t, "n"))
		for i := range cards {
			cards[i] = make([]string, rapid.IntRange(1, 6).Draw(t, "lines"))
		}
		cur := rapid.IntRange(0, len(cards)-1).Draw(t, "cur")
		room := rapid.IntRange(1, 80).Draw(t, "room")
		from, to := window(cards, cur, room)
		used := 0
		for _, c := range cards[from:to] {
			used += len(c) + 1
		}
		if cur < from || cur >= to || used > room && to-from > 1 {
			t.Fatalf("%d to %d of %d, %d lines in %d", from, to, len(cards), used, room)
		}
		if from > 0 && to < len(cards) && used+len(cards[to])+1 <= room {
			t.Fatalf("there is room for more: %d to %d, %d lines in %d", from, to, used, room)
		}
	})
}

// GPUs are counted for whoever has them: named by its owner, or held by one of
// its processes, which share them.
func TestGPUsOfWorkloads(t *testing.T) {
	run := func(pid int) fleet.Run { return fleet.Run{Boot: "b", PID: pid} }
	gpu := func(holders ...fleet.Run) fleet.GPU { return fleet.GPU{Holders: holders} }
	v := fleet.HostView{
		Facts: fleet.Read(fleet.Facts{GPUs: fleet.Read([]fleet.GPU{gpu(run(1), run(2)), gpu(run(1)), gpu(run(9)), gpu()}, "nvml", now, 0)}, "ebbd", now, 0),
		Findings: []fleet.Finding{
			{Key: named("holds"), Workload: &fleet.Workload{Run: run(1), Runs: []fleet.Run{run(1), run(2)}}},
			{Key: named("named"), Workload: &fleet.Workload{Run: run(3), GPUs: []string{"a", "b", "c"}}},
			{Key: named("none"), Workload: &fleet.Workload{Run: run(4)}},
			{Key: named("alone"), Process: &fleet.Process{Run: run(9)}},
		}}
	got := gpusOf(v)
	for id, want := range map[string]int{"holds": 2, "named": 3, "none": 0, "alone": 1} {
		if got[named(id)] != want {
			t.Errorf("%s has %d GPUs, not %d", id, got[named(id)], want)
		}
	}
	if n := len(gpusOf(fleet.HostView{Findings: v.Findings})); n != 0 {
		t.Error("GPUs are counted without the facts")
	}
}

// The chart is as wide as it was asked for, and full before anything has left.
func TestBurn(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	s := drain.State{Started: now, Deadline: now.Add(40 * time.Minute), Phase: drain.Draining, Items: map[fleet.Key]drain.Item{
		named("a"): {FoundAt: now}, named("b"): {FoundAt: now, End: drain.LeftHost, EndAt: now.Add(15 * time.Minute)},
	}}
	got := []rune(ansi.Strip(burn(s, now.Add(20*time.Minute), 8, th)))
	if len(got) != 8 || got[0] != '█' || got[3] == '█' || got[7] != []rune(th.Glyphs.Levels[0])[0] {
		t.Errorf("%q", string(got))
	}
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.IntRange(1, 200).Draw(t, "w")
		at := now.Add(time.Duration(rapid.IntRange(-100, 6000).Draw(t, "at")) * time.Second)
		if got := ansi.StringWidth(burn(s, at, w, th)); got != w {
			t.Fatalf("%d cells of %d", got, w)
		}
	})
	if burn(drain.State{}, now, 10, th) != "" {
		t.Error("a chart of nothing")
	}
}

// Keys that act on a workload are asked for again when rows have just moved.
func TestShiftOnTheBoard(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	clock := now
	s := drain.State{Drain: "d", First: true, Phase: drain.Draining, Items: map[fleet.Key]drain.Item{}}
	for _, id := range []string{"a", "b", "c"} {
		s.Items[named(id)] = drain.Item{Found: drain.Found{Key: named(id), Class: fleet.Durable}}
	}
	frame := func() feed.Frame {
		c := s
		c.Items = maps.Clone(s.Items)
		return feed.Frame{At: now, Made: now, Policy: drain.DefaultPolicy(), Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{{Host: fleet.Host{ID: "p/h"}}}}, Drains: map[fleet.HostID]drain.State{"p/h": c}}
	}
	m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return clock }, Local: time.UTC}).SetFrame(frame()).SetHost("p/h")
	m.View(120, 30)
	m.Update(tea.KeyPressMsg{Code: 'j', Text: "j"})
	s.Items[named("a")] = drain.Item{Found: drain.Found{Key: named("a"), Class: fleet.Durable}, End: drain.LeftHost}
	m = m.SetFrame(frame())
	hold := tea.KeyPressMsg{Code: 'h', Text: "h"}
	_, cmd := m.Update(hold)
	if say, ok := cmd().(feed.Say); !ok || !strings.Contains(say.Text, "the cursor is on b") {
		t.Errorf("%+v", cmd())
	}
	_, cmd = m.Update(hold)
	if w, ok := cmd().(feed.Want); !ok || w.Key != named("b") {
		t.Errorf("%+v", cmd())
	}
}
