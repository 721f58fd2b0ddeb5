package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// shell opens an interactive shell on the fleet in a terminal.
func (f testFleet) shell(who string, width, height int) *terminal {
	f.t.Helper()
	dir := f.t.TempDir()
	rc := filepath.Join(dir, "rc")
	text := fmt.Sprintf("PS1='at the prompt> '\nexport EBB_CONFIG=%s EBB_OPERATOR=%s XDG_STATE_HOME=%s PATH=%s:$PATH\n",
		f.Config(), who, filepath.Join(f.Dir, "state-"+who), programs)
	if err := os.WriteFile(rc, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	term := openTerminal(f.t, width, height, "bash --noprofile --rcfile "+rc+" -i")
	term.sees("at the prompt>")
	return term
}

// ctrl-z gives the terminal back as it was, and fg draws everything anew.
func stoppedAndResumed(t *testing.T, f testFleet) {
	term := f.shell("kim", 100, 30)
	term.keys("ebb", "Enter")
	before := term.sees("gpu-041", "gpu-045", "serving", "? ")
	term.taken()
	term.keys("C-z")
	term.sees("Stopped")
	term.given()
	term.keys("stty -a | tr ';' '\\n' | grep -w icanon | grep -c -e '-icanon' | sed s/^/raw:/", "Enter")
	term.sees("raw:0")
	term.keys("clear", "Enter")
	term.gone("raw:0")
	term.keys("fg", "Enter")
	after := term.sees("gpu-041", "gpu-045", "serving", "back; what is shown was read before")
	term.taken()
	for _, line := range strings.Split(before, "\n")[2:10] { // titles and rows
		if word := firstWord(line); !strings.Contains(after, word) {
			t.Errorf("%q is not on the screen any more:\n%s", word, after)
		}
	}
	term.keys("q")
	term.sees("at the prompt>")
	term.given()
}

// A question is open, the console is stopped, and somebody types: what was typed
// is not its answer, although nobody but the console ever reads it.
func keysWhileStopped(t *testing.T, f testFleet) {
	const host = "gpu-045"
	f.ebb("cordon", host, "--reason", "looks slow")
	goOn := filepath.Join(t.TempDir(), "go-on")
	script := filepath.Join(t.TempDir(), "script")
	text := fmt.Sprintf(`set -m
export EBB_CONFIG=%s EBB_OPERATOR=ana XDG_STATE_HOME=%s
%s/ebb
echo stopped with $?
until [ -e %s ]; do sleep 0.1; done
fg >/dev/null
echo ended with $?
sleep 600
`, f.Config(), filepath.Join(f.Dir, "state-ana"), programs, goOn)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	term := openTerminal(t, 100, 30, "bash "+script)
	term.sees("gpu-041", "serving")
	term.filters(host)
	term.acts("u", "y uncordon")
	term.keys("C-z")
	term.sees("stopped with")
	term.given()
	term.keys("y", "y", "Enter", "y") // the console's alone: nothing else reads
	term.sees("yy")
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.taken()
	term.sees("y uncordon") // painted anew, so what was typed before has been read
	if out := f.ebb("cordon", host, "-o", "json"); !strings.Contains(out, "looks slow") {
		t.Errorf("it was lifted: %s", out)
	}
	term.keys("y")
	term.sees("uncordon " + host + ": serving")
	term.keys("q")
	term.sees("ended with 0")
	term.given()
}

// A console that drives a drain ends by a signal, or because its terminal is
// gone. It says what becomes of the drain, and whoever drives next need not wait
// for the lease to run out.
func signalsWhileDriving(t *testing.T, f testFleet) {
	// All three drive before there is a resident, which would be as quick as they.
	drives := func(who, host, work string) console {
		f.runs(host, notebook(work))
		c := f.console(who, 120, 36, "")
		c.drains(host, "notebook/"+work)
		f.until(who+" drives "+host, func() bool { return f.driver(host) != "" })
		return c
	}
	told, hungUp, lost := drives("mira", "gpu-042", "nb-term"), drives("lena", "gpu-043", "nb-hup"), drives("omar", "gpu-044", "nb-lost")

	sends(t, told.pid(), syscall.SIGTERM)
	screen := told.ended(0)
	if got := f.driver("gpu-042"); got != "" {
		t.Errorf("the lease of gpu-042 is still held, by %s", got)
	}
	if said := "gpu-042: no resident engine is there; the drain stays and holds it: ebb drain gpu-042 takes it up"; !strings.Contains(screen, said) {
		t.Errorf("it does not say %q:\n%s", said, screen)
	}

	resident := f.resident()
	f.until("the resident drives gpu-042", func() bool { return f.driver("gpu-042") == resident })

	sends(t, hungUp.pid(), syscall.SIGHUP)
	if screen := hungUp.ended(0); !strings.Contains(screen, "gpu-043: handed over to "+resident) {
		t.Errorf("it does not say who drives gpu-043 now:\n%s", screen)
	}
	f.until("the resident drives gpu-043", func() bool { return f.driver("gpu-043") == resident })

	pid := lost.pid()
	lost.kill()
	f.until("the console of the lost terminal to end", func() bool { return !runs(pid) })
	f.until("the resident drives gpu-044", func() bool { return f.driver("gpu-044") == resident })
	for _, host := range []string{"gpu-042", "gpu-043", "gpu-044"} {
		if s := f.state(host); s.Phase.Ended() || s.Undone {
			t.Errorf("the drain of %s is %s", host, s.Phase)
		}
	}
}

func sends(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// runs says whether a process still runs. One that has ended and that nobody has
// asked about does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ")
	return ok && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
