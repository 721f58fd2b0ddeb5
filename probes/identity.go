package probes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Identity tells which machine this is and which boot of it:
//
//	/etc/machine-id                    5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a
//	/proc/sys/kernel/random/boot_id    6f3c1a52-7b0e-4c0a-9f0b-2a1d3c4e5f60
//	/proc/stat                         … btime 1764435000 …
//
// All three are read below Root.Dir, also by a scoped agent that takes its
// processes from the real /proc: its machine and its boots are its own. Only
// where there is no btime below Dir does procfs's stand in.
func (p *Prober) Identity() (machine, boot string, bootedAt time.Time, err error) {
	return p.cfg.Root.identity()
}

func (r Root) identity() (machine, boot string, bootedAt time.Time, err error) {
	if machine, err = readID(r.Path("/etc/machine-id")); err != nil {
		return "", "", time.Time{}, fmt.Errorf("machine id: %w", err)
	}
	if boot, err = readID(r.Path("/proc/sys/kernel/random/boot_id")); err != nil {
		return "", "", time.Time{}, fmt.Errorf("boot id: %w", err)
	}
	bootedAt, err = readBooted(r.Path("/proc/stat"))
	if errors.Is(err, os.ErrNotExist) {
		bootedAt, err = readBooted(r.proc("stat"))
	}
	if err != nil {
		return "", "", time.Time{}, fmt.Errorf("boot time: %w", err)
	}
	return machine, boot, bootedAt, nil
}

// readID reads a file that holds one word. systemd writes "uninitialized" into
// machine-id on the first boot: that is no identity.
func readID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(text(b))
	if id == "" || id == "uninitialized" || len(id) > 128 || len(strings.Fields(id)) != 1 {
		return "", fmt.Errorf("%s holds no id", path)
	}
	return id, nil
}

func readBooted(path string) (time.Time, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	t, err := parseBooted(b)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// parseBooted finds btime in /proc/stat: when the machine booted, in seconds of
// its present wall clock.
func parseBooted(b []byte) (time.Time, error) {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("btime "))
		if !ok {
			continue
		}
		sec, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("btime: %w", err)
		}
		return time.Unix(sec, 0), nil
	}
	return time.Time{}, errors.New("no btime")
}
