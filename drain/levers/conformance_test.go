package levers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ebb/drain"
)

// shell is the lever in testdata, with one fault.
func shell(t *testing.T, fault string) (p Program, dir string) {
	t.Helper()
	script, err := filepath.Abs("testdata/lever.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	return Program{Name: fault, Run: []string{"/bin/sh", script, dir, fault}, Timeout: 2 * time.Minute, Linger: 100 * time.Millisecond}, dir
}

// trial tries a lever out and returns what did not hold, by name, and all names.
func trial(t *testing.T, p Program, dir string, more ...func(*Trial)) (failed map[string]error, names []string) {
	t.Helper()
	failed = map[string]error{}
	tr := Trial{
		Program: p, Steps: []drain.Step{drain.StepSnapshot, drain.StepRestore}, Wait: time.Minute, Poll: 10 * time.Millisecond,
		Sample: Request{Workload: Workload{Kind: "vm", ID: "a"}, Source: Place{ID: "p/a"}, Target: Place{ID: "p/b"}},
		Report: func(c Check) {
			switch {
			case c.Skipped:
			case c.Err != nil:
				failed[c.Name] = c.Err
				fallthrough
			default:
				names = append(names, c.Name)
			}
		},
		Witness: func(_ context.Context, s drain.Step) (bool, bool, error) {
			_, err := os.Stat(filepath.Join(dir, "stands", string(s)))
			return err == nil, true, nil
		},
	}
	for _, m := range more {
		m(&tr)
	}
	if held := tr.Conform(t.Context()); held != (len(failed) == 0) {
		t.Fatalf("it says %v, and these failed: %v", held, failed)
	}
	return failed, names
}

// toTheEnd has a step that can't be taken back.
func toTheEnd(tr *Trial) {
	tr.Steps = []drain.Step{drain.StepSnapshot, drain.StepRestore, drain.StepRemove}
}

// inMid has every signal find the lever in the middle of a step, and tries one
// check only.
func inMid(dir, check string) func(*Trial) {
	return func(tr *Trial) {
		tr.only = check
		tr.mid = func(ctx context.Context) {
			for !exists(filepath.Join(dir, "up")) && pause(ctx, 10*time.Millisecond) {
			}
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// bad are levers that break the contract, each in one way, with the check that
// has to find it and what that has to say.
var bad = []struct {
	fault, check, says string
	change             func(dir string, p *Program) []func(*Trial)
}{
	{fault: "nothing", check: checkPlan, says: "answered nothing"},
	{fault: "malformed", check: checkPlan, says: "not a JSON object"},
	{fault: "list", check: checkPlan, says: "not a JSON object"},
	{fault: "two", check: checkPlan, says: "more than one object"},
	{fault: "garbage", check: checkPlan, says: "more than one object"},
	{fault: "word", check: checkPlan, says: `"splendid"`},
	{fault: "latin", check: checkPlan, says: "not UTF-8"},
	{fault: "exit", check: checkPlan, says: "exit status 3: no such volume"},
	{fault: "big", check: checkPlan, says: "more than 1048576 bytes"},
	{fault: "flood", check: checkPlan, says: "more than 1048576 bytes"},
	{fault: "state", check: checkPlan, says: "more than 65536"},
	{fault: "no-reason", check: checkPlan, says: "without a reason"},
	{fault: "hang", check: checkPlan, says: "did not answer in time", change: hasty},
	{fault: "noise", check: checkPlan, says: "did not answer in time", change: hasty},
	{fault: "shut", check: checkPlan, says: "did not answer in time", change: hasty},
	{fault: "reads-nothing", check: checkPlan, says: "not to be begun"},
	{fault: "eager", check: checkPlan, says: "not to be begun"},
	{fault: "any-op", check: checkOp, says: "want [refused failed]"},
	{fault: "any-step", check: checkStep, says: "want [refused failed]"},
	{fault: "sure", check: checkNever, says: "answers done", change: only(checkNever)},
	{fault: "stays", check: checkNothing, says: "it stays"},
	{fault: "cut-runs", check: checkKilled, says: "still answers running", change: cutShort(checkKilled)},
	{fault: "cut-done", check: checkKilled, says: "does not stand", change: cutShort(checkKilled)},
	{fault: "forever", check: checkKilled, says: "still answers running", change: impatient},
	{fault: "deaf", check: checkTerm, says: "had to be killed", change: cutShort(checkTerm)},
	{fault: "fork", check: checkGroup, says: "was killed"},
	{fault: "once", check: "snapshot " + checkDo, says: "the same act again", change: only("snapshot " + checkDo)},
	{fault: "first-only", check: "snapshot " + checkDo, says: "by another driver", change: only("snapshot " + checkDo)},
	{fault: "talk", check: "snapshot " + checkDo, says: "does not stand"},
	{fault: "old", check: checkEpoch, says: "want [refused]"},
	{fault: "lazy", check: "restore " + checkUndo, says: "has been taken back"},
	{fault: "returns", check: "remove " + checkNoReturn, says: "answers done", change: func(string, *Program) []func(*Trial) { return []func(*Trial){toTheEnd} }},
}

// hasty gives a lever that never answers little time to do so.
func hasty(_ string, p *Program) []func(*Trial) {
	p.Timeout, p.Grace = 300*time.Millisecond, 300*time.Millisecond
	return nil
}

func impatient(string, *Program) []func(*Trial) {
	return []func(*Trial){func(tr *Trial) { tr.Wait = 200 * time.Millisecond }}
}

func only(check string) func(string, *Program) []func(*Trial) {
	return func(string, *Program) []func(*Trial) { return []func(*Trial){func(tr *Trial) { tr.only = check }} }
}

// cutShort is for what shows only in a lever that a signal meets in mid-step.
func cutShort(check string) func(string, *Program) []func(*Trial) {
	return func(dir string, p *Program) []func(*Trial) {
		if err := os.WriteFile(filepath.Join(dir, "hold"), nil, 0o600); err != nil {
			panic(err)
		}
		p.Timeout, p.Grace = time.Second, 300*time.Millisecond
		return []func(*Trial){inMid(dir, check), func(tr *Trial) { tr.Wait = 200 * time.Millisecond }}
	}
}

func TestGoodLeversConform(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"none", "session"} {
		p, dir := shell(t, fault)
		if failed, _ := trial(t, p, dir); len(failed) > 0 {
			t.Errorf("%s: %v", fault, failed)
		}
	}
}

// Every bad lever fails the check that it is to fail, and there is one for every
// check that a good lever passes.
func TestBadLeversDoNot(t *testing.T) {
	found := map[string]bool{}
	t.Run("each", func(t *testing.T) {
		for _, b := range bad {
			found[b.check] = true
			t.Run(b.fault, func(t *testing.T) {
				t.Parallel()
				p, dir := shell(t, b.fault)
				var more []func(*Trial)
				if b.change != nil {
					more = b.change(dir, &p)
				}
				failed, _ := trial(t, p, dir, more...)
				if err := failed[b.check]; err == nil || !strings.Contains(err.Error(), b.says) {
					t.Errorf("%q is %v, want %q; all that failed: %v", b.check, err, b.says, failed)
				}
			})
		}
	})
	for _, more := range [][]func(*Trial){nil, {toTheEnd}} {
		p, dir := shell(t, "none")
		failed, names := trial(t, p, dir, more...)
		if len(failed) > 0 {
			t.Errorf("a good lever fails: %v", failed)
		}
		for _, n := range names {
			same := func(s string) bool { return s[strings.Index(s, " ")+1:] == n[strings.Index(n, " ")+1:] } // whatever the step
			if !found[n] && !slices.ContainsFunc(checked(found), same) {
				t.Errorf("no bad lever fails %q", n)
			}
		}
	}
}

func checked(found map[string]bool) []string {
	var names []string
	for n := range found {
		names = append(names, n)
	}
	return names
}

// Where already the first step can't be taken back, the rest is not tried.
func TestAFinalFirstStep(t *testing.T) {
	t.Parallel()
	p, dir := shell(t, "none")
	failed, names := trial(t, p, dir, func(tr *Trial) { tr.Steps = []drain.Step{drain.StepRemove} })
	if len(failed) > 0 || !slices.Contains(names, "remove "+checkNoReturn) || slices.Contains(names, "remove "+checkDo) {
		t.Fatalf("%v, of %q", failed, names)
	}
}

// Without a witness a lever that only talks is believed: that is what one is for.
func TestWitnessSeesWhatALeverOnlySays(t *testing.T) {
	t.Parallel()
	p, dir := shell(t, "talk")
	failed, _ := trial(t, p, dir, func(tr *Trial) { tr.Witness = nil; tr.only = "snapshot " + checkDo })
	if len(failed) > 0 {
		t.Fatalf("%v", failed)
	}
	failed, _ = trial(t, p, t.TempDir(), func(tr *Trial) {
		tr.Witness = func(context.Context, drain.Step) (bool, bool, error) { return false, false, errors.New("no way in") }
	})
	if err := failed[checkPlan]; err == nil || !strings.Contains(err.Error(), "no way in") {
		t.Fatalf("%v", failed)
	}
}

// What a call leaves in its own group ends with it, in an ordinary call as well.
func TestForkInTheGroupIsEnded(t *testing.T) {
	t.Parallel()
	p, dir := shell(t, "fork")
	if r, err := p.Call(t.Context(), Request{Op: "do", Act: "x", Step: drain.StepSnapshot, Drain: "d"}); err != nil || r.Result != drain.Done {
		t.Fatalf("%+v %v", r, err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

// A shell that ends at TERM leaves the program that it ran: that one has the
// grace to end as well, and is killed after it.
func TestGroupHasTheGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trap string
		ends       bool
	}{{"it ends in its own time", `trap ": >$0/ended; exit" TERM`, true}, {"it does not", `trap "" TERM`, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			child := c.trap + `; echo $$ >"$0/child"; while :; do sleep 0.02; done`
			p := Program{Name: "sh", Timeout: time.Minute, Grace: time.Minute, Linger: 100 * time.Millisecond,
				Run: []string{"/bin/sh", "-c", `sh -c "$1" "$0" & wait`, dir, child}}
			if !c.ends {
				p.Grace = 300 * time.Millisecond
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for !exists(filepath.Join(dir, "child")) && pause(ctx, 10*time.Millisecond) {
				}
				cancel()
			}()
			if _, err := p.Call(ctx, Request{Op: "do"}); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(filepath.Join(dir, "child"))
			if err != nil {
				t.Fatal(err)
			}
			var pid int
			_, _ = fmt.Sscan(string(raw), &pid)
			gone(t, pid)
			if exists(filepath.Join(dir, "ended")) != c.ends {
				t.Fatalf("ended by itself: %v", !c.ends)
			}
		})
	}
}

// gone waits until a process is no more; one that has ended may wait for whoever
// inherited it.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still there: %s", pid, stat)
		}
	}
}
