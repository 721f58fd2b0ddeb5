package planview

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
)

func TestPlan(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return clock }, Local: time.UTC}).SetHost("p/h")
	shows := func(want string) {
		t.Helper()
		if got := ansi.Strip(m.View(110, 20)); !strings.Contains(got, want) {
			t.Errorf("no %q:\n%s", want, got)
		}
	}
	d := tea.KeyPressMsg{Code: 'd', Text: "d"}
	ask := func() tea.Msg {
		_, cmd := m.Update(d)
		return cmd()
	}
	m = m.SetBusy("p/h")
	shows("being made")
	m = m.SetPlan("p/h", drain.Plan{}, feed.Request{}, errors.New("no route"))
	shows("no plan: no route")
	k := fleet.Key{Kind: "job", ID: "etl"}
	p := drain.Plan{Host: "p/h", Deadline: clock.Add(time.Hour), Blocks: []string{"a", "b", "c", "d"}, Items: []drain.PlanItem{{Found: drain.Found{Key: k, MayDie: true}}}}
	m = m.SetPlan("p/h", p, feed.Request{Deadline: time.Hour}, nil)
	shows("may die (1): job/etl")
	shows("blocks: a")
	shows("1 more blocks")
	shows("would not end by itself")
	w, ok := ask().(feed.Want)
	if !ok || w.Verb != feed.Drain || w.Host != "p/h" || w.Request.Deadline != time.Hour {
		t.Errorf("%+v", w)
	}
	clock = clock.Add(2 * time.Minute)
	shows("5 makes it anew")
	m = m.SetHost("p/other")
	shows("no plan yet")
}

// The plans of several hosts stand below each other: each workload under its
// host, and a host whose plan could not be made is named with the reason.
func TestSeveralPlans(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return now }, Local: time.UTC})
	m = m.SetHosts([]fleet.HostID{"p/a", "p/b", "p/c"})
	key := func(id string) fleet.Key { return fleet.Key{Kind: "vm", ID: id} }
	m = m.SetBusy("p/a").SetPlan("p/a", drain.Plan{Host: "p/a", Deadline: now.Add(time.Hour), Items: []drain.PlanItem{
		{Found: drain.Found{Key: key("one"), Class: fleet.Stuck, MayDie: true}, GoneBy: now.Add(time.Minute)},
		{Found: drain.Found{Key: key("two"), Class: fleet.Stateless}, Reason: fleet.Because(drain.WaitNoTarget, "why", "full")},
	}, Blocks: []string{"a probe failed"}}, feed.Request{Deadline: time.Hour}, nil)
	m = m.SetPlan("p/b", drain.Plan{}, feed.Request{}, errors.New("no route"))
	m = m.SetPlan("p/elsewhere", drain.Plan{}, feed.Request{}, nil) // nobody asked for it
	text := ansi.Strip(m.View(120, 24))
	for _, want := range []string{"3 hosts", "1 leave · 1 stay · ✗ 1 may die · 1 in the way", "may die (1): vm/one on a", "blocks: a probe failed", "no plan: no route", "waits for its turn", "1 could not be made", "1 are being made"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "elsewhere") {
		t.Error("a plan that nobody asked for is shown")
	}
	if !m.Stale() {
		t.Error("nothing is missing")
	}
	// The cursor says which host is drained as planned.
	m = m.SetHost("p/a")
	m.table.SelectNext(func(r row) bool { return r.it.Key.ID == "two" })
	_, cmd := m.Update(tea.KeyPressMsg{Code: 'd', Text: "d"})
	if w, ok := cmd().(feed.Want); !ok || w.Host != "p/a" || w.Request.Deadline != time.Hour {
		t.Errorf("%+v", w)
	}
	m = m.SetHost("p/c")
	_, cmd = m.Update(tea.KeyPressMsg{Code: 'd', Text: "d"})
	if w, ok := cmd().(feed.Want); !ok || w.Host != "p/c" {
		t.Errorf("%+v", w)
	}
	// What was asked of one is about that one.
	if one := m.SetHost("p/z"); len(one.Hosts()) != 1 || one.Host() != "p/z" {
		t.Errorf("%v", one.Hosts())
	}
}

// What expires in time is no alarm, and is named all the same; what has time
// until after the deadline is marked, in a sign and in words.
func TestPlanSaysWhatExpiresAndWhatIsTooLate(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return clock }, Local: time.UTC}).SetHost("p/h")
	item := func(kind, id string, class fleet.Class, die bool, gone time.Duration) drain.PlanItem {
		it := drain.PlanItem{Found: drain.Found{Key: fleet.Key{Kind: kind, ID: id}, Class: class, MayDie: die}, Strategy: "goes", GoneBy: clock.Add(gone)}
		if class == fleet.Ephemeral {
			it.Expires = it.GoneBy
		}
		return it
	}
	p := drain.Plan{Host: "p/h", Deadline: clock.Add(45 * time.Minute), Items: []drain.PlanItem{
		item("job", "ci", fleet.Ephemeral, true, 10*time.Minute), item("service", "web", fleet.Stateless, true, 20*time.Minute),
		item("notebook", "nb", fleet.Pausable, false, time.Hour), item("batch", "etl", fleet.Stuck, true, 50*time.Minute)}}
	m = m.SetPlan("p/h", p, feed.Request{}, nil)
	for _, width := range []int{80, 110} {
		rows := map[string]string{}
		text := ansi.Strip(m.View(width, 24))
		for l := range strings.SplitSeq(text, "\n") {
			if f := strings.Fields(strings.Trim(l, " ▸")); len(f) > 1 {
				rows[f[0]], rows[f[1]] = l, l
			}
		}
		for id, want := range map[string]string{"ci": "expires in time", "web": "✗", "nb": "▲", "etl": "▲"} {
			if !strings.Contains(rows[id], want) {
				t.Errorf("%d: %s has no %q:\n%s", width, id, want, text)
			}
		}
		if strings.Contains(rows["ci"], "may die") {
			t.Errorf("%d: an alarm about what expires in time:\n%s", width, text)
		}
		for _, want := range []string{"✗ may die (2): service/web, batch/etl", "2 too late", "the budget ends after the deadline: notebook/nb, batch/etl", "only if it outlives its own time: job/ci"} {
			if !strings.Contains(text, want) {
				t.Errorf("%d: no %q:\n%s", width, want, text)
			}
		}
	}
}
