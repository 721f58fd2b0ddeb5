package tui

import (
	"slices"
	"testing"
	"time"
)

// A screen takes no frame while another one is shown. Once it is shown, it is
// what it had been if it had taken all of them.
func TestHiddenScreensCatchUp(t *testing.T) {
	later := fixture()
	later.Events = later.Events[:len(later.Events)-2]
	later.Snapshot.Hosts = slices.Clone(later.Snapshot.Hosts)
	for i := range later.Snapshot.Hosts {
		if v := &later.Snapshot.Hosts[i]; v.Host.ID == gpu041 {
			v.Findings = v.Findings[1:]
			v.Summary.Value.GPUs[0]--
		}
	}
	s := later.Drains[gpu041]
	s.Deadline = s.Deadline.Add(time.Hour)
	later.Drains[gpu041] = s
	for name, keys := range map[string][2][]string{
		"board":    {nil, {"2"}},
		"diff":     {nil, {"3"}},
		"handover": {nil, {"6"}},
		"log":      {nil, {"7"}},
		"fleet":    {{"3"}, {"1"}},
	} {
		was, is := open(t, fixture(), 120, 36, nil), open(t, later, 120, 36, nil)
		for _, c := range []*console{was, is} {
			c.press(keys[0]...)
			c.frame(later)
			c.press(keys[1]...)
		}
		if got, want := was.m.Screen(), is.m.Screen(); got != want {
			t.Errorf("%s: shown after it was hidden:\n%s\nwant:\n%s", name, got, want)
		}
		old := open(t, fixture(), 120, 36, nil)
		old.press(append(keys[0], keys[1]...)...)
		if old.m.Screen() == is.m.Screen() {
			t.Errorf("%s: the later frame looks like the one before: nothing was tried", name)
		}
	}
}
