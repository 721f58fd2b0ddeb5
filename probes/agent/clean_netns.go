package agent

import (
	"fmt"

	"golang.org/x/sys/unix"

	"ebb/probes/wire"
)

// netnsHandle is a name in /run/netns: a file with a namespace mounted on it,
// or a placeholder whose mount is gone.
type netnsHandle struct {
	dir  int
	fd   int
	name string
	node inode
}

func holdNetns(dir, name string) (handle, error) {
	if !plainName(name) {
		return nil, refuse(wire.CodeBadRequest, "netns: want a plain name")
	}
	d, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("clean netns %s: %w", name, err)
	}
	fd, err := unix.Openat(d, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(d)
		return nil, fmt.Errorf("clean netns %s: %w", name, err)
	}
	node, err := inodeOf(fd)
	if err != nil {
		unix.Close(d)
		unix.Close(fd)
		return nil, fmt.Errorf("clean netns %s: %w", name, err)
	}
	return &netnsHandle{dir: d, fd: fd, name: name, node: node}, nil
}

func (h *netnsHandle) same() error {
	if now, err := inodeAt(h.dir, h.name); err != nil || now != h.node {
		return replaced("netns " + h.name)
	}
	return nil
}

// remove takes the mount off the name, as often as something is mounted there,
// and unlinks the file below.
func (h *netnsHandle) remove() error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(h.fd, &fs); err != nil {
		return fmt.Errorf("clean netns %s: %w", h.name, err)
	}
	if fs.Type == unix.NSFS_MAGIC {
		// Through the descriptor: this mount and no other.
		if err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", h.fd), unix.MNT_DETACH); err != nil {
			return fmt.Errorf("clean netns %s: unmount: %w", h.name, err)
		}
		if now, err := inodeAt(h.dir, h.name); err == nil && now == h.node {
			return fmt.Errorf("clean netns %s: it is mounted more than once there", h.name)
		}
	}
	if err := unix.Unlinkat(h.dir, h.name, 0); err != nil {
		return fmt.Errorf("clean netns %s: %w", h.name, err)
	}
	return nil
}

func (h *netnsHandle) finish() error { return nil }

func (h *netnsHandle) close() {
	if h.fd >= 0 {
		unix.Close(h.fd)
		unix.Close(h.dir)
		h.fd = -1
	}
}
