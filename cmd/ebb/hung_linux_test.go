package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"ebb/drain"
)

// hung is a terminal that can stop reading: a pty whose other end is read only
// while it is open. Nothing answers the program's queries but the test.
type hung struct {
	t   *testing.T
	tty *os.File
	cmd *exec.Cmd

	mu    sync.Mutex
	cond  *sync.Cond
	shut  bool
	ended bool
	got   bytes.Buffer
}

// hangs opens an ebb of somebody's on such a terminal. It is ended by its
// process, however it stands.
func (f testFleet) hangs(who, term string, width, height uint16) *hung {
	f.t.Helper()
	h := &hung{t: f.t, cmd: exec.Command(filepath.Join(programs, "ebb"))}
	h.cond = sync.NewCond(&h.mu)
	h.cmd.Env = append(f.env(who), "TERM="+term, "LC_ALL=C.UTF-8")
	tty, err := pty.StartWithSize(h.cmd, &pty.Winsize{Cols: width, Rows: height})
	if err != nil {
		f.t.Fatal(err)
	}
	h.tty = tty
	var wg sync.WaitGroup
	wg.Go(h.read)
	f.t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		h.hang(false)
		wg.Wait()
		_ = tty.Close()
	})
	return h
}

func (h *hung) read() {
	buf := make([]byte, 4096)
	for {
		h.mu.Lock()
		for h.shut {
			h.cond.Wait()
		}
		h.mu.Unlock()
		n, err := h.tty.Read(buf)
		h.mu.Lock()
		h.got.Write(buf[:n])
		h.ended = err != nil
		h.cond.Broadcast()
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// hang has the terminal read no more, but for what a read that is under way gets;
// or read again.
func (h *hung) hang(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = on
	h.cond.Broadcast()
}

// mark is how much was sent so far.
func (h *hung) mark() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got.Len()
}

// types sends keys, or what the terminal itself would.
func (h *hung) types(s string) {
	h.t.Helper()
	if _, err := io.WriteString(h.tty, s); err != nil {
		h.t.Fatal(err)
	}
}

// sees waits until a text was sent behind a mark.
func (h *hung) sees(mark int, text string) {
	h.t.Helper()
	late := false
	timer := time.AfterFunc(2*time.Minute, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		late = true
		h.cond.Broadcast()
	})
	defer timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !strings.Contains(string(h.got.Bytes()[mark:]), text) {
		if late || h.ended {
			h.t.Fatalf("%q is never sent: %q", text, h.got.Bytes()[mark:])
		}
		h.cond.Wait()
	}
}

// shows says whether a text was sent behind a mark.
func (h *hung) shows(mark int, text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(string(h.got.Bytes()[mark:]), text)
}

// presses types a key until something has come about, as a person does whose
// first key did not count.
func (h *hung) presses(key, what string, holds func() bool) {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for range 60 {
		h.types(key)
		<-tick.C
		if holds() {
			return
		}
	}
	h.t.Fatalf("%s: it has not come about", what)
}

// stuckFor is how long the terminal takes nothing.
const stuckFor = 20 * time.Second

// A terminal takes nothing for 20 seconds while its console drives a drain: the
// drive goes on, and a signal ends the process in bounded time, although what it
// has to say and the screen never get out.
func terminalThatHangs(t *testing.T, _ testFleet) {
	const host = "gpu-041"
	f := startTestFleet(t, 1) // without a resident, which would drive in its stead
	f.runs(host, notebook("nb-stuck"), notebook("nb-later"))
	h := f.hangs("ivan", "xterm-256color", 120, 36)
	h.sees(0, host)
	before := len(f.events(host))
	h.types("c")
	f.until("it is cordoned", func() bool { return len(f.events(host)) > before })
	f.ebb("cordon", host, "--reason", "and proved") // waits for the proof
	mark := h.mark()
	h.types("d")
	h.sees(mark, "deadline")
	// The terminal answers no query, so a question counts after a pause.
	h.presses("\r", "the plan", func() bool { return h.shows(mark, "nb-stuck") })
	h.presses("y", "the drain to begin", func() bool { return f.driver(host) != "" })

	h.hang(true)
	from := time.Now()
	last := f.lastDrive(host)
	for i := 0; time.Since(from) < stuckFor; i++ { // keys make it draw: its writes soon block
		h.types([]string{"\x1b[B", "2", "1", "6", "7"}[i%5])
		time.Sleep(100 * time.Millisecond)
	}
	if err := f.Platform.OwnerEnds(f.Host(host), notebook("nb-later")); err != nil {
		t.Fatal(err)
	}
	f.until("the drive goes on behind a terminal that hangs", func() bool { return f.lastDrive(host) > last })
	f.until("what leaves is seen", func() bool { return f.state(host).Items[notebook("nb-later").Key()].End == drain.LeftHost })

	sent := time.Now()
	sends(t, h.cmd.Process.Pid, syscall.SIGTERM)
	f.until("the console to end although its terminal hangs", func() bool { return !runs(h.cmd.Process.Pid) })
	t.Logf("ended %s after the signal", time.Since(sent).Round(time.Millisecond))
	if d := f.driver(host); d != "" {
		t.Errorf("the lease is still held, by %s", d)
	}
}

// lastDrive is the number of the last event that a driver has written.
func (f testFleet) lastDrive(host string) uint64 {
	f.t.Helper()
	var n uint64
	for _, ev := range f.events(host) {
		if strings.HasPrefix(string(ev.Kind), "drive.") {
			n = ev.Num
		}
	}
	return n
}

// A terminal that can't even move its cursor gets lines, with a word for every
// state.
func dumbTerminal(t *testing.T, f testFleet) {
	h := f.hangs("dora", "dumb", 80, 24)
	h.sees(0, "TERM is dumb")
	h.sees(0, "gpu-041: ")
	h.sees(0, "serving")
	sends(t, h.cmd.Process.Pid, syscall.SIGTERM)
	f.until("it ends", func() bool { return !runs(h.cmd.Process.Pid) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.ContainsRune(h.got.String(), '\x1b') {
		t.Errorf("sequences are sent: %q", h.got.String())
	}
}
