package tui

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
)

// drain takes one host: with marks it must not act on the cursor instead.
func TestDrainRefusesMarks(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-047")
	c.press("space", "space")
	c.shows("2 marked")
	c.press("d")
	if c.m.over != nil {
		t.Fatal("a drain was begun while hosts are marked")
	}
	c.shows("drain takes one host, and 2 are marked: clear the marks with esc")
	c.press("esc")
	c.showsNot("2 marked")
	c.press("d")
	if c.m.over == nil {
		t.Error("without marks no drain is begun")
	}
}

// A drain that nobody drives says so, at every width, on both screens.
func TestNobodyDrives(t *testing.T) {
	f := fixture()
	s := drain041()
	s.Driver = ""
	f.Drains[gpu041] = s
	for _, w := range []int{50, 80, 120, 200} {
		c := open(t, f, w, 30, nil)
		c.shows("nobody drives")
		c.goHost("gpu-041")
		if w >= 80 {
			c.shows("nobody drives the drain of gpu-041: d takes it up")
		}
		c.press("enter")
		c.shows("nobody drives", "d takes it up")
		c.press("d")
		c.painted()
		c.shows("take up the drain of gpu-041")
	}
}

// When somebody else ends the drain that this console drives, it says who.
func TestEndedByAnother(t *testing.T) {
	f := fixture()
	f.Driving = map[fleet.HostID]bool{gpu041: true}
	c := open(t, f, 120, 30, nil)
	g := fixture()
	s := drain041()
	s.Phase, s.Driver = drain.Stopped, ""
	g.Drains[gpu041] = s
	e, err := drain.NewEvent(gpu041, "e99", "d-31", 1, drain.Actor{Name: "other"}, drain.AskStop{})
	if err != nil {
		t.Fatal(err)
	}
	e.At = now.Add(time.Minute)
	g.Events = append(g.Events, e)
	c.frame(g)
	c.shows("gpu-041: other stopped this drain at 14:26")
	// Ended from here, it is no news.
	c = open(t, f, 120, 30, nil)
	c.toBoardRow("web-7")
	c.press("s")
	c.painted()
	c.press("y")
	c.frame(g)
	c.showsNot("other stopped")
}

// A host that was terminated is that on every screen, and needs nobody.
func TestTerminatedIsItsOwnState(t *testing.T) {
	f := fixture()
	s := drain046()
	s.Phase, s.Issues, s.Terminated, s.TerminatedBy, s.Driver = drain.Empty, nil, ago(time.Minute), "root", ""
	f.Drains[gpu046] = s
	h := hostOf(&f, gpu046)
	h.Unreachable, h.Problem = ago(30*time.Second), "no route"
	c := open(t, f, 120, 34, nil)
	c.v.gate = openGate(gpu046)
	c.shows("□ terminated", "terminated 14:24 by root", "1 terminated")
	c.goHost("gpu-046")
	c.press("enter")
	c.shows("□ terminated", "terminated 14:24 by root")
	c.showsNot("no route", "4 gate")
	c.press("4")
	c.shows("□ terminated 14:24 by root")
	c.showsNot("the proof holds", "can it be terminated", "t terminate ", "could not be read")
	c.press("t")
	c.only()
	c.shows("gpu-046 was terminated 14:24 by root")
	c.press("6")
	c.shows("TERMINATED")
	c.showsNot("held and unreachable")
}

// The footer of a board without a drain offers what works there.
func TestBoardWithoutADrainBeginsOne(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.goHost("gpu-044")
	c.press("enter")
	c.shows("? keys   d drain")
	c.showsNot("e escalate")
	c.press("x")
	c.shows("no drain runs on gpu-044: d begins one")
	c.press("d")
	c.painted()
	c.shows("drain gpu-044", "deadline")
}

// The result line goes with the next key or after a while; an error stays.
func TestResultLineGoes(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.goHost("gpu-044")
	c.press("c")
	c.shows("cordon gpu-044: plane and host are told")
	c.press("j")
	c.showsNot("plane and host are told")
	c.press("c")
	c.shows("cordon gpu-045: plane and host are told")
	c.clock = c.clock.Add(31 * time.Second)
	c.showsNot("plane and host are told")
	c.v.err = errors.New("the plane said no")
	c.press("c")
	c.press("j")
	c.clock = c.clock.Add(time.Minute)
	c.shows("the plane said no")
}

