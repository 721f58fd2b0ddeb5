package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// ErrRefused says that the kernel of this machine lets no host boot systemd.
var ErrRefused = errors.New("this kernel refuses what a host that boots systemd needs")

// machine is what runs a host that boots systemd: systemd-nspawn, once more
// after every reboot, until the host is powered off or halted.
type machine struct {
	console string // file with what the host has printed
	boots   chan *exec.Cmd
	off     chan struct{} // closed when it has ended for good
	halt    context.CancelFunc
}

// layers lays out the files of a host that boots systemd, over the machine's own:
// it has no agent, and none of the machine's daemons.
func (h *Host) layers() error {
	for _, d := range []string{"mask/etc/systemd/system", "work", "root", "up/root/.ssh", "up/etc/ebb", "up/etc/ssh", "up/etc/systemd/system/multi-user.target.wants",
		"up/usr/local/bin", "up/var/log/journal", "up/var/lib/workloads", "up/var/lib/jobs", "up" + h.LoopDir()} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o755); err != nil {
			return err
		}
	}
	key, public, err := newKey()
	if err != nil {
		return err
	}
	h.Key = public
	for file, text := range map[string]string{
		"etc/machine-id": h.Machine + "\n", "etc/hostname": h.Name + "\n", "etc/hosts": "127.0.0.1 localhost\n" + h.Addr + " " + h.Name + "\n",
		"etc/ebb/ebbd.toml": h.agentConfig(), "etc/ssh/ssh_host_ed25519_key": key, "etc/ssh/sshd_config": sshdConfig,
		"root/.ssh/authorized_keys":       string(ssh.MarshalAuthorizedKey(h.lab.public)),
		"etc/systemd/system/sshd.service": sshdUnit, "etc/systemd/system/first-work.service": firstUnit,
	} {
		if err := os.WriteFile(filepath.Join(h.dir, "up", file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, unit := range []string{"sshd.service", "first-work.service"} {
		if err := os.Symlink("../"+unit, filepath.Join(h.dir, "up/etc/systemd/system/multi-user.target.wants", unit)); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(Bin(Dir()), program), filepath.Join(h.dir, "up/usr/local/bin", program)); err != nil {
		return err
	}
	for _, unit := range foreignUnits() {
		if err := os.Symlink(os.DevNull, filepath.Join(h.dir, "mask/etc/systemd/system", unit)); err != nil {
			return err
		}
	}
	return nil
}

const sshdUnit = `[Service]
ExecStart=/usr/sbin/sshd -D -e
RuntimeDirectory=sshd
KillMode=process
`

// firstUnit asks for admission as early as anything that could create work: what
// it was told stands in /var/log/first-work.
const firstUnit = `[Unit]
ConditionPathExists=/usr/local/bin/ebbd

[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/bin/ebbd admit claim --key box/first >> /var/log/first-work 2>&1; echo "exit status $?" >> /var/log/first-work'
`

// foreignUnits are the units that this machine's own packages start.
func foreignUnits() []string {
	units := map[string]bool{"console-getty.service": true, "getty@.service": true}
	wanted, _ := filepath.Glob("/etc/systemd/system/*.wants/*")
	for _, f := range wanted {
		if name := filepath.Base(f); !strings.HasSuffix(name, ".target") {
			units[name] = true
		}
	}
	scripts, _ := filepath.Glob("/etc/init.d/*")
	for _, f := range scripts {
		if name := filepath.Base(f); name != "dbus" {
			units[name+".service"] = true
		}
	}
	var names []string
	for name := range units {
		names = append(names, name)
	}
	return names
}

// bootSystemd makes the host's network and file system, and boots it.
func (h *Host) bootSystemd(ctx context.Context) error {
	space := h.file("net")
	if err := os.WriteFile(space, nil, 0o600); err != nil {
		return err
	}
	if err := run("unshare", "--net="+space, "true"); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := h.plugIn(space, "--net="+space); err != nil {
		return err
	}
	over := fmt.Sprintf("lowerdir=%s:/,upperdir=%s,workdir=%s", h.file("mask"), h.file("up"), h.file("work"))
	if err := unix.Mount("host", h.file("root"), "overlay", 0, over); err != nil {
		return fmt.Errorf("%w: overlay over /: %w", ErrRefused, err)
	}
	life, halt := context.WithCancel(context.WithoutCancel(ctx))
	m := &machine{console: h.file("console"), boots: make(chan *exec.Cmd, 1), off: make(chan struct{}), halt: halt}
	h.systemd = m
	go func() {
		defer close(m.off)
		h.keepBooting(life)
	}()
	return h.Booted(ctx)
}

func (h *Host) file(name string) string { return filepath.Join(h.dir, name) }

// group is the name of the host's own control groups.
func (h *Host) group() string { return filepath.Base(Dir()) + "-" + h.Name }

// nspawn moves itself into control groups of its own, below which systemd makes
// its own, and becomes systemd-nspawn.
const nspawn = `if [ -e /sys/fs/cgroup/cgroup.controllers ]; then set -- /sys/fs/cgroup/ -- "$@"; else set -- /sys/fs/cgroup/*/ -- "$@"; fi
while [ "$1" != -- ]; do mkdir -p "$1$0" && echo $$ > "$1$0/cgroup.procs"; shift; done 2>/dev/null
shift; exec systemd-nspawn "$@"`

// rebooted is how systemd-nspawn ends when the host wants to be booted again.
const rebooted = 133

func (h *Host) keepBooting(ctx context.Context) {
	for ctx.Err() == nil {
		console, err := os.OpenFile(h.systemd.console, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", nspawn, h.group(), "-q", "-D", h.file("root"), "--register=no", "--keep-unit",
			"--network-namespace-path="+h.file("net"), "-M", h.Name, "--console=pipe", "-b")
		cmd.Stdout, cmd.Stderr = console, console
		cmd.Env = []string{"PATH=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = cmd.Start()
		console.Close()
		if err != nil {
			return
		}
		h.systemd.boots <- cmd
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() != rebooted {
			return
		}
	}
}

// Booted waits until the host, which has been started or told to reboot, is up:
// then its sshd answers.
func (h *Host) Booted(ctx context.Context) error {
	var cmd *exec.Cmd
	select {
	case cmd = <-h.systemd.boots:
	case <-h.systemd.off:
		return fmt.Errorf("%s is off: %s", h.Name, h.Console())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return Until(ctx, "boot of "+h.Name, func() error {
		select {
		case <-h.systemd.off:
			if text := h.Console(); strings.Contains(text, "Operation not permitted") {
				return &final{fmt.Errorf("%w: %s", ErrRefused, text)}
			}
			return &final{fmt.Errorf("%s has ended: %s", h.Name, h.Console())}
		default:
		}
		all := children(cmd.Process.Pid)
		if len(all) != 1 {
			return fmt.Errorf("%d processes below systemd-nspawn", len(all))
		}
		h.leader = all[0]
		c, err := net.DialTimeout("tcp", net.JoinHostPort(h.Addr, "22"), time.Second)
		if err != nil {
			return fmt.Errorf("%w: %s", err, h.Console())
		}
		c.Close()
		return nil
	})
}

// Off waits until the host has powered itself off.
func (h *Host) Off(ctx context.Context) error {
	select {
	case <-h.systemd.off:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Console is the end of what the host has printed.
func (h *Host) Console() string {
	b, _ := os.ReadFile(h.systemd.console)
	return string(b[max(0, len(b)-2000):])
}

// haltSystemd ends the host at once.
func (h *Host) haltSystemd() {
	if h.systemd == nil {
		return
	}
	if h.leader != 0 {
		_ = syscall.Kill(h.leader, syscall.SIGKILL)
	}
	h.systemd.halt()
	<-h.systemd.off
	_ = unix.Unmount(h.file("root"), unix.MNT_DETACH)
	_ = unix.Unmount(h.file("net"), unix.MNT_DETACH)
	_ = exec.Command("ip", "link", "del", h.link).Run()
	h.systemd = nil
}

// dropGroups removes control groups by their name, a glob. They belong to the
// machine and outlive the processes in them.
func dropGroups(name string) error {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	more, _ := filepath.Glob("/sys/fs/cgroup/" + name)
	tops = append(tops, more...)
	var left error
	for _, top := range tops {
		if err := dropGroup(top); err != nil && !errors.Is(err, os.ErrNotExist) {
			left = err
		}
	}
	return left
}

func dropGroup(dir string) error {
	below, _ := filepath.Glob(filepath.Join(dir, "*/"))
	for _, d := range below {
		if info, err := os.Lstat(d); err == nil && info.IsDir() {
			if err := dropGroup(d); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}

// unit starts a program as a unit of the host, and returns its pid there.
func (h *Host) unit(argv []string) (int, error) {
	ctx, cancel := context.WithTimeout(h.lab.ctx, time.Minute)
	defer cancel()
	name := "lab-" + randomHex(6)
	if out, err := h.Exec(ctx, append([]string{"systemd-run", "--quiet", "--collect", "--unit=" + name, "--"}, argv...)...); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	out, err := h.Exec(ctx, "systemctl", "show", "-p", "MainPID", "--value", name)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// children lists the processes that a process has started.
func children(pid int) []int {
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		rest := b[bytes.LastIndexByte(b, ')')+1:]
		if _, err := fmt.Sscan(string(rest), &state, &parent); err == nil && parent == pid {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			list = append(list, child)
		}
	}
	return list
}

// final is an error that no more waiting changes.
type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
func (f *final) Unwrap() error { return f.err }
