package logview

import (
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
	"ebb/tui/widget"
)

func TestFollow(t *testing.T) {
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	m := New(feed.Env{Theme: th, Keys: keys.Default(), Now: time.Now, Local: time.UTC})
	var f feed.Frame
	add := func(host, name string) {
		e, err := drain.NewEvent("p/x", name, "d", 0, drain.Actor{Name: name}, drain.AskHandover{Note: name})
		if err != nil {
			t.Fatal(err)
		}
		e.Stream, e.Seq = host, uint64(len(f.Events)+1)
		f.Events = append(f.Events[:len(f.Events):len(f.Events)], e)
		m = m.SetFrame(f)
	}
	at := func() string {
		for _, l := range strings.Split(ansi.Strip(m.View(100, 12)), "\n") {
			if strings.HasPrefix(l, "▸") {
				return l
			}
		}
		return ""
	}
	add("p/a", "one")
	add("p/b", "two")
	if !strings.Contains(at(), "two") {
		t.Errorf("does not follow: %s", at())
	}
	m, _ = m.Update(tea.KeyPressMsg{Code: tea.KeyUp})
	add("p/a", "three")
	if !strings.Contains(at(), "one") {
		t.Errorf("followed although the cursor was moved away: %s", at())
	}
	m, _ = m.Update(tea.KeyPressMsg{Code: 'f', Text: "f"})
	if !strings.Contains(at(), "three") {
		t.Errorf("f does not follow: %s", at())
	}
	m = m.SetHost("p/b")
	if shown, all := m.table.Len(); shown != 1 || all != 1 {
		t.Errorf("%d of %d events of one host", shown, all)
	}
}

// An event is found by each workload it is about, whatever its shape.
func TestFilterByWorkload(t *testing.T) {
	web, pg := fleet.Key{Kind: "service", ID: "web-7"}, fleet.Key{Kind: "db", ID: "pg/main"}
	for name, tc := range map[string]struct {
		body   drain.Body
		filter string
		want   bool
	}{
		"an ask":        {drain.AskHold{Key: web}, "workload:web-7", true},
		"by kind":       {drain.AskHold{Key: web}, "workload:service/web", true},
		"another":       {drain.AskHold{Key: web}, "workload:eb-7", false},
		"not it":        {drain.AskHold{Key: web}, "!workload:web-7", false},
		"an act":        {drain.DriveIntent{Act: drain.Act{Key: pg}}, "workload:pg", true},
		"one of some":   {drain.DriveEnded{Ends: []drain.Ended{{Key: pg}, {Key: web}}}, "workload:web-7", true},
		"named only":    {drain.AskStart{MayDie: []fleet.Key{pg}}, "workload:db/pg/main", true},
		"missing":       {drain.DriveMissing{Keys: []fleet.Key{web, pg}}, "workload:pg kind:drive.missing", true},
		"about nothing": {drain.RecUndrain{}, "workload:web-7", false},
		"its text only": {drain.AskHandover{Note: "web-7 is slow"}, "workload:web-7", false},
		"by whom":       {drain.RecUndrain{}, "by:mira host:a kind:rec", true},
		"by another":    {drain.RecUndrain{}, "by:noor", false},
	} {
		e, err := drain.NewEvent("p/a", "e", "d", 0, drain.Actor{Name: "mira"}, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		f, err := widget.ParseFilter(tc.filter)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Match(Filterable(e)); got != tc.want {
			t.Errorf("%s: %s is %v", name, tc.filter, got)
		}
	}
}