// One act on several hosts names each of them, those too where it failed.
func TestResultNamesAllHosts(t *testing.T) {
	c := open(t, fixture(), 160, 30, nil)
	c.goHost("gpu-050")
	c.press("space", "space", "c")
	c.shows("cordon gpu-050, gpu-051: plane and host are told")
	c.v.err = errors.New("the plane said no")
	c.press("up", "up", "space", "space", "c")
	c.shows("cordon failed: gpu-050 (the plane said no), gpu-051 (the plane said no)")
}

// What was given up is not done, and is not asked again in the result line.
func TestGivenUpIsNotDone(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.toBoardRow("web-7")
	c.press("x", "esc")
	c.shows("not done: nothing was changed")
	c.showsNot("extend the deadline by")
}

// From an empty host the way to its end is named, on the fleet and on the board.
func TestEmptyNamesTheWayOn(t *testing.T) {
	f := fixture()
	s := drain046()
	s.Phase, s.Issues = drain.Empty, nil
	f.Drains[gpu046] = s
	for _, w := range []int{80, 120, 200} {
		c := open(t, f, w, 30, nil)
		c.goHost("gpu-046")
		c.shows("gpu-046 is empty: the gate (4) verifies and terminates")
		c.showsNot("verified")
		c.press("v")
		c.shows("v works on the gate: 4")
		c.press("enter")
		c.shows("empty: the gate (4) verifies and terminates")
		c.press("t")
		c.shows("t works on the gate: 4")
	}
}

// Each key of the board has a sentence, and each letter of a class a meaning.
func TestHelpOfTheBoardSaysWhatKeysDo(t *testing.T) {
	c := open(t, fixture(), 160, 44, nil)
	c.toBoardRow("web-7")
	c.press("?")
	c.shows("hold: leave it alone from now on; r ends that", "keep: it may stay, the gate names it; r ends that", "ephemeral: let it expire", "unclassified:")
	m := c.m.env.Keys
	sentences := m.Help("board")[0].Bindings
	for i, b := range m.Own("board") {
		if sentences[i].Help().Key != b.Help().Key || sentences[i].Help().Desc == b.Help().Desc {
			t.Errorf("%s has no sentence: %s", b.Help().Key, sentences[i].Help().Desc)
		}
	}
	c = open(t, fixture(), 80, 24, nil)
	c.press("?")
	c.shows("ephemeral", "unclassified")
}

// A row that needs somebody names the keys that answer it.
func TestRowsThatNeedYouNameTheirKeys(t *testing.T) {
	c := open(t, fixture(), 120, 40, nil)
	c.toBoardRow("pg-orders")
	c.shows("r retry · e escalate · K keep", "e escalate · K keep · c class")
}

// Where no receiver is configured, nobody is said to be told.
func TestNoReceiver(t *testing.T) {
	f := fixture()
	c := open(t, f, 120, 40, nil)
	c.toBoardRow("pg-orders")
	c.press("e")
	c.shows("no receiver: the owner is not told", "KILL, if it is still there")
	if !regexp.MustCompile(`at 14:\d\d:\d\d: TERM`).MatchString(ansi.Strip(c.m.Screen())) {
		t.Error("TERM has no time with seconds")
	}
	c.showsNot("its owner is told")
	f.Policy.Receivers = true
	c = open(t, f, 120, 40, nil)
	c.toBoardRow("pg-orders")
	c.press("e")
	c.shows("now: its owner is told")
	c.showsNot("no receiver")
}

// What has ended is not judged by what is found now.
func TestDetailsOfWhatHasEnded(t *testing.T) {
	f := fixture()
	s := drain041()
	it := s.Items[wl("container", "web-6")]
	it.Verdict, it.Target, it.FlippedAt = fleet.Orphan, "prod/gpu-044", ago(time.Minute)
	s.Items[it.Key] = it
	f.Drains[gpu041] = s
	c := open(t, f, 120, 40, nil)
	c.toBoardRow("web-6")
	c.shows("moved to gpu-044")
	c.press("enter")
	c.shows("web-6", "moved to gpu-044")
	c.showsNot("orphan", "may die")
}
