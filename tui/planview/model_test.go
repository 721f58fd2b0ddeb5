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
	if _, ok := ask().(feed.Say); !ok {
		t.Error("drains without a plan")
	}
	m = m.SetBusy()
	shows("being made")
	m = m.SetPlan(drain.Plan{}, feed.Request{}, errors.New("no route"))
	shows("no plan: no route")
	k := fleet.Key{Kind: "job", ID: "etl"}
	p := drain.Plan{Host: "p/h", Deadline: clock.Add(time.Hour), Blocks: []string{"a", "b", "c", "d"}, Items: []drain.PlanItem{{Found: drain.Found{Key: k, MayDie: true}}}}
	m = m.SetPlan(p, feed.Request{Deadline: time.Hour}, nil)
	shows("may die (1): job/etl")
	shows("blocks: a")
	shows("1 more blocks")
	shows("would not end by itself")
	w, ok := ask().(feed.Want)
	if !ok || w.Verb != feed.Drain || w.Host != "p/h" || w.Plan == nil || len(w.Plan.MayDie()) != 1 || w.Request.Deadline != time.Hour {
		t.Errorf("%+v", w)
	}
	clock = clock.Add(2 * time.Minute)
	shows("5 makes it anew")
	m = m.SetHost("p/other")
	shows("no plan yet")
}
