package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ebb/demo"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// drivenBy lets somebody drive the host's drain until the test ends, as far as
// the journal can tell.
func (f testFleet) drivenBy(holder, host string) {
	f.t.Helper()
	id := f.state(host).Drain
	j, err := journal.Open(f.t.Context(), "sqlite:"+filepath.Join(f.Dir, "journal.db"))
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := j.Acquire(f.t.Context(), id, holder, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(drain.LeaseRenew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if next, err := j.Renew(ctx, l); err == nil {
					l = next
				}
			}
		}
	}()
	f.t.Cleanup(func() { cancel(); <-ended; j.Close() })
}

// Whoever drives a drain carries out what another has asked for: a host is given
// back all the same.
func TestGivenBackToAnotherDriver(t *testing.T) {
	t.Parallel()
	f := startTestFleet(t, 2)
	const host = "gpu-041"
	f.runs(host, demo.Spec{Kind: "sandbox", ID: "tenant-9", Class: fleet.Pausable, Owner: "kim", As: "counter", Log: filepath.Join(f.Dir, "tenant-9.log")})
	f.ebb("drain", host, "--deadline", "1h", "--for", "kernel")
	f.drivenBy("vm:1", host)
	for _, step := range []struct {
		args, want []string
	}{
		{[]string{"resume", host}, []string{"resuming sandbox/tenant-9", "vm:1 resumes it: ebb board " + host}},
		{[]string{"undrain", host}, []string{"the drain hold is lifted; still cordoned by root"}},
		{[]string{"uncordon", host}, []string{"serving", "vm:1 resumes it: ebb board " + host}},
	} {
		out := f.ebb(step.args...)
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("ebb %s: no %q in\n%s", strings.Join(step.args, " "), want, out)
			}
		}
	}
}

// What a drain says and takes goes by what is there, not by what it has seen.
func TestDrainGoesByWhatIsThere(t *testing.T) {
	t.Parallel()
	f := startTestFleet(t, 3)
	t.Run("taken back", func(t *testing.T) { takenBack(f.with(t)) })
	t.Run("silent", func(t *testing.T) { emptyAndSilent(f.with(t)) })
	t.Run("asked before it has looked", func(t *testing.T) { askedEarly(f.with(t)) })
}

// takenBack undrains and uncordons a host while its drain is stopped and cannot
// yet end.
func takenBack(f testFleet) {
	const host = "gpu-041"
	f.runs(host, notebook("nb-1"))
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(programs, "ebb"), "drain", host, "--deadline", "1h")
	cmd.Env = f.env("mira")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	f.until("the drain is under way", func() bool { return f.state(host).Phase == drain.Draining && f.state(host).First })
	f.ebb("undrain", host, "--theirs")
	f.ebb("uncordon", host, "--theirs")
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != exitStopped {
		f.t.Errorf("it ended with %v", err)
	}
	text := out.String()
	if !strings.Contains(text, "stopped with 1 left: root ") || strings.Contains(text, "ebb undrain") {
		f.t.Errorf("its last words:\n%s", text)
	}
}

// emptyAndSilent asks for the drain of a host that was emptied and then ended.
func emptyAndSilent(f testFleet) {
	const host = "gpu-042"
	f.ebb("drain", host, "--deadline", "1h")
	path := filepath.Join(f.Dir, "ssh_config")
	conf, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	port := regexp.MustCompile("(?m)^(Host " + host + "\n  HostName .*\n  Port ).*$")
	if err := os.WriteFile(path, port.ReplaceAll(conf, []byte("${1}1")), 0o600); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(programs, "ebb"), "drain", host)
	cmd.Env = f.env("root")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitError {
		f.t.Errorf("it ended with %v", err)
	}
	if text := string(out); !strings.Contains(text, "it was read as empty at ") || !strings.Contains(text, "it can't be read now: ") || strings.Contains(text, "is empty. Next") {
		f.t.Errorf("its last words:\n%s", text)
	}
}

// askedEarly asks about workloads before anybody has looked at them for the drain:
// about what is on the host, and nothing else.
func askedEarly(f testFleet) {
	const host = "gpu-043"
	id := f.Host(host).ID()
	f.runs(host, notebook("nb-2"))
	reads(f, func(ctx context.Context, j *journal.Journal) (struct{}, error) {
		ev, err := drain.NewEvent(id, "e-asked", "d-early", 0, drain.Actor{Name: "root"}, drain.AskStart{Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			return struct{}{}, err
		}
		_, err = j.Append(ctx, drain.Batch{Stream: string(id), Events: []drain.Event{ev}})
		return struct{}{}, err
	})
	f.ebb("ask", host+"/notebook/nb-2", "hold")
	if early := f.state(host).Early; len(early) != 1 {
		f.t.Errorf("the drain will hear of %d asks", len(early))
	}
	for _, c := range []struct{ key, verb, want string }{
		{"notebook/nb-3", "hold", "knows no notebook/nb-3"},
		{"notebook/nb-2", "park", "nothing here moves"},
	} {
		cmd := exec.CommandContext(f.t.Context(), filepath.Join(programs, "ebb"), "ask", host+"/"+c.key, c.verb)
		cmd.Env = f.env("root")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			f.t.Errorf("%s %s: %v\n%s", c.verb, c.key, err, out)
		}
	}
}

func TestWhatHoldsAHostThatWasTakenBack(t *testing.T) {
	cordon := &fleet.Hold{Kind: fleet.CordonHold, Who: "kim"}
	for want, text := range map[string]string{
		"gpu-041 serves": heldText("demo/gpu-041", fleet.Holds{}, true),
		"gpu-041 is still cordoned by kim. Next: ebb uncordon gpu-041":        heldText("demo/gpu-041", fleet.Holds{Cordon: cordon}, true),
		"drain d-2 holds gpu-041 now":                                         heldText("demo/gpu-041", fleet.Holds{Cordon: cordon, Drain: &fleet.Hold{Kind: fleet.DrainHold, Drain: "d-2"}}, true),
		"whether a cordon still holds gpu-041 is not known: it can't be read": heldText("demo/gpu-041", fleet.Holds{}, false),
	} {
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}
