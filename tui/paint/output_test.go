package paint

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/vt"
	"go.uber.org/goleak"
)

const enterScreen, leaveScreen, query = "\x1b[?1049h", "\x1b[?1049l", "\x1b[6n"

// line is a terminal that takes what it is given while it is open.
type line struct {
	mu   sync.Mutex
	cond *sync.Cond
	shut bool
	err  error
	got  bytes.Buffer
}

func newLine() *line {
	l := &line{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.shut {
		l.cond.Wait()
	}
	if l.err != nil {
		return 0, l.err
	}
	l.cond.Broadcast()
	return l.got.Write(b)
}

func (l *line) hang(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = on
	l.cond.Broadcast()
}

// until waits until what was written holds for a test.
func (l *line) until(t *testing.T, what string, holds func(string) bool) string {
	t.Helper()
	late := false
	timer := time.AfterFunc(time.Minute, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		late = true
		l.cond.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !holds(l.got.String()) {
		if late {
			t.Fatalf("%s: %q", what, l.got.String())
		}
		l.cond.Wait()
	}
	return l.got.String()
}

func has(parts ...string) func(string) bool {
	return func(s string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
	}
}

func say(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
}

// Behind a query lies a screen at least as new as the one shown before it, also
// where the terminal hung in between; what was missed meanwhile is not sent.
func TestAQueryIsBehindTheScreen(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLine()
	o := NewOutput(l)
	o.SetProfile(colorprofile.TrueColor)
	say(t, o, enterScreen)
	o.Show("first", 20, 1)
	l.until(t, "the first screen", has("first"))
	l.hang(true)
	o.Show("stuck", 20, 1)
	for range 100 {
		o.Show("missed", 20, 1)
	}
	n := o.Show("asked", 20, 1)
	o.Await(n)
	say(t, o, query)
	o.Show("newer", 20, 1)
	if _, ok := o.Sent(); ok {
		t.Error("a screen counts as sent that the terminal has not taken")
	}
	l.hang(false)
	got := l.until(t, "the query", has(query))
	e := vt.NewEmulator(20, 1)
	defer e.Close()
	before, _, _ := strings.Cut(got, query)
	_, _ = e.Write([]byte(before))
	if s := strings.TrimSpace(e.String()); s != "asked" && s != "newer" {
		t.Errorf("the query is behind %q", s)
	}
	if strings.Count(got, "missed") > 1 {
		t.Errorf("old screens are sent: %q", got)
	}
	o.Close(time.Minute)
	if _, ok := o.Sent(); !ok {
		t.Error("not sent in the end")
	}
}

// Nothing waits for a terminal that takes nothing, and giving it back is tried
// for a moment only.
func TestAHungTerminalHoldsNothingUp(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLine()
	o := NewOutput(l)
	o.SetProfile(colorprofile.TrueColor)
	say(t, o, enterScreen)
	l.until(t, "the screen", has(enterScreen))
	l.hang(true)
	for range 1000 {
		o.Show("x", 20, 1)
		say(t, o, query)
	}
	say(t, o, leaveScreen)
	o.Close(10 * time.Millisecond)
	l.hang(false)
	l.until(t, "it is given back after all", has(leaveScreen))
}

// Whatever else changes the screen makes all of it be sent anew.
func TestTheScreenComesBack(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, seq := range []string{"\x1b[2J", "\x1b[J", "\x1b[K", "text", "\x1bc", leaveScreen + enterScreen, "\x1b[3L", "\x1b[1;31m"} {
		l := newLine()
		o := NewOutput(l)
		o.SetProfile(colorprofile.TrueColor)
		o.Show("the screen", 20, 1)
		say(t, o, enterScreen)
		l.until(t, "the screen", has("the screen"))
		say(t, o, seq)
		l.until(t, "again after "+seq, func(s string) bool { return strings.Count(s, "the screen") == 2 })
		o.Close(time.Minute)
	}
	for _, seq := range []string{query, "\x1b[?25l", "\x1b[?2004h", "\x1b[>4;2m", "\x1b[>1u", "\x1b[?u", "\x1b]11;?\x07", "\x1b7\x1b[3;4H\x1b[6n\x1b8", "\x1b[?2026$p"} {
		if effect([]byte(seq)) != nothing {
			t.Errorf("%q counts as a change of the screen", seq)
		}
	}
}

// A terminal that is lost is said to be, and ends the writing.
func TestALostTerminal(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLine()
	l.err = errors.New("input/output error")
	o := NewOutput(l)
	o.SetProfile(colorprofile.TrueColor)
	o.Show("x", 20, 1)
	say(t, o, enterScreen)
	select {
	case <-o.Lost():
	case <-time.After(time.Minute):
		t.Fatal("nobody is told")
	}
	if _, err := io.WriteString(o, query); err == nil || o.Err() == nil {
		t.Error("writing to it works")
	}
	o.Close(time.Minute)
}

// A larger change is shown at once where the terminal can do that; a small one
// is not worth it.
func TestSync(t *testing.T) {
	defer goleak.VerifyNone(t)
	l := newLine()
	o := NewOutput(l)
	o.SetProfile(colorprofile.TrueColor)
	o.SetSync(true)
	o.Show(strings.Repeat("x", 1000), 1000, 1)
	say(t, o, enterScreen)
	l.until(t, "a large change", has("\x1b[?2026h", "xxx", "\x1b[?2026l"))
	o.Show(strings.Repeat("x", 999)+"y", 1000, 1)
	got := l.until(t, "a small one", has("y"))
	if strings.Count(got, "2026h") != 1 {
		t.Errorf("%q", got)
	}
	o.Close(time.Minute)
}
