package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
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

func TestRealHostKeys(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey(), types: []string{"ed25519", "ecdsa"}})
	stranger := newSigner(t).PublicKey()
	other := s.name() + " " + keyLine(stranger.Type(), stranger.Marshal()) + "\n"
	hashed := writeFile(t, filepath.Join(t.TempDir(), "hashed"), s.line(t, 0, s.name()))
	tool(t, "ssh-keygen", "-H", "-f", hashed)
	hashedText, err := os.ReadFile(hashed)
	if err != nil || !strings.HasPrefix(string(hashedText), "|1|") {
		t.Fatalf("ssh-keygen -H: %q, %v", hashedText, err)
	}
	for name, tc := range map[string]struct {
		known string
		shows string // the type the server is made to show
		err   any
	}{
		"ed25519 alone":   {known: s.line(t, 0, s.name()), shows: "ssh-ed25519"},
		"ecdsa alone":     {known: s.line(t, 1, s.name()), shows: "ecdsa-sha2-nistp256"},
		"hashed":          {known: string(hashedText), shows: "ssh-ed25519"},
		"one of several":  {known: other + s.line(t, 0, s.name()), shows: "ssh-ed25519"},
		"without port":    {known: s.line(t, 0, "127.0.0.1"), shows: "ssh-ed25519"},
		"any host":        {known: s.line(t, 1, "*"), shows: "ecdsa-sha2-nistp256"},
		"unknown":         {known: "", err: new(*UnknownHostKeyError)},
		"another's":       {known: s.line(t, 0, "[127.0.0.1]:1"), err: new(*UnknownHostKeyError)},
		"changed":         {known: "\n" + other, err: new(*ChangedHostKeyError)},
		"revoked":         {known: s.line(t, 0, s.name()) + s.line(t, 0, "@revoked *"), err: new(*RevokedHostKeyError)},
		"other revoked":   {known: s.line(t, 0, s.name()) + s.line(t, 1, "@revoked *"), shows: "ssh-ed25519"},
		"revoked, hashed": {known: string(hashedText) + "@revoked " + string(hashedText), err: new(*RevokedHostKeyError)},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.pool(t, "", tc.known, Options{})
			conn, err := p.Conn(testContext(t), s.address())
			if tc.err == nil {
				if err != nil || conn.HostKey().Type() != tc.shows {
					t.Fatalf("got %v", err)
				}
				return
			}
			if !errors.As(err, tc.err) {
				t.Fatalf("got %v, want %T", err, tc.err)
			}
			if Hint(err) == "" {
				t.Error("no hint")
			}
			var changed *ChangedHostKeyError
			if errors.As(err, &changed) {
				where := filepath.Join(c.home, ".ssh", "known_hosts") + ":2"
				for _, part := range []string{where, changed.Fingerprint(), Fingerprint(stranger)} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not say %s", err, part)
					}
				}
			}
		})
	}
}

// What the hint says to type must do.
func TestRealHintForUnknownKey(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	p := c.pool(t, "", "", Options{})
	_, err := p.Conn(testContext(t), s.address())
	hint := Hint(err)
	_, command, ok := strings.Cut(hint, "if they are the same: ")
	if !ok {
		t.Fatalf("hint %q", hint)
	}
	tool(t, "sh", "-c", command)
	if err := p.Retry(s.address()); err != nil {
		t.Fatal(err)
	}
	mustConn(t, p, s.address())
}

func TestRealHostCertificates(t *testing.T) {
	c := newClient(t)
	ca, caSigner := writeKey(t, filepath.Join(t.TempDir(), "ca"), "")
	certified := func(args ...string) *sshd {
		return startSSHD(t, sshdSpec{authorized: c.signer.PublicKey(), config: "HostCertificate DIR/host_ed25519-cert.pub\n",
			prepare: func(_, key string) {
				tool(t, "ssh-keygen", append(append([]string{"-q", "-s", ca, "-I", "host", "-h"}, args...), key+".pub")...)
			}})
	}
	good := certified("-n", "gpu-7.internal,gpu-8.*")
	old := certified("-n", "gpu-7.internal", "-V", "-2h:-1h")
	authority := func(marker, hosts string) string {
		return marker + " " + hosts + " " + keyLine("ssh-ed25519", caSigner.PublicKey().Marshal()) + "\n"
	}
	byCA := authority("@cert-authority", "*")
	for name, tc := range map[string]struct {
		server *sshd
		alias  string
		known  string
		err    any
	}{
		"accepted":           {good, "gpu-7.internal", byCA, nil},
		"principal pattern":  {good, "gpu-8.internal", byCA, nil},
		"authority's hosts":  {good, "gpu-7.internal", authority("@cert-authority", "db-*"), new(*UnknownHostKeyError)},
		"another name":       {good, "gpu-9.internal", byCA, new(*HostCertificateError)},
		"expired":            {old, "gpu-7.internal", byCA, new(*HostCertificateError)},
		"expired, key known": {old, "gpu-7.internal", byCA + old.line(t, 0, "gpu-7.internal"), nil},
		"no authority":       {good, "gpu-7.internal", "", new(*UnknownHostKeyError)},
		"authority revoked":  {good, "gpu-7.internal", byCA + authority("@revoked", "*"), new(*RevokedHostKeyError)},
		"key revoked":        {good, "gpu-7.internal", byCA + good.line(t, 0, "@revoked *"), new(*RevokedHostKeyError)},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.pool(t, "HostKeyAlias "+tc.alias+"\n", tc.known, Options{})
			conn, err := p.Conn(testContext(t), tc.server.address())
			if tc.err == nil {
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasSuffix(tc.server.line(t, 0, "x"), keyLine("ssh-ed25519", conn.HostKey().Marshal())+"\n") {
					t.Error("HostKey is not the key inside the certificate")
				}
				return
			}
			if !errors.As(err, tc.err) || Hint(err) == "" {
				t.Fatalf("got %v, want %T", err, tc.err)
			}
		})
	}
}

