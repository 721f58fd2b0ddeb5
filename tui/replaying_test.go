package tui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/replay"
)

// filmed is the journal of the fixture: its events with what a drain writes
// between them.
func filmed(t *testing.T) *replay.Tape {
	t.Helper()
	var out []drain.Event
	add := func(before time.Duration, by string, b drain.Body) {
		e, err := drain.NewEvent(gpu041, fmt.Sprintf("f%d", len(out)+1), "d-31", 1, drain.Actor{Name: by}, b)
		if err != nil {
			t.Fatal(err)
		}
		e.Seq, e.Num, e.At = uint64(len(out)+1), uint64(len(out)+1), ago(before)
		out = append(out, e)
	}
	found := func(c fleet.Class, kind, id, owner string, n int) drain.Found {
		return drain.Found{Key: wl(kind, id), Run: pid(n), Runs: []fleet.Run{pid(n)}, Class: c, Owner: owner, Verdict: fleet.Agreed, Phase: fleet.Running,
			Budget: drain.DefaultPolicy().Defaults[c], MayDie: c == fleet.Stuck}
	}
	add(24*time.Minute, "mira", drain.RecCordon{Reason: "CVE-2026-1183"})
	add(23*time.Minute, "mira", drain.RecCordoned{State: fleet.Cordoned, Proved: []string{"flag", "host", "eligibility"}})
	add(21*time.Minute, "mira", drain.AskStart{Deadline: hence(24 * time.Minute), For: fleet.ForKernel, Reason: "CVE-2026-1183", MayDie: []fleet.Key{wl("job", "etl-legacy")}})
	add(20*time.Minute, "bastion-2", drain.DriveTook{Driver: "bastion-2", Machine: "m", Boot: "b1"})
	add(20*time.Minute, "bastion-2", drain.DrivePhase{Phase: drain.Cordoning})
	add(19*time.Minute, "bastion-2", drain.DriveIntent{Act: drain.Act{ID: "c", Kind: drain.ActCordon}})
	add(19*time.Minute, "bastion-2", drain.DriveOutcome{Act: "c", Result: drain.Done})
	add(19*time.Minute, "bastion-2", drain.DrivePhase{Phase: drain.Draining})
	add(18*time.Minute, "bastion-2", drain.DriveFound{Items: []drain.Found{
		found(fleet.Stateless, "container", "web-7", "search", 1), found(fleet.Durable, "db", "pg-orders", "payments", 2), found(fleet.Stuck, "job", "etl-legacy", "data", 3)}})
	add(17*time.Minute, "bastion-2", drain.DriveWaits{Reasons: []drain.Wait{{Key: wl("db", "pg-orders"), Reason: fleet.Because(drain.WaitNoStrategy, "class", "durable")}}})
	add(12*time.Minute, "mira", drain.AskHandover{To: "lena", Note: "pg-orders: its standby catches up at about 14:40, then promote"})
	add(6*time.Minute, "bastion-2", drain.DriveMissing{Keys: []fleet.Key{wl("container", "web-7")}})
	add(5*time.Minute, "bastion-2", drain.DriveEnded{Ends: []drain.Ended{{Key: wl("container", "web-7"), End: drain.LeftHost, By: "owner"}}})
	tape, err := replay.Of(out)
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

// playing opens a console that plays the journal, and nothing else.
func playing(t *testing.T, w, h int, change func(*Options)) *console {
	t.Helper()
	p := replay.NewPlayer("maintenance.jsonl", filmed(t))
	c := &console{t: t, v: &verbs{}, clock: now}
	o := Options{Replay: &p, Theme: "mono", Now: func() time.Time { return c.clock }, Local: time.FixedZone("EST", -5*3600),
		Getenv: func(k string) string { return map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color"}[k] }}
	if change != nil {
		change(&o)
	}
	m, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.m = m
	c.send(tea.WindowSizeMsg{Width: w, Height: h})
	return c
}

// roll lets real time pass, in ticks as the program has them.
func (c *console) roll(d time.Duration) {
	for ; d > 0; d -= rollEvery {
		c.clock = c.clock.Add(rollEvery)
		c.m.update(rolledMsg{c.m.film.gen})
	}
	c.m.Screen()
}

func TestReplayGoesOnByItsKeys(t *testing.T) {
	c := playing(t, 120, 36, nil)
	c.m.film.last = c.clock
	c.m.film.gen = 1
	c.shows("REPLAY", "maintenance.jsonl", "playing 1x", "14:01:59 UTC", "event 1 of 13", "cordoning: CVE-2026-1183")
	c.roll(30 * time.Second)
	c.shows("14:02:29 UTC", "event 1 of 13")
	c.press("+", "+", "+")
	c.shows("playing 60x")
	c.m.film.last = c.clock
	c.roll(6 * time.Second)
	c.shows("14:08:29 UTC", "event 9 of 13", "etl-legacy", "3/3 left")
	c.press("space")
	c.shows("paused")
	c.roll(time.Minute)
	c.shows("14:08:29 UTC")
	c.press(".")
	c.shows("event 10 of 13", "14:08:59 UTC", "pg-orders")
	c.press(",", ",")
	c.shows("event 8 of 13")
	c.press("n")
	c.shows("event 10 of 13", "1 needs you")
	c.press("n")
	c.shows("nobody is needed after this")
	c.press(">")
	c.shows("at the end", "event 13 of 13", "2/3 left")
	c.press("@")
	c.text("14:15")
	c.press("enter")
	c.shows("14:15:00 UTC", "event 11 of 13")
	c.press("@")
	c.text("soon")
	c.press("enter")
	c.shows("not a time: soon")
	c.press("<")
	c.shows("event 1 of 13")
	c.press("space")
	c.shows("playing 60x")
	c.press("-", "-", "-", "-")
	c.shows("playing 1x")
	c.press("q")
	if !c.quit {
		t.Error("q does not end it")
	}
}

// Countdowns stand still while the replay does, and ages run by its clock.
func TestReplayHasItsOwnClock(t *testing.T) {
	c := playing(t, 120, 36, nil)
	c.press(">")
	before := c.m.Screen()
	c.clock = c.clock.Add(72 * time.Hour)
	if after := c.m.Screen(); after != before {
		t.Errorf("it changes with time that is not its own:\n%s", after)
	}
	c.shows("14:20:59 UTC", "ends 14:49")
}

// Every verb there is, wanted by name: each is answered, none is called.
func TestReplayCantAct(t *testing.T) {
	all := []feed.Verb{feed.Cordon, feed.Uncordon, feed.Plan, feed.Drain, feed.Undrain, feed.Extend, feed.Stop, feed.MoreTime, feed.Reclass, feed.Hold,
		feed.Retry, feed.Escalate, feed.Keep, feed.HandOver, feed.Clean, feed.Check, feed.Verify, feed.Accept, feed.Terminate}
	for _, v := range all {
		c := open(t, fixture(), 120, 36, nil)
		c.m.play(replay.NewPlayer("j", filmed(t)), gpu041)
		c.send(feed.Want{Verb: v, Host: gpu041, Hosts: []fleet.HostID{gpu041}, Key: wl("job", "etl-legacy"), Keys: []fleet.Key{wl("job", "etl-legacy")}, Run: pid(3)})
		c.shows("this is a replay: nothing to " + string(v))
		if c.m.over != nil || c.m.line != nil || len(c.m.running) > 0 {
			t.Errorf("%s opened or began something", v)
		}
		c.only()
	}
}

// Every key of every screen, and every verb that is typed: those that act are
// answered, and none begins anything.
func TestReplayAnswersEveryKeyThatActs(t *testing.T) {
	k := keys.Default()
	acted := 0
	for i, s := range keys.Screens() {
		c := open(t, fixture(), 100, 30, nil)
		c.m.play(replay.NewPlayer("j", filmed(t)).End(), gpu041)
		for _, b := range k.Own(s) {
			for _, name := range b.Keys() {
				c.press(string(rune('1'+i)), name)
				if acting(k, s, name) != "" {
					acted++
					c.shows("this is a replay")
				}
				if _, asks := c.m.over.(*question); asks || len(c.m.running) > 0 {
					t.Errorf("%s on %s began something", name, s)
				}
				c.m.over, c.m.line = nil, nil
			}
		}
		c.only()
	}
	if acted < 20 {
		t.Errorf("only %d keys act", acted)
	}
	for _, cmd := range commands() {
		v := feed.Verb(cmd.name)
		if cmd.takes == value || cmd.takes == nothing || cmd.says == screenSays {
			continue
		}
		c := open(t, fixture(), 100, 30, nil)
		c.m.play(replay.NewPlayer("j", filmed(t)), gpu041)
		c.press(":")
		c.text(string(v) + " gpu-041")
		if v == feed.HandOver || v == feed.Extend {
			c.text(" 15m")
		}
		c.press("enter")
		if v == feed.HandOver || v != feed.Plan {
			c.shows("this is a replay")
		}
		c.only()
	}
}

// acting is the verb of a key on a screen.
func acting(k keys.Map, s keys.Scope, name string) feed.Verb {
	for v, b := range acts(k, s) {
		for _, n := range b.Keys() {
			if n == name {
				return v
			}
		}
	}
	return ""
}

// The keys of a replay hide nothing but acts, marks and quitting.
func TestReplayKeysHideNoOtherKey(t *testing.T) {
	k := keys.Default()
	taken := map[string]string{}
	for _, b := range k.Own(keys.Replay) {
		for _, name := range b.Keys() {
			if taken[name] != "" {
				t.Errorf("%q is both %q and %q", name, taken[name], b.Help().Desc)
			}
			taken[name] = b.Help().Desc
		}
	}
	for _, s := range append(keys.Screens(), keys.Global) {
		for _, b := range k.Own(s) {
			for _, name := range b.Keys() {
				if taken[name] != "" && acting(k, s, name) == "" && b.Help() != k.Global.Mark.Help() && b.Help() != k.Global.Quit.Help() {
					t.Errorf("%s: %q is %q, and %q in a replay", s, name, b.Help().Desc, taken[name])
				}
			}
		}
	}
	c := playing(t, 120, 36, nil)
	c.press("?")
	c.shows("REPLAY", "next that needs a person")
}

// Each line carries the mark, at every size, under a dialog too.
func TestReplayIsMarkedOnEveryLine(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 5}, {3, 9}, {21, 6}, {40, 12}, {80, 24}, {120, 36}, {200, 50}, {300, 60}} {
		for _, key := range []string{"", "?", ":", "enter", "7", "6", "4", "1"} {
			c := playing(t, size[0], size[1], nil)
			c.press(">")
			if key != "" {
				c.press(key)
			}
			screen := ansi.Strip(c.m.Screen())
			checkSize(t, screen, size[0], size[1])
			for _, l := range strings.Split(screen, "\n") {
				if !strings.HasPrefix(l, "R") || size[0] > 1 && !strings.HasPrefix(l, "R│") {
					t.Fatalf("%v after %q: a line is not marked:\n%s", size, key, screen)
				}
			}
		}
	}
}

// historian is a source that can read its whole journal.
type historian struct {
	*source
	events []drain.Event
}

func (h historian) History(context.Context) ([]drain.Event, error) { return h.events, nil }

// R plays the journal of the log; the console behind goes on, and comes back with
// what happened meanwhile.
func TestReplayFromTheLogAndBack(t *testing.T) {
	var src *source
	c := open(t, fixture(), 120, 36, func(o *Options) {
		src = o.Source.(*source)
		o.Source = historian{src, filmed(t).Events()}
	})
	c.goHost("gpu-041")
	c.press("2", "7", "R")
	c.shows("REPLAY", "event 3 of 13") // from the beginning of its drain
	c.press("u", "d", "6", "2", "e")
	c.only()
	f := fixture()
	f.Config.Operator = "noor"
	c.send(frameMsg{frame: f})
	c.shows("REPLAY", "event 3 of 13")
	c.press("q")
	c.showsNot("REPLAY", "R│")
	if c.quit || c.m.cur != keys.Log || c.m.frame.Config.Operator != "noor" || c.m.film != nil {
		t.Errorf("back on %s, with the frame of %s, quit %v", c.m.cur, c.m.frame.Config.Operator, c.quit)
	}
	c.goHost("gpu-044")
	c.press("c")
	c.only("cordon prod/gpu-044 on a hunch")

	c.press("7", "up", "R") // from the event under the cursor
	c.showsNot("event 3 of")
	c.press("esc")
	c.showsNot("REPLAY")
}

func TestReplayOfNothing(t *testing.T) {
	f := fixture()
	f.Events = nil
	c := open(t, f, 120, 36, nil)
	c.press("7", "R")
	c.shows("nothing to replay yet")
}

// A replay that lies over a console which drives a drain does not quit it.
func TestReplayTooSmallDoesNotQuitTheConsole(t *testing.T) {
	c := open(t, fixture(), 120, 36, nil)
	c.m.play(replay.NewPlayer("j", filmed(t)), gpu041)
	c.send(tea.WindowSizeMsg{Width: 10, Height: 4})
	c.press("ctrl+c")
	if c.quit || c.m.film != nil {
		t.Errorf("quit %v, still playing %v", c.quit, c.m.film != nil)
	}
}

func TestMoment(t *testing.T) {
	for text, want := range map[string]string{"14:26": "14:26:00", "09:00:05": "09:00:05", "+5m": "14:30:59", "-59s": "14:25:00"} {
		at, err := moment(text, now)
		if err != nil || at.Format("15:04:05") != want || at.Day() != now.Day() {
			t.Errorf("%s: %v %v", text, at, err)
		}
	}
	if at, err := moment("2026-11-30 01:02", now); err != nil || at.Day() != 30 {
		t.Error(at, err)
	}
}

func TestGoldenReplay(t *testing.T) {
	for name, lead := range map[string]func(*console){
		"board":    func(c *console) { c.press(">") },
		"needs":    func(c *console) { c.press("n") },
		"fleet":    func(c *console) { c.press(">", "1") },
		"log":      func(c *console) { c.press(">", "7") },
		"handover": func(c *console) { c.press(">", "6") },
		"gate":     func(c *console) { c.press(">", "4") },
	} {
		for _, size := range [][2]int{{80, 24}, {120, 36}, {200, 50}} {
			for _, theme := range []string{"dark", "mono"} {
				t.Run(fmt.Sprintf("%s-%dx%d-%s", name, size[0], size[1], theme), func(t *testing.T) {
					c := playing(t, size[0], size[1], func(o *Options) { o.Theme = theme })
					lead(c)
					screen := c.m.Screen()
					checkSize(t, screen, size[0], size[1])
					if theme == "mono" {
						screen = ansi.Strip(screen)
					}
					golden.RequireEqual(t, screen)
				})
			}
		}
	}
}
