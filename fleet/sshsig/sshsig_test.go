package sshsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"pgregory.net/rapid"
)

const ns = "ebb-test"

var document = []byte("{\"host\":\"prod/gpu-041\",\"digest\":\"5b1c0e4a\"}\n")

var signers = sync.OnceValue(func() map[string]ssh.Signer {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	all := map[string]ssh.Signer{}
	for name, key := range map[string]crypto.Signer{"ed25519": ed, "ecdsa": ec, "rsa": rs} {
		s, err := ssh.NewSignerFromSigner(key)
		must(err)
		all[name] = s
	}
	return all
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestSshKeygenVerifiesEveryKeyType(t *testing.T) {
	data := document
	for name, s := range signers() {
		t.Run(name, func(t *testing.T) {
			sig, err := Sign(ns, data, s)
			must(err)
			if err := Verify(ns, data, sig, s.PublicKey()); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			line := "prod/gpu-041 " + string(ssh.MarshalAuthorizedKey(s.PublicKey()))
			must(os.WriteFile(filepath.Join(dir, "signers"), []byte(line), 0o600))
			must(os.WriteFile(filepath.Join(dir, "sig"), []byte(sig), 0o600))
			if out, err := keygen(dir, data); err != nil {
				t.Errorf("ssh-keygen refuses it: %v\n%s", err, out)
			}
			if out, err := keygen(dir, append(bytes.Clone(data), ' ')); err == nil {
				t.Errorf("ssh-keygen takes an edited document: %s", out)
			}
		})
	}
}

func keygen(dir string, data []byte) (string, error) {
	cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "prod/gpu-041", "-n", ns, "-s", "sig")
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What ssh-keygen signs for this namespace verifies here, and what it signs for
// another one does not.
func TestVerifiesWhatSshKeygenSigns(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command("ssh-keygen", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
		}
	}
	run("-q", "-t", "ed25519", "-N", "", "-f", "key")
	must(os.WriteFile(filepath.Join(dir, "doc"), []byte("hello\n"), 0o600))
	run("-q", "-Y", "sign", "-f", "key", "-n", ns, "doc")
	pub, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	must(err)
	key, _, _, _, err := ssh.ParseAuthorizedKey(pub)
	must(err)
	sig, err := os.ReadFile(filepath.Join(dir, "doc.sig"))
	must(err)
	if err := Verify(ns, []byte("hello\n"), string(sig), key); err != nil {
		t.Error(err)
	}
	must(os.Remove(filepath.Join(dir, "doc.sig")))
	run("-q", "-Y", "sign", "-f", "key", "-n", "file", "doc")
	sig, err = os.ReadFile(filepath.Join(dir, "doc.sig"))
	must(err)
	if err := Verify(ns, []byte("hello\n"), string(sig), key); err == nil || !strings.Contains(err.Error(), "made for") {
		t.Errorf("another namespace: %v", err)
	}
}

func TestVerifyWantsExactlyThisKey(t *testing.T) {
	all := signers()
	sig, err := Sign(ns, []byte("x"), all["ed25519"])
	must(err)
	if err := Verify(ns, []byte("x"), sig, all["ecdsa"].PublicKey()); err == nil || !strings.Contains(err.Error(), "signed by") {
		t.Errorf("another key: %v", err)
	}
	parsed, err := Parse(ns, sig)
	if err != nil || !bytes.Equal(parsed.Key.Marshal(), all["ed25519"].PublicKey().Marshal()) {
		t.Errorf("embedded key: %v", err)
	}
}

func TestAnyFlippedByteFails(t *testing.T) {
	data := document
	sigs := map[string]string{}
	for name, s := range signers() {
		sig, err := Sign(ns, data, s)
		must(err)
		sigs[name] = sig
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"ed25519", "ecdsa", "rsa"}).Draw(t, "key")
		doc, sig := bytes.Clone(data), []byte(sigs[name])
		target := doc
		if rapid.Bool().Draw(t, "signature") {
			target = sig
		}
		at := rapid.IntRange(0, len(target)-1).Draw(t, "at")
		target[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if Verify(ns, doc, string(sig), signers()[name].PublicKey()) == nil {
			t.Fatal("verified")
		}
	})
	for name, sig := range sigs {
		key := signers()[name].PublicKey()
		for _, other := range []string{sig + "\n", strings.TrimSuffix(sig, "\n"), "\n" + sig, strings.Replace(sig, "\n", "\r\n", 2), "", armourBegin + armourEnd} {
			if Verify(ns, data, other, key) == nil {
				t.Errorf("%s: verified %q", name, other)
			}
		}
	}
}

func TestRSASignatureOfAnOlderKindIsRefused(t *testing.T) {
	s := signers()["rsa"]
	old, err := s.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, toBeSigned(ns, []byte("x")), ssh.KeyAlgoRSASHA256)
	must(err)
	text := armour(ssh.Marshal(sigBlob{Magic: magic, Version: 1, PublicKey: s.PublicKey().Marshal(),
		Namespace: ns, Hash: hashName, Signature: ssh.Marshal(old)}))
	if err := Verify(ns, []byte("x"), text, s.PublicKey()); err == nil || !strings.Contains(err.Error(), "rsa-sha2-512") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	sig, err := Sign(ns, []byte("x"), signers()["ed25519"])
	must(err)
	f.Add(sig)
	f.Add(armour([]byte("SSHSIG")))
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := Parse(ns, s); err == nil && !strings.HasPrefix(s, armourBegin) {
			t.Fatalf("took %q", s)
		}
	})
}
