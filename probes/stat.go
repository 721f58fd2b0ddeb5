package probes

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Bits of the flags in /proc/PID/stat.
const (
	flagEnding = 0x00000004 // PF_EXITING
	flagForked = 0x00000040 // PF_FORKNOEXEC: still runs what its parent ran
	flagKernel = 0x00200000 // PF_KTHREAD
)

// ticks is USER_HZ, in which /proc/PID/stat counts. It has been 100 on every
// architecture that hosts run on since times before containers.
const ticks = 100

// stat is what the cheap tier reads of a process.
type stat struct {
	pid, ppid, session int
	comm               string
	state              byte
	flags              uint64
	start              uint64 // ticks after boot
	headless           bool   // its first thread has ended, others run on
	image              image
}

// image tells whether a process still runs the program it ran when its details
// were read: exec keeps pid and start time, but moves stack and arguments. The
// addresses are zero where the reader may not see them.
type image struct {
	comm       string
	forked     bool
	stack, arg uint64
}

func (s stat) zombie() bool { return (s.state == 'Z' || s.state == 'X') && !s.headless }
func (s stat) kernel() bool { return s.flags&flagKernel != 0 }

// ending reports whether what the process ran is gone, or about to be: its
// arguments and its executable can no longer be read.
func (s stat) ending() bool { return s.zombie() || s.headless || s.flags&flagEnding != 0 }

// letter is the state as it is told. The kernel calls a process whose first
// thread has ended a zombie though it lives, so that one sleeps.
func (s stat) letter() string {
	if s.headless {
		return "S"
	}
	return string(rune(s.state))
}

// startedAt is the wall-clock time of the start, given that of the boot.
func (s stat) startedAt(booted time.Time) time.Time {
	return booted.Add(time.Duration(s.start) * (time.Second / ticks))
}

// parseStat reads one line of /proc/PID/stat:
//
//	4117 (my (odd) name) S 1 4117 4117 0 -1 4194560 … 22:89194 … 28:STACK … 48:ARGS …
//
// The name may hold spaces, parentheses and newlines, so it ends at the last
// parenthesis. Fields are counted from 1, as proc(5) does.
func parseStat(b []byte) (stat, error) {
	var s stat
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return s, errors.New("no name in parentheses")
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil || pid < 1 {
		return s, fmt.Errorf("pid %q", b[:open])
	}
	s.pid, s.comm = pid, text(b[open+1:end])
	const first = 3 // the number of the field after the name
	var fields [50][]byte
	n := splitFields(b[end+1:], fields[first:])
	if n < 22-first+1 {
		return s, fmt.Errorf("%d fields after the name", n)
	}
	if len(fields[3]) != 1 {
		return s, fmt.Errorf("state %q", fields[3])
	}
	s.state = fields[3][0]
	if s.ppid, err = strconv.Atoi(string(fields[4])); err != nil {
		return s, fmt.Errorf("parent: %w", err)
	}
	if s.session, err = strconv.Atoi(string(fields[6])); err != nil {
		return s, fmt.Errorf("session: %w", err)
	}
	if s.flags, err = strconv.ParseUint(string(fields[9]), 10, 64); err != nil {
		return s, fmt.Errorf("flags: %w", err)
	}
	if s.start, err = strconv.ParseUint(string(fields[22]), 10, 64); err != nil {
		return s, fmt.Errorf("start time: %w", err)
	}
	threads, err := strconv.Atoi(string(fields[20]))
	if err != nil {
		return s, fmt.Errorf("threads: %w", err)
	}
	s.headless = s.state == 'Z' && threads > 1
	s.image = image{comm: s.comm, forked: s.flags&flagForked != 0}
	// Absent in old kernels and short fixtures: zero serves as "can't tell".
	s.image.stack, _ = strconv.ParseUint(string(fields[28]), 10, 64)
	s.image.arg, _ = strconv.ParseUint(string(fields[48]), 10, 64)
	return s, nil
}

// splitFields fills dst with the fields of b and returns how many there were
// room for. It looks at every byte once, and allocates nothing: it runs for every
// process of every second.
func splitFields(b []byte, dst [][]byte) int {
	n, from := 0, -1 // from is where the field began that we are in
	for i, ch := range b {
		switch space := ch == ' ' || ch == '\n'; {
		case !space && from < 0:
			if n == len(dst) {
				return n
			}
			from = i
		case space && from >= 0:
			dst[n], from = b[from:i], -1
			n++
		}
	}
	if from >= 0 {
		dst[n] = b[from:]
		n++
	}
	return n
}
