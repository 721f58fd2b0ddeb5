package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ebb/drain"
	"ebb/fleet"
)

// samplePlan has one of everything that a plan can say.
func samplePlan() drain.Plan {
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.Local)
	key := func(kind, id string) fleet.Key { return fleet.Key{Kind: kind, ID: id} }
	return drain.Plan{
		Host: "prod/gpu-041", Made: at, Deadline: at.Add(45 * time.Minute), For: fleet.ForKernel, Total: 4, Stay: 2, Dies: 2,
		Classes: []drain.PlanClass{{Class: fleet.Stateless, Total: 1, Dies: 1}, {Class: fleet.Pausable, Total: 2, Stay: 1}, {Class: fleet.Stuck, Total: 1, Dies: 1, Stay: 1}},
		Items: []drain.PlanItem{
			{Found: drain.Found{Key: key("service", "web-7"), Class: fleet.Stateless, Rule: "plane prod", Owner: "search", MayDie: true, Budget: fleet.Budget{Move: 20 * time.Minute, Grace: 3 * time.Minute}},
				Strategy: "start elsewhere, flip, let it finish, stop", Target: "prod/gpu-042", GoneBy: at.Add(20 * time.Minute)},
			{Found: drain.Found{Key: key("notebook", "nb-a-name-that-is-longer-than-its-column"), Class: fleet.Pausable, Rule: "rule notebooks", Owner: "lena", Lever: "nb", Budget: fleet.Budget{Move: time.Hour}},
				Strategy: "snapshot, ship, restore, clock, answers, flip, remove", Target: "prod/gpu-044", GoneBy: at.Add(time.Hour), Says: "7.9 GB to ship"},
			{Found: drain.Found{Key: key("notebook", "nb-8\x1b[2J"), Class: fleet.Pausable, Lever: "nb"},
				Strategy: "snapshot, ship, restore, clock, answers, flip, remove", Target: "prod/gpu-044",
				Reason: fleet.Because(drain.WaitIncompatible, "what", "engine", "has", "1.4", "wants", "1.5", "host", "gpu-044")},
			{Found: drain.Found{Key: key("batch", "etl"), Class: fleet.Stuck, Rule: "rule kind batch", MayDie: true, Budget: fleet.Budget{Grace: time.Hour}},
				Strategy: "notice, TERM, grace, TERM, KILL", Reason: fleet.Because(drain.WaitNoTime, "needs", "1h2m0s", "has", "45m0s")},
		},
		Blocks: []string{"two readings of the claims do not agree yet: orphans and ghosts are only suspected, and so nothing is decided by them"},
	}
}

func TestPlanTable(t *testing.T) {
	var out bytes.Buffer
	if err := planTable(&out, samplePlan()); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"prod/gpu-041: plan for a drain until 14:45:00 (45:00 left), for kernel",
		"4 workloads: 1 stateless, 2 pausable (1 would stay), 1 stuck (1 would stay); 2",
		"  WORKLOAD                  OWNER       TO          BUDGET     GONE BY   MAY DIE\n",
		"  service/web-7             search      gpu-042     20m+3m     14:20:00  yes\n",
		"      start elsewhere, flip, let it finish, stop; plane prod\n",
		"notebook/nb-a-name-that-is-longer-than-its-column  lena        gpu-044     1h         15:00:00  ·\n",
		"      nb says: 7.9 GB to ship\n",
		"      ▲ its budget ends after the deadline\n",
		"      stays: no host fits: engine wanted 1.5, there is 1.4; nearest is gpu-044\n",
		"blocks: two readings",
		"may be killed, after notice, TERM and the full grace: service/web-7, batch/etl\n",
		"perhaps not gone by the deadline:\n  notebook/nb-a-name",
		"not expected to end by itself: 2 of 4 would stay, and the deadline names them\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if w := ansi.StringWidth(strings.TrimRight(line, "\n")); w > planWidth && !strings.Contains(line, "longer-than") {
			t.Errorf("%d cells: %q", w, line)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a name has moved the cursor")
	}
}

func TestPlanEnds(t *testing.T) {
	p := samplePlan()
	p.Items = p.Items[:1]
	for name, c := range map[string]struct {
		expected time.Duration
		want     string
	}{
		"in time": {20 * time.Minute, "expected to be empty by 14:20:00, 25m before the deadline"},
		"late":    {50 * time.Minute, "expected to be empty by 14:50:00, 5m after the deadline"},
	} {
		p.Expected = p.Made.Add(c.expected)
		var out bytes.Buffer
		if err := planTable(&out, p); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
	var out bytes.Buffer
	if err := planTable(&out, drain.Plan{Host: "p/a"}); err != nil || !strings.Contains(out.String(), "nothing runs here") || strings.Contains(out.String(), "expected") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
