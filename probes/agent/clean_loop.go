package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ebb/probes/wire"
)

var loopName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^loop[0-9]{1,6}$`) })

// loopHandle is a loop device that is held open: it can't be given to another
// backing file by anybody who detaches it first, unless that shows in its status.
type loopHandle struct {
	fd   int
	name string
	info unix.LoopInfo64
}

func holdLoop(dev, name string) (handle, error) {
	if !loopName().MatchString(name) {
		return nil, refuse(wire.CodeBadRequest, "loop: want a name like loop0")
	}
	fd, err := unix.Open(filepath.Join(dev, name), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("clean %s: %w", name, err)
	}
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("clean %s: %w", name, err)
	}
	return &loopHandle{fd: fd, name: name, info: *info}, nil
}

func (h *loopHandle) same() error {
	now, err := unix.IoctlLoopGetStatus64(h.fd)
	if err != nil || now.Device != h.info.Device || now.Inode != h.info.Inode || now.Offset != h.info.Offset ||
		!bytes.Equal(now.File_name[:], h.info.File_name[:]) {
		return replaced(h.name)
	}
	return nil
}

// remove detaches the device. A mounted one is refused: the kernel would only
// note to free it at the unmount and call that success.
func (h *loopHandle) remove() error {
	mounted, err := loopMounted(h.fd)
	if err != nil {
		return fmt.Errorf("clean %s: %w", h.name, err)
	}
	if mounted {
		return refuse(wire.CodeOtherRun, h.name+" is mounted")
	}
	if err := unix.IoctlSetInt(h.fd, unix.LOOP_CLR_FD, 0); err != nil {
		return fmt.Errorf("clean %s: detach: %w", h.name, err)
	}
	return nil
}

// loopMounted looks for the device in the mounts of every process: namespaces
// of workloads are not ours.
func loopMounted(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	device := fmt.Sprintf(" %d:%d ", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	if err != nil || len(files) == 0 {
		return false, errors.New("no mounts can be read")
	}
	seen := map[string]bool{}
	for _, file := range files {
		ns, err := os.Readlink(filepath.Join(filepath.Dir(file), "ns/mnt"))
		if err == nil && seen[ns] {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it ended, or is a zombie
		}
		seen[ns] = true
		if strings.Contains(string(b), device) {
			return true, nil
		}
	}
	return false, nil
}

// finish closes the device: the kernel lets go of the file at the last close.
func (h *loopHandle) finish() error {
	h.close()
	return nil
}

func (h *loopHandle) close() {
	if h.fd >= 0 {
		unix.Close(h.fd)
		h.fd = -1
	}
}
