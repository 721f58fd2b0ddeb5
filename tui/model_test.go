package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
)

func TestScreensByKeyAndName(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	for i, s := range keys.Screens() {
		c.press(string(rune('1' + i)))
		if c.m.cur != s {
			t.Errorf("%d opened %s", i+1, c.m.cur)
		}
	}
	for _, s := range keys.Screens() {
		c.press(":")
		c.text(string(s))
		c.press("enter")
		if c.m.cur != s {
			t.Errorf(":%s opened %s", s, c.m.cur)
		}
	}
}

func TestEscLeadsBack(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-041")
	c.press("enter", "D")
	if c.m.cur != keys.Diff || c.m.host != gpu041 {
		t.Fatalf("on %s of %s", c.m.cur, c.m.host)
	}
	c.press("esc")
	if c.m.cur != keys.Board {
		t.Errorf("esc led to %s", c.m.cur)
	}
	c.press("esc")
	if c.m.cur != keys.Fleet || c.m.panes.all[keys.Fleet].Host() != gpu041 {
		t.Errorf("esc led to %s, cursor on %s", c.m.cur, c.m.panes.all[keys.Fleet].Host())
	}
}

func TestKeysGoToTheTopmost(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	c.press("/")
	c.text("qcd1?") // all letters now
	if c.m.cur != keys.Fleet || c.m.over != nil {
		t.Error("a key of the line reached the screen")
	}
	c.only()
	c.shows("none of 18 matches")
	c.press("esc")
	c.press("?")
	c.shows("EVERYWHERE", "saying why")
	c.press("c", "d", "2")
	c.only()
	if c.m.cur != keys.Fleet {
		t.Error("a key went through the help")
	}
	c.press("esc", "2")
	if c.m.cur != keys.Board {
		t.Error("the help did not close")
	}
}

func TestFilter(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.press("/")
	c.text("state:draining")
	c.shows("gpu-041")
	c.showsNot("gpu-044")
	c.press("enter", "2", "esc")
	c.showsNot("gpu-044") // it stays
	c.press("esc")
	c.shows("gpu-044")
	c.press("/")
	c.text(`"open`)
	c.press("enter")
	c.shows("a quote is not closed")
}

func TestPalette(t *testing.T) {
	type step struct{ typed, wants, shows string }
	for _, s := range []step{
		{"cordon gpu-044 looks slow", "cordon prod/gpu-044 looks slow", ""},
		{"cordon prod/gpu-044", "cordon prod/gpu-044 on a hunch", ""},
		{"cordon gpu-047 gpu-048 gpu-049", "cordon prod/gpu-047 on a hunch\ncordon prod/gpu-048 on a hunch\ncordon prod/gpu-049 on a hunch", ""},
		{"cordon gpu-044 -- like gpu-45", "cordon prod/gpu-044 like gpu-45", ""},
		{"uncordon gpu-999", "", "no host is called gpu-999"},
		{"terminate gpu-04", "", "no host is called gpu-04: did you mean gpu-041"},
		{"launch gpu-044", "", "no command is called launch"},
		{"cordn gpu-044", "", "no command is called cordn: did you mean cordon?"},
		{"extend gpu-041 30m", "ask prod/gpu-041 ask.extend", ""},
		{"extend gpu-041 soon", "", "soon is no duration"},
		{"theme nothing", "", "no such theme"},
		{"sort size", "", "hosts can be sorted by attention"},
		{"group zone", "", "no host has a label zone"},
		{"handover gpu-041 watch pg", "ask prod/gpu-041 ask.handover", ""},
		{"hold gpu-041 db/pg-orders catching up", "ask prod/gpu-041 ask.hold {Key:db/pg-orders Reason:catching up}", ""},
		{"keep gpu-041 pg-orders wanted", "ask prod/gpu-041 ask.keep {Key:db/pg-orders Reason:wanted}", ""},
		{"more-time gpu-041 container/web-7 10m", "ask prod/gpu-041 ask.more_time {Key:container/web-7 By:10m0s}", ""},
		{"class gpu-041 db/pg-orders stuck", "ask prod/gpu-041 ask.class {Key:db/pg-orders Class:stuck}", ""},
		{"class gpu-041 db/pg-orders stack", "", "no class is called stack: did you mean stuck?"},
		{"hold gpu-041 db/pg-order", "", "nothing on gpu-041 is called db/pg-order: did you mean db/pg-orders?"},
		{"extend gpu-041 5", "", "5 of what? write 5m for minutes, 5h for hours"},
		{"extend gpu-041 5h", "ask prod/gpu-041 ask.extend", ""},
		{"retry gpu-041 db/pg-orders", "ask prod/gpu-041 ask.retry {Key:db/pg-orders}", ""},
		{"retry gpu-041", "", "the drain does not wait for a word"},
		{"hold gpu-041 web-6", "", "nothing on gpu-041 is called web-6"},
		{"stop gpu-044", "", "gpu-044 has no drain"},
		{"quit now", "", "quit takes nothing"},
	} {
		c := open(t, fixture(), 120, 30, nil)
		c.command(s.typed)
		if got := c.v.called(); !strings.HasPrefix(got, s.wants) || (s.wants == "") != (got == "") {
			t.Errorf(":%s called %q", s.typed, got)
		}
		if s.shows != "" {
			c.shows(s.shows)
		}
	}
}

