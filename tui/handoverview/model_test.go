package handoverview

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
)

// What needs somebody is named with its host: a deadline, a person awaited, a
// loss, silence on a held host.
func TestWhatNeedsSomebody(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	env := feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return now }, Local: time.UTC}
	hold := fleet.Holds{Cordon: &fleet.Hold{Who: "ops", Since: now.Add(-time.Hour)}}
	host := func(name string) fleet.HostView {
		return fleet.HostView{Host: fleet.Host{ID: fleet.HostID("p/" + name)}, Summary: fleet.Read(fleet.Summary{At: now, Holds: hold}, "", now, 0)}
	}
	silent := host("silent")
	silent.Unreachable, silent.Problem = now.Add(-4*time.Minute), "no route"
	k := fleet.Key{Kind: "db", ID: "pg"}
	f := feed.Frame{At: now, Made: now, Policy: drain.DefaultPolicy(),
		Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{host("over"), host("person"), host("lost"), silent, host("fine")}},
		Drains: map[fleet.HostID]drain.State{
			"p/over":   {Drain: "1", Phase: drain.DeadlineReached, Since: now, Deadline: now},
			"p/person": {Drain: "2", Phase: drain.Draining, Person: true, Deadline: now.Add(time.Hour), Waiting: fleet.Because(drain.WaitBlind, "gap", "20m")},
			"p/lost":   {Drain: "3", Phase: drain.Draining, Deadline: now.Add(9 * time.Hour), Items: map[fleet.Key]drain.Item{k: {Found: drain.Found{Key: k}, End: drain.Lost, EndAt: now}}},
			"p/fine":   {Drain: "4", Phase: drain.Empty, Undone: true},
		}}
	m := New(env).SetFrame(f)
	screen := ansi.Strip(m.View(160, 40))
	needs, rest, _ := strings.Cut(screen, "DRAINS")
	for _, w := range []string{"over", "the deadline was reached", "person", "nobody drove for 20m", "db/pg LOST", "silent", "unreachable since 14:22: no route"} {
		if !strings.Contains(needs, w) {
			t.Errorf("%q is not among what needs somebody:\n%s", w, screen)
		}
	}
	if strings.Contains(needs, "fine") {
		t.Errorf("a lifted drain needs somebody:\n%s", screen)
	}
	if next, _, _ := strings.Cut(rest[strings.Index(rest, "NEXT HOURS"):], "HOLDS"); strings.Contains(next, "lost") || !strings.Contains(next, "person") {
		t.Errorf("the next hours are %s", next)
	}
}
