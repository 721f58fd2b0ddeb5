package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// supported reports whether this system can run a demo fleet: agents read /proc.
const supported = true

// killScope ends every process with the token among its arguments, by identity:
// a pidfd is opened before the arguments are read.
func killScope(token string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		argv, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && slices.Contains(strings.Split(string(argv), "\x00"), token) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// signalPID sends TERM to the process that a pid file names, if it carries the
// token.
func signalPID(file, token string) error { return signalTo(file, token, unix.SIGTERM) }

// signalTo is signalPID for any signal.
func signalTo(file, token string, sig unix.Signal) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	argv, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !slices.Contains(strings.Split(string(argv), "\x00"), token) {
		return fmt.Errorf("process %d is not the one that %s meant", pid, file)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
