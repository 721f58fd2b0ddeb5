package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"ebb/probes/wire"
)

// Caller is who asks. UID and PID come from the kernel; SudoUID from the
// environment of that process where it is root's; the rest is what the caller
// says about itself.
type Caller struct {
	UID     int
	PID     int
	SudoUID string
	Role    wire.Role
	Claimed wire.Claimed
}

// auditLine is one line of the audit log.
type auditLine struct {
	Time    time.Time    `json:"time"`
	UID     int          `json:"uid"`
	SudoUID string       `json:"sudo_uid,omitempty"`
	PID     int          `json:"pid"`
	Role    wire.Role    `json:"role"`
	Verb    string       `json:"verb"`
	What    string       `json:"what,omitempty"`
	Why     string       `json:"why,omitempty"`
	Outcome string       `json:"outcome"`
	Claimed wire.Claimed `json:"claimed"`
}

// auditLog appends lines that are on the disk before append returns. It opens
// its file anew after a failure, so a disk that was full for a while does not
// silence it for ever.
type auditLog struct {
	path string
	mu   sync.Mutex
	file *os.File
}

func newAuditLog(dir string) *auditLog { return &auditLog{path: filepath.Join(dir, "audit.log")} }

func (l *auditLog) append(line auditLine) error {
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.write(append(b, '\n')); err != nil {
		if l.file != nil {
			l.file.Close()
			l.file = nil
		}
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// The log is kept in pieces: audit.log, and audit.log.1 (newest) to audit.log.8.
const (
	auditSize = 32 << 20
	auditKeep = 8
)

// rotate begins a new piece once this one is large. Where that fails the log
// just goes on in the old one.
func (l *auditLog) rotate() {
	info, err := l.file.Stat()
	if err != nil || info.Size() < auditSize {
		return
	}
	for i := auditKeep - 1; i > 0; i-- {
		_ = os.Rename(l.path+"."+itoa(i), l.path+"."+itoa(i+1))
	}
	if os.Rename(l.path, l.path+".1") == nil {
		l.file.Close()
		l.file = nil
		_ = syncDir(filepath.Dir(l.path))
	}
}

func (l *auditLog) write(line []byte) error {
	if l.file != nil {
		l.rotate()
	}
	if l.file == nil {
		f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		l.file = f
		// A line cut short by a crash must not swallow the one after it.
		if info, err := f.Stat(); err == nil && info.Size() > 0 {
			last := make([]byte, 1)
			if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
				line = append([]byte{'\n'}, line...)
			}
		}
	}
	if _, err := l.file.Write(line); err != nil {
		return err
	}
	return l.file.Sync()
}

func (l *auditLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// note describes one change for the audit log.
type note struct{ verb, what, why string }

func (a *Agent) auditLine(c Caller, n note, outcome string) auditLine {
	return auditLine{
		Time: a.cfg.Clock.Now(), UID: c.UID, SudoUID: c.SudoUID, PID: c.PID, Role: c.Role,
		Verb: n.verb, What: n.what, Why: n.why, Outcome: outcome, Claimed: c.Claimed,
	}
}

// audited runs a change between two lines of the audit log, "asked" and how it
// ended. Where the first can't be written nothing is done.
func (a *Agent) audited(c Caller, n note, change func() error) error {
	if a.life.Err() != nil {
		return notRecorded(errEnding)
	}
	if err := a.audit.append(a.auditLine(c, n, "asked")); err != nil {
		return notRecorded(err)
	}
	err := change()
	if e := a.audit.append(a.auditLine(c, n, outcome(err))); e != nil {
		a.cfg.Log.Error("the end of a change is not in the audit log", "verb", n.verb, "error", e)
	}
	return err
}
