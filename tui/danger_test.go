package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
)

// atGate opens the gate of gpu-046, verified and open, with everything there
// that terminate needs.
func atGate(t *testing.T) *console {
	t.Helper()
	c := open(t, fixture(), 100, 30, nil)
	c.v.gate = openGate(gpu046)
	c.goHost("gpu-046")
	c.press("4", "v")
	c.shows("open", "the proof holds")
	c.v.calls = nil
	return c
}

func TestTerminateWithTheNameTyped(t *testing.T) {
	c := atGate(t)
	c.press("t")
	c.painted()
	c.shows("terminate gpu-046", "cloudctl instances terminate i-0f3146", "9f2c41aa77e0", "This can't be undone.")
	c.only()
	c.text("gpu-046")
	c.only()
	c.press("enter")
	c.only(`terminate prod/gpu-046 "gpu-046"`)
	c.shows("terminate gpu-046: done, and written down")
}

func TestEnterAloneNeverConfirms(t *testing.T) {
	c := atGate(t)
	for range 4 {
		c.press("t")
		c.painted()
		c.press("enter", "enter", "enter")
	}
	c.toBoardRow("pg-orders")
	c.press("e")
	c.painted()
	c.press("enter")
	c.goHost("gpu-017")
	c.press("u")
	c.painted()
	c.press("enter")
	c.goHost("gpu-044")
	c.press("d")
	c.painted()
	c.press("enter") // shows the plan
	c.painted()
	c.press("enter")
	c.only()
}

func TestAutoRepeatConfirmsNothing(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-017")
	c.press("u")
	c.painted()
	y := keyPress("y")
	y.IsRepeat = true
	c.clock = c.clock.Add(time.Second)
	c.send(y)
	c.only()
	c.shows("uncordon gpu-017")
	// Without reports of repeats: the key that opened the dialog, held down.
	c.press("esc", "u")
	c.painted()
	for range 20 {
		c.clock = c.clock.Add(30 * time.Millisecond)
		c.send(keyPress("u"))
	}
	c.only()
}

func TestKeysBeforeThePaintAreDropped(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-017")
	c.send(keyPress("u"))
	c.send(keyPress("y")) // typed ahead
	c.only()
	c.shows("wait")
	c.painted()
	c.shows("y uncordon")
	c.press("y")
	c.only("uncordon prod/gpu-017 theirs=true")
}

func TestTheWrongNameConfirmsNothing(t *testing.T) {
	c := atGate(t)
	c.press("t")
	c.painted()
	c.text("gpu-047")
	c.press("enter")
	c.only()
	c.shows("that is not gpu-046")
	c.press("esc")
	c.only()
	c.press("t")
	c.painted()
	c.send(tea.PasteMsg{Content: "gpu-046"})
	c.press("enter")
	c.only()
}

func TestStaleDataRefuses(t *testing.T) {
	c := atGate(t)
	c.clock = c.clock.Add(11 * time.Second)
	c.press("t")
	c.shows("refused: terminate gpu-046", "ago, more than 10s")
	c.only()
	c.press("esc")

	f := fixture()
	for i := range f.Snapshot.Hosts {
		f.Snapshot.Hosts[i].Unreachable, f.Snapshot.Hosts[i].Problem = ago(time.Minute), "ssh: no route to host"
	}
	c = open(t, f, 100, 30, nil)
	c.toBoardRow("etl-legacy")
	c.press("e")
	c.shows("refused: escalate", "unreachable since 14:24:59", "no route to host")
	c.only()
}

