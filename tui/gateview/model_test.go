package gateview

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/words"
)

var now = time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)

func gate(t *testing.T, clock *time.Time) Model {
	t.Helper()
	th, err := themes.Load("mono")
	if err != nil {
		t.Fatal(err)
	}
	return New(feed.Env{Theme: th, Keys: keys.Default(), Now: func() time.Time { return *clock }, Local: time.UTC}).SetHost("p/h")
}

// heard has the host answer at the clock's time.
func heard(m Model) Model {
	return m.SetFrame(feed.Frame{Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{{Host: fleet.Host{ID: "p/h"}, Facts: fleet.Read(fleet.Facts{}, "ebbd", m.env.Now(), 0)}}}})
}

func last(m Model) string {
	lines := strings.Split(ansi.Strip(m.View(100, 24)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func TestVerdicts(t *testing.T) {
	clock := now
	m := heard(gate(t, &clock))
	if got := last(m); !strings.Contains(got, "v reads") {
		t.Errorf("unread: %s", got)
	}
	proof := &feed.Proof{Digest: "abc", Expires: now.Add(5 * time.Minute)}
	m = m.SetGate(feed.Gate{Proof: proof}, nil)
	if got := last(m); !strings.Contains(got, "open") || !strings.Contains(got, "5:00") {
		t.Errorf("open: %s", got)
	}
	clock = now.Add(time.Minute)
	m = heard(m)
	m = m.SetGate(feed.Gate{}, nil) // read again, nothing in the way
	if got := last(m); !strings.Contains(got, "4:00") {
		t.Errorf("the proof is gone from sight: %s", got)
	}
	m = m.SetGate(feed.Gate{Issues: []fleet.Issue{{Check: fleet.CheckLeaks}, {Check: fleet.CheckLeaks}, {Check: fleet.CheckLost}}}, nil)
	if got := last(m); !strings.Contains(got, "locked: 2 of 8") {
		t.Errorf("locked: %s", got)
	}
	m = m.SetGate(feed.Gate{}, nil)
	if got := last(m); !strings.Contains(got, "no proof yet") {
		t.Errorf("a proof from before the gate shut holds again: %s", got)
	}
	m = m.SetGate(feed.Gate{Proof: proof}, nil)
	clock = now.Add(5 * time.Minute)
	m = heard(m)
	if got := last(m); !strings.Contains(got, "locked: the proof has expired") {
		t.Errorf("expired: %s", got)
	}
	m = m.SetGate(feed.Gate{}, errors.New("no route"))
	if got := ansi.Strip(m.View(100, 24)); !strings.Contains(got, "could not be read: no route") {
		t.Error(got)
	}
}

func TestAnotherHostForgetsTheGate(t *testing.T) {
	clock := now
	m := gate(t, &clock).SetGate(feed.Gate{Proof: &feed.Proof{Expires: now.Add(time.Minute)}}, nil).SetHost("p/other")
	if _, _, ok := m.Gate(); ok || m.Life(now) > 0 {
		t.Error("the proof of one host is there for another")
	}
}

func TestEveryCheckAndEveryIssueHasALine(t *testing.T) {
	issues := []fleet.Issue{{Check: "new-check", Detail: "x"}, {Check: fleet.CheckLeaks, Detail: "y"}}
	all := rows(feed.Gate{Issues: issues}, nil)
	if len(all) != len(fleet.Checks)+1+len(issues) {
		t.Errorf("%d lines", len(all))
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.id()] {
			t.Errorf("%s twice", r.id())
		}
		seen[r.id()] = true
	}
}

// Each check says what it rests on and how old that is; what was accepted stands
// there with who and why, also where only the journal knows it.
func TestEvidenceAndExceptions(t *testing.T) {
	clock := now
	m := gate(t, &clock)
	key := func(id string) fleet.Key { return fleet.Key{Kind: "netns", ID: id} }
	accept, err := drain.NewEvent("p/h", "e1", "d", 0, drain.Actor{Name: "lena"}, drain.RecAccepted{Key: key("b"), Reason: "known"})
	if err != nil {
		t.Fatal(err)
	}
	accept.At = now.Add(-time.Hour)
	facts := fleet.Facts{Machine: "m-1", Boot: "b-1", Accepted: []fleet.Accepted{{Key: key("a"), Who: "mira", Reason: "ticket 7", At: now}}}
	m = m.SetFrame(feed.Frame{
		Snapshot: fleet.Snapshot{Hosts: []fleet.HostView{{Host: fleet.Host{ID: "p/h"}, Facts: fleet.Read(facts, "ebbd", now, 0), Claims: fleet.Read([]fleet.Claim{}, "plane", now.Add(-9*time.Second), 0)}}},
		Drains:   map[fleet.HostID]drain.State{"p/h": {Drain: "d", Accepted: map[fleet.Key]string{key("a"): "ticket 7", key("b"): "known"}}},
		Events:   []drain.Event{accept},
	})
	hold := func(kind fleet.HoldKind, who string) *fleet.Hold {
		return &fleet.Hold{Kind: kind, Who: who, Since: now}
	}
	m = m.SetGate(feed.Gate{Holds: fleet.Holds{Cordon: hold(fleet.CordonHold, "ops"), Drain: hold(fleet.DrainHold, "mira")}, Kept: []string{"ebbd"},
		Probes: []fleet.ProbeStatus{{Name: "processes", Status: fleet.OK, At: now.Add(-4 * time.Second)}, {Name: "gpus", Status: fleet.NotApplicable, At: now}},
		Issues: []fleet.Issue{{Check: fleet.CheckLeaks, Key: key("c"), Detail: "still there"}}}, nil)
	clock = now.Add(2 * time.Second)
	text := ansi.Strip(m.View(120, 30))
	for _, want := range []string{"machine m-1, boot b-1", "cordon ops 14:26, drain mira 14:26", "1 ok, 1 not applicable (gpus)", "<10s", "10s", "kept: ebbd",
		"netns/a", "accepted by mira 14:26: ticket 7", "netns/b", "accepted by lena 13:26: known", "locked: 1 of 8   leak netns/c"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}

// A check that nobody could read is not known, and keeps the gate shut: it never
// holds, neither by what was found before nor by what was not found.
func TestNothingHoldsOnAHostThatCantBeRead(t *testing.T) {
	silent := fleet.HostView{Host: fleet.Host{ID: "p/h"}, Unreachable: now.Add(-time.Minute), Facts: fleet.Reading[fleet.Facts]{Status: fleet.Failed, Error: "no route"}}
	noFacts := fleet.HostView{Host: fleet.Host{ID: "p/h"}, Summary: fleet.Read(fleet.Summary{}, "ebbd", now, 0)}
	old := fleet.HostView{Host: fleet.Host{ID: "p/h"}, Facts: fleet.Read(fleet.Facts{}, "ebbd", now.Add(-time.Minute), 0)}
	proof := &feed.Proof{Digest: "abc", Expires: now.Add(5 * time.Minute)}
	for why, hosts := range map[string][]fleet.HostView{
		"not read: unreachable since " + words.HMS(now.Add(-time.Minute)): {silent},
		"not read: there are no facts":                                    {noFacts},
		"not read: last read 1m0s ago":                                    {old},
		"not read: the host is not listed":                                {},
	} {
		clock := now
		m := gate(t, &clock).SetFrame(feed.Frame{Snapshot: fleet.Snapshot{Hosts: hosts}})
		g := m.env.Theme.Glyphs
		for shut, read := range map[string]feed.Gate{
			"locked: 7 of 8   7 not known": {Proof: proof}, // from before
			"locked: 7 of 8   host; 6 not known": {Issues: []fleet.Issue{{Check: fleet.CheckReach, Detail: "no route"}},
				Probes: []fleet.ProbeStatus{{Name: "gpus"}}},
		} {
			text := ansi.Strip(m.SetGate(read, nil).View(120, 30))
			held := strings.Count(text, g.Check+" ")
			if held != 1 || !strings.Contains(text, g.Check+" "+words.Check(fleet.CheckLost)) || !strings.Contains(text, g.Unknown+" "+words.Check(fleet.CheckHolds)) {
				t.Errorf("%s: %d checks hold:\n%s", why, held, text)
			}
			if !strings.Contains(text, why) || !strings.Contains(text, shut) {
				t.Errorf("no %q or %q:\n%s", why, shut, text)
			}
		}
	}
}

// From the intent to the outcome the gate offers no terminate, whatever the proof
// says: one runs.
func TestATerminateThatRunsIsNotOfferedAgain(t *testing.T) {
	clock := now
	event := func(host fleet.HostID, b drain.Body) drain.Event {
		e, err := drain.NewEvent(host, "e", "d", 0, drain.Actor{Name: "lena"}, b)
		if err != nil {
			t.Fatal(err)
		}
		e.At = now.Add(-5 * time.Second)
		return e
	}
	m := heard(gate(t, &clock)).SetGate(feed.Gate{Proof: &feed.Proof{Digest: "abc", Expires: now.Add(5 * time.Minute)}}, nil)
	since := "terminating since " + words.HMS(now.Add(-5*time.Second))
	intent := func(host fleet.HostID) drain.Event {
		return event(host, drain.RecTerminateIntent{Act: "a", Type: "command"})
	}
	press := tea.KeyPressMsg(tea.Key{Code: 't', Text: "t"})
	for name, c := range map[string]struct {
		events []drain.Event
		on     bool
	}{
		"nothing":      {nil, false},
		"of another":   {[]drain.Event{intent("p/other")}, false},
		"begun":        {[]drain.Event{intent("p/h")}, true},
		"not answered": {[]drain.Event{intent("p/h"), event("p/h", drain.RecTerminateOutcome{Act: "b"})}, true},
		"failed":       {[]drain.Event{intent("p/h"), event("p/h", drain.RecTerminateOutcome{Act: "a", Error: "no quota"})}, false},
	} {
		f := m.frame
		f.Events = c.events
		m := m.SetFrame(f)
		text := ansi.Strip(m.View(100, 24))
		if got := strings.Count(text, since) == 2 && !strings.Contains(text, "can it be"); got != c.on {
			t.Errorf("%s: says that it runs: %v\n%s", name, got, text)
		}
		if got := strings.Contains(last(m), "t terminate"); got == c.on {
			t.Errorf("%s: offers t: %v: %s", name, got, last(m))
		}
		keys := 0
		for _, b := range m.Line() {
			if b.Help().Desc == "terminate" {
				keys++
			}
		}
		_, cmd := m.Update(press)
		_, wants := cmd().(feed.Want)
		if (keys == 0) != c.on || wants == c.on {
			t.Errorf("%s: %d keys for it, wants it: %v", name, keys, wants)
		}
	}
}
