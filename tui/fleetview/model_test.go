package fleetview

import (
	"fmt"
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
		"p/c-lost":   {Drain: "2", Driver: "bastion", Phase: drain.Verifying, Lost: []drain.LostItem{{Key: k}}},
		"p/g-drains": {Drain: "3", Driver: "bastion", Phase: drain.Draining, Deadline: now.Add(time.Hour)},
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
	f := frame()
	for i := range f.Snapshot.Hosts { // what the orders look at, different for each
		v := &f.Snapshot.Hosts[i]
		v.Summary.Value.GPUs = [2]int{i % 5, 8}
		v.Summary.Value.Classes = map[fleet.Class]int{fleet.Stateless: i * 3 % 7}
	}
	f.Snapshot.Hosts[6].Summary.At = now.Add(-time.Minute)
	first := map[string]string{"attention": "b-needs", "host": "b-needs", "state": "j-cordoned", "since": "f-forgotten", "idle": "b-needs",
		"work": "d-silent-held", "diff": "k-dirty", "agent": "d-silent-held", "drain": "g-drains"}
	m := New(env(t)).SetFrame(f)
	s := tea.KeyPressMsg{Code: 's', Text: "s"}
	for range orders {
		m, _ = m.Update(s)
		name := m.Arrangement().Sort
		all := names(m)
		if want := first[name]; name != "state" && all[0] != want {
			t.Errorf("%s begins with %s, not %s", name, all[0], want)
		}
		m, _ = m.Update(tea.KeyPressMsg{Code: 'S', Text: "S"})
		if back := names(m); name != "host" && back[0] == all[0] && back[len(back)-1] == all[len(all)-1] {
			t.Errorf("%s is the same the other way round", name)
		}
		m, _ = m.Update(tea.KeyPressMsg{Code: 'S', Text: "S"})
	}
	if m.Arrangement().Sort != "attention" {
		t.Error("the key does not go round")
	}
	if _, err := m.Sort("size"); err == nil || !strings.Contains(err.Error(), "attention, host") {
		t.Errorf("sort by size: %v", err)
	}
	if m, _ = m.Sort("-host"); names(m)[0] != "l-serving" {
		t.Errorf("-host begins with %s", names(m)[0])
	}
}

// Grouped, hosts of one value stand together, those without it last; the heading
// counts them, and whoever needs somebody is named in it.
func TestGroups(t *testing.T) {
	f := frame()
	for i := range f.Snapshot.Hosts {
		if pool := []string{"b", "a", ""}[i%3]; pool != "" {
			f.Snapshot.Hosts[i].Host.Labels = map[string]string{"pool": pool, "zone": "z"}
		}
	}
	m := New(env(t)).SetFrame(f)
	m = m.SetHost("p/g-drains")
	m, _ = m.Update(tea.KeyPressMsg{Code: 'p', Text: "p"})
	if m.Arrangement().Group != "pool" || m.Host() != "p/g-drains" {
		t.Errorf("group %q, cursor on %s", m.Arrangement().Group, m.Host())
	}
	var groups []string
	names(m)
	for _, r := range m.table.Visible() {
		if len(groups) == 0 || groups[len(groups)-1] != r.group {
			groups = append(groups, r.group)
		}
	}
	if !slices.Equal(groups, []string{"a", "b", ""}) {
		t.Errorf("groups %q", groups)
	}
	text := ansi.Strip(m.View(120, 40))
	for _, want := range []string{"pool a  4", "no pool  3", "GPUs 8/32"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	if got := m.Groups(); !slices.Equal(got, []string{"pool", "zone", "state", "plane"}) {
		t.Errorf("%v", got)
	}
	if _, err := m.Group("rack"); err == nil {
		t.Error("grouped by a label that no host has")
	}
	filter, err := widget.ParseFilter("pool=a")
	if err != nil {
		t.Fatal(err)
	}
	if text := ansi.Strip(m.SetFilter(filter).View(120, 40)); !strings.Contains(text, "4 of 11") {
		t.Errorf("the filter does not say how many it leaves:\n%s", text)
	}
}

// Whatever rows do, the cursor stays on its host, and so do marks.
func TestSelectionFollowsIdentity(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := frame()
		m := New(env(t)).SetFrame(f)
		host := rapid.SampledFrom(f.Snapshot.Hosts).Draw(r, "host").Host.ID
		m = m.SetHost(host)
		m.table.ToggleMark()
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			switch rapid.IntRange(0, 4).Draw(r, "step") {
			case 0:
				m = m.nextSort()
			case 1:
				m = m.nextGroup()
			case 2:
				a := m.Arrangement()
				a.Reverse = !a.Reverse
				m = m.Arrange(a)
			case 3:
				for i := range f.Snapshot.Hosts {
					f.Snapshot.Hosts[i].Unreachable = rapid.SampledFrom([]time.Time{{}, now}).Draw(r, "silent")
				}
				m = m.SetFrame(f)
			case 4:
				filter, err := widget.ParseFilter("host:" + host.Name())
				if err != nil {
					r.Fatal(err)
				}
				m = m.SetFilter(filter)
			}
			m.View(100, 9)
			if m.Host() != host || m.Marks() != 1 || !m.table.IsMarked(string(host)) {
				r.Fatalf("the cursor was on %s and is on %s; %d marks", host, m.Host(), m.Marks())
			}
		}
	})
}

