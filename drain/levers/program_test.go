package levers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ebb/drain"
	"ebb/fleet"
)

// The test binary is its own lever: EBB_TEST_LEVER says which.
func TestMain(m *testing.M) {
	if kind := os.Getenv("EBB_TEST_LEVER"); kind != "" {
		os.Exit(lever(kind, os.Getenv("EBB_TEST_DIR")))
	}
	goleak.VerifyTestMain(m)
}

func program(t *testing.T, kind string) Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	return Program{Name: kind, Timeout: 20 * time.Second, Grace: 300 * time.Millisecond, Linger: 100 * time.Millisecond,
		Run: []string{env, "GORACE=atexit_sleep_ms=0", "EBB_TEST_LEVER=" + kind, "EBB_TEST_DIR=" + t.TempDir(), exe}}
}

// lever answers one question, most of them wrongly and each in one way.
func lever(kind, dir string) int {
	var r Request
	in, _ := io.ReadAll(os.Stdin)
	if err := json.Unmarshal(in, &r); err != nil {
		return 9
	}
	switch kind {
	case "nothing":
		return 0
	case "text":
		fmt.Println("all is well")
		return 0
	case "two":
		fmt.Println(`{"result":"done"}{"result":"done"}`)
		return 0
	case "word":
		fmt.Println(`{"result":"splendid"}`)
		return 0
	case "flood":
		for {
			if _, err := fmt.Println(strings.Repeat("x", 1<<16)); err != nil {
				return 1
			}
		}
	case "state":
		fmt.Printf(`{"result":"done","state":%q}`, strings.Repeat("s", drain.MaxLeverState))
		return 0
	case "exit":
		fmt.Fprint(os.Stderr, strings.Repeat("noise ", 50_000), "no such volume")
		return 3
	case "fork": // what it leaves behind keeps its pipes
		cmd := exec.Command("sleep", "20")
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
		_ = os.WriteFile(filepath.Join(dir, "pid"), fmt.Append(nil, cmd.Process.Pid), 0o600)
		fmt.Println(`{"result":"running","progress":"a child does it"}`)
		return 0
	case "hang":
		if r.Op != "status" {
			signal.Ignore(syscall.SIGTERM)
			time.Sleep(time.Minute)
		}
		fmt.Println(`{"result":"running","progress":"still at it"}`)
		return 0
	}
	fmt.Printf(`{"result":"done","state":{"step":%q}}`, r.Step)
	return 0
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for kind, want := range map[string]string{
		"nothing": "answered nothing", "text": "not a JSON object", "two": "more than one object", "word": `"splendid"`,
		"flood": "more than 1048576 bytes", "state": "its state has", "exit": "exit status 3", "good": "",
	} {
		t.Run(kind, func(t *testing.T) {
			p := program(t, kind)
			l := Programs{By: map[string]Program{kind: p}}
			a, err := l.Do(t.Context(), job(kind))
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				if a.Result != drain.Done || len(a.State) == 0 {
					t.Fatalf("%+v", a)
				}
				return
			}
			if a.Result != drain.FailedAct || !strings.Contains(a.Detail, want) {
				t.Fatalf("%+v", a)
			}
			if kind == "exit" && (!strings.Contains(a.Detail, "no such volume") || len(a.Detail) > 4096) {
				t.Fatalf("%d bytes: %.200s", len(a.Detail), a.Detail)
			}
		})
	}
}

func job(lever string) drain.Job {
	k := fleet.Key{Kind: "vm", ID: "a"}
	return drain.Job{Drain: "d1", Epoch: 1, Source: fleet.Host{ID: "p/a"}, Item: drain.Item{Found: drain.Found{Key: k, Class: fleet.Pausable}},
		Act: drain.Act{ID: "d1/vm/a/snapshot/1", Kind: drain.ActLever, Op: drain.OpDo, Key: k, Step: drain.StepSnapshot, Lever: lever, Target: "p/b"}}
}

func TestForkThatKeepsThePipes(t *testing.T) {
	p := program(t, "fork")
	began := time.Now()
	r, err := p.Call(t.Context(), Request{Op: "do"})
	if err != nil || r.Result != drain.RunningAct || time.Since(began) > 10*time.Second {
		t.Fatalf("%+v %v after %s", r, err, time.Since(began))
	}
	dir := strings.TrimPrefix(p.Run[3], "EBB_TEST_DIR=")
	raw, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	_, _ = fmt.Sscan(string(raw), &pid)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("what it left running was ended: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func TestHangIsEndedAndAskedAbout(t *testing.T) {
	p := program(t, "hang")
	p.Timeout = 700 * time.Millisecond
	if _, err := p.Call(t.Context(), Request{Op: "do"}); !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	a, err := Programs{By: map[string]Program{"hang": p}}.Do(t.Context(), job("hang"))
	if err != nil || a.Result != drain.RunningAct || a.Progress != "still at it" {
		t.Fatalf("%+v %v", a, err)
	}
}

func TestEndsWithItsDriver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := program(t, "hang")
	time.AfterFunc(200*time.Millisecond, cancel)
	if _, err := (Programs{By: map[string]Program{"hang": p}}).Do(ctx, job("hang")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestReasonsBothWays(t *testing.T) {
	for in, want := range map[string]Reason{
		`"engine 1.4, wanted 1.5"`:                   {Text: "engine 1.4, wanted 1.5"},
		`{"code":"no_room","args":{"what":"slots"}}`: {Reason: fleet.Because("no_room", "what", "slots")},
	} {
		var r Reason
		if err := json.Unmarshal([]byte(in), &r); err != nil || r.Text != want.Text || !r.Equal(want.Reason) {
			t.Errorf("%s: %+v %v", in, r, err)
		}
		if out, err := json.Marshal(r); err != nil || string(out) != in {
			t.Errorf("%s: %s %v", in, out, err)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	for _, s := range []string{`{"result":"done"}`, `{"result":"wait","reason":"x"}`, `{"result":"running","reason":{"code":"a"},"state":[1]}`, `null`, `{}{}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		r, err := ParseReply(out)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := ParseReply(again); err != nil && len(r.State) < drain.MaxLeverState/6 {
			t.Fatalf("%s: %v", again, err)
		}
		if a := r.answer(); len(a.State) > drain.MaxLeverState || len(a.Progress) > maxText+4 {
			t.Fatal("out of bounds")
		}
	})
}
