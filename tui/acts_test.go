package tui

import (
	"strings"
	"testing"
	"time"

	"ebb/fleet"
	"ebb/tui/feed"
)

func TestCordonNeedsOneKey(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	c.press("c")
	c.only("cordon prod/gpu-044 on a hunch")
	c.shows("cordon gpu-044: plane and host are told")
	c.v.calls = nil
	c.press("C", "ctrl+u")
	c.shows("reason to cordon gpu-044")
	c.text("looks slow")
	c.press("enter")
	c.only("cordon prod/gpu-044 looks slow")
}

func TestCordonOfManyAsksForTheCount(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	for range 6 {
		c.press("space")
	}
	c.press("c")
	c.painted()
	c.only()
	c.shows("cordon 6 hosts", "of pool h200-a, more than a quarter")
	c.press("6", "enter")
	if got := strings.Count(c.v.called(), "cordon prod/"); got != 6 {
		t.Errorf("%d cordons:\n%s", got, c.v.called())
	}
	// Two of eighteen are no crowd.
	c.v.calls = nil
	c.goHost("gpu-050")
	c.press("space", "space", "c")
	if got := strings.Count(c.v.called(), "cordon prod/"); got != 2 {
		t.Errorf("%d cordons:\n%s", got, c.v.called())
	}
}

func TestMarksThatAreHiddenAreLeftAlone(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-047")
	c.press("space", "space", "/")
	c.text("gpu-047")
	c.press("enter", "c")
	c.only("cordon prod/gpu-047 on a hunch")
	c.shows("cordon gpu-047")
}

func TestSameVerbTwiceAtOnce(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	first := c.m.want(feed.Want{Verb: feed.Cordon, Host: "prod/gpu-044"})
	second := c.m.want(feed.Want{Verb: feed.Cordon, Host: "prod/gpu-044"})
	c.shows("under way already", "cordon gpu-044…")
	c.run(second)
	c.only()
	c.run(first)
	c.only("cordon prod/gpu-044 on a hunch")
	c.press("c")
	c.only("cordon prod/gpu-044 on a hunch", "cordon prod/gpu-044 on a hunch")
}

// An answer of a run that is no longer the current one changes nothing.
func TestStaleAnswersAreDropped(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.v.gate = openGate(gpu046)
	c.goHost("gpu-046")
	old := c.m.readGate(feed.Verify, gpu046)
	c.goHost("gpu-041")
	c.press("4")
	c.run(old)
	if _, _, ok := c.m.panes.gate.now().Gate(); !ok || c.m.panes.gate.Host() != gpu041 {
		t.Fatal("the gate of gpu-041 was not read")
	}
	if g, _, _ := c.m.panes.gate.now().Gate(); g.Proof != nil {
		t.Error("the proof of another host is shown")
	}
	c.press("t")
	c.only("verify prod/gpu-046")
	c.shows("refused: terminate gpu-041")
}

func TestRefusalListsEveryReason(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.v.err = refusal{[]fleet.Issue{leakIssue, {Check: fleet.CheckTickets, Detail: "ticket t-9 is open"}}}
	c.goHost("gpu-044")
	c.press("c")
	c.painted()
	c.shows("refused: cordon gpu-044", "leak netns/ns-7f3a", "open admission: ticket t-9 is open")
	c.press("enter")
	c.shows("refused: cordon gpu-044") // the status line keeps it
	c.v.err = nil
	c.press("c")
	c.showsNot("refused:")
}

func TestCleanShowsADryRunFirst(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-046")
	c.press("3", "home", "c")
	c.painted()
	c.only()
	c.shows("dry run", "netns/ns-7f3a", "ino 4026532871", "10.7.0.4/30")
	c.press("y")
	c.only(`clean prod/gpu-046 netns/ns-7f3a ino 4026532871`)

	c.v.calls = nil
	c.press("c")
	c.painted()
	f := fixture()
	h := hostOf(&f, gpu046)
	other := leak
	other.Identity = "ino 1"
	h.Findings[0].Resource = &other
	c.frame(f)
	c.press("y")
	c.only()
	c.shows("refused: clean")
	c.press("esc")

	c.goHost("gpu-041")
	c.press("3", "home", "c")
	c.only()
	c.shows("is no leak")
}

func TestAcceptIsTypedAndReasoned(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.v.gate = lockedGate(gpu046)
	c.goHost("gpu-046")
	c.press("4", "home")
	for range 5 {
		c.press("j")
	}
	c.press("a", "enter")
	c.shows("needs a reason")
	c.press("a")
	c.text("known")
	c.press("enter")
	c.painted()
	c.press("enter")
	c.only()
	c.press("a")
	c.text("known")
	c.press("enter")
	c.painted()
	c.text("netns/ns-7f3a")
	c.press("enter")
	c.only(`accept prod/gpu-046 netns/ns-7f3a "known" "netns/ns-7f3a"`)
}

