package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs holds the programs that scripts run: built once, as users have them.
var programs string

func TestMain(m *testing.M) {
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withPrograms(run func() int) (int, error) {
	dir, err := os.MkdirTemp("", "ebb-programs-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	programs = dir
	for _, name := range []string{"ebb", "ebbd"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "ebb/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	return run(), nil
}

// TestScripts runs the command lines in testdata/script. A script that begins
// with "fleet" has a demo fleet of three hosts, named in $EBB_CONFIG.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("EBB_OPERATOR", "mira")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fleet": startFleet, "status": status, "background": background, "until": until, "swap": swap, "agent": buildAgent,
		},
	})
}

// startFleet starts "ebb demo" for the rest of the script and waits until it is
// up.
func startFleet(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := os.MkdirTemp("", "ebb-fleet-") // short: sockets lie below it
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "ebb"), append([]string{"demo", "--hosts", "3", "--dir", dir}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cancel()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	ts.Check(waitFor(said, "the fleet is up"))
	ts.Setenv("EBB_CONFIG", filepath.Join(dir, "fleet.toml"))
	ts.Setenv("FLEET", dir)
}

// buildAgent builds an ebbd of another version, for hosts whose clocks are behind
// by a time: "agent FILE VERSION BEHIND".
func buildAgent(ts *testscript.TestScript, _ bool, args []string) {
	behind, err := time.ParseDuration(args[2])
	ts.Check(err)
	source, err := filepath.Abs("../../probes/agent/clock.go")
	ts.Check(err)
	text, err := os.ReadFile(source)
	ts.Check(err)
	const now = "return time.Now() }"
	if strings.Count(string(text), now) != 1 {
		ts.Fatalf("%s: no %q", source, now)
	}
	clock := ts.MkAbs("clock.go")
	ts.Check(os.WriteFile(clock, []byte(strings.Replace(string(text), now, fmt.Sprintf("return time.Now().Add(-%d) }", behind), 1)), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: clock}})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("overlay.json"), overlay, 0o600))
	cmd := exec.Command("go", "build", "-overlay", ts.MkAbs("overlay.json"), "-ldflags", "-X main.linked="+args[1], "-o", ts.MkAbs(args[0]), "ebb/cmd/ebbd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		ts.Fatalf("build %s: %v: %s", args[0], err, out)
	}
}

// swap exchanges the addresses of two hosts of the fleet: "swap HOST HOST".
func swap(ts *testscript.TestScript, _ bool, args []string) {
	path := filepath.Join(ts.Getenv("FLEET"), "ssh_config")
	conf := ts.ReadFile(path)
	block := func(host string) string {
		m := regexp.MustCompile("(?m)^Host " + host + "\n(  HostName .*\n  Port .*\n)").FindStringSubmatch(conf)
		if m == nil {
			ts.Fatalf("no %s in %s", host, path)
		}
		return m[1]
	}
	a, b := block(args[0]), block(args[1])
	conf = strings.NewReplacer("Host "+args[0]+"\n"+a, "Host "+args[0]+"\n"+b, "Host "+args[1]+"\n"+b, "Host "+args[1]+"\n"+a).Replace(conf)
	ts.Check(os.WriteFile(path, []byte(conf), 0o600))
}

// status runs ebb and wants an exit status: "status 3 ebb terminate …".
func status(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("%v: exit status %d, want %s", args[1:], code, args[0])
	}
}

// background runs a command until the script ends: "background NAME COMMAND…".
func background(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(filepath.Join(programs, args[1]), args[2:]...)
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "EBB_CONFIG", "EBB_OPERATOR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	said, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	ts.Check(waitFor(said, args[0]))
}

// until runs a command again and again until its output matches: "until REGEXP
// COMMAND…".
func until(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	limit := time.Now().Add(2 * time.Minute)
	for {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); err == nil && want.MatchString(out) {
			return
		} else if time.Now().After(limit) {
			ts.Fatalf("%v never matched %s: %s", args[1:], args[0], out)
		}
		time.Sleep(200 * time.Millisecond) // between two looks at another process
	}
}
