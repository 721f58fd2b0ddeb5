package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Deed is something that a workload, or a command for one, has done or felt. It
// is what acts have come to, whatever any journal says.
//
//	start  a command has begun to start a replacement
//	paused it has been paused by the lever
//	up     a process of the workload runs
//	term   it was sent TERM
//	end    it ends by itself
type Deed struct {
	At   time.Time
	What string
	Key  string // kind/id, with the id as it stands in file names
	PID  int    // on the host
}

const deedsFile = "/var/log/deeds"

// note adds a deed of this process to those of its host.
func (w Work) note(what string) error {
	f, err := os.OpenFile(deedsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%d %s %s %d\n", time.Now().UnixNano(), what, w.key(), os.Getpid())
	return err
}

func (w Work) key() string { return safe(w.Kind) + "/" + safe(w.ID) }

// Deeds returns what has been done on the host, in order.
func (h *Host) Deeds() ([]Deed, error) {
	f, err := os.Open(filepath.Join(h.logs(), filepath.Base(deedsFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Deed
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var d Deed
		var nano int64
		if _, err := fmt.Sscan(lines.Text(), &nano, &d.What, &d.Key, &d.PID); err != nil {
			return nil, fmt.Errorf("deeds of %s: %q: %w", h.Name, lines.Text(), err)
		}
		d.At = time.Unix(0, nano)
		all = append(all, d)
	}
	return all, nil
}

// slow is a file on a host that makes its command "start" take longer: the time
// before the replacement is started, and the time after that.
const slow = "/etc/ebb/slow"

// Slow makes the host's command "start" take longer, before and after it has
// started a replacement.
func (h *Host) Slow(before, after time.Duration) error {
	return h.Write(slow, fmt.Sprintln(int64(before), int64(after)))
}

func slowness() (before, after time.Duration) {
	text, err := os.ReadFile(slow)
	if err != nil {
		return 0, 0
	}
	_, _ = fmt.Sscan(string(text), &before, &after) // half a file is no delay
	return before, after
}