func TestUncordonNamesWhoseItIs(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-017")
	c.press("u")
	c.painted()
	c.shows("cordoned by ops", "looks slow", "THEIRS")
	c.press("n")
	c.only()
	c.goHost("gpu-044")
	c.press("u")
	c.shows("gpu-044 is not cordoned")
}

func TestDrainShowsThePlanAndAsks(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	c.press("d")
	c.painted()
	c.shows("deadline", "45m", "unstated")
	c.press("down", "right", "down")
	c.text("CVE")
	c.press("enter")
	c.shows("MAY DIE: job/etl-legacy", "STAYS")
	c.press("y") // not painted yet
	c.only()
	c.painted()
	c.press("y")
	c.only(`drain prod/gpu-044 45m0s kernel "CVE" 4`)
	if c.m.cur != "board" || c.m.host != "prod/gpu-044" {
		t.Errorf("on %s of %s", c.m.cur, c.m.host)
	}
}

func TestDrainDialogClosedBeforeItsPlan(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	c.press("d")
	c.painted()
	c.clock = c.clock.Add(time.Second)
	plan := c.m.update(keyPress("enter"))
	c.press("esc")
	c.run(plan)
	if c.m.over != nil {
		t.Error("a plan that nobody waits for opened a dialog")
	}
	c.only()
}

func TestReadOnlyRefusesEveryAct(t *testing.T) {
	f := fixture()
	f.Config.ReadOnly = true
	c := open(t, f, 100, 30, nil)
	c.shows("READ-ONLY")
	for _, k := range []string{"c", "u", "d", "R"} {
		c.goHost("gpu-017")
		c.press(k)
		c.shows("read-only")
	}
	c.toBoardRow("etl-legacy")
	for _, k := range []string{"e", "m", "c", "h", "K", "r", "x", "s", "p", "S", "T", "R"} {
		c.press(k)
		if c.m.over != nil || c.m.line != nil {
			t.Errorf("%s opened something", k)
		}
	}
	c.goHost("gpu-046")
	c.press("4", "v", "t")
	c.only()
}

// A default is there to be taken with enter; what is typed takes its place.
func TestDefaultsGiveWayToWhatIsTyped(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.goHost("gpu-044")
	c.press("C")
	c.text("CVE")
	c.press("enter")
	c.only("cordon prod/gpu-044 CVE")
	c.press("d")
	c.painted()
	c.text("1h")
	c.shows("deadline  1h")
	c.press("esc")
	c.toBoardRow("web-7")
	c.press("x")
	c.text("1m")
	c.shows("extend the deadline by: 1m")
}

// Marked leaks are cleaned after one dry run that names each; what is no leak is
// not taken along.
func TestCleanOfMarkedLeaks(t *testing.T) {
	f := fixture()
	h := hostOf(&f, gpu046)
	second := leak
	second.Key, second.Identity = fleet.Key{Kind: "netns", ID: "ns-8a"}, "ino 77"
	h.Findings = append(h.Findings, fleet.Finding{Key: second.Key, Verdict: fleet.Leak, Resource: &second},
		fleet.Finding{Key: wl("vm", "vm-2"), Verdict: fleet.Agreed})
	c := open(t, f, 120, 36, nil)
	c.goHost("gpu-046")
	c.press("3")
	c.shows("2 leaks", "1 agreed", "0 claimed only")
	c.press("home", "space", "space", "space", "c")
	c.shows("vm/vm-2 is marked and is no leak")
	c.press("end", "space", "c")
	c.painted()
	c.shows("clean 2 leaks on gpu-046", "netns/ns-7f3a, identity", "ino 77")
	c.only()
	c.press("y")
	if got := c.v.called(); !strings.Contains(got, "clean prod/gpu-046 netns/ns-7f3a ino 4026532871") || !strings.Contains(got, "clean prod/gpu-046 netns/ns-8a ino 77") {
		t.Errorf("called %s", got)
	}
	c.press("home", "tab")
	c.showsNot("nothing here has to be explained")
}

