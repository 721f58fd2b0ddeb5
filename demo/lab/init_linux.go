package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main carries out one of the roles of the program labhost.
func Main(args []string) error {
	if len(args) == 0 {
		return errors.New("want init, work, start, health, lever or carry")
	}
	switch role := args[0]; {
	case role == "init" && len(args) == 3:
		return initMain(args[1], args[2])
	case role == "work":
		return workMain(args[1:])
	case role == "start":
		return startMain()
	case role == "health":
		return healthMain()
	case role == "lever":
		return leverMain()
	case role == "carry" && len(args) == 5:
		return carryMain(args[1], args[2], args[3], args[4])
	}
	return fmt.Errorf("%q is no role: want init, work, start, health, lever or carry", args)
}

// order is what a lab tells the first process of a host to do.
type order struct {
	Start  []string `json:"start,omitempty"`
	Env    []string `json:"env,omitempty"`
	Log    string   `json:"log,omitempty"`
	PID    int      `json:"pid,omitempty"`
	Signal int      `json:"signal,omitempty"`
}

type reply struct {
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

// initMain is the first process of a host: it makes the host's own file system
// out of the machine's, then starts what it is told to and reaps what ends. It
// ends, and the host with it, when its orders do.
func initMain(dir, name string) error {
	orders, replies := os.NewFile(3, "orders"), os.NewFile(4, "replies")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	if err := furnish(dir, name); err != nil {
		_ = json.NewEncoder(replies).Encode(reply{Error: err.Error()})
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
					break
				}
			}
		}
	}()
	in, out := json.NewDecoder(orders), json.NewEncoder(replies)
	if err := out.Encode(reply{PID: os.Getpid()}); err != nil {
		return err
	}
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		pid, err := obey(o)
		r := reply{PID: pid}
		if err != nil {
			r.Error = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func obey(o order) (int, error) {
	if len(o.Start) == 0 {
		return o.PID, syscall.Kill(o.PID, syscall.Signal(o.Signal))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	p, err := os.StartProcess(o.Start[0], o.Start, &os.ProcAttr{
		Dir: "/", Env: o.Env, Files: []*os.File{null, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	pid := p.Pid
	return pid, p.Release()
}

// furnish gives the host what is its own. Programs and libraries are the
// machine's.
func furnish(dir, name string) error {
	mount := func(from, to, kind string, flags uintptr, data string) error {
		if err := unix.Mount(from, to, kind, flags, data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", from, to, err)
		}
		return nil
	}
	bind := func(from, to string) func() error {
		return func() error { return mount(filepath.Join(dir, from), to, "", unix.MS_BIND, "") }
	}
	etc := fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", filepath.Join(dir, "etc"), filepath.Join(dir, "etc.work"))
	for _, step := range []func() error{
		func() error { return mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Sethostname([]byte(name)) },
		func() error { return mount("etc", "/etc", "overlay", 0, etc) },
		bind("ssh", "/etc/ssh"), bind("lib", "/var/lib"), bind("log", "/var/log"), bind("root", "/root"), bind("bin", "/usr/local/bin"),
		func() error { return mount("run", "/run", "tmpfs", 0, "mode=0755") },
		func() error { return os.Mkdir("/run/sshd", 0o755) },
		func() error { return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		bind("boot_id", "/proc/sys/kernel/random/boot_id"),
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
