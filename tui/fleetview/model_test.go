package fleetview

import (
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
)

var now = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)

func env(t *testing.T) feed.Env {
	t.Helper()
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	return feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return now }, Local: time.UTC}
}

func view(name string, h fleet.Holds, c fleet.CordonState) fleet.HostView {
	return fleet.HostView{Host: fleet.Host{ID: fleet.HostID("p/" + name)}, Cordon: c,
		Summary: fleet.Read(fleet.Summary{At: now, Holds: h, GPUs: [2]int{2, 8}}, "", now, 0)}
}

func held(since time.Duration) fleet.Holds {
	return fleet.Holds{Cordon: &fleet.Hold{Who: "ops", Since: now.Add(-since)}}
}

// frame has one host of each kind, named by the place where attention puts it.
func frame() feed.Frame {
	silent := view("d-silent-held", held(time.Hour), fleet.Cordoned)
	silent.Unreachable = now.Add(-time.Minute)
	quiet := view("h-silent", fleet.Holds{}, "")
	quiet.Unreachable = now.Add(-time.Minute)
	dirty := view("k-dirty", fleet.Holds{}, "")
	dirty.Facts = fleet.Read(fleet.Facts{At: now}, "", now, 0)
	dirty.Findings = []fleet.Finding{{Verdict: fleet.Orphan}}
	hosts := []fleet.HostView{
		view("b-needs", held(time.Hour), fleet.Cordoned), view("c-lost", held(time.Hour), fleet.Cordoned), silent,
		view("e-half", held(time.Minute), fleet.HostOnly), view("f-forgotten", held(80*time.Hour), fleet.Cordoned),
		view("g-drains", held(time.Hour), fleet.Cordoned), quiet, view("i-cordoning", held(time.Second), fleet.Cordoning),
		view("j-cordoned", held(time.Hour), fleet.Cordoned), dirty, view("l-serving", fleet.Holds{}, ""),
	}
	k := fleet.Key{Kind: "a", ID: "b"}
	return feed.Frame{At: now, Made: now, Policy: drain.DefaultPolicy(), Snapshot: fleet.Snapshot{Hosts: hosts}, Drains: map[fleet.HostID]drain.State{
		"p/b-needs":  {Drain: "1", Phase: drain.DeadlineReached, Items: map[fleet.Key]drain.Item{k: {}}},
		"p/c-lost":   {Drain: "2", Phase: drain.Verifying, Lost: []drain.LostItem{{Key: k}}},
		"p/g-drains": {Drain: "3", Phase: drain.Draining, Deadline: now.Add(time.Hour)},
	}}
}

func names(m Model) []string {
	var out []string
	m.View(120, 40)
	for _, r := range m.table.Visible() {
		out = append(out, r.v.Host.ID.Name())
	}
	return out
}

func TestAttentionComesFirst(t *testing.T) {
	f := frame()
	slices.Reverse(f.Snapshot.Hosts)
	got := names(New(env(t)).SetFrame(f))
	if !slices.IsSorted(got) || len(got) != len(f.Snapshot.Hosts) {
		t.Errorf("%v", got)
	}
}

func TestOrders(t *testing.T) {
	m := New(env(t)).SetFrame(frame())
	s := tea.KeyPressMsg{Code: 's', Text: "s"}
	want := map[order]string{byName: "b-needs", byState: "g-drains", byAge: "f-forgotten", byAttention: "b-needs"}
	for range int(orders) {
		m, _ = m.Update(s)
		first := names(m)[0]
		if m.order != byState && first != want[m.order] {
			t.Errorf("%s begins with %s", m.order, first)
		}
	}
	if m.order != byAttention {
		t.Error("the key does not go round")
	}
}

func TestFilterFields(t *testing.T) {
	m := New(env(t)).SetFrame(frame())
	for text, want := range map[string]int{"state:cordoned": 2, "by:ops": 8, "!by:ops": 3, "plane:p": 11, "lost": 1, "host:g": 1} {
		f, err := widget.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(names(m.SetFilter(f))); got != want {
			t.Errorf("/%s shows %d, want %d", text, got, want)
		}
	}
}

// Where a host was never read, nothing about it is shown as nothing.
func TestUnknownIsNotEmpty(t *testing.T) {
	r := makeRow(feed.Frame{}, &fleet.HostView{Host: fleet.Host{ID: "p/x"}}, now)
	if _, ok := r.classes(); ok {
		t.Error("classes are known")
	}
	if _, _, ok := r.gpus(); ok {
		t.Error("GPUs are known")
	}
	if r.role != "" || r.word != "not read yet" {
		t.Errorf("%q %q", r.role, r.word)
	}
}

func TestFocusIsWhatIsVisible(t *testing.T) {
	m := New(env(t)).SetFrame(frame())
	m.View(80, 7) // two lines of head, one of titles
	if got := m.Focus(); len(got) != 4 || got[0] != "p/b-needs" {
		t.Errorf("%v", got)
	}
}

// Until the facts were read, nothing is said of a difference.
func TestNoDiffBeforeTheFacts(t *testing.T) {
	v := view("new", fleet.Holds{}, "")
	v.Findings = []fleet.Finding{{Verdict: fleet.Ghost}, {Verdict: fleet.Ghost}}
	if r := makeRow(feed.Frame{}, &v, now); r.dirty != 0 {
		t.Errorf("%d differences of a host that was not read", r.dirty)
	}
	v.Facts = fleet.Read(fleet.Facts{At: now}, "", now, 0)
	if r := makeRow(feed.Frame{}, &v, now); r.dirty != 2 {
		t.Errorf("%d differences of two", r.dirty)
	}
}

// The cursor begins on the first row, and stays there while rows are sorted
// anew, until a person has moved it. A key pressed in that moment acts on nothing.
func TestCursorLeadsUntilItIsMoved(t *testing.T) {
	at := now
	e := env(t)
	e.Now = func() time.Time { return at }
	f := frame()
	calm := feed.Frame{At: now, Made: now, Policy: f.Policy, Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{view("l-serving", fleet.Holds{}, "")}}}
	m := New(e).SetFrame(calm).SetFrame(f)
	if got := m.Host(); got != "p/b-needs" {
		t.Errorf("the cursor is on %s, not on the first row", got)
	}
	c := tea.KeyPressMsg{Code: 'c', Text: "c"}
	_, cmd := m.Update(c)
	if say, ok := cmd().(feed.Say); !ok {
		t.Errorf("a key in the moment of the change did %v", say)
	}
	_, cmd = m.Update(c)
	if want, ok := cmd().(feed.Want); !ok || want.Host != "p/b-needs" {
		t.Errorf("pressed again: %v", want)
	}
	m, _ = m.Update(tea.KeyPressMsg{Code: 'j', Text: "j"})
	was := m.Host()
	at = at.Add(time.Hour)
	for i := range f.Snapshot.Hosts {
		f.Snapshot.Hosts[i].Unreachable = now
	}
	if m = m.SetFrame(f); m.Host() != was {
		t.Errorf("the cursor went from %s to %s", was, m.Host())
	}
}

// On a narrow screen the name of a person stands before the place.
func TestNarrowNamesAndReasons(t *testing.T) {
	if got := person("mira@bastion-2", 5); got != "mira" {
		t.Error(got)
	}
	if got := person("mira@b", 14); got != "mira@b" {
		t.Error(got)
	}
	if w := widget.Widths(columns(80), 80-gutter, gap(80)); w[colWhy] < 12 || w[colAgent] == 0 || w[colDiff] == 0 {
		t.Errorf("at 80 columns: %v", w)
	}
}
