package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// keyring is what one handshake can offer: keys of the agent and of files, in
// the order in which they are tried, and why others are missing.
type keyring struct {
	hangUp    func() // ends the connection to the agent, whose keys may have to sign until then
	agentKeys []offer

	offers []offer
	notes  []string
	hint   string
}

type offer struct {
	signer ssh.Signer
	source string // "agent" or a file
}

// openKeyring collects the keys for t. It fails in nothing: what can't be had
// becomes a note, told only if no other key is accepted.
func openKeyring(ctx context.Context, t Target) *keyring {
	k := new(keyring)
	k.dialAgent(ctx, t.Agent)
	var named, standard []offer
	for _, id := range t.Identities {
		o := k.identity(id)
		if o == nil {
			continue
		}
		if id.Default {
			standard = append(standard, *o)
		} else {
			named = append(named, *o)
		}
	}
	// Named keys come first: a full agent would use up sshd's MaxAuthTries.
	plain := named
	if !t.IdentitiesOnly {
		plain = append(plain, k.agentKeys...)
	}
	plain = append(plain, standard...)
	k.offers = dedupe(append(k.certificates(t, plain), plain...))
	return k
}

// dialAgent asks the agent for its keys. The connection ends with ctx, so an
// agent that waits for a touch or has hung holds nobody up longer than that.
func (k *keyring) dialAgent(ctx context.Context, socket string) {
	if socket == "" {
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		k.notes = append(k.notes, fmt.Sprintf("agent: %v", err))
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	k.hangUp = func() {
		stop()
		conn.Close()
	}
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		k.notes = append(k.notes, fmt.Sprintf("agent: %v", err))
		return
	}
	for _, s := range signers {
		k.agentKeys = append(k.agentKeys, offer{signer: s, source: "agent"})
	}
}

func (k *keyring) close() {
	if k.hangUp != nil {
		k.hangUp()
	}
}

// identity is the key of one file: from the agent if that holds it, since only
// there an encrypted key can sign, else from the file itself.
func (k *keyring) identity(id Identity) *offer {
	pub := readPublicKey(id.Path + ".pub")
	text, err := os.ReadFile(id.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if o := k.fromAgent(pub, id.Path); o != nil {
			return o
		}
		if !id.Default {
			k.note("", "key %s: no such file", id.Path)
		}
		return nil
	}
	if err != nil {
		k.note("", "key %s: %v", id.Path, errors.Unwrap(err))
		return nil
	}
	if public := parsePublicKey(text); public != nil { // IdentityFile may name the public half
		if o := k.fromAgent(public, id.Path); o != nil {
			return o
		}
		k.note("ssh-add the private half of "+ShellQuote(id.Path), "key %s: its private half is not in the agent", id.Path)
		return nil
	}
	return k.privateKey(id, text, pub)
}

func (k *keyring) privateKey(id Identity, text []byte, pub ssh.PublicKey) *offer {
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		if locked.PublicKey != nil {
			pub = locked.PublicKey
		}
		if o := k.fromAgent(pub, id.Path); o != nil {
			return o
		}
		k.note("ssh-add "+ShellQuote(id.Path), "key %s: encrypted, and not in the agent", id.Path)
		return nil
	case err != nil:
		k.note("", "key %s: %v", id.Path, err)
		return nil
	}
	if o := k.fromAgent(signer.PublicKey(), id.Path); o != nil {
		return o
	}
	if open, mode := tooOpen(id.Path); open {
		k.note("chmod 600 "+ShellQuote(id.Path), "key %s: mode %04o lets others read it", id.Path, mode)
		return nil
	}
	return &offer{signer: signer, source: id.Path}
}

// note remembers why a key is missing. The first hint stays: it belongs to the
// key that would have been tried first.
func (k *keyring) note(hint, format string, args ...any) {
	k.notes = append(k.notes, fmt.Sprintf(format, args...))
	if k.hint == "" {
		k.hint = hint
	}
}

func (k *keyring) fromAgent(pub ssh.PublicKey, source string) *offer {
	if pub == nil {
		return nil
	}
	for _, o := range k.agentKeys {
		if bytes.Equal(o.signer.PublicKey().Marshal(), pub.Marshal()) {
			return &offer{signer: o.signer, source: source + ", by the agent"}
		}
	}
	return nil
}

// certificates are the user certificates that belong to one of the keys: those
// beside key files (id_x-cert.pub) and those that CertificateFile names.
func (k *keyring) certificates(t Target, plain []offer) []offer {
	files := slices.Clone(t.Certificates)
	for _, id := range t.Identities {
		files = append(files, id.Path+"-cert.pub")
	}
	var out []offer
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			if i < len(t.Certificates) {
				k.note("", "certificate %s: %v", file, errors.Unwrap(err))
			}
			continue
		}
		cert, ok := parsePublicKey(text).(*ssh.Certificate)
		if !ok {
			k.note("", "certificate %s: not an OpenSSH certificate", file)
			continue
		}
		signer := k.certSigner(cert, plain)
		if signer == nil {
			k.note("", "certificate %s: no key for it", file)
			continue
		}
		out = append(out, offer{signer: signer, source: file})
	}
	return out
}

func (k *keyring) certSigner(cert *ssh.Certificate, plain []offer) ssh.Signer {
	for _, o := range slices.Concat(plain, k.agentKeys) {
		if bytes.Equal(o.signer.PublicKey().Marshal(), cert.Key.Marshal()) {
			if s, err := ssh.NewCertSigner(cert, o.signer); err == nil {
				return s
			}
		}
	}
	return nil
}

func (k *keyring) signers() []ssh.Signer {
	out := make([]ssh.Signer, len(k.offers))
	for i, o := range k.offers {
		out[i] = o.signer
	}
	return out
}

func (k *keyring) failure(t Target, err error) *AuthError {
	e := &AuthError{Target: t, Notes: k.notes, Err: err, hint: k.hint}
	for _, o := range k.offers {
		pub := o.signer.PublicKey()
		e.Offered = append(e.Offered, fmt.Sprintf("%s %s (%s)", pub.Type(), Fingerprint(pub), o.source))
	}
	return e
}

func dedupe(offers []offer) []offer {
	seen := make(map[string]bool)
	return slices.DeleteFunc(offers, func(o offer) bool {
		id := string(o.signer.PublicKey().Marshal())
		defer func() { seen[id] = true }()
		return seen[id]
	})
}

func readPublicKey(file string) ssh.PublicKey {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return parsePublicKey(text)
}

func parsePublicKey(text []byte) ssh.PublicKey {
	pub, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return pub
}
