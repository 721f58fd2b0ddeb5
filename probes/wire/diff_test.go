package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/probes/wire"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func drawFacts(t *rapid.T, gen uint64, at time.Time, label string) fleet.Facts {
	f := fleet.Facts{Generation: gen, At: at, Machine: "m", Boot: "b"}
	n := rapid.IntRange(0, 6).Draw(t, label+" processes")
	seen := map[fleet.Run]bool{}
	for range n {
		run := fleet.Run{Boot: "b", PID: rapid.IntRange(2, 9).Draw(t, "pid"), Start: rapid.Uint64Range(1, 2).Draw(t, "start")}
		if seen[run] {
			continue
		}
		seen[run] = true
		f.Processes.Value = append(f.Processes.Value, fleet.Process{Run: run, Comm: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "comm"), Started: epoch})
	}
	wire.SortProcesses(f.Processes.Value)
	status := rapid.SampledFrom([]fleet.Status{fleet.OK, fleet.Failed, fleet.NotApplicable, fleet.Unknown})
	f.Processes.Status = status.Draw(t, "status")
	f.Processes.At = drawAt(t, f.Processes.Status, at)
	f.Workloads.Status = status.Draw(t, "status")
	f.Workloads.At = drawAt(t, f.Workloads.Status, at)
	for range rapid.IntRange(0, 4).Draw(t, "workloads") {
		f.Workloads.Value = append(f.Workloads.Value, fleet.Workload{Key: fleet.Key{Kind: "vm", ID: rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "id")}, Labels: map[string]string{"k": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "v")}})
	}
	if rapid.Bool().Draw(t, "in order") { // as the probes give them; otherwise it has to be told whole
		slices.SortFunc(f.Workloads.Value, func(a, b fleet.Workload) int { return a.Key.Compare(b.Key) })
		f.Workloads.Value = slices.CompactFunc(f.Workloads.Value, func(a, b fleet.Workload) bool { return a.Key == b.Key })
	}
	for _, r := range []*fleet.Reading[[]fleet.Resource]{&f.Netns, &f.Loops, &f.Dirs} {
		r.Status = status.Draw(t, "status")
		r.At = drawAt(t, r.Status, at)
		for i := range rapid.IntRange(0, 3).Draw(t, "resources") {
			r.Value = append(r.Value, fleet.Resource{Key: fleet.Key{Kind: "netns", ID: fmt.Sprint("n", i)}, Identity: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "identity")})
		}
	}
	f.GPUs.Status = status.Draw(t, "status")
	f.GPUs.At = drawAt(t, f.GPUs.Status, at)
	if rapid.Bool().Draw(t, "cordon") {
		f.Holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "who"), Since: epoch}
	}
	f.Unheld = rapid.Bool().Draw(t, "unheld")
	return f
}

// drawAt gives a reading the time of the scan, or an older one where the probe
// kept its last answer.
func drawAt(t *rapid.T, s fleet.Status, at time.Time) time.Time {
	if s == fleet.Unknown {
		return time.Time{}
	}
	if rapid.Bool().Draw(t, "kept") {
		return at.Add(-time.Minute)
	}
	return at
}

func asJSON(t rapid.TB, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestApplyingADifferenceGivesTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawFacts(t, 7, epoch, "a")
		b := drawFacts(t, 8, epoch.Add(5*time.Second), "b")
		patch := wire.Diff(a, b)
		if rapid.Bool().Draw(t, "whole") { // to a reader who knows no deltas
			patch = patch.Whole(b)
			if patch.WorkloadsBy != nil || patch.NetnsBy != nil || patch.LoopsBy != nil || patch.DirsBy != nil {
				t.Fatalf("not whole: %+v", patch)
			}
		}
		line := asJSON(t, wire.Change{Generation: 8, Since: 7, Patch: &patch, At: b.At})
		var c wire.Change
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		before := asJSON(t, a)
		got, err := wire.Apply(a, c)
		if err != nil {
			t.Fatal(err)
		}
		if asJSON(t, got) != asJSON(t, b) {
			t.Fatalf("applied:\n %s\nwant:\n %s", asJSON(t, got), asJSON(t, b))
		}
		if asJSON(t, a) != before {
			t.Fatal("Apply altered what it was given")
		}
		if wire.Differs(b, b) {
			t.Fatal("facts differ from themselves")
		}
	})
}

func TestNoReadingIsMadeYoungerThanItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawFacts(t, 7, epoch, "a")
		b := a
		b.At = epoch.Add(5 * time.Second) // a newer scan in which nothing was read again
		patch := wire.Diff(a, b)
		got, err := wire.Apply(a, wire.Change{Generation: 7, Since: 7, Patch: &patch, Idle: true, At: b.At})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range got.Probes() {
			if was := b.Probes()[i]; p.At.After(was.At) {
				t.Fatalf("probe %s: read at %v, shown as %v", p.Name, was.At, p.At)
			}
		}
	})
}

func TestAMissedChangeIsNoticed(t *testing.T) {
	_, err := wire.Apply(fleet.Facts{Generation: 3}, wire.Change{Generation: 5, Since: 4, Idle: true})
	if !errors.Is(err, wire.ErrMissed) {
		t.Fatalf("got %v, want ErrMissed", err)
	}
}

// What one workload of many costs when it changes is about its own size.
func TestAChangeCostsWhatChanged(t *testing.T) {
	facts := func(n int) fleet.Facts {
		f := fleet.Facts{Generation: uint64(n), At: epoch, Workloads: fleet.Read([]fleet.Workload(nil), "t", epoch, 0)}
		for i := range n {
			run := fleet.Run{Boot: "b", PID: 10 + i, Start: 7}
			f.Workloads.Value = append(f.Workloads.Value, fleet.Workload{Key: fleet.Key{Kind: "vm", ID: fmt.Sprintf("%04d", i)}, Run: run, Runs: []fleet.Run{run}, Phase: fleet.Running})
		}
		return f
	}
	a, b := facts(200), facts(199)
	b.Workloads.Value[17].Owner = "ann"
	line := asJSON(t, wire.Diff(a, b))
	if len(line) > 400 || !strings.Contains(line, `"gone":["vm/0199"]`) {
		t.Fatalf("%d bytes: %.400s", len(line), line)
	}
}