// serveAgent is a real agent on a real socket, in this process.
func serveAgent(t *testing.T, keys ...agent.AddedKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _ = agent.ServeAgent(ring, conn); conn.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait(); os.RemoveAll(dir) })
	return socket
}

func rawKey(t *testing.T, file, passphrase string) any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var key any
	if passphrase == "" {
		key, err = ssh.ParseRawPrivateKey(text)
	} else {
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(text, []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRealAuthentication(t *testing.T) {
	c := newClient(t)
	dir := t.TempDir()
	userCA, _ := writeKey(t, filepath.Join(dir, "user_ca"), "")
	locked, lockedSigner := writeKey(t, filepath.Join(dir, "locked"), "secret")
	s := startSSHD(t, sshdSpec{authorized: lockedSigner.PublicKey(), config: "TrustedUserCAKeys " + userCA + ".pub\n"})
	known := s.line(t, 0, s.name())
	certified, _ := writeKey(t, filepath.Join(dir, "certified"), "")
	tool(t, "ssh-keygen", "-q", "-s", userCA, "-I", "me", "-n", currentUser(t), certified+".pub")
	open, _ := writeKey(t, filepath.Join(dir, "open"), "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}

	full := []agent.AddedKey{}
	for range 8 {
		other, _ := writeKey(t, filepath.Join(t.TempDir(), "other"), "")
		full = append(full, agent.AddedKey{PrivateKey: rawKey(t, other, "")})
	}
	holder := agent.AddedKey{PrivateKey: rawKey(t, locked, "secret")}
	for name, tc := range map[string]struct {
		config string
		keys   []agent.AddedKey // nil for no agent
		says   []string         // nil if it works
		hint   string
	}{
		"agent":                   {config: "", keys: []agent.AddedKey{holder}},
		"encrypted, agent has it": {config: "IdentityFile " + locked, keys: append(full, holder)},
		"only the public half":    {config: "IdentityFile " + locked + ".pub", keys: append(full, holder)},
		"certificate beside key":  {config: "IdentityFile " + certified},
		"certificate, agent key": {config: "IdentityFile none\nCertificateFile " + certified + "-cert.pub",
			keys: []agent.AddedKey{{PrivateKey: rawKey(t, certified, "")}}},
		"encrypted, no agent": {config: "IdentityFile " + locked, says: []string{locked + ": encrypted", "no key to offer"}, hint: "ssh-add " + locked},
		"encrypted, agent has another": {config: "IdentityFile " + locked, keys: full[:1],
			says: []string{"refused ssh-ed25519", locked + ": encrypted"}, hint: "ssh-add " + locked},
		"named and missing": {config: "IdentityFile " + dir + "/missing", says: []string{dir + "/missing: no such file"}},
		"default and wrong": {config: "", says: []string{"refused ssh-ed25519 " + Fingerprint(c.signer.PublicKey())}},
		"mode":              {config: "IdentityFile " + open, says: []string{"mode 0644"}, hint: "chmod 600"},
		"not a key":         {config: "IdentityFile " + s.dir + "/sshd_config", says: []string{"sshd_config: "}},
		"agent is gone":     {config: "IdentityAgent " + dir + "/gone", says: []string{"agent: dial unix " + dir + "/gone"}},
		"too many keys":     {config: "IdentityFile none", keys: full, says: []string{"refused"}, hint: "IdentitiesOnly"},
		"IdentitiesOnly":    {config: "IdentitiesOnly yes\nIdentityFile " + locked + ".pub", keys: append(full, holder)},
	} {
		t.Run(name, func(t *testing.T) {
			opt := Options{}
			if tc.keys != nil {
				opt.Agent = serveAgent(t, tc.keys...)
			}
			p := c.pool(t, tc.config, known, opt)
			_, err := p.Conn(testContext(t), s.address())
			if tc.says == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var auth *AuthError
			if !errors.As(err, &auth) {
				t.Fatalf("got %v", err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "id_rsa") {
				t.Errorf("%v speaks of a default key that nobody has", err)
			}
			if h := Hint(err); h == "" || !strings.Contains(h, tc.hint) {
				t.Errorf("hint %q, want %q", h, tc.hint)
			}
		})
	}
}

// An agent that accepts and then says nothing holds up only the time that
// connecting may take, and Close not at all.
func TestRealSilentAgent(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey()})
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := c.pool(t, "", s.line(t, 0, s.name()), Options{Sources: Sources{Agent: socket}})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Conn(ctx, s.address()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	p.Close()
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
