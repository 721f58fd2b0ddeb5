package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Environment of a test binary inside the wrapper.
const (
	envInside = "EBB_LAB"     // "1" inside
	envDir    = "EBB_LAB_DIR" // the lab's own directory
	envTests  = "EBB_LAB_RUN" // "1" in the process that runs the tests
)

// Programs of a lab, below Bin. runner is the name of the copy of this one.
const (
	program = "labhost"
	runner  = "labtest"
)

// Inside reports whether this process is inside the wrapper.
func Inside() bool { return os.Getenv(envInside) == "1" }

// Supervised reports whether this process was started by Supervise.
func Supervised() bool { return os.Getenv(envTests) == "1" }

// Supervise runs this program once more, inside, and returns its exit status
// when everything else in the wrapper has ended too: with the wrapper all
// processes are gone at once, and none could put its files away.
func Supervise() (int, error) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envTests+"=1")
	err := cmd.Run()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = Until(ctx, "the last process", func() error { // what stays is ended with the wrapper
		left, _ := filepath.Glob("/proc/[0-9]*")
		if len(left) > 2 { // tini and this one
			return fmt.Errorf("%d processes are left", len(left)-2)
		}
		return nil
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return cmd.ProcessState.ExitCode(), err
}

// Dir is the lab's directory, inside the wrapper.
func Dir() string { return os.Getenv(envDir) }

// Bin is where programs for the lab lie below a lab's directory.
func Bin(dir string) string { return filepath.Join(dir, "bin") }

// tools is what the lab runs, with the Debian package that has it.
var tools = map[string]string{
	"/usr/sbin/sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "ip": "iproute2", "tini": "tini",
	"unshare": "util-linux", "nsenter": "util-linux", "losetup": "mount", "systemd-nspawn": "systemd-container",
}

// path is where the tools lie; root's own PATH may lack half of it.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Missing names the packages that this machine lacks.
func Missing() []string {
	var lack []string
	for tool, pkg := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			lack = append(lack, pkg)
		}
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		lack = append(lack, "postgresql-15")
	}
	return lack
}

// Enter runs this program again inside the wrapper, with the same arguments, and
// returns its exit status. dir is the lab's directory, with ebb, ebbd and
// labhost below Bin(dir).
func Enter(dir string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	copied := filepath.Join(Bin(dir), runner)
	if err := copyFile(self, copied); err != nil {
		return 1, err
	}
	args := append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "tini", "--", copied}, os.Args[1:]...)
	cmd := exec.Command("unshare", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envInside+"=1", envDir+"="+dir, "PATH="+path)
	err = cmd.Run()
	detach(filepath.Base(dir))
	ended, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = Until(ended, "control groups", func() error { return dropGroups(filepath.Base(dir) + "-*") }) // empty ones do no harm
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return cmd.ProcessState.ExitCode(), err
}

// Prepare makes the inside of the wrapper ready: its loopback, a file system in
// memory for the hosts, and the bridge that they are on.
func Prepare() error {
	if err := os.MkdirAll(fsDir(), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("lab", fsDir(), "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount the lab's files: %w", err)
	}
	if err := unix.Mount("run", "/run", "tmpfs", 0, "mode=0755"); err != nil { // what runs here must not meet the machine's own
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", "10.77.0.1/16", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := run("ip", args...); err != nil {
			return err
		}
	}
	return nil
}

const bridge = "br0"

func fsDir() string { return filepath.Join(Dir(), "fs") }

// run runs a tool, and returns what it said if it failed.
func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	tmp := to + ".new"
	if err := os.WriteFile(tmp, b, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// detach frees the loop devices whose backing file has the token in its path:
// they belong to the machine, and outlive the namespaces.
func detach(token string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), token) {
			_ = run("losetup", "--detach", "/dev/"+strings.Split(file, "/")[3])
		}
	}
}