// a takes over every drain of the page, by name, with a word; w leaves one that
// is about no host.
func TestHandoverTakesOverAndWrites(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.press("6", "a")
	c.shows("take over gpu-041, gpu-046, saying")
	c.only()
	c.press("enter")
	c.only("ask prod/gpu-041 ask.handover {To:mira Note:taken over}", "ask prod/gpu-046 ask.handover {To:mira Note:taken over}")
	c.shows("handover gpu-041, gpu-046: taken over by mira")
	c.v.calls = nil
	c.press("w", "enter")
	c.shows("nothing to leave without a word")
	c.press("w")
	c.text("all quiet")
	c.press("enter")
	c.only("ask shift/notes ask.handover {To: Note:all quiet}")

	f := fixture()
	f.Drains = nil
	c = open(t, f, 100, 30, nil)
	c.press("6", "a")
	c.shows("take the shift, saying")
	c.press("enter")
	c.only("ask shift/notes ask.handover {To:mira Note:taken over}")
}

// A line that takes a duration stays open with what is wrong, and what was typed.
func TestABadDurationStaysOpen(t *testing.T) {
	for name, start := range map[string]func(c *console){
		"extend":    func(c *console) { c.goHost("gpu-041"); c.press("2", "x") },
		"more time": func(c *console) { c.toBoardRow("web-7"); c.press("m") },
		"plan":      func(c *console) { c.goHost("gpu-044"); c.press("5", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, fixture(), 120, 36, nil)
			start(c)
			if c.m.line == nil {
				t.Fatal("no line is open")
			}
			c.text("foo")
			c.press("enter")
			c.shows("foo is no duration: write 45m")
			c.only()
			if c.m.line == nil || c.m.line.prompt.Value() != "foo" {
				t.Fatal("what was typed is lost")
			}
		})
	}
}

// The filter that is there is offered: what is typed takes its place.
func TestFilterAgain(t *testing.T) {
	c := open(t, fixture(), 100, 30, nil)
	c.press("/")
	c.text("gpu-041")
	c.press("enter", "/")
	c.shows("/gpu-041")
	c.text("gpu-044")
	if got := c.m.line.prompt.Value(); got != "gpu-044" {
		t.Errorf("the filter is %q", got)
	}
	c.press("esc")
	if got := c.m.filter[c.m.cur]; got != "gpu-041" {
		t.Errorf("given up, the filter is %q", got)
	}
	c.press("/", "backspace")
	if got := c.m.line.prompt.Value(); got != "gpu-04" {
		t.Errorf("edited, the filter is %q", got)
	}
}

// What a drain is for is chosen by its letter too; another is told what there is.
func TestPurposeByItsLetter(t *testing.T) {
	f := field{name: "for", options: purposes()}
	if why := f.edit(keyPress("k")); why != "" || f.options[f.chosen] != "kernel" {
		t.Errorf("k: %q, %s", f.options[f.chosen], why)
	}
	if why := f.edit(keyPress("z")); f.options[f.chosen] != "kernel" || !strings.Contains(why, "kernel") || !strings.Contains(why, "unstated") {
		t.Errorf("z: %q, %s", f.options[f.chosen], why)
	}
	if why := f.edit(keyPress("u")); why != "" || f.options[f.chosen] != "" {
		t.Errorf("u: %q, %s", f.options[f.chosen], why)
	}
}

// A purpose is chosen by its name, letter by letter: none of them jumps to another.
func TestPurposeIsTyped(t *testing.T) {
	for typed, want := range map[string]string{"kernel": "kernel", "ha": "hardware", "rk": "kernel", "e": "engine", "xr": "retire"} {
		c := open(t, fixture(), 120, 30, nil)
		c.goHost("gpu-044")
		c.press("d")
		c.painted()
		c.press("tab")
		for _, k := range typed {
			c.press(string(k))
		}
		f, ok := c.m.over.(*form)
		if !ok {
			t.Fatalf("%T", c.m.over)
		}
		if got := f.fields[1].options[f.fields[1].chosen]; got != want {
			t.Errorf("%s typed: %q, want %q", typed, got, want)
		}
	}
}

// What is typed behind a host may say what the drain is for.
func TestPurposeBehindTheHost(t *testing.T) {
	for text, want := range map[string]struct {
		purpose fleet.Purpose
		reason  string
	}{
		"for kernel CVE-2026-1183": {fleet.ForKernel, "CVE-2026-1183"},
		"for kernel":               {fleet.ForKernel, ""},
		"for fun":                  {fleet.ForUnstated, "for fun"},
		"a bad NIC":                {fleet.ForUnstated, "a bad NIC"},
		"":                         {fleet.ForUnstated, ""},
	} {
		if p, reason := purposeOf(text); p != want.purpose || reason != want.reason {
			t.Errorf("%q: %q, %q", text, p, reason)
		}
	}
}
