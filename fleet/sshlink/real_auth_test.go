package sshlink

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

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
		"IdentitiesOnly, wrong key": {config: "IdentitiesOnly yes", keys: []agent.AddedKey{holder},
			says: []string{"refused ssh-ed25519 " + Fingerprint(c.signer.PublicKey())}},
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
