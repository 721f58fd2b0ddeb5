package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func demoCommandLine(args string) string {
	return filepath.Join(programs, "ebb") + " demo --hosts 3 --speed 30 " + args
}

// One host from its cordon to its gate, on the screens, in a small terminal.
func TestJourneyOnASmallTerminal(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, 80, 24, demoCommandLine(""))
	term.sees("gpu-041", "serving")
	term.selects("gpu-042")
	term.acts("c", "○ cordoned", "on a h")

	term.keys("3") // what differs
	term.sees("gpu-042", "LEAKS", "old-7")
	term.keys("Enter")
	term.sees("esc close")
	term.keys("Escape")
	term.gone("esc close")
	term.keys("1")
	term.sees("gpu-041", "gpu-043")

	term.selects("gpu-042")
	term.acts("d", "deadline")
	term.presses("Enter", "notebook/nb-lena-1")
	term.presses("Enter", "not done: drain gpu-042") // Enter alone never begins one
	term.acts("d", "deadline")
	term.presses("Enter", "notebook/nb-lena-1")
	term.keys("End")
	term.presses("y", "has begun")
	term.keys("2")
	term.sees("nb-lena-1", "left")

	term.keys("4")
	term.sees("can it be terminated?")
	term.presses("t", "refused: terminate", "esc close")

	term.keys("Escape")
	term.gone("esc close")
	term.keys("7")
	term.sees("web-2", "left")
}

// The console says what quitting means while it drives, and q with No stays.
func TestJourneyQuit(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, 120, 36, demoCommandLine("; echo ended with $?; sleep 60"))
	term.sees("gpu-041", "serving")
	term.keys("?")
	term.sees("EVERYWHERE")
	term.keys("Escape")
	term.gone("EVERYWHERE")
	term.keys("q")
	term.sees("ended with 0")
}

// A journal is played in a terminal: every line is marked, it steps, and nothing
// can be done in it. R on the log of a console plays the console's own, and the
// console is there again afterwards.
func TestJourneyReplay(t *testing.T) {
	t.Parallel()
	term := openTerminal(t, 100, 30, demoCommandLine(""))
	term.sees("gpu-041", "serving")
	term.selects("gpu-042")
	term.acts("c", "○ cordoned")
	term.presses("7", "cordoning: on a hunch")
	term.presses("R", "REPLAY")
	marked(t, term.screen())
	term.presses("<", "event 1 of", "paused") // it plays from R on, and may be at its end by now
	term.keys(".")
	term.sees("event 2 of")
	term.keys(">")
	term.sees("at the end")
	term.presses("1", "STATE", "SINCE")
	term.keys("u")
	term.sees("this is a replay: nothing to uncordon in it")
	term.keys("q")
	term.until("the console again", func(s string) bool { return !strings.Contains(s, "REPLAY") && strings.Contains(s, "following") })
	term.presses("1", "○ cordoned")

	file := filepath.Join(t.TempDir(), "night.jsonl")
	line := func(n int, kind, body string) string {
		return fmt.Sprintf(`{"seq":%d,"stream":"prod/gpu-7","num":%d,"id":"e%d","at":"2026-11-29T14:00:%02dZ","kind":%q,"v":1,"drain":"d","by":{"name":"mira"},"body":%s}`+"\n", n, n, n, 10*n, kind, body)
	}
	journal := line(1, "rec.cordon", `{"reason":"CVE"}`) + line(2, "rec.cordoned", `{"state":"cordoned"}`) + line(3, "ask.start", `{"deadline":"2026-11-29T15:00:00Z"}`)
	if err := os.WriteFile(file, []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	term = openTerminal(t, 80, 24, filepath.Join(programs, "ebb")+" replay "+file+"; echo ended with $?; sleep 60")
	term.sees("REPLAY", "night.jsonl", "gpu-7")
	marked(t, term.screen())
	term.keys(">")
	term.sees("at the end", "59:30 left (15:00)")
	term.keys("d")
	term.sees("this is a replay: nothing to drain in it")
	term.keys("q")
	term.sees("ended with 0")
}

// marked wants the mark of a replay on every line.
func marked(t *testing.T, screen string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimRight(screen, "\n")) {
		if !strings.HasPrefix(line, "R│") {
			t.Fatalf("a line of a replay is not marked: %q in\n%s", line, screen)
		}
	}
}

// One console drives; a second one on the same journal takes over with a word,
// and drives from then on. The first reads who has it.
func TestJourneyHandoverBetweenTwoConsoles(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ebb-two-") // short: sockets lie below it
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	fleet := exec.CommandContext(ctx, filepath.Join(programs, "ebb"), "demo", "--hosts", "3", "--speed", "30", "--dir", dir)
	fleet.Cancel = func() error { return fleet.Process.Signal(os.Interrupt) }
	said, err := fleet.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = fleet.Wait()
		_ = os.RemoveAll(dir)
	})
	if err := waitFor(said, "the fleet is up"); err != nil {
		t.Fatal(err)
	}
	console := func(who string) *terminal {
		return openTerminal(t, 120, 36, fmt.Sprintf("EBB_CONFIG=%s/fleet.toml EBB_OPERATOR=%s XDG_STATE_HOME=%s/state-%s %s/ebb", dir, who, dir, who, programs))
	}
	mira := console("mira")
	mira.sees("gpu-041", "serving")
	mira.selects("gpu-042")
	mira.acts("c", "○ cordoned")
	mira.acts("d", "deadline")
	mira.presses("Enter", "notebook/nb-lena-1")
	mira.keys("End")
	mira.presses("y", "has begun")
	mira.presses("2", "driven by this console")

	lena := console("lena")
	lena.sees("gpu-042")
	lena.presses("6", "on shift: lena", "draining", "driven by")
	lena.presses("a", "take over gpu-042, saying: ")
	lena.presses("Enter", "handover gpu-042: taken over by lena")
	lena.presses("2", "gpu-042", "driven by this console")

	mira.until("the drive to be another's", func(s string) bool {
		return !strings.Contains(s, "driven by this console") && strings.Contains(s, "driven by")
	})
	mira.presses("7", "following")
	mira.keys("/", "kind:ask.handover", "Enter")
	mira.sees("1 of ", "lena", "taken over")
}
