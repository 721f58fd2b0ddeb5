package tui

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
)

// suspends says whether a command, or one in it, stops the process.
func suspends(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	switch msg := cmd().(type) {
	case tea.SuspendMsg:
		return true
	case tea.BatchMsg:
		for _, one := range msg {
			if suspends(one) {
				return true
			}
		}
	}
	return false
}

func ctrlZ() tea.KeyPressMsg { return tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl} }

// Where nothing is driven ctrl-z stops at once; where drains are, it says what
// becomes of them and asks; without a shell behind it it would never come back.
func TestSuspend(t *testing.T) {
	shell := func(is bool) func(*Options) { return func(o *Options) { o.shell = func() bool { return is } } }
	c := open(t, fixture(), 100, 30, shell(true))
	if !suspends(c.m.key(ctrlZ())) {
		t.Error("ctrl-z does not suspend")
	}
	c = open(t, fixture(), 100, 30, shell(false))
	if suspends(c.m.key(ctrlZ())) {
		t.Error("it stops although nobody could take it up again")
	}
	c.shows("no shell is behind this console")

	f := fixture()
	f.Driving = map[fleet.HostID]bool{gpu041: true}
	c = open(t, f, 100, 30, shell(true))
	if suspends(c.m.key(ctrlZ())) {
		t.Error("it stops without a question while it drives a drain")
	}
	c.run(c.m.guard.Again(c.clock))
	c.painted()
	c.shows("gpu-041: nobody drives its drain while this stands still", "y suspend")
	c.clock = c.clock.Add(1e9)
	if suspends(c.m.key(keyPress("enter"))) {
		t.Error("enter suspends")
	}
	_ = c.m.key(ctrlZ())
	c.painted()
	c.clock = c.clock.Add(1e9)
	if !suspends(c.m.key(keyPress("y"))) {
		t.Error("y does not suspend")
	}
}

// A question that was open when the process stopped has to be painted anew
// before it is answered.
func TestResumeAsksAnew(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-017")
	c.press("u")
	c.painted()
	c.send(tea.ResumeMsg{})
	c.press("y")
	c.only()
	c.shows("wait")
	c.painted()
	c.press("y")
	c.only("uncordon prod/gpu-017 theirs=true")
}

// What was typed while the process stood still may be read before the program
// says that it is back: it answers nothing, acts on nothing and is no text.
func TestKeysTypedWhileStoppedAreDropped(t *testing.T) {
	c := open(t, fixture(), 100, 30, func(o *Options) { o.shell = func() bool { return true } })
	c.goHost("gpu-017")
	c.press("u")
	c.painted()
	if !suspends(c.m.key(ctrlZ())) {
		t.Fatal("ctrl-z does not suspend")
	}
	c.press("y", "enter", "y")
	c.send(tea.ResumeMsg{})
	c.press("y") // still ahead of the terminal's answer
	c.only()
	c.painted()
	c.press("y")
	c.only("uncordon prod/gpu-017 theirs=true")

	c = open(t, fixture(), 100, 30, func(o *Options) { o.shell = func() bool { return true } })
	c.goHost("gpu-044")
	_ = c.m.key(ctrlZ())
	c.press("c", "q", ":")
	c.send(tea.PasteMsg{Content: "cordon"})
	c.send(tea.ResumeMsg{})
	c.only()
	if c.quit || c.m.line != nil {
		t.Error("a key that was typed while it stood still counts")
	}
	c.press("c")
	c.only("cordon prod/gpu-044 on a hunch")
}

// Nothing is asked of a drain, a host or a gate by a console that was opened to
// look: every verb, by name, and every key on every screen.
func TestReadOnlyRefusesEveryVerbAndKey(t *testing.T) {
	f := fixture()
	f.Config.ReadOnly = true
	verbs := []feed.Verb{feed.Cordon, feed.Uncordon, feed.Drain, feed.Undrain, feed.Extend, feed.Stop, feed.MoreTime, feed.Reclass, feed.Hold, feed.Retry,
		feed.Escalate, feed.Keep, feed.HandOver, feed.Clean, feed.Verify, feed.Accept, feed.Terminate}
	for _, verb := range verbs {
		c := open(t, f, 120, 36, nil)
		c.v.gate = openGate(gpu041)
		c.send(feed.Want{Verb: verb, Host: gpu041, Hosts: []fleet.HostID{gpu041}, Key: wl("db", "pg-orders"), Keys: []fleet.Key{wl("db", "pg-orders")},
			Resource: leak, Issue: leakIssue, Text: "15m"})
		c.shows("read-only: this console was opened to look, not to " + string(verb))
		c.painted()
		c.press("y", "enter")
		c.only()
	}
	for screen := range 7 {
		c := open(t, f, 80, 24, nil)
		c.goHost("gpu-041")
		for _, b := range c.m.env.Keys.Own(keys.Screens()[screen]) {
			c.press("esc", "esc", "esc", fmt.Sprint(screen+1), b.Keys()[0])
			c.painted()
			c.press("y", "enter")
			c.only()
		}
	}
}

// What goes onto the clipboard is what the cursor is on.
func TestCopy(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-017")
	copied := func() string {
		t.Helper()
		cmd := c.m.copy()
		if cmd == nil {
			t.Fatal("nothing is copied")
		}
		return fmt.Sprint(cmd())
	}
	if got := copied(); got != "gpu-017" {
		t.Errorf("copied %q", got)
	}
	c.shows("copied, where the terminal allows it: gpu-017")
	c.press("6")
	if got := copied(); !strings.HasPrefix(got, "handover, 2026-11-29 14:2") || !strings.Contains(got, "gpu-041") || strings.Contains(got, "\x1b") {
		t.Errorf("copied %q", got)
	}
	c = atGate(t)
	if got := copied(); got != "~/.cache/ebb/proofs/prod_gpu-046.json" {
		t.Errorf("copied %q", got)
	}
	c = open(t, feed.Frame{}, 100, 30, nil)
	if c.m.copy() != nil {
		t.Error("something is copied where nothing is")
	}
}

// The wheel moves, and answers nothing.
func TestWheel(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.press("home")
	c.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if h := c.m.panes.all[keys.Fleet].Host(); h != "prod/gpu-046" {
		t.Errorf("the wheel leads to %s", h)
	}
	c.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	if h := c.m.panes.all[keys.Fleet].Host(); h != gpu041 {
		t.Errorf("and back to %s", h)
	}
	if c.m.View().MouseMode != tea.MouseModeNone {
		t.Error("the mouse is taken without being asked for")
	}
	c.m.opt.Mouse = true
	if c.m.View().MouseMode == tea.MouseModeNone {
		t.Error("the mouse is not taken")
	}
}