// A mistyped name of a host acts on no host, whichever verb it stands behind and
// whatever the cursor is on.
func TestMistypedHostActsOnNone(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.goHost("gpu-041")
	for _, cmd := range commands() {
		if cmd.takes == nothing || cmd.takes == value {
			continue
		}
		for _, rest := range []string{"gpu-44", "gpu-44 some words", "gpu-044x", "gpu-041 gpu-44"} {
			if rest == "gpu-041 gpu-44" && cmd.takes == hostText {
				continue // words of one's own may be any
			}
			c.command(cmd.name + " " + rest)
			c.only()
			if c.m.line == nil || c.m.over != nil || c.m.cur != keys.Fleet {
				t.Fatalf(":%s %s went on", cmd.name, rest)
			}
			if rest == "gpu-44" {
				c.shows("no host is called gpu-44: did you mean gpu-044?")
			}
			c.press("esc")
		}
	}
	c.command("cordon slow")
	c.only()
	c.shows("for gpu-041, on which the cursor is, write :cordon . slow")
	c.press("esc")
	c.command("cordon . slow")
	c.only("reword prod/gpu-041 slow") // it is cordoned: what is new is why
}

// What is typed is completed by tab: commands, hosts, workloads, classes. The
// list above says why a verb can't be done now.
func TestPaletteCompletes(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.goHost("gpu-044")
	c.press(":")
	c.shows("cordon HOST… [REASON]")
	c.text("und")
	c.shows("undrain HOST", "✗ gpu-044: it has no drain")
	c.press("tab", " ")
	c.text("gpu-04")
	c.press("down", "tab")
	if got := c.m.line.prompt.Value(); got != "undrain gpu-042" {
		t.Errorf("completed to %q", got)
	}
	c.press("esc", ":")
	c.text("class gpu-041 db/")
	c.shows("held by mira")
	c.press("tab", " ", "d", "tab")
	if got := c.m.line.prompt.Value(); got != "class gpu-041 db/pg-orders durable" {
		t.Errorf("completed to %q", got)
	}
	c.press("esc", ":")
	c.text("sort ag")
	c.press("tab", "enter")
	c.shows("sorted: agent")
	c.press(":")
	c.text("group po")
	c.press("tab", "enter")
	c.shows("by pool")
	c.press(":")
	c.text("filter pool=h100-b")
	c.press("enter")
	c.shows("4 of 18")
	c.press(":")
	c.text("filter")
	c.press("enter")
	c.showsNot("4 of 18")
	ro := fixture()
	ro.Config.ReadOnly = true
	c = open(t, ro, 120, 30, nil)
	c.press(":")
	c.shows("✗ gpu-041: read-only")
}

// On the board a verb without a name is about the workload under the cursor, as
// its key is.
func TestPaletteOnTheBoard(t *testing.T) {
	c := open(t, fixture(), 120, 36, nil)
	c.toBoardRow("pg-orders")
	c.press(":")
	c.text("retry")
	c.press("enter")
	c.only("ask prod/gpu-041 ask.retry {Key:db/pg-orders}")
	c.v.calls = nil
	c.press(":")
	c.text("escalate container/web-7")
	c.press("enter")
	c.painted()
	c.shows("escalate container/web-7 on gpu-041")
	c.only()
}

