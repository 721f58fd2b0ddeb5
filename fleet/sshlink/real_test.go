package sshlink

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func output(t *testing.T, c *Conn, command string) (string, error) {
	t.Helper()
	s, err := c.Exec(testContext(t), command)
	if err != nil {
		return "", err
	}
	defer s.Close()
	out, err := io.ReadAll(s)
	if werr := s.Wait(); err == nil {
		err = werr
	}
	return string(out), err
}

func mustConn(t *testing.T, p *Pool, dest string) *Conn {
	t.Helper()
	c, err := p.Conn(testContext(t), dest)
	if err != nil {
		t.Fatalf("connect %s: %v", dest, err)
	}
	return c
}

func TestRealExec(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{})
	conn := mustConn(t, p, s.address())

	if out, err := output(t, conn, "echo $SSH_CONNECTION"); err != nil || !strings.HasSuffix(strings.TrimSpace(out), fmt.Sprint(s.port)) {
		t.Errorf("echo: %q, %v", out, err)
	}
	if conn.RemoteAddr().String() != s.address() || !strings.HasPrefix(conn.LocalAddr().String(), "127.0.0.1:") {
		t.Errorf("addresses %v, %v", conn.LocalAddr(), conn.RemoteAddr())
	}
	_, err := output(t, conn, "/no/such/ebbd dial-stdio")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 127 || !strings.Contains(exit.Stderr, "/no/such/ebbd") {
		t.Errorf("a command that is not there: %v", err)
	}
	_, err = output(t, conn, "kill -TERM $$")
	if !errors.As(err, &exit) || exit.Signal != "TERM" {
		t.Errorf("a killed command: %v", err)
	}
	// More stderr than any window: the command must get through, we keep the tail.
	out, err := output(t, conn, "head -c 5000000 /dev/zero | tr '\\0' x >&2; echo last >&2; echo out; exit 3")
	if out != "out\n" || !errors.As(err, &exit) || exit.Code != 3 || len(exit.Stderr) != stderrTail || !strings.HasSuffix(exit.Stderr, "xlast\n") {
		t.Errorf("noisy stderr: %q, %v", out, err)
	}
	s2, err := conn.Exec(testContext(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	big := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB both ways at once
	go func() {
		_, _ = io.WriteString(s2, big)
		_ = s2.CloseWrite()
	}()
	if got, err := io.ReadAll(s2); string(got) != big || err != nil {
		t.Errorf("4 MiB through cat: %d bytes, %v", len(got), err)
	}
}

func TestRealJumpHosts(t *testing.T) {
	c := newClient(t)
	jump := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	inner := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	config := fmt.Sprintf("Host jump\nHostName 127.0.0.1\nPort %d\nHost in-*\nHostName 127.0.0.1\nPort %d\nProxyJump jump\n", jump.port, inner.port)
	for i := range 3 {
		config = fmt.Sprintf("Host in-%d\nHostKeyAlias in-%d\n", i, i) + config
	}
	p := c.pool(t, config, jump.line(t, 0, jump.name())+inner.line(t, 0, "in-*"), Options{})
	var conns []*Conn
	for i := range 3 {
		conn := mustConn(t, p, fmt.Sprintf("in-%d", i))
		conns = append(conns, conn)
		if out, err := output(t, conn, "echo $SSH_CONNECTION"); err != nil || !strings.HasSuffix(strings.TrimSpace(out), fmt.Sprint(inner.port)) {
			t.Errorf("through the jump host: %q, %v", out, err)
		}
	}
	if c.dials.Load() != 1 || c.dialled[0] != jump.address() {
		t.Errorf("dialled %q; want the jump host once", c.dialled)
	}
	if got := conns[0].RemoteAddr().String(); got != inner.address() {
		t.Errorf("remote address %s", got)
	}
	// A stream over both hops ends when the first hop's process dies.
	st, err := conns[0].Exec(testContext(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	jump.signal(t, syscall.SIGKILL)
	var lost *LostError
	if _, err := io.ReadAll(st); !errors.As(err, &lost) {
		t.Errorf("the jump host died: %v", err)
	}
	for _, conn := range conns {
		<-conn.Done()
	}
	if out, err := output(t, mustConn(t, p, "in-1"), "echo again"); err != nil || out != "again\n" {
		t.Errorf("after the jump host's death: %q, %v", out, err)
	}
}

// Behind a jump host that is well, a frozen host is noticed by its own keepalive.
func TestRealFrozen(t *testing.T) {
	c := newClient(t)
	jump := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	inner := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	config := fmt.Sprintf("Host jump\nHostName 127.0.0.1\nPort %d\nHost inner direct\nHostName 127.0.0.1\nPort %d\nHost inner\nProxyJump jump\n", jump.port, inner.port)
	p := c.pool(t, config, jump.line(t, 0, jump.name())+inner.line(t, 0, inner.name()),
		Options{KeepaliveEvery: 100 * time.Millisecond, KeepaliveWithin: 500 * time.Millisecond})
	for _, dest := range []string{"inner", "direct"} {
		conn := mustConn(t, p, dest)
		st, err := conn.Exec(testContext(t), "cat")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
	}
	hop := mustConn(t, p, "jump")
	frozen := []*Conn{mustConn(t, p, "inner"), mustConn(t, p, "direct")}
	inner.signal(t, syscall.SIGSTOP)
	for _, conn := range frozen {
		select {
		case <-conn.Done():
		case <-time.After(within):
			t.Fatal("a frozen host was not noticed")
		}
		var silent *KeepaliveError
		if !errors.As(conn.Err(), &silent) {
			t.Errorf("ended by %v", conn.Err())
		}
	}
	if err := hop.Err(); err != nil {
		t.Errorf("the jump host was well, yet: %v", err)
	}
	inner.signal(t, syscall.SIGKILL)
	if out, err := output(t, mustConn(t, p, "inner"), "echo again"); err != nil || out != "again\n" {
		t.Errorf("after the freeze: %q, %v", out, err)
	}
}

func TestRealReconnect(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{})
	conn := mustConn(t, p, s.address())
	st, err := conn.Exec(testContext(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s.signal(t, syscall.SIGKILL)
	var lost *LostError
	if err := st.Wait(); !errors.As(err, &lost) {
		t.Errorf("wait: %v", err)
	}
	<-conn.Done()
	again := mustConn(t, p, s.address())
	if out, err := output(t, again, "echo again"); err != nil || out != "again\n" || again == conn {
		t.Errorf("again: %q, %v", out, err)
	}
}

// sshd's defaults: MaxStartups 10:30:100 drops the eleventh stranger, MaxSessions
// is 10.
func TestRealDefaultLimits(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	var config strings.Builder
	for i := range 60 {
		fmt.Fprintf(&config, "Host h%d\nHostName 127.0.0.1\nPort %d\nHostKeyAlias h%d\n", i, s.port, i)
	}
	p := c.pool(t, config.String(), s.line(t, 0, "h*"), Options{})
	first := make([]*Conn, 60)
	var wg sync.WaitGroup
	for i := range first {
		wg.Go(func() { first[i], _ = p.Conn(testContext(t), "h0") })
	}
	wg.Wait()
	for _, conn := range first {
		if conn == nil || conn != first[0] {
			t.Fatal("60 calls for one alias made more than one connection")
		}
	}
	if n := c.dials.Load(); n != 1 {
		t.Errorf("60 calls for one alias: %d dials", n)
	}
	for i := range 60 {
		wg.Go(func() {
			conn, err := p.Conn(testContext(t), fmt.Sprintf("h%d", i))
			if err != nil {
				t.Errorf("h%d: %v", i, err)
				return
			}
			if out, err := output(t, conn, "echo x"); err != nil || out != "x\n" {
				t.Errorf("h%d: %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
	if n := c.dials.Load(); n < 60 || n > 65 {
		t.Errorf("60 aliases: %d dials", n)
	}
	for i := range 30 {
		wg.Go(func() {
			if out, err := output(t, first[0], "sleep 0.05; echo y"); err != nil || out != "y\n" {
				t.Errorf("session %d: %q, %v", i, out, err)
			}
		})
	}
	wg.Wait()
	if strings.Contains(s.log.String(), "no more sessions") {
		t.Error("sshd ran out of sessions")
	}
}

// Even at sshd's very limit a session that has ended makes room for the next.
func TestRealSessionsOneAfterAnother(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{Sessions: 10})
	conn := mustConn(t, p, s.address())
	var wg sync.WaitGroup
	for range 80 {
		wg.Go(func() {
			if _, err := output(t, conn, "true"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestRealSessionRefused(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey(), config: "MaxSessions 1\n"})
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{})
	conn := mustConn(t, p, s.address())
	st, err := conn.Exec(testContext(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, err = output(t, conn, "true")
	var refused *SessionRefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "MaxSessions") {
		t.Errorf("second session: %v", err)
	}
}

func TestRealRefusedPort(t *testing.T) {
	c := newClient(t)
	port := freePort(t)
	p := c.pool(t, "", "", Options{})
	_, err := p.Conn(NoWait(testContext(t)), fmt.Sprintf("127.0.0.1:%d", port))
	var dial *DialError
	if !errors.As(err, &dial) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(dial.Hint(), "is sshd running") {
		t.Errorf("got %v", err)
	}
}

// ssh-keygen itself accepts the allowed_signers line.
func TestRealAllowedSigners(t *testing.T) {
	dir := t.TempDir()
	key, signer := writeKey(t, filepath.Join(dir, "host"), "")
	data := writeFile(t, filepath.Join(dir, "proof.json"), "{}")
	tool(t, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", ProofNamespace, data)
	signers := writeFile(t, filepath.Join(dir, "signers"), AllowedSigners("prod/gpu-041", signer.PublicKey())+"\n")
	out := tool(t, "sh", "-c", fmt.Sprintf("ssh-keygen -Y verify -f %s -I prod/gpu-041 -n %s -s %s.sig < %s", signers, ProofNamespace, data, data))
	if !strings.Contains(out, "Good") || !strings.Contains(out, Fingerprint(signer.PublicKey())) {
		t.Errorf("ssh-keygen says %q", out)
	}
	if line := AllowedSigners("a*,b c\nd", signer.PublicKey()); !strings.HasPrefix(line, "a__b_c_d namespaces=") {
		t.Errorf("line %q", line)
	}
}
