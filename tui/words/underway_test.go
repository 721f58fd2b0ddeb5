package words

import (
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

func TestUnderway(t *testing.T) {
	for _, tc := range []struct {
		step   drain.Step
		target fleet.HostID
		says   string
		want   string
	}{
		{drain.StepRestore, "p/gpu-044", "1.2 of 3.1 GiB", "restoring on gpu-044 · 1.2 of 3.1 GiB"},
		{drain.StepShip, "p/gpu-044", "1288490188 of 3328599654 bytes", "shipping to gpu-044 · 1.2 of 3.1 GiB"},
		{drain.StepShip, "", "512/2048B", "shipping its state · 0.5 of 2 KiB"},
		{drain.StepSnapshot, "p/gpu-044", "", "writing its snapshot"},
		{drain.StepReplay, "p/db-2", "replayed 3 of 9", "replaying on db-2 · replayed 3 of 9"},
		{"own-step", "p/h", "", "own-step"},
		{drain.StepRestore, "p/x\x1b[2J", "a\nb", `restoring on "x\x1b[2J" · a\nb`},
	} {
		if got := Underway(tc.step, tc.target, tc.says); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.step, got, tc.want)
		}
	}
}

// Every step of a way that a lever goes is said as something that goes on.
func TestEveryStepOfAWayIsSaid(t *testing.T) {
	for _, c := range []fleet.Class{fleet.Stateless, fleet.Pausable, fleet.Durable} {
		for _, s := range drain.WayOf(c) {
			if got := Underway(s, "p/h", ""); got == Step(s) {
				t.Errorf("%s is said as %q", s, got)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	for want, n := range map[string][2]uint64{
		"0 of 10 B": {0, 10}, "0 of 1 KiB": {0, 1024}, "1.5 of 2 MiB": {1536 << 10, 2 << 20}, "250 of 900 GiB": {250 << 30, 900 << 30}, "1 of 2048 TiB": {1 << 40, 2048 << 40},
	} {
		if got := Bytes(n[0], n[1]); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

func TestDoingOfAMove(t *testing.T) {
	it := drain.Item{Found: drain.Found{Class: fleet.Pausable}, Target: "p/gpu-044",
		Reason: fleet.Because(drain.WaitRunning, "lever", "vm", "step", "restore", "detail", "1.2 of 3.1 GiB")}
	for brief, want := range map[bool]string{false: "restoring on gpu-044 · 1.2 of 3.1 GiB", true: "restore 1.2/3.1 GiB"} {
		if got := Doing(it, drain.DefaultPolicy(), brief); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	it.Overdue = true
	if got := Doing(it, drain.DefaultPolicy(), false); !strings.HasPrefix(got, "late: restoring") {
		t.Error(got)
	}
	it.Reason = fleet.Because(drain.WaitUndo, "step", "ship", "detail", "half")
	if got := Doing(it, drain.DefaultPolicy(), false); !strings.Contains(got, "rolling back: ship · half") {
		t.Error(got)
	}
}

func TestBlocked(t *testing.T) {
	now := time.Date(2026, 11, 29, 14, 26, 0, 0, time.UTC)
	s := drain.State{Phase: drain.Draining, Deadline: now.Add(3600e9)}
	it := drain.Item{Found: drain.Found{Class: fleet.Stateless}, Reason: fleet.Because(drain.WaitNoRoom, "what", "memory")}
	if !Blocked(it, s, drain.DefaultPolicy(), now) {
		t.Error("what has no room goes on")
	}
	for name, change := range map[string]func(*drain.Item){
		"ended":     func(i *drain.Item) { i.End = drain.LeftHost },
		"kept":      func(i *drain.Item) { i.Keep = true },
		"its turn":  func(i *drain.Item) { i.Reason = fleet.Because(drain.WaitTurn) },
		"retried":   func(i *drain.Item) { i.RetryAt, i.Reason = now, fleet.Because(drain.WaitFailed) },
		"in a move": func(i *drain.Item) { i.Move.Begun = map[drain.Step]time.Time{drain.StepShip: now} },
	} {
		one := it
		change(&one)
		if Blocked(one, s, drain.DefaultPolicy(), now) {
			t.Errorf("%s is blocked", name)
		}
	}
}
