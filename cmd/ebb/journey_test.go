package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// terminal is a real terminal: a tmux server of the test's own.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal runs a command in a terminal of the given size.
func openTerminal(t *testing.T, width, height int, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getuid() == 0 {
			t.Fatal("tmux is not installed: make deps installs it")
		}
		t.Skip("tmux is not installed, and only root can install it")
	}
	dir, err := os.MkdirTemp("", "ebb-tmux-") // short: a socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, socket: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	cmd := exec.Command("tmux", "-S", term.socket, "-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), command)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	return term
}

// keys types: names such as Enter and Escape are keys, the rest is text.
func (term *terminal) keys(names ...string) {
	term.t.Helper()
	for _, name := range names {
		if out, err := exec.Command("tmux", "-S", term.socket, "send-keys", name).CombinedOutput(); err != nil {
			term.t.Fatalf("send-keys %s: %v: %s", name, err, out)
		}
	}
}

func (term *terminal) screen() string {
	out, _ := exec.Command("tmux", "-S", term.socket, "capture-pane", "-p").Output()
	return string(out)
}

// sees waits until every text is on the screen at once.
func (term *terminal) sees(texts ...string) string {
	term.t.Helper()
	return term.until(fmt.Sprintf("%q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// presses types a key until a text shows, as a person does whose first key came
// before the question was painted and so did not count.
func (term *terminal) presses(key string, texts ...string) {
	term.t.Helper()
	last := time.Time{}
	term.until(fmt.Sprintf("%q after %s", texts, key), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				if time.Since(last) > 2*time.Second {
					term.keys(key)
					last = time.Now()
				}
				return false
			}
		}
		return true
	})
}

func (term *terminal) until(what string, holds func(string) bool) string {
	term.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		screen := term.screen()
		if holds(screen) {
			return screen
		}
		select {
		case <-ctx.Done():
			term.t.Fatalf("%s never came; the screen:\n%s", what, screen)
		case <-tick.C:
		}
	}
}

// selects moves the cursor to a host of the fleet screen, by what is drawn: the
// next key is sent once the last one has had time to show. The rows may move
// meanwhile, and the cursor with them: where it does not move on, it begins anew.
func (term *terminal) selects(host string) {
	term.t.Helper()
	var typed time.Time
	last := ""
	term.until("the cursor on "+host, func(s string) bool {
		at := firstWord(cursorLine(s))
		switch {
		case at == host:
			return true
		case time.Since(typed) < 500*time.Millisecond:
		case last == "" || at == last:
			term.keys("Home")
			typed, last = time.Now(), "-"
		default:
			term.keys("j")
			typed, last = time.Now(), at
		}
		return false
	})
}

// acts types a key that acts on the row under the cursor. One that comes right
// after the rows have moved is not taken, and says so: then it is typed again.
func (term *terminal) acts(key string, texts ...string) {
	term.t.Helper()
	const again = "press again"
	for range 20 {
		term.keys(key)
		screen := term.until(fmt.Sprintf("%q after %s", texts, key), func(s string) bool {
			return strings.Contains(s, again) || containsAll(s, texts)
		})
		if containsAll(screen, texts) {
			return
		}
		term.keys("Escape") // takes the word away
		term.gone(again)
	}
	term.t.Fatalf("%s is never taken; the screen:\n%s", key, term.screen())
}

func containsAll(s string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return false
		}
	}
	return true
}

func cursorLine(screen string) string {
	for line := range strings.Lines(screen) {
		if strings.HasPrefix(line, "▸") {
			return line
		}
	}
	return ""
}

// firstWord is the name in a line with the cursor.
func firstWord(line string) string {
	if f := strings.Fields(strings.Replace(line, "▲", " ", 1)); len(f) > 1 {
		return f[1]
	}
	return line
}

// gone waits until a text is no longer on the screen.
func (term *terminal) gone(text string) {
	term.t.Helper()
	term.until("no "+text, func(s string) bool { return !strings.Contains(s, text) })
}

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
