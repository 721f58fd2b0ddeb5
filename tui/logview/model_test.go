package logview

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
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