// The line of counts has each host once, and those that need somebody before.
func TestCountsOnce(t *testing.T) {
	m := New(env(t)).SetFrame(frame())
	a := m.draw.all
	if sum := a.serving + a.holding + a.draining + a.silent + a.unread + a.terminated; sum != a.hosts || a.hosts != 11 {
		t.Errorf("%d of %d hosts are counted: %+v", sum, a.hosts, a)
	}
	if got := ansi.Strip(m.head(120)[0]); !strings.Contains(got, "▲ 2 need you   ✕ 1 lost   3 draining   4 holding   2 unreachable   2 serving") {
		t.Errorf("%s", got)
	}
}

// Where there is no column for what runs, a host that nobody holds says it where
// the reason would stand.
func TestNarrowSaysWhatRuns(t *testing.T) {
	f := frame()
	f.Snapshot.Hosts[10].Summary.Value.Classes = map[fleet.Class]int{fleet.Stateless: 3}
	m := New(env(t)).SetFrame(f)
	if got := ansi.Strip(m.View(80, 24)); !strings.Contains(got, "3 run 2/8 GPU") {
		t.Errorf("%s", got)
	}
}

// Columns leave one after the other as the screen narrows, and come back in the
// opposite order: what is needed to act stays longest.
func TestColumnsLeaveInOrder(t *testing.T) {
	had := 11
	for w := 200; w >= 20; w-- {
		n := 0
		for _, c := range widget.Widths(columns(w), w-gutter, gap(w)) {
			if c > 0 {
				n++
			}
		}
		if n > had && w != wideFrom-1 {
			t.Errorf("at %d cells there are %d columns, at %d there were %d", w, n, w+1, had)
		}
		had = n
		got := widget.Widths(columns(w), w-gutter, gap(w))
		if got[colHost] == 0 || got[colState] == 0 {
			t.Errorf("at %d cells host and state are not both there: %v", w, got)
		}
	}
}

func TestFilterFields(t *testing.T) {
	m := New(env(t)).SetFrame(frame())
	for text, want := range map[string]int{"state:cordoned": 2, "by:ops": 8, "!by:ops": 3, "plane:p": 11, "lost": 1, "host:g": 1,
		"is:holding": 4, "needs:you": 2, "!is:serving": 9} {
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

// Whatever frames came before, and however the hosts stood then: a frame is drawn
// as by a screen that has seen no other.
func TestNothingIsKeptOfAnOlderFrame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := New(env(t))
		for range rapid.IntRange(2, 6).Draw(rt, "frames") {
			f := frame()
			f.Snapshot.Hosts = slices.DeleteFunc(f.Snapshot.Hosts, func(fleet.HostView) bool { return rapid.IntRange(0, 9).Draw(rt, "gone") == 0 })
			for i := range f.Snapshot.Hosts {
				v := &f.Snapshot.Hosts[i]
				switch rapid.IntRange(0, 4).Draw(rt, "host") {
				case 0:
					v.Unreachable = now.Add(-time.Hour)
				case 1:
					v.Summary.Value.Holds, v.Cordon = held(time.Hour), fleet.HostOnly
				case 2:
					v.Summary.Value.GPUs[0] = rapid.IntRange(0, 8).Draw(rt, "busy")
				case 3:
					delete(f.Drains, v.Host.ID)
				}
			}
			as := Arrangement{Sort: rapid.SampledFrom(Orders()).Draw(rt, "sort"), Reverse: rapid.Bool().Draw(rt, "reverse"), Group: rapid.SampledFrom([]string{"", "state"}).Draw(rt, "group")}
			m = m.Arrange(as).SetFrame(f)
			fresh := New(env(t)).Arrange(as).SetFrame(f)
			m.View(140, 30)
			fresh.View(140, 30) // how long a page is shows in the next one
			if got, want := m.View(140, 30), fresh.View(140, 30); got != want {
				rt.Fatalf("after other frames:\n%s\nat once:\n%s", got, want)
			}
		}
	})
}

