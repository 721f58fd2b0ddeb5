package lab

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
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
)

// Host is one host. It is used by one goroutine at a time.
type Host struct {
	Name    string
	Addr    string // address on the bridge
	Machine string
	Key     ssh.PublicKey

	lab     *Lab
	dir     string
	link    string // the bridge's end of its link
	leader  int    // pid of the host's first process, as the lab sees it
	init    *exec.Cmd
	systemd *machine // of a host that boots systemd
	full    bool     // it boots systemd
	orders  *json.Encoder
	replies *json.Decoder
	pipes   []*os.File
	agent   int // pid in the host
	sshd    int
}

// LoopDir is where the host's backing files lie. The path is unique on the
// machine, since loop devices are shared by all hosts on it.
func (h *Host) LoopDir() string { return "/var/lib/vms-" + filepath.Base(Dir()) + "-" + h.Name }

// newHost lays out a host's files.
func (l *Lab) newHost(name string, number int, full bool) (*Host, error) {
	h := &Host{Name: name, Addr: fmt.Sprintf("10.77.%d.%d", 1+number/200, 2+number%200), Machine: randomHex(16), lab: l,
		dir: filepath.Join(l.Dir, "hosts", name), link: fmt.Sprintf("v%d", number), full: full}
	if full {
		return h, h.layers()
	}
	for _, d := range []string{"etc/ebb", "etc.work", "ssh", "lib/workloads", "lib/jobs", "lib/" + filepath.Base(h.LoopDir()), "log", "root/.ssh", "bin"} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	key, public, err := newKey()
	if err != nil {
		return nil, err
	}
	h.Key = public
	for file, text := range map[string]string{
		"etc/machine-id": h.Machine + "\n", "etc/hostname": name + "\n", "etc/hosts": "127.0.0.1 localhost\n" + h.Addr + " " + name + "\n",
		"etc/ebb/ebbd.toml": h.agentConfig(), "ssh/ssh_host_ed25519_key": key, "ssh/sshd_config": sshdConfig,
		"root/.ssh/authorized_keys": string(ssh.MarshalAuthorizedKey(l.public)),
	} {
		if err := os.WriteFile(filepath.Join(h.dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := copyFile(l.agentBinary(), filepath.Join(h.dir, "bin", "ebbd")); err != nil {
		return nil, err
	}
	return h, nil
}

// sshdConfig leaves sshd's limits at their defaults.
const sshdConfig = `HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
PidFile /run/sshd.pid
`

func (h *Host) agentConfig() string {
	self := h.program()
	return fmt.Sprintf(`preset = ["manifest"]
manifests = ["/var/lib/workloads"]
loop_prefix = %q

[[dir]]
path = "/var/lib/jobs"
kind = "job"

[[command]]
name = "start"
run = [%q, "start"]

[[command]]
name = "health"
run = [%q, "health"]
`, h.LoopDir()+"/", self, self)
}

// program is where labhost is on the host.
func (h *Host) program() string {
	if h.full {
		return "/usr/local/bin/" + program
	}
	return filepath.Join(Bin(Dir()), program)
}

// logs is where the host's /var/log lies.
func (h *Host) logs() string {
	if h.full {
		return h.file("up/var/log")
	}
	return h.file("log")
}

// Boot starts the host: its namespaces and its link, sshd and the agent. The
// boot id is a new one.
func (h *Host) Boot(ctx context.Context) error {
	if h.full {
		if err := h.bootSystemd(ctx); err != nil {
			return fmt.Errorf("boot %s: %w", h.Name, err)
		}
		return nil
	}
	id := randomHex(16)
	boot := strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-") + "\n"
	if err := os.WriteFile(filepath.Join(h.dir, "boot_id"), []byte(boot), 0o444); err != nil {
		return err
	}
	if err := h.startInit(); err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, err)
	}
	pid := strconv.Itoa(h.leader)
	if err := h.plugIn(pid, "-t", pid, "-n"); err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, err)
	}
	if _, err := os.Stat(h.Path("/var/lib/ebb")); errors.Is(err, os.ErrNotExist) {
		if out, err := h.Exec(ctx, "ebbd", "init"); err != nil {
			return fmt.Errorf("boot %s: %w: %s", h.Name, err, out)
		}
	}
	var err error
	if h.sshd, err = h.Spawn("/var/log/sshd", "/usr/sbin/sshd", "-D", "-e"); err != nil {
		return fmt.Errorf("boot %s: sshd: %w", h.Name, err)
	}
	if err := h.StartAgent(ctx); err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, err)
	}
	return Until(ctx, "sshd of "+h.Name, func() error {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(h.Addr, "22"), time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
}

func (h *Host) startInit() error {
	toRead, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	replies, toWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(Bin(Dir()), program), "init", h.dir, h.Name)
	cmd.ExtraFiles = []*os.File{toRead, toWrite}
	cmd.Stderr = os.Stderr
	cmd.Env = []string{"PATH=" + path, "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC |
		syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP, Setsid: true}
	err = cmd.Start()
	toRead.Close()
	toWrite.Close()
	if err != nil {
		return err
	}
	h.leader = cmd.Process.Pid
	h.init, h.orders, h.replies, h.pipes = cmd, json.NewEncoder(orders), json.NewDecoder(replies), []*os.File{orders, replies}
	var r reply
	if err := h.replies.Decode(&r); err != nil {
		return fmt.Errorf("its first process: %w", err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// plugIn connects the host to the bridge. Its network is that of a process, or of
// a file; in are the arguments with which nsenter finds it.
func (h *Host) plugIn(space string, in ...string) error {
	in = append(in, "ip")
	for _, args := range [][]string{
		{"ip", "link", "add", h.link, "type", "veth", "peer", "name", h.link + "h"},
		{"ip", "link", "set", h.link + "h", "netns", space},
		append(append([]string{"nsenter"}, in...), "link", "set", h.link+"h", "name", "eth0"),
		{"ip", "link", "set", h.link, "master", bridge},
		{"ip", "link", "set", h.link, "up"},
		append(append([]string{"nsenter"}, in...), "link", "set", "lo", "up"),
		append(append([]string{"nsenter"}, in...), "address", "add", h.Addr+"/16", "dev", "eth0"),
		append(append([]string{"nsenter"}, in...), "link", "set", "eth0", "up"),
	} {
		if err := run(args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// Halt ends the host at once, as a power cut does. Its disks stay.
func (h *Host) Halt() {
	if h.full {
		h.haltSystemd()
		return
	}
	if h.init == nil {
		return
	}
	_ = h.init.Process.Kill()
	_ = h.init.Wait()
	for _, p := range h.pipes {
		p.Close()
	}
	_ = exec.Command("ip", "link", "del", h.link).Run() // gone already with the namespace, mostly
	h.init = nil
}

// Path is where a file of the host lies as the lab sees it. Reading there leaves
// no process on the host.
func (h *Host) Path(file string) string {
	if h.init == nil && h.systemd == nil {
		return filepath.Join(h.dir, "down")
	}
	return filepath.Join("/proc", strconv.Itoa(h.leader), "root", file)
}

// Write writes a file on the host, so that no reader sees half of it.
func (h *Host) Write(file, text string) error {
	dst := h.Path(file)
	tmp := filepath.Join(filepath.Dir(dst), ".lab-"+filepath.Base(dst))
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, dst)
}

// Exec runs a program in all of the host's namespaces and returns what it said.
func (h *Host) Exec(ctx context.Context, argv ...string) (string, error) {
	args := append([]string{"-t", strconv.Itoa(h.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{"PATH=" + path, "HOME=/root"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Spawn has the host's first process start a program, and returns its pid there.
func (h *Host) Spawn(log string, argv ...string) (int, error) {
	if h.full {
		return h.unit(argv)
	}
	return h.order(order{Start: argv, Log: log, Env: []string{"PATH=" + path, "HOME=/root"}})
}

// Signal sends a signal to a process by its pid on the host.
func (h *Host) Signal(pid int, sig syscall.Signal) error {
	if h.full {
		out, err := h.Exec(h.lab.ctx, "kill", "-"+strconv.Itoa(int(sig)), strconv.Itoa(pid))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	_, err := h.order(order{PID: pid, Signal: int(sig)})
	return err
}

func (h *Host) order(o order) (int, error) {
	if err := h.orders.Encode(o); err != nil {
		return 0, err
	}
	var r reply
	if err := h.replies.Decode(&r); err != nil {
		return 0, err
	}
	if r.Error != "" {
		return 0, errors.New(r.Error)
	}
	return r.PID, nil
}

// Runs reports whether a pid of the host is a process that has not ended.
func (h *Host) Runs(pid int) bool {
	b, err := os.ReadFile(h.Path(fmt.Sprintf("/proc/%d/stat", pid)))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b[max(bytes.LastIndexByte(b, ')'), 0):], []byte(" "))
	return !bytes.HasPrefix(rest, []byte("Z")) && !bytes.HasPrefix(rest, []byte("X"))
}

// StartAgent starts the agent and waits for its sockets.
func (h *Host) StartAgent(ctx context.Context) error {
	_ = os.RemoveAll(h.Path("/run/ebb"))
	pid, err := h.Spawn("/var/log/ebbd", "/usr/local/bin/ebbd", "serve")
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	h.agent = pid
	return Until(ctx, "the agent of "+h.Name, func() error {
		if !h.Runs(pid) {
			return errors.New("it has ended: " + h.Log("ebbd"))
		}
		_, err := os.Stat(h.Path("/run/ebb/terminate.sock"))
		return err
	})
}

// KillAgent ends the agent with signal 9 and waits until it is gone.
func (h *Host) KillAgent(ctx context.Context) error {
	if err := h.Signal(h.agent, syscall.SIGKILL); err != nil {
		return err
	}
	return Until(ctx, "end of the agent", func() error {
		if h.Runs(h.agent) {
			return errors.New("it runs")
		}
		return nil
	})
}

// Freeze stops sshd, with every process that it has started; Thaw lets them go on.
func (h *Host) Freeze() error { return h.signalSSH(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (h *Host) Thaw() error { return h.signalSSH(syscall.SIGCONT) }

func (h *Host) signalSSH(sig syscall.Signal) error {
	names, err := filepath.Glob(h.Path("/proc/[0-9]*"))
	if err != nil {
		return err
	}
	for _, dir := range names {
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if err == nil && filepath.Base(exe) == "sshd" {
			if err := h.Signal(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// Cut takes the host's link down; Mend brings it up again.
func (h *Host) Cut() error { return run("ip", "link", "set", h.link, "down") }

// Mend ends Cut.
func (h *Host) Mend() error { return run("ip", "link", "set", h.link, "up") }

// Log returns what a daemon of the host has logged.
func (h *Host) Log(name string) string {
	b, _ := os.ReadFile(filepath.Join(h.logs(), name))
	return string(b)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func newKey() (private string, public ssh.PublicKey, err error) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", nil, err
	}
	public, err = ssh.NewPublicKey(pub)
	return string(pem.EncodeToMemory(block)), public, err
}
