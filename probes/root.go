package probes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Root says where a host's files are.
type Root struct {
	// Dir is put before every path, /etc /run /var /sys alike; empty on a real
	// host.
	Dir string
	// Proc is where procfs is; Dir+"/proc" if empty. A scoped agent reads the
	// machine's real /proc and keeps everything else below Dir.
	Proc string
	// Scope is an argv token: only processes whose argv holds it, whole, are
	// this host's. Empty on a real host.
	Scope string
}

// Path maps a path as the host names it to where it is read. A path that
// already lies below Dir stays as it is.
func (r Root) Path(p string) string {
	if r.Dir == "" || p == r.Dir || strings.HasPrefix(p, strings.TrimSuffix(r.Dir, "/")+"/") {
		return p
	}
	return filepath.Join(r.Dir, p)
}

func (r Root) proc(elem ...string) string {
	base := r.Proc
	if base == "" {
		base = r.Path("/proc")
	}
	return filepath.Join(append([]string{base}, elem...)...)
}

// notApplicable is returned by a probe that has proved its subject can't exist
// on this host.
type notApplicable struct{ why string }

func (n notApplicable) Error() string { return n.why }

// readSmall reads a kernel file through buf, which it grows as needed; what it
// returns is valid until buf is used again. Plain system calls: procfs files
// need no poller, and there are thousands of them.
func readSmall(path string, buf *[]byte) ([]byte, error) { return readKernel(path, buf, false) }

// readOne is readSmall for files that the kernel writes as one record, such as
// stat: there, less than was asked for is all there is.
func readOne(path string, buf *[]byte) ([]byte, error) { return readKernel(path, buf, true) }

func readKernel(path string, buf *[]byte, one bool) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if cap(*buf) < 4096 {
		*buf = make([]byte, 4096)
	}
	b, n := (*buf)[:cap(*buf)], 0
	for {
		got, err := retry(func() (int, error) { return unix.Read(fd, b[n:]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if got == 0 {
			return b[:n], nil
		}
		if n += got; one && n < len(b) {
			return b[:n], nil
		}
		if n == len(b) {
			b = append(b, make([]byte, len(b))...)
			*buf = b
		}
	}
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// vanished reports that a process, or a thing, ended while it was read.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// provedAbsent returns nil if path certainly does not exist: its parent can be
// listed and does not have it. Climbing allows for parents that are absent too,
// as far as one that can be listed.
func provedAbsent(path string, climb bool) error {
	parent, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) && climb && parent != path {
		return provedAbsent(parent, true)
	}
	if err != nil {
		return fmt.Errorf("%s is missing, and so it seems is its parent: %w", path, err)
	}
	for _, e := range entries {
		if e.Name() == name {
			return fmt.Errorf("%s is there but can't be found", path)
		}
	}
	return nil
}
