package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
)

// What runs ends while its owner is asked about: the answer is a refusal, not a
// tick, and of several the others are asked for.
func TestAskedTooLateIsRefused(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.toBoardRow("web-7")
	gone := fleet.Issue{Key: wl("container", "web-7"), Detail: "container/web-7 has left at 14:25:58 UTC"}
	c.v.err = refusal{[]fleet.Issue{gone}}
	c.press("h")
	c.painted()
	c.shows("refused: hold gpu-041 container/web-7", "has left at 14:25:58 UTC")
	c.showsNot("✓", "held; why")
	c.press("esc")
	c.v.err = errors.New("the journal can't be written")
	c.press("h")
	c.shows("failed: the journal can't be written")
	c.showsNot("held; why")
}

// What a person has said of a workload is taken back by a key that stands there.
func TestKeepAndHoldSayHowTheyEnd(t *testing.T) {
	f := fixture()
	s := f.Drains[gpu041]
	items := map[fleet.Key]drain.Item{}
	for k, it := range s.Items {
		if k == wl("container", "web-7") {
			it.Keep, it.Reason = true, fleet.Because(drain.WaitKept, "why", "release day", "by", "mira")
		}
		items[k] = it
	}
	s.Items = items
	f.Drains[gpu041] = s
	c := open(t, f, 80, 24, nil)
	c.toBoardRow("web-7")
	c.shows("? keys   r end the keep", "r ends that")
	c.press("r")
	c.only("ask prod/gpu-041 ask.retry {Key:container/web-7}")
	c.toBoardRow("pg-orders")
	c.shows("? keys   r end the hold")
	c.toBoardRow("etl-legacy")
	c.showsNot("r end the")
	c.toBoardRow("web-7")
	c.press("K", "enter")
	c.shows("a reason is needed")
}

// The reason of a cordon that was set with one key is said with the next.
func TestCordonAgainSaysWhy(t *testing.T) {
	c := open(t, fixture(), 80, 24, nil)
	c.goHost("gpu-044")
	c.press("c")
	c.shows("c again says why")
	c.v.calls = nil
	c.goHost("gpu-041") // of mira
	c.press("c")
	c.shows("gpu-041 is cordoned; why: CVE-2026-1183")
	c.press("enter")
	c.only()
	c.press("c")
	c.text("fan is loud")
	c.press("enter")
	c.only("reword prod/gpu-041 fan is loud")
	c.v.calls = nil
	c.goHost("gpu-017") // of ops
	c.press("c")
	c.only()
	c.shows("gpu-017 is cordoned by ops")
}

// A word on what was done stays on its screen, and one that is too long for a
// line is not cut.
func TestWordsOnWhatWasDone(t *testing.T) {
	c := open(t, fixture(), 80, 24, nil)
	long := "gpu-044 is a host about which there is so much to say that no line of eighty cells has room for it"
	c.m.say(noteOK, long)
	screen := strings.Join(strings.Fields(ansi.Strip(c.m.Screen())), " ")
	if !strings.Contains(screen, long) {
		t.Errorf("it is cut:\n%s", c.m.Screen())
	}
	c.press("2")
	c.showsNot("so much to say")
	c.m.say(noteBad, "it did not work")
	c.press("3")
	c.shows("it did not work") // it had only just come
	c.clock = c.clock.Add(errorFor)
	c.press("4")
	c.showsNot("it did not work")
	c.m.say(noteInfo, "said here")
	c.clock = c.clock.Add(noteFor)
	c.showsNot("said here")
}

// The help goes by pages, and to its ends.
func TestHelpGoesByPages(t *testing.T) {
	c := open(t, fixture(), 60, 16, nil)
	c.toBoardRow("web-7")
	c.press("?")
	h := c.m.over.(*help)
	all := h.below
	if all < h.room {
		t.Fatalf("%d lines below, %d shown: not two pages", all, h.room)
	}
	for _, s := range []struct {
		key string
		top int
	}{{"j", 1}, {"k", 0}, {"k", 0}, {"pgdown", h.room - 1}, {"pgup", 0}, {"G", all}, {"j", all}, {"pgdown", all}, {"g", 0}, {"end", all}, {"home", 0}} {
		c.press(s.key)
		if h.top != s.top || h.top+h.below != all {
			t.Errorf("%s leads to line %d, not %d; %d below", s.key, h.top, s.top, h.below)
		}
	}
	c.press("end")
	c.shows("pgup")
}

// Quitting a demo ends its hosts, and so its drains: that is what it says, and
// what terminate is there.
func TestADemoSaysWhatEnds(t *testing.T) {
	f := fixture()
	f.Config.Demo = 12
	f.Driving = map[fleet.HostID]bool{gpu041: true}
	c := open(t, f, 80, 24, nil)
	c.press("q")
	c.painted()
	c.shows("quit the demo", "its 12 hosts, and what runs on them, end with this console", "gpu-041: its drain ends with it")
	c.showsNot("takes it up")
	c.press("n")
	c.v.gate = openGate(gpu046)
	c.goHost("gpu-046")
	c.press("4", "v", "t")
	c.painted()
	c.shows("terminate gpu-046", "no real machine is touched")
}

// A host that is being terminated falls silent: that is no outage. One whose
// terminate has no outcome for long is for a person.
func TestTerminatingIsNoOutage(t *testing.T) {
	f := fixture()
	s := f.Drains[gpu046]
	s.Terminating = drain.Termination{Act: "a", At: ago(20 * time.Second), By: "mira"}
	f.Drains[gpu046] = s
	host := hostOf(&f, gpu046)
	host.Unreachable, host.Problem = ago(10*time.Second), "connection refused"
	c := open(t, f, 120, 36, nil)
	c.shows("terminating since 14:25:39 by mira", "2 need you", "2 draining")
	c.showsNot("◌ unreachable 10s", "settle it")
	c.goHost("gpu-046")
	c.press("enter")
	c.shows("terminating since 14:25:39 by mira: that it falls silent is part of it")
	s.Terminating.At = ago(time.Hour)
	f.Drains[gpu046] = s
	c.frame(f)
	c.press("1")
	c.shows("no outcome: look, then settle it", "3 need you")
}

// Before the first look at a host nothing of it is counted.
func TestNothingIsCountedBeforeTheFirstLook(t *testing.T) {
	f := fixture()
	s := f.Drains[gpu041]
	s.First, s.Phase, s.Items = false, drain.Cordoning, nil
	f.Drains[gpu041] = s
	c := open(t, f, 80, 24, nil)
	c.showsNot("0/0", "0 of 0")
	c.shows("reading")
	c.goHost("gpu-041")
	c.press("enter")
	c.shows("not counted yet")
}
