package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// NewClocked starts a server whose clock can be set, for one test.
func NewClocked(tb testing.TB) *Server {
	tb.Helper()
	lib := needs(tb, "faketime", "/usr/lib/*/faketime/libfaketime.so.1")
	s, err := place(binaries(tb), nil)
	if err == nil {
		if err = s.init(); err == nil {
			s.env = []string{"LD_PRELOAD=" + lib, "FAKETIME_TIMESTAMP_FILE=" + s.clock(), "FAKETIME_NO_CACHE=1",
				"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1"}
			if err = s.Jump(0); err == nil {
				s, err = s.begin()
			}
		}
	}
	if err != nil {
		tb.Fatalf("start PostgreSQL with a clock of its own: %v", err)
	}
	tb.Cleanup(s.close)
	return s
}

func (s *Server) clock() string { return filepath.Join(s.dir, "clock") }

// Jump sets the clock of a server of NewClocked to so much after the machine's.
func (s *Server) Jump(ahead time.Duration) error {
	tmp := s.clock() + ".new"
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%+d\n", int(ahead/time.Second)), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, s.clock())
}