func TestCrumbs(t *testing.T) {
	c := open(t, fixture(), 120, 30, nil)
	c.goHost("gpu-041")
	c.press("enter", "D", "4")
	c.shows("fleet › gpu-041 › board › diff › gate")
	c.press("esc")
	c.shows("fleet › gpu-041 › board › diff ")
	c.press("4", "2")
	c.shows("fleet › gpu-041 › board ") // on the way already: it is gone back to
	c.press("esc")
	c.shows("ebb  fleet ")
	c.press("enter")
	c.send(tea.WindowSizeMsg{Width: 60, Height: 20})
	c.press("3", "4", "5", "7")
	c.shows("… › ")
	two := fixture()
	two.Snapshot.Planes = append(two.Snapshot.Planes, fleet.ProbeStatus{Name: "other", Status: fleet.OK, At: now})
	c = open(t, two, 120, 30, nil)
	c.goHost("gpu-041")
	c.press("enter")
	c.shows("fleet › prod/gpu-041 › board")
}

// The plan of all marked hosts stands in one scroll, and the cursor says which
// one is drained.
func TestPlanOfMarkedHosts(t *testing.T) {
	c := open(t, fixture(), 120, 36, nil)
	c.goHost("gpu-047")
	c.press("space", "space", "5")
	c.shows("plan of 2", "2 hosts", "gpu-047   3 leave · 1 stay · ✗ 1 may die", "gpu-048   3 leave", "may die (2): job/etl-legacy on gpu-047, job/etl-legacy on gpu-048")
	c.press("end", "d")
	c.painted()
	c.shows("drain gpu-048", "deadline  45m", "for", "reason")
	c.press("enter")
	c.painted()
	c.shows("drain gpu-048 until 15:10")
	c.press("esc", "x", "ctrl+u")
	c.text("2h")
	c.press("enter")
	c.shows("drains until 16:2")
	c.press("d")
	c.painted()
	c.shows("deadline  2h") // that of the plan on the screen
	c.press("esc")
	c.press("esc", "esc")
	c.goHost("gpu-047")
	c.press("5")
	c.showsNot("2 hosts")
	c.shows("a drain until 15:1")
	c.press(":")
	c.text("plan gpu-049 gpu-050 gpu-051")
	c.press("enter")
	c.shows("3 hosts", "gpu-051")
}

