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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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

// filters shows one host of the fleet screen alone, so that no other can move it.
func (term *terminal) filters(host string) {
	term.t.Helper()
	term.keys("/", host, "Enter")
	term.until("the cursor on "+host+" alone", func(s string) bool { return firstWord(cursorLine(s)) == host })
}

// selects moves the cursor to a host of the fleet screen: it stays with the one
// that a filter has left, once the filter is lifted, wherever its row moves.
func (term *terminal) selects(host string) {
	term.t.Helper()
	term.filters(host)
	term.keys("Escape")
	term.until("the cursor on "+host+" among all", func(s string) bool {
		return !strings.Contains(s, "/"+host) && firstWord(cursorLine(s)) == host
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

// is asks tmux about the terminal, in its format language.
func (term *terminal) is(format string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", "-S", term.socket, "display-message", "-p", format).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %s: %v: %s", format, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// resize makes the window another size.
func (term *terminal) resize(width, height int) {
	term.t.Helper()
	if out, err := exec.Command("tmux", "-S", term.socket, "resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height)).CombinedOutput(); err != nil {
		term.t.Fatalf("tmux: resize to %d×%d: %v: %s", width, height, err, out)
	}
}

// given wants the terminal as a program has to give it back: the screen that was
// there before, with a cursor, and nothing switched on.
func (term *terminal) given() {
	term.t.Helper()
	const format, want = "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag} #{mouse_any_flag}", "0 1 0 0"
	term.until("the terminal to be given back ("+format+" "+want+")", func(string) bool { return term.is(format) == want })
}

// taken wants the terminal as the console has it.
func (term *terminal) taken() {
	term.t.Helper()
	const format, want = "#{alternate_on} #{cursor_flag}", "1 0"
	term.until("the terminal to be taken ("+format+" "+want+")", func(string) bool { return term.is(format) == want })
}

// kill closes the terminal under what runs in it, as a window that is closed.
func (term *terminal) kill() {
	term.t.Helper()
	if out, err := exec.Command("tmux", "-S", term.socket, "kill-pane").CombinedOutput(); err != nil {
		term.t.Fatalf("tmux: kill-pane: %v: %s", err, out)
	}
}