// What was true when the dialog opened is looked at again when it is answered.
func TestStateChangedBetweenDialogAndCommit(t *testing.T) {
	for name, change := range map[string]func(*feed.Frame, *console){
		"unreachable": func(f *feed.Frame, _ *console) { hostOf(f, gpu046).Unreachable = now },
		"uncordoned":  func(f *feed.Frame, _ *console) { hostOf(f, gpu046).Summary.Value.Holds.Cordon = nil },
		"stale":       func(_ *feed.Frame, c *console) { c.clock = c.clock.Add(20 * time.Second) },
		"expired":     func(_ *feed.Frame, c *console) { c.clock = c.clock.Add(10 * time.Minute) },
		"gone":        func(f *feed.Frame, _ *console) { f.Snapshot.Hosts = f.Snapshot.Hosts[:2] },
		"verified anew": func(_ *feed.Frame, c *console) {
			g := openGate(gpu046)
			g.Proof.Digest = "another"
			c.m.panes.gate.m = c.m.panes.gate.now().SetGate(g, nil)
		},
		"shut": func(_ *feed.Frame, c *console) {
			c.m.panes.gate.m = c.m.panes.gate.now().SetGate(lockedGate(gpu046), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := atGate(t)
			c.press("t")
			c.painted()
			c.text("gpu-046")
			f := fixture()
			hostOf(&f, gpu046).Facts.Value.At = ago(2 * time.Second) // the summary has the last word on holds
			change(&f, c)
			c.frame(f)
			c.press("enter")
			c.only()
			c.shows("refused: terminate gpu-046")
		})
	}
	for name, change := range map[string]func(*drain.State){
		"ended":       func(s *drain.State) { setItem(s, func(i *drain.Item) { i.End, i.EndBy = drain.LeftHost, "owner" }) },
		"another run": func(s *drain.State) { setItem(s, func(i *drain.Item) { i.Run = pid(999) }) },
		"another id":  func(s *drain.State) { s.Drain = "d-77" },
		"lifted":      func(s *drain.State) { s.Undone = true },
		"not there":   func(s *drain.State) { s.Items = nil },
		"stopped":     func(s *drain.State) { s.Phase = drain.Stopped },
	} {
		t.Run("escalate "+name, func(t *testing.T) {
			c := open(t, fixture(), 100, 30, nil)
			c.toBoardRow("pg-orders")
			c.press("e")
			c.painted()
			c.text("pg-orders")
			f := fixture()
			s := drain041()
			change(&s)
			f.Drains[gpu041] = s
			c.frame(f)
			c.press("enter")
			c.only()
			c.shows("refused: escalate")
		})
	}
}

func setItem(s *drain.State, change func(*drain.Item)) {
	it := s.Items[wl("db", "pg-orders")]
	change(&it)
	s.Items[it.Key] = it
}

func hostOf(f *feed.Frame, id fleet.HostID) *fleet.HostView {
	for i := range f.Snapshot.Hosts {
		if f.Snapshot.Hosts[i].Host.ID == id {
			return &f.Snapshot.Hosts[i]
		}
	}
	return &fleet.HostView{}
}

func TestEscalateByName(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.toBoardRow("pg-orders")
	c.press("e")
	c.painted()
	c.shows("db/pg-orders", "owner payments", "KILL, if it is still there")
	c.text("pg-orders")
	c.press("enter")
	if got := c.v.called(); !strings.Contains(got, "ask.escalate") || !strings.Contains(got, "pg-orders") || !strings.Contains(got, "PID:107") && !strings.Contains(got, ":107:") {
		t.Errorf("called %s", got)
	}
}

func TestTooSmallMeansNoActs(t *testing.T) {
	for _, size := range [][2]int{{19, 30}, {80, 4}, {1, 1}, {0, 0}} {
		c := atGate(t)
		c.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		c.press("t", "1", "c", "d")
		c.send(tea.WindowSizeMsg{Width: 100, Height: 30})
		c.only()
		// A dialog that no longer fits takes no answer either.
		c.press("t")
		c.painted()
		c.text("gpu-046")
		c.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		c.press("enter", "enter")
		c.only()
	}
}

// The cursor stays with its host when the order changes; when the host itself is
// gone, the next key says so instead of reaching its neighbour.
func TestMovingRows(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-048")
	f := fixture()
	hostOf(&f, "prod/gpu-048").Unreachable = now // it rises
	c.frame(f)
	c.press("c") // aimed at the picture before
	c.only()
	c.shows("the rows have just moved: the cursor is on gpu-048, press again")
	c.press("c")
	c.only("cordon prod/gpu-048 on a hunch")
	c.v.calls = nil
	c.frame(fixture()) // and back
	c.clock = c.clock.Add(widget.ShiftFor)
	c.press("c")
	c.only("cordon prod/gpu-048 on a hunch")
	c.v.calls = nil

	c.goHost("gpu-049")
	f = fixture()
	var left []fleet.HostView
	for _, h := range f.Snapshot.Hosts {
		if h.Host.ID != "prod/gpu-049" {
			left = append(left, h)
		}
	}
	f.Snapshot.Hosts = left
	c.frame(f)
	c.press("c")
	c.only()
	c.shows("gpu-049 is gone from the list")
	c.press("c")
	c.only("cordon prod/gpu-050 on a hunch")
}

// A terminal that hangs for minutes has painted no dialog: what it has buffered
// meanwhile and hands over then answers nothing.
func TestKeysBufferedByATerminalThatHung(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.m.guard.Start()
	c.painted() // it is one that answers
	c.goHost("gpu-017")
	c.send(keyPress("u"))
	for range 6 {
		c.clock = c.clock.Add(10 * time.Second)
		c.send(keyPress("y"))
		c.send(tickMsg{gen: c.m.tickGen})
	}
	c.only()
	c.shows("uncordon gpu-017", "wait")
	c.painted()
	c.press("y")
	c.only("uncordon prod/gpu-017 theirs=true")
}