func TestBoardActs(t *testing.T) {
	for name, tc := range map[string]struct {
		row  string
		keys []string
		want string
	}{
		"more time":        {"web-7", []string{"m", "enter"}, "ask prod/gpu-041 ask.more_time {Key:container/web-7 By:15m0s}"},
		"hold":             {"web-7", []string{"h"}, "ask prod/gpu-041 ask.hold {Key:container/web-7 Reason:being looked at}"},
		"hold, given up":   {"web-7", []string{"h", "esc"}, "ask prod/gpu-041 ask.hold {Key:container/web-7 Reason:being looked at}"},
		"hold, and why":    {"web-7", []string{"h", "x", "enter"}, "ask prod/gpu-041 ask.hold {Key:container/web-7 Reason:being looked at}\nask prod/gpu-041 ask.hold {Key:container/web-7 Reason:x}"},
		"keep for nothing": {"web-7", []string{"K", "enter"}, ""},
		"keep":             {"web-7", []string{"K", "x", "enter"}, "ask prod/gpu-041 ask.keep {Key:container/web-7 Reason:x}"},
		"retry":            {"pg-orders", []string{"r"}, "ask prod/gpu-041 ask.retry {Key:db/pg-orders}"},
		"gave up":          {"web-7", []string{"m", "esc"}, ""},
		"extend":           {"web-7", []string{"x", "enter"}, "ask prod/gpu-041 ask.extend {Until:2026-11-29 15:05:09 +0000 UTC}"},
		"not a time":       {"web-7", []string{"m", "x", "enter"}, ""},
		"ended":            {"web-6", []string{"m"}, ""},
		"marked, two asks": {"vllm-mistral", []string{"space", "space", "m", "enter"}, "ask prod/gpu-041 ask.more_time {Key:container/vllm-mistral By:15m0s}\nask prod/gpu-041 ask.more_time {Key:container/web-7 By:15m0s}"},
		"nothing to retry": {"etl-legacy", []string{"r"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fixture(), 120, 36, nil)
			c.toBoardRow(tc.row)
			c.press(tc.keys...)
			if got := c.v.called(); got != tc.want {
				t.Errorf("called\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
	c := open(t, fixture(), 120, 36, nil)
	c.toBoardRow("python3 41177")
	c.press("c")
	c.painted()
	c.shows("refused: class gpu-041", "process/41177:411770 is claimed by nobody", "escalate it by name")
	c.only()
	c.press("esc")
	c.toBoardRow("nb-lena-12")
	c.press("c")
	c.painted()
	c.press("x")
	c.only("ask prod/gpu-041 ask.class {Key:vm/nb-lena-12 Class:stuck}")
	c.press("s")
	c.painted()
	c.press("y")
	if !strings.Contains(c.v.called(), "ask.stop") {
		t.Errorf("called %s", c.v.called())
	}
	c.press("home", "tab")
	c.shows("▸ ▲")
}

func TestQuitAsksWhereDrainsRun(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.press("q")
	if !c.quit {
		t.Error("q does not quit")
	}
	c.only("stop")

	f := fixture()
	f.Driving = map[fleet.HostID]bool{gpu041: true}
	c = open(t, f, 100, 30, nil)
	c.press("q")
	c.painted()
	c.shows("gpu-041: the drain stays, held; ebb drain gpu-041 takes it up")
	c.press("enter")
	if c.quit {
		t.Error("enter quits")
	}
	c.press("q")
	c.painted()
	c.press("y")
	if !c.quit {
		t.Error("y does not quit")
	}
	c.only("stop")
}

func TestQuitWaitsForTerminate(t *testing.T) {
	c := atGate(t)
	c.press("t")
	c.painted()
	c.text("gpu-046")
	c.clock = c.clock.Add(time.Second)
	run := c.m.update(keyPress("enter"))
	c.press("q")
	if c.quit {
		t.Error("quits while a host is being terminated")
	}
	c.shows("a terminate is under way", "terminate gpu-046…")
	c.run(run)
	c.press("q")
	if !c.quit {
		t.Error("does not quit afterwards")
	}
}

// Whatever the size, the screen has it exactly: on every screen, with dialogs on
// top, with hostile names, and before anything is known.
func TestEverySize(t *testing.T) {
	var all []*console
	add := func(c *console) { all = append(all, c) }
	for _, lead := range journeys {
		c := open(t, fixture(), 120, 36, nil)
		lead(c)
		add(c)
		c = open(t, fixture(), 120, 36, nil)
		lead(c)
		c.frame(hostile())
		add(c)
	}
	for _, k := range []string{"1", "2", "3", "4", "5", "6", "7", ":", "/"} {
		c := open(t, feed.Frame{}, 120, 36, nil)
		c.press(k)
		add(c)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(all).Draw(t, "console")
		w, h := rapid.IntRange(1, 220).Draw(t, "w"), rapid.IntRange(1, 60).Draw(t, "h")
		c.send(tea.WindowSizeMsg{Width: w, Height: h})
		sized(t, c.m.Screen(), w, h)
	})
	for _, c := range all { // the sizes at which layouts change
		for _, size := range [][2]int{{1, 1}, {20, 5}, {40, 12}, {59, 9}, {60, 10}, {99, 28}, {100, 28}, {199, 40}, {200, 40}, {220, 60}} {
			c.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			sized(t, c.m.Screen(), size[0], size[1])
		}
	}
}

type failer interface {
	Fatalf(string, ...any)
}

func sized(t failer, screen string, w, h int) {
	lines := strings.Split(screen, "\n")
	if len(lines) != h {
		t.Fatalf("%dx%d: %d lines", w, h, len(lines))
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != w {
			t.Fatalf("%dx%d: line %d has %d cells: %q", w, h, i, n, l)
		}
	}
}

var evil = []string{
	"x\x1b[2J\x1b[H", "a\nb\r\nc", "\u202egnp.exe", "仕事-仕事-仕事-仕事", "👩‍👩‍👧‍👦🇩🇪", "● serving", "gpu-041  ✓ open", "z\u0300\u0301\u0302\u0303\u0304",
	strings.Repeat("long", 1024), "\x9b31m", "\xff\xfe", "tab\there", "", " ",
}

// hostile is the fixture with every text from outside replaced by another evil
// one.
func hostile() feed.Frame {
	f := fixture()
	n := 0
	bad := func() string { n++; return evil[n%len(evil)] }
	for i := range f.Snapshot.Hosts {
		h := &f.Snapshot.Hosts[i]
		if i%3 == 0 {
			h.Host.ID = fleet.HostID("prod/" + fmt.Sprint(i) + bad())
		}
		h.Problem = bad()
		h.Host.Labels = map[string]string{"pool": bad(), "rack": bad()}
		if c := h.Facts.Value.Holds.Cordon; c != nil {
			c.Who, c.Why = bad(), bad()
		}
		for k := range h.Findings {
			fi := &h.Findings[k]
			fi.Key, fi.Owner = fleet.Key{Kind: bad(), ID: fmt.Sprint(k) + bad()}, bad()
			for e := range fi.Evidence {
				fi.Evidence[e] = fleet.Evidence{Source: bad(), Says: bad()}
			}
			if fi.Process != nil {
				fi.Process.Comm = bad()
			}
		}
	}
	s := drain041()
	items := map[fleet.Key]drain.Item{}
	for _, it := range s.Items {
		it.Key = fleet.Key{Kind: bad(), ID: fmt.Sprint(len(items)) + bad()}
		it.Owner, it.EndBy, it.Rule = bad(), bad(), bad()
		it.Reason = fleet.Because(it.Reason.Code, "detail", bad(), "why", bad(), "by", bad(), "target", bad(), "step", bad(), "at", bad())
		items[it.Key] = it
	}
	s.Items, s.Driver, s.Reason, s.By.Name = items, bad(), bad(), bad()
	s.Issues = []fleet.Issue{{Check: bad(), Key: fleet.Key{Kind: bad(), ID: bad()}, Detail: bad()}}
	f.Drains = map[fleet.HostID]drain.State{gpu041: s}
	for i := range f.Events {
		f.Events[i].By.Name = bad()
		if i%2 == 0 {
			f.Events[i].Kind = drain.Kind(bad())
		}
	}
	f.Config.Terminator, f.Config.Operator = bad(), bad()
	f.Journal.Status, f.Journal.Error = fleet.Failed, bad()
	return f
}

// No text from outside moves the cursor, reverses the line, or passes for a
// sign of the console.
func TestHostileNames(t *testing.T) {
	for name, lead := range journeys {
		if name == "drain" || name == "escalate" || name == "details" || name == "verify" || name == "preview" || name == "gate" || name == "open" || name == "plan" {
			continue // their ways lead over names that are not there
		}
		for _, size := range [][2]int{{80, 24}, {200, 50}} {
			c := open(t, fixture(), size[0], size[1], func(o *Options) { o.Theme = "mono" })
			lead(c)
			c.frame(hostile())
			screen := c.m.Screen()
			sized(t, screen, size[0], size[1])
			text := ansi.Strip(screen)
			for _, r := range text {
				if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == 0xfffd) {
					t.Fatalf("%s shows %U", name, r)
				}
			}
			if strings.Contains(text, "gpu-041  ✓ open") {
				t.Errorf("%s: a name draws a sign of the console", name)
			}
		}
	}
}

// Two consoles with different clocks show the same second of a countdown.
func TestCountdownsRunByTheJournalsClock(t *testing.T) {
	f := fixture()
	a := open(t, f, 120, 36, nil)
	skewed := fixture()
	skewed.Made = now.Add(-90 * time.Second) // this process's clock is behind
	b := open(t, skewed, 120, 36, nil)
	b.clock = now.Add(-90 * time.Second)
	for _, c := range []*console{a, b} {
		c.m.host = gpu041
		c.m.panes.all[keys.Board].setHost(gpu041)
		c.m.cur = keys.Board
		c.shows("24:10 left", "3:40", "KILL 14:31")
		c.clock = c.clock.Add(10 * time.Second)
		c.shows("24:00 left", "3:30")
	}
}
