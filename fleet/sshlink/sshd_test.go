package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

const sshdPath = "/usr/sbin/sshd"

// sshd is the system's own server on a loopback port, with its defaults for
// MaxStartups and MaxSessions.
type sshd struct {
	dir  string
	port int
	pid  int
	keys []string // host key files
	log  *syncBuffer
}

type sshdSpec struct {
	types      []string // of host keys; ed25519 by default
	authorized ssh.PublicKey
	config     string                // more lines
	prepare    func(dir, key string) // with each host key, before the server starts
}

// startSSHD starts a server that ends with the test. It needs no privileges.
func startSSHD(t *testing.T, spec sshdSpec) *sshd {
	t.Helper()
	if _, err := os.Stat(sshdPath); err != nil {
		t.Skip("sshd is not installed")
	}
	if os.Getuid() == 0 { // only then does sshd insist on this directory
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &sshd{dir: t.TempDir(), port: freePort(t), log: new(syncBuffer)}
	var b strings.Builder
	fmt.Fprintf(&b, "ListenAddress 127.0.0.1:%d\nPidFile none\nUsePAM no\nStrictModes no\nLogLevel VERBOSE\n"+
		"PasswordAuthentication no\nKbdInteractiveAuthentication no\nAuthorizedKeysFile %s/authorized\n"+
		"SetEnv SHLVL=1 HOME=%s\n", s.port, s.dir, s.dir) // no rc file of the user's is run
	if spec.types == nil {
		spec.types = []string{"ed25519"}
	}
	for _, kind := range spec.types {
		key := filepath.Join(s.dir, "host_"+kind)
		tool(t, "ssh-keygen", "-q", "-t", kind, "-N", "", "-f", key)
		s.keys = append(s.keys, key)
		fmt.Fprintf(&b, "HostKey %s\n", key)
		if spec.prepare != nil {
			spec.prepare(s.dir, key)
		}
	}
	authorized := ""
	if spec.authorized != nil {
		authorized = string(ssh.MarshalAuthorizedKey(spec.authorized))
	}
	writeFile(t, filepath.Join(s.dir, "authorized"), authorized)
	config := writeFile(t, filepath.Join(s.dir, "sshd_config"), b.String()+strings.ReplaceAll(spec.config, "DIR", s.dir))

	cmd := exec.Command(sshdPath, "-D", "-e", "-f", config)
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		for _, pid := range s.children(t) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("sshd on port %d said:\n%s", s.port, s.log)
		}
	})
	eventually(t, "sshd listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("sshd ended: %s", s.log)
		default:
		}
		conn, err := net.Dial("tcp", s.address())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *sshd) address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// public is the n-th host key's known_hosts line for this server.
func (s *sshd) line(t *testing.T, n int, host string) string {
	t.Helper()
	text, err := os.ReadFile(s.keys[n] + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return host + " " + strings.Join(strings.Fields(string(text))[:2], " ") + "\n"
}

func (s *sshd) name() string { return fmt.Sprintf("[127.0.0.1]:%d", s.port) }

// children are the processes below the listening one: those of its connections.
func (s *sshd) children(t *testing.T) []int {
	t.Helper()
	parents := make(map[int]int)
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	var below []int
	for pid := range parents {
		for at := parents[pid]; at > 1; at = parents[at] {
			if at == s.pid {
				below = append(below, pid)
				break
			}
		}
	}
	return below
}

func (s *sshd) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	pids := s.children(t)
	if len(pids) == 0 {
		t.Fatal("sshd has no connection")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// client is one user's side: a home with a key, ssh_config and known_hosts.
type client struct {
	home, key string
	signer    ssh.Signer
	dials     atomic.Int64
	mu        sync.Mutex
	dialled   []string
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{home: t.TempDir()}
	c.key, c.signer = writeKey(t, filepath.Join(c.home, ".ssh", "id_ed25519"), "")
	return c
}

func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.dials.Add(1)
	c.mu.Lock()
	c.dialled = append(c.dialled, address)
	c.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// pool reads config and known_hosts, and nothing of the machine's.
func (c *client) pool(t *testing.T, config, known string, opt Options) *Pool {
	t.Helper()
	writeFile(t, filepath.Join(c.home, ".ssh", "known_hosts"), known)
	opt.Files = []string{writeFile(t, filepath.Join(c.home, ".ssh", "config"), config+"\nHost *\nGlobalKnownHostsFile none\n")}
	opt.Home = c.home
	opt.Dial = c.dial
	return newPool(t, opt)
}

func currentUser(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}
