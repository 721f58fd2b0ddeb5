package station

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"ebb/drain"
)

// spool keeps records that the journal could not take, one JSON event a line,
// until it can: a cordon does not wait for a database, and what was done is not
// forgotten for it. Every record has the id that it will have in the journal, so
// appending one twice is harmless.
type spool struct {
	path    string
	journal string // which journal this process's records are for
	mu      sync.Mutex
}

// spooled is one line. Records for several journals may lie in one spool.
type spooled struct {
	Journal string      `json:"journal"`
	Event   drain.Event `json:"event"`
}

// journalID names a journal by its URL, without what is secret in it.
func journalID(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address // of a file, or nothing that can be opened
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// spoolPath is $XDG_STATE_HOME/ebb/spool.jsonl; empty where there is no home.
func spoolPath(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if state == "" {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "ebb", "spool.jsonl")
}

// keep writes one record, and returns when it is on the disk.
func (s *spool) keep(ev drain.Event) error {
	line, err := json.Marshal(spooled{s.journal, ev})
	if err != nil {
		return fmt.Errorf("spool %s: %w", ev.Kind, err)
	}
	return s.locked(func(f *os.File) error {
		end, err := f.Seek(0, 2)
		if err != nil {
			return err
		}
		if end > 0 { // a line that a full disk cut short must not swallow this one
			last := make([]byte, 1)
			if _, err := f.ReadAt(last, end-1); err != nil {
				return err
			}
			if last[0] != '\n' {
				line = append([]byte{'\n'}, line...)
			}
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			return err
		}
		return f.Sync()
	})
}

// locked opens the spool and holds a lock on it: other processes of the same
// person keep their records in the same file.
func (s *spool) locked(fn func(*os.File) error) error {
	if s.path == "" {
		return errors.New("spool: neither $XDG_STATE_HOME nor $HOME is set")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("spool: lock %s: %w", s.path, err)
	}
	if err := fn(f); err != nil {
		return fmt.Errorf("spool %s: %w", s.path, err)
	}
	return nil
}

// waiting is how many records are kept.
func (s *spool) waiting() int {
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return 0
	}
	n := 0
	for line := range bytes.Lines(raw) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// appender is the journal as far as the spool needs it.
type appender interface {
	Append(ctx context.Context, b drain.Batch) ([]drain.Event, error)
}

// flush appends what was kept for this journal, in order, and forgets what the
// journal has; it returns how many that were. After the first that the journal
// does not take nothing more is tried. A line that can't be read stays, for a
// person to look at.
func (s *spool) flush(ctx context.Context, j appender) (int, error) {
	if info, err := os.Stat(s.path); s.path == "" || errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	}
	done := 0
	var trouble []error
	err := s.locked(func(f *os.File) error {
		var rest bytes.Buffer
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var rec spooled
			err := json.Unmarshal(line, &rec)
			ours := err == nil && rec.Journal == s.journal
			if ours && len(trouble) == 0 {
				err = appendOne(ctx, j, rec.Event)
			}
			if ours && err == nil && len(trouble) == 0 {
				done++
				continue
			}
			rest.Write(append(line, '\n'))
			if ours && err != nil {
				trouble = append(trouble, err)
			}
		}
		if err := lines.Err(); err != nil || done == 0 {
			return err
		}
		return replace(s.path, f, rest.Bytes())
	})
	return done, errors.Join(append(trouble, err)...)
}

func appendOne(ctx context.Context, j appender, ev drain.Event) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := j.Append(ctx, drain.Batch{Stream: ev.Stream, Events: []drain.Event{ev}}); err != nil {
		return fmt.Errorf("append %s of %s: %w", ev.Kind, ev.Stream, err)
	}
	return nil
}

// replace writes what is left. The file itself stays, since others may wait for
// its lock; a crash in between leaves records that are appended again, under the
// same ids.
func replace(path string, f *os.File, rest []byte) error {
	if len(rest) > 0 {
		if err := os.WriteFile(path+".left", rest, 0o600); err != nil {
			return err
		}
		defer os.Remove(path + ".left")
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(rest, 0); err != nil {
		return err
	}
	return f.Sync()
}
