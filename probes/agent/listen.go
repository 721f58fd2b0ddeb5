package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ebb/probes/wire"
)

// maxSocketPath is what the kernel's sun_path takes, with its final zero.
const maxSocketPath = 107

// Listen makes the run directory and one socket per role in it.
func Listen(cfg Config) ([]Listener, error) {
	if err := os.MkdirAll(cfg.RunDir, 0o755); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	var out []Listener
	for _, role := range wire.Roles {
		l, err := listenRole(cfg, role)
		if err != nil {
			for _, open := range out {
				open.Close()
			}
			return nil, fmt.Errorf("listen as %s: %w", role, err)
		}
		out = append(out, Listener{l, role})
	}
	return out, nil
}

func listenRole(cfg Config, role wire.Role) (net.Listener, error) {
	path := filepath.Join(cfg.RunDir, role.Socket())
	if c, err := DialSocket(context.Background(), path); err == nil {
		c.Close()
		return nil, errors.New("another agent answers there")
	}
	// Bound where nobody else can come, and shown once mode and group are right.
	hidden := filepath.Join(cfg.RunDir, ".binding")
	if err := os.MkdirAll(hidden, 0o700); err != nil {
		return nil, err
	}
	defer os.Remove(hidden)
	fresh := filepath.Join(hidden, role.Socket())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var l *net.UnixListener
	err := withShortPath(fresh, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it is called otherwise by then
	access := cfg.Sockets[role]
	if access.Mode == 0 {
		access = Socket{Mode: 0o660, GID: -1}
	}
	if access.GID >= 0 {
		err = os.Lchown(fresh, -1, access.GID)
	}
	if err == nil {
		err = os.Chmod(fresh, access.Mode)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// DialSocket connects to a socket whatever the length of its path.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	var c net.Conn
	err := withShortPath(path, func(short string) (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, "unix", short)
		return err
	})
	return c, err
}

// withShortPath replaces a path that is too long for a socket by one that goes
// through an open descriptor of its directory.
func withShortPath(path string, do func(string) error) error {
	if len(path) <= maxSocketPath {
		return do(path)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	return do(fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}
