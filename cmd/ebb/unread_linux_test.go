package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// What goes on printing ends on a signal although nobody reads what it prints.
func TestUnreadOutputEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, aliases := filepath.Join(dir, "fleet.toml"), filepath.Join(dir, "ssh_config")
	url := "sqlite:" + filepath.Join(dir, "journal.db")
	for path, text := range map[string]string{
		config:  fmt.Sprintf("[journal]\nurl = %q\n[ssh]\nconfig = %q\n[[plane]]\nname = \"prod\"\ntype = \"ssh\"\nmatch = [\"gpu-1\"]\n", url, aliases),
		aliases: "Host gpu-1\n  HostName 127.0.0.1\n  Port 1\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	longJournal(t, url)
	for _, args := range [][]string{{"log", "--follow"}, {"board", "gpu-1", "--watch"}, {"board", "gpu-1", "--watch", "-o", "json"}} {
		for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			t.Run(strings.Join(args, " ")+", "+signal.String(), func(t *testing.T) {
				r, w := fullPipe(t)
				cmd := exec.Command(filepath.Join(programs, "ebb"), args...)
				var errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = w, &errs
				cmd.Env = append(os.Environ(), "EBB_CONFIG="+config, "XDG_STATE_HOME="+dir)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				limit := time.After(2 * time.Minute)
				sent := false
				for {
					select {
					case err := <-ended:
						if !sent || err != nil {
							t.Errorf("signalled %v, ended with %v: %s", sent, err, errs.String())
						}
						return
					case <-limit:
						_ = cmd.Process.Kill()
						<-ended
						t.Fatalf("signalled %v, and it does not end: %s", sent, errs.String())
					case <-tick.C:
						if !sent && full(r) {
							if err := cmd.Process.Signal(signal); err != nil {
								t.Fatal(err)
							}
							sent = true
						}
					}
				}
			})
		}
	}
}

// longJournal has more of one host than a small pipe takes.
func longJournal(t *testing.T, url string) {
	t.Helper()
	j, err := journal.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	const host = fleet.HostID("prod/gpu-1")
	who := drain.Actor{Name: strings.Repeat("mira ", 2*pipeSize/5)}
	ev, err := drain.NewEvent(host, "e1", "d-1", 0, who, drain.AskStart{Deadline: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(), drain.Batch{Stream: string(host), Events: []drain.Event{ev}}); err != nil {
		t.Fatal(err)
	}
}

const pipeSize = 4096

// fullPipe is a pipe that takes little, and that nobody reads.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// full reports whether whoever writes to a pipe waits for its reader.
func full(r *os.File) bool {
	n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
	return err == nil && n >= pipeSize
}