// A frame of ten thousand hosts, drawn as sorted: what it takes is measured, since
// the screen does it for each frame.
func BenchmarkFrameOfTenThousand(b *testing.B) {
	th, err := themes.Load("mono")
	if err != nil {
		b.Fatal(err)
	}
	f := feed.Frame{At: now, Made: now, Policy: drain.DefaultPolicy()}
	for i := range 10000 {
		v := view(fmt.Sprintf("h-%05d", i), fleet.Holds{}, "")
		v.Host.Labels = map[string]string{"pool": fmt.Sprint(i % 40)}
		v.Summary.Value.Classes = map[fleet.Class]int{fleet.Stateless: 5}
		f.Snapshot.Hosts = append(f.Snapshot.Hosts, v)
	}
	for _, a := range []Arrangement{{Sort: "attention"}, {Sort: "work", Group: "pool"}} {
		b.Run(a.Sort+" "+a.Group, func(b *testing.B) {
			m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return now }, Local: time.UTC}).SetFrame(f).Arrange(a)
			for b.Loop() {
				m = m.SetFrame(f)
				m.View(120, 36)
			}
		})
	}
}

// What is parked on a host is on its row, by name or where there is no room for that
// by number; it is found by its name, and the hint has name and key.
func TestParkedOnTheRow(t *testing.T) {
	f := frame()
	k := fleet.Key{Kind: "vm", ID: "nb-lena-12"}
	resting := drain.Item{Found: drain.Found{Key: k, Class: fleet.Pausable, Phase: fleet.AtRest},
		Move: drain.Move{Park: true, Done: map[drain.Step]time.Time{drain.StepPark: now}}}
	s := drain.State{Drain: "4", Phase: drain.Parked, First: true, Items: map[fleet.Key]drain.Item{k: resting}}
	for name, undone := range map[string]bool{"held": false, "lifted": true} {
		s.Undone = undone
		f.Drains["p/j-cordoned"] = s
		m := New(env(t)).SetFrame(f).SetHost("p/j-cordoned")
		row := func(w int) string {
			for _, l := range strings.Split(ansi.Strip(m.View(w, 24)), "\n") {
				if strings.Contains(l, "j-cordo") { // as much of it as has room
					return l
				}
			}
			return ""
		}
		if got := row(160); !strings.Contains(got, "parked: vm/nb-lena-12") {
			t.Errorf("%s, wide: %s", name, got)
		}
		if got := row(80); !strings.Contains(got, "parked") {
			t.Errorf("%s, narrow: %s", name, got)
		}
		if got := m.Hint(); got != "j-cordoned: parked: vm/nb-lena-12 · R resumes it" {
			t.Errorf("%s: %s", name, got)
		}
		filter, err := widget.ParseFilter("nb-lena-12")
		if err != nil {
			t.Fatal(err)
		}
		if got := names(m.SetFilter(filter)); !slices.Equal(got, []string{"j-cordoned"}) {
			t.Errorf("%s: found %v", name, got)
		}
	}
	s.Phase, s.Driver, s.Undone = drain.Draining, "bastion", false // at work: it would be parked again
	f.Drains["p/j-cordoned"] = s
	if got := New(env(t)).SetFrame(f).SetHost("p/j-cordoned").Hint(); got != "" {
		t.Errorf("at work: %s", got)
	}
}

// A drain that nobody drives calls for somebody, once that is no change of drivers.
func TestForsakenNeedsYou(t *testing.T) {
	for name, x := range map[string]struct {
		released time.Time
		here     bool
		want     bool
	}{
		"just released":  {now.Add(-time.Second), false, false},
		"left":           {now.Add(-time.Minute), false, true},
		"driven by this": {now.Add(-time.Minute), true, false},
	} {
		f := frame()
		s := f.Drains["p/g-drains"]
		s.Driver, s.Released = "", x.released
		f.Drains["p/g-drains"] = s
		f.Driving = map[fleet.HostID]bool{"p/g-drains": x.here}
		m := New(env(t)).SetFrame(f).SetHost("p/g-drains")
		if got := m.draw.all.needs == 3; got != x.want {
			t.Errorf("%s: %d need somebody", name, m.draw.all.needs)
		}
		if got := m.Hint() == "nobody drives the drain of g-drains: d takes it up"; got != x.want {
			t.Errorf("%s: the hint is %q", name, m.Hint())
		}
	}
}

// A workload's name finds the host that it is claimed on.
func TestFilterFindsClaims(t *testing.T) {
	claim := func(id string, phase fleet.Phase) fleet.Claim {
		return fleet.Claim{Key: fleet.Key{Kind: "sandbox", ID: id}, Phase: phase}
	}
	v := fleet.HostView{Host: fleet.Host{ID: "p/a"}, Claims: fleet.Read([]fleet.Claim{claim("tenant-7", fleet.Running), claim("tenant-8", fleet.Gone)}, "p", time.Now(), 0)}
	for text, want := range map[string]bool{"tenant-7": true, "sandbox/tenant": true, "tenant-8": false} {
		f, err := widget.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Match(filterable(&row{v: &v})); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
