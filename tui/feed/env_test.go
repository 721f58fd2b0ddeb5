package feed

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/keys"
)

var now = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)

func TestFresh(t *testing.T) {
	read := func(facts, summary time.Duration) fleet.HostView {
		return fleet.HostView{Facts: fleet.Read(fleet.Facts{}, "", now.Add(-facts), 0), Summary: fleet.Read(fleet.Summary{}, "", now.Add(-summary), 0)}
	}
	silent := read(time.Second, time.Second)
	silent.Unreachable, silent.Problem = now.Add(-time.Minute), "no route"
	failed := read(time.Second, time.Second)
	failed.Facts.Status, failed.Summary.Status = fleet.Failed, fleet.Failed
	for name, tc := range map[string]struct {
		v   fleet.HostView
		why string
	}{
		"never read":    {fleet.HostView{}, "not been read"},
		"young":         {read(10*time.Second, 10*time.Second), ""},
		"old":           {read(11*time.Second, 12*time.Second), "last read 11s ago"},
		"young summary": {read(time.Hour, time.Second), ""},
		"unreachable":   {silent, "unreachable since 14:25:00: no route"},
		"failed":        {failed, "not been read"},
	} {
		if ok, why := Fresh(tc.v, now); ok != (tc.why == "") || !strings.Contains(why, tc.why) {
			t.Errorf("%s: %v %q", name, ok, why)
		}
	}
}

func TestClock(t *testing.T) {
	f := Frame{At: now, Made: now.Add(-3 * time.Second)}
	if got := f.Clock(now.Add(-time.Second)); !got.Equal(now.Add(2 * time.Second)) {
		t.Error(got)
	}
	if got := (Frame{}).Clock(now); !got.Equal(now) {
		t.Error(got)
	}
}

func TestHostWithoutADrain(t *testing.T) {
	f := Frame{Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{{Host: fleet.Host{ID: "p/a"}}}}, Drains: map[fleet.HostID]drain.State{"p/b": {Drain: "d"}}}
	if _, s, ok := f.Host("p/a"); !ok || s != nil {
		t.Error("a drain where there is none")
	}
	if _, s, ok := f.Host("p/b"); ok || s == nil || s.Drain != "d" {
		t.Error("the drain of a host that no plane lists is lost from sight")
	}
}

// cursor notes how it was moved.
type cursor struct{ moves []string }

func (c *cursor) Move(n int) {
	c.moves = append(c.moves, map[int]string{1: "down", -1: "up"}[n])
}
func (c *cursor) Page(n int)  { c.moves = append(c.moves, map[int]string{1: "pgdn", -1: "pgup"}[n]) }
func (c *cursor) First()      { c.moves = append(c.moves, "first") }
func (c *cursor) Last()       { c.moves = append(c.moves, "last") }
func (c *cursor) ToggleMark() { c.moves = append(c.moves, "mark") }

func TestMove(t *testing.T) {
	g := keys.Default().Global
	for _, tc := range []struct {
		k    tea.KeyPressMsg
		want string
	}{
		{tea.KeyPressMsg{Code: 'j', Text: "j"}, "down"}, {tea.KeyPressMsg{Code: tea.KeyUp}, "up"}, {tea.KeyPressMsg{Code: tea.KeyPgDown}, "pgdn"},
		{tea.KeyPressMsg{Code: tea.KeyPgUp}, "pgup"}, {tea.KeyPressMsg{Code: tea.KeyHome}, "first"}, {tea.KeyPressMsg{Code: 'G', Text: "G"}, "last"},
		{tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}, "mark down"}, {tea.KeyPressMsg{Code: 'c', Text: "c"}, ""},
	} {
		c := &cursor{}
		if ok := Move(c, tc.k, g); ok != (tc.want != "") || strings.Join(c.moves, " ") != tc.want {
			t.Errorf("%s: %v %v", tc.k, ok, c.moves)
		}
	}
}
