package sshlink

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// verifier judges the key that one handshake, and each later key exchange of the
// same connection, shows.
type verifier struct {
	target Target
	known  knownHosts

	mu   sync.Mutex
	seen ssh.PublicKey // the plain key, once accepted
	err  error         // the first refusal, kept apart from what the handshake makes of it
}

func newVerifier(t Target) (*verifier, error) {
	known, err := readKnownHosts(t.KnownHosts, t.knownNames())
	if err != nil {
		return nil, err
	}
	return &verifier{target: t, known: known}, nil
}

// algorithms orders what we offer so that the server shows a key we can judge:
// certificates where an authority is known for the host, then the types that
// known_hosts holds. The others follow, so that a host with a new key is named as
// such instead of failing to agree on an algorithm.
func (v *verifier) algorithms() []string {
	var certs, known, rest []string
	for _, algo := range ssh.SupportedAlgorithms().HostKeys {
		switch {
		case strings.Contains(algo, "-cert-v01"):
			if len(v.known.authorities) > 0 {
				certs = append(certs, algo)
			}
		case slices.ContainsFunc(v.known.keys, func(k KnownKey) bool { return k.Type == keyTypeOf(algo) }):
			known = append(known, algo)
		default:
			rest = append(rest, algo)
		}
	}
	return slices.Concat(certs, known, rest)
}

// keyTypeOf is the type of the key that makes signatures of algo.
func keyTypeOf(algo string) string {
	if algo == ssh.KeyAlgoRSASHA256 || algo == ssh.KeyAlgoRSASHA512 {
		return ssh.KeyAlgoRSA
	}
	return algo
}

// callback is the ssh.HostKeyCallback. The address that it is handed is not
// looked at: what counts is what the target is called in known_hosts.
func (v *verifier) callback(_ string, _ net.Addr, key ssh.PublicKey) error {
	err := v.check(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil && v.seen != nil && !bytes.Equal(v.seen.Marshal(), plainKey(key).Marshal()) {
		err = fmt.Errorf("check host key of %s: another key in the middle of a connection: %s, was %s",
			v.target.describe(), Fingerprint(key), Fingerprint(v.seen))
	}
	if err != nil {
		if v.err == nil {
			v.err = err
		}
		return err
	}
	if v.seen == nil {
		v.seen = plainKey(key)
	}
	return nil
}

// verdict is the key that was accepted, and why one was refused.
func (v *verifier) verdict() (ssh.PublicKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen, v.err
}

func (v *verifier) check(key ssh.PublicKey) error {
	plain := plainKey(key)
	cert, isCert := key.(*ssh.Certificate)
	for _, r := range v.known.revoked {
		if r.is(plain) || isCert && r.is(cert.SignatureKey) {
			return &RevokedHostKeyError{HostKey: v.hostKey(plain), Revoked: r}
		}
	}
	var certErr error
	if isCert {
		if certErr = v.checkCertificate(cert); certErr == nil {
			return nil
		}
	}
	if slices.ContainsFunc(v.known.keys, func(k KnownKey) bool { return k.is(plain) }) {
		return nil
	}
	if certErr != nil && len(v.known.authorities) > 0 {
		return &HostCertificateError{HostKey: v.hostKey(plain), Err: certErr}
	}
	for _, k := range v.known.keys {
		if k.Type == plain.Type() {
			return &ChangedHostKeyError{HostKey: v.hostKey(plain), Known: k}
		}
	}
	return &UnknownHostKeyError{HostKey: v.hostKey(plain), Known: v.known.keys, Malformed: v.known.malformed}
}

// checkCertificate holds a host certificate against the authorities of this
// host, and its principals, which may be patterns, against the host's name.
func (v *verifier) checkCertificate(cert *ssh.Certificate) error {
	if cert.CertType != ssh.HostCert {
		return errors.New("not a host certificate")
	}
	if !slices.ContainsFunc(v.known.authorities, func(k KnownKey) bool { return k.is(cert.SignatureKey) }) {
		return fmt.Errorf("signed by an unknown authority, %s", Fingerprint(cert.SignatureKey))
	}
	name := v.target.Host
	if v.target.HostKeyAlias != "" {
		name = v.target.HostKeyAlias
	}
	i := slices.IndexFunc(cert.ValidPrincipals, func(p string) bool {
		return p != "" && matchPattern(strings.ToLower(p), strings.ToLower(name))
	})
	if i < 0 {
		return fmt.Errorf("made out to %s, not to %q", strings.Join(quoteAll(cert.ValidPrincipals), ", "), name)
	}
	return new(ssh.CertChecker).CheckCert(cert.ValidPrincipals[i], cert)
}

func (v *verifier) hostKey(key ssh.PublicKey) HostKey {
	return HostKey{Target: v.target, Host: v.target.knownNames()[0], Key: key}
}

func quoteAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}
