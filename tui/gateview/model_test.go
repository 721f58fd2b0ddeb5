package gateview

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
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

func last(m Model) string {
	lines := strings.Split(ansi.Strip(m.View(100, 24)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func TestVerdicts(t *testing.T) {
	clock := now
	m := gate(t, &clock)
	if got := last(m); !strings.Contains(got, "v reads") {
		t.Errorf("unread: %s", got)
	}
	proof := &feed.Proof{Digest: "abc", Expires: now.Add(5 * time.Minute)}
	m = m.SetGate(feed.Gate{Proof: proof}, nil)
	if got := last(m); !strings.Contains(got, "open") || !strings.Contains(got, "5:00") {
		t.Errorf("open: %s", got)
	}
	clock = now.Add(time.Minute)
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
	all := rows(feed.Gate{Issues: issues})
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
