package demo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/probes/client"
	"ebb/probes/wire"
)

// Host is one demo host.
type Host struct {
	Name  string
	Dir   string // its root
	Token string // in the arguments of every process that is its own
	Addr  string // of its SSH server

	agent *exec.Cmd
	ended chan struct{} // closed when the agent has ended
	sshd  *sshServer
	fleet *Fleet
}

// directories below a host's root.
const (
	manifestDir = "run/workloads"
	workDir     = "var/lib/jobs"
	tokenFile   = "etc/demo-token"
)

// build lays out a host's root: identity, host key and configuration.
func (h *Host) build() error {
	for _, d := range []string{"etc/ebb", "etc/ssh", "proc/sys/kernel/random", manifestDir, workDir, "var/lib/ebb", "run/ebb", "run/netns"} {
		if err := os.MkdirAll(filepath.Join(h.Dir, d), 0o700); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	files := map[string]string{
		"etc/machine-id":                 hexID(16) + "\n",
		"proc/sys/kernel/random/boot_id": bootID() + "\n",
		"etc/ebb/ebbd.toml":              h.config(),
		"etc/hostname":                   h.Name + "\n",
		tokenFile:                        h.Token + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return writeKey(h.keyFile())
}

func (h *Host) keyFile() string { return filepath.Join(h.Dir, "etc/ssh/ssh_host_ed25519_key") }

// config is the host's ebbd.toml.
func (h *Host) config() string {
	run := func(verb string) string {
		return fmt.Sprintf("[%q, \"demo-workload\", %q, \"--root\", %q, \"--token\", %q, \"--catalog\", %q]",
			h.fleet.Exe, verb, h.Dir, h.Token, h.fleet.catalog())
	}
	return fmt.Sprintf(`# A demo host. Paths are below its root.
preset    = ["manifest"]
manifests = ["/%s"]
clean_gap = "1s"

[offer]
slots  = 30
gpus   = 8
compat = { engine = %q, kernel = "6.8" }

[[workload]]              # a trainer started by hand: recognised by its arguments
kind  = "trainer"
token = "--trainer"
id    = { after = "--trainer" }
owns  = { dir = "/%s/trainer-{id}" }

[[dir]]
path   = "/%s"
kind   = "trainer"
prefix = "trainer-"

[[command]]
name    = "start"
run     = %s
timeout = "30s"

[[command]]
name    = "health"
run     = %s
timeout = "10s"

[[command]]
name    = "unready"
run     = %s
timeout = "10s"
`, manifestDir, h.engine(), workDir, workDir, run("start"), run("health"), run("unready"))
}

// engine is the version of what runs workloads on the host: one host of the fleet
// is behind, so that what needs the same version can't go there.
func (h *Host) engine() string {
	if h.Name == "gpu-042" {
		return "1.4"
	}
	return "1.5"
}

// startAgent runs the host's ebbd; its log lies in the root.
func (h *Host) startAgent() error {
	log, err := os.OpenFile(filepath.Join(h.Dir, "ebbd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	defer log.Close()
	args := []string{"serve", "--root", h.Dir, "--scope", h.Token}
	if h.fleet.Speed > 1 {
		args = append(args, "--speed", strconv.FormatFloat(h.fleet.Speed, 'g', -1, 64))
	}
	cmd := exec.Command(h.fleet.Agent, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("host %s: start its agent: %w", h.Name, err)
	}
	h.agent, h.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(h.ended)
	}()
	return nil
}

// ready waits until the agent answers.
func (h *Host) ready(ctx context.Context) error {
	for {
		c, err := h.dial(ctx, wire.Observe)
		if err == nil {
			_, err = c.Summary(ctx)
			_ = c.Close()
			if err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("host %s: its agent does not answer: %w (see %s)", h.Name, err, filepath.Join(h.Dir, "ebbd.log"))
		case <-h.ended:
			tail, _ := os.ReadFile(filepath.Join(h.Dir, "ebbd.log"))
			return fmt.Errorf("host %s: its agent ended: %s", h.Name, tail)
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// enrol tells a new host that nothing holds it: an agent without a record of its
// holds admits no work.
func (h *Host) enrol(ctx context.Context) error {
	c, err := h.dial(ctx, wire.Cordon)
	if err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	defer c.Close()
	if _, err := c.Uncordon(ctx, wire.LiftRequest{Who: "platform", Why: "a new host"}); err != nil {
		return fmt.Errorf("host %s: enrol: %w", h.Name, err)
	}
	return nil
}

// dial opens a channel on the host itself, as the platform's own daemon does.
func (h *Host) dial(ctx context.Context, role wire.Role) (*client.Client, error) {
	return client.Dial(ctx, func(context.Context) (net.Conn, error) { return h.stdio(role) },
		client.Options{Role: role, Version: "demo", Operator: "platform"})
}

// stdio runs ebbd dial-stdio as a child and returns its stdio.
func (h *Host) stdio(role wire.Role) (net.Conn, error) {
	cmd := exec.Command(h.fleet.Agent, "dial-stdio", "--role", string(role), "--root", h.Dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &pipeConn{Reader: out, WriteCloser: in, cmd: cmd}, nil
}

// pipeConn is a child's stdio as a net.Conn without deadlines. It may be closed
// more than once and by several goroutines: HTTP/2 does both.
type pipeConn struct {
	io.Reader
	io.WriteCloser
	cmd    *exec.Cmd
	closed sync.Once
	err    error
}

func (p *pipeConn) Close() error {
	p.closed.Do(func() {
		p.err = p.WriteCloser.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p.err
}

func (*pipeConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "stdio"} }
func (*pipeConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "ebbd"} }
func (*pipeConn) SetDeadline(time.Time) error      { return nil }
func (*pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (*pipeConn) SetWriteDeadline(time.Time) error { return nil }

// stop ends the host: SSH server, agent, and every process with its token.
func (h *Host) stop() {
	if h.sshd != nil {
		h.sshd.close()
	}
	if h.agent != nil {
		_ = h.agent.Process.Signal(syscall.SIGTERM)
		select {
		case <-h.ended:
		case <-time.After(5 * time.Second):
			_ = h.agent.Process.Kill()
			<-h.ended
		}
	}
	killScope(h.Token)
}

// reboot ends all that runs on the host, and starts it anew: what is on its disk
// stays.
func (h *Host) reboot(ctx context.Context) error {
	if err := h.agent.Process.Kill(); err != nil {
		return err
	}
	<-h.ended
	killScope(h.Token)
	if err := os.WriteFile(filepath.Join(h.Dir, "proc/sys/kernel/random/boot_id"), []byte(bootID()+"\n"), 0o600); err != nil {
		return fmt.Errorf("host %s: %w", h.Name, err)
	}
	if err := h.startAgent(); err != nil {
		return err
	}
	return h.ready(ctx)
}

// Facts asks the host itself.
func (h *Host) Facts(ctx context.Context) (fleet.Facts, error) {
	c, err := h.dial(ctx, wire.Observe)
	if err != nil {
		return fleet.Facts{}, err
	}
	defer c.Close()
	return c.Facts(ctx, true)
}

func hexID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

func bootID() string {
	s := hexID(16)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// writeKey makes an ed25519 key in OpenSSH's format.
func writeKey(path string) error {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(priv, "ebb demo")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	public, err := ssh.NewPublicKey(pub)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(public), 0o600)
}
