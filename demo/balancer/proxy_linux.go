package balancer

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Server is a place where the proxy looks for a server: host:port, or unix@PATH.
type Server struct{ Name, Address string }

// Proxy is a running HAProxy.
type Proxy struct{ URL string }

// Start runs HAProxy on loopback until the test ends, or skips the test where it is
// not installed. Its configuration lies in dir. The socket is open already when it
// starts, so that no port is guessed.
func Start(tb testing.TB, dir string, servers ...Server) *Proxy {
	tb.Helper()
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		if binary = "/usr/sbin/haproxy"; exec.Command(binary, "-v").Run() != nil {
			tb.Skip("HAProxy is not installed")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	conf := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(conf, []byte(configuration(servers)), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(binary, "-db", "-q", "-f", conf)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &Proxy{URL: "http://" + l.Addr().String()}
}

// configuration has checks that notice within half a second, and no second try: a
// request that meets a server which is gone fails.
func configuration(servers []Server) string {
	var b strings.Builder
	b.WriteString(`global
  maxconn 1000
defaults
  mode http
  retries 0
  timeout connect 10s
  timeout client 300s
  timeout server 300s
  timeout check 10s
frontend in
  bind fd@3
  stats enable
  stats uri /stats
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /health
  default-server inter 200ms fall 2 rise 1
`)
	for _, s := range servers {
		fmt.Fprintf(&b, "  server %s %s check\n", s.Name, s.Address)
	}
	return b.String()
}

// Up names the servers that the proxy has in rotation. Before its first checks
// those are all of them.
func (p *Proxy) Up(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/stats;csv", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var up []string
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		f := strings.Split(sc.Text(), ",") // backend, server, …, status
		if len(f) > 17 && f[0] == "servers" && f[1] != "BACKEND" && !strings.HasPrefix(f[17], "DOWN") {
			up = append(up, f[1])
		}
	}
	return up, sc.Err()
}
