package sshlink

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// A host that lost its ed25519 key is not one whose key changed: nothing known
// contradicts what it shows.
func TestRealKeyOfAnotherType(t *testing.T) {
	c := newClient(t)
	s := startSSHD(t, sshdSpec{authorized: c.signer.PublicKey(), types: []string{"ecdsa"}})
	was := newSigner(t).PublicKey()
	p := c.pool(t, "", s.name()+" "+keyLine(was.Type(), was.Marshal())+"\n", Options{})
	_, err := p.Conn(testContext(t), s.address())
	var unknown *UnknownHostKeyError
	if !errors.As(err, &unknown) || len(unknown.Known) != 1 || !strings.Contains(err.Error(), "known instead: ssh-ed25519 "+Fingerprint(was)) {
		t.Errorf("got %v", err)
	}
}
