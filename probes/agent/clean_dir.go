package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ebb/probes/wire"
)

// asidePrefix begins the name under which a directory is removed.
const asidePrefix = ".ebb-aside-"

// dirHandle is an entry that is held open, and the directory it lies in. What
// belongs to a workload is a directory as a rule, and may be a file or a link.
type dirHandle struct {
	parent int
	fd     int
	plain  bool // no directory
	path   string
	name   string
	aside  string
	node   inode
}

func holdDir(path string) (handle, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return nil, refuse(wire.CodeBadRequest, "dir: want a clean absolute path")
	}
	parent, err := unix.Open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("clean %s: %w", path, err)
	}
	name := filepath.Base(path)
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	plain := errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	if plain {
		fd, err = unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		unix.Close(parent)
		return nil, fmt.Errorf("clean %s: %w", path, err)
	}
	node, err := inodeOf(fd)
	if err != nil {
		unix.Close(parent)
		unix.Close(fd)
		return nil, fmt.Errorf("clean %s: %w", path, err)
	}
	return &dirHandle{parent: parent, fd: fd, plain: plain, path: path, name: name, node: node}, nil
}

func (h *dirHandle) same() error {
	if now, err := inodeAt(h.parent, h.name); err != nil || now != h.node {
		return replaced(h.path)
	}
	return nil
}

// remove moves the directory aside. What turns out to be another one is moved
// back.
func (h *dirHandle) remove() error {
	if at, err := mountBelow(h.path); err != nil {
		return fmt.Errorf("clean %s: %w", h.path, err)
	} else if at != "" {
		return refuse(wire.CodeOtherRun, "something is mounted at "+at)
	}
	aside := asidePrefix + rand.Text()
	if err := unix.Renameat2(h.parent, h.name, h.parent, aside, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("clean %s: move aside: %w", h.path, err)
	}
	if now, err := inodeAt(h.parent, aside); err != nil || now != h.node {
		back := unix.Renameat2(h.parent, aside, h.parent, h.name, unix.RENAME_NOREPLACE)
		return errors.Join(replaced(h.path), back)
	}
	h.aside = aside
	return nil
}

// mountBelow finds a mount at or below a path.
func mountBelow(path string) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	real := filepath.Join(parent, filepath.Base(path))
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := unescapeMount(fields[4])
		if at == real || strings.HasPrefix(at, real+"/") {
			return at, nil
		}
	}
	return "", nil
}

// unescapeMount undoes the \040 of mountinfo.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// finish removes what lies aside.
func (h *dirHandle) finish() error {
	var err error
	if h.plain {
		err = unix.Unlinkat(h.parent, h.aside, 0)
	} else if err = removeContents(h.fd, 0); err == nil {
		err = unix.Unlinkat(h.parent, h.aside, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return fmt.Errorf("clean %s: it lies aside as %s and could not be removed: %w", h.path, h.aside, err)
	}
	return nil
}

// removeContents empties a directory. It opens each entry beneath the one it
// holds, follows no symbolic link and enters no other file system.
func removeContents(fd, depth int) error {
	if depth > 200 {
		return errors.New("nested too deep")
	}
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := unix.Unlinkat(fd, name, 0)
		if err == nil || errors.Is(err, unix.ENOENT) {
			continue
		}
		if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("%s: %w", name, err)
		}
		sub, err := unix.Openat2(fd, name, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = removeContents(sub, depth+1)
		unix.Close(sub)
		if err == nil {
			err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// namesIn lists a directory through a descriptor of its own.
func namesIn(fd int) ([]string, error) {
	dup, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "directory")
	defer f.Close()
	return f.Readdirnames(-1)
}

func (h *dirHandle) close() {
	if h.fd >= 0 {
		unix.Close(h.fd)
		unix.Close(h.parent)
		h.fd = -1
	}
}
