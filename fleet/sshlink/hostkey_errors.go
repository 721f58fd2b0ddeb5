package sshlink

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// HostKey is a key that a host showed and that was not accepted.
type HostKey struct {
	Target Target
	Host   string // the name in known_hosts: host, [host]:port or the HostKeyAlias
	Key    ssh.PublicKey
}

// Fingerprint is that of the key that was shown.
func (h HostKey) Fingerprint() string { return Fingerprint(h.Key) }

// Line is what known_hosts would say, once a person has verified the key.
func (h HostKey) Line() string { return h.Host + " " + keyLine(h.Key.Type(), h.Key.Marshal()) }

func (h HostKey) file() string {
	if len(h.Target.KnownHosts) == 0 {
		return "~/.ssh/known_hosts"
	}
	return ShellQuote(h.Target.KnownHosts[0])
}

// compare is how the true fingerprint is learned on the host itself.
func (h HostKey) compare() string {
	kind := strings.TrimPrefix(h.Key.Type(), "ssh-")
	if strings.HasPrefix(kind, "ecdsa") {
		kind = "ecdsa"
	}
	return fmt.Sprintf("on the host's own console run: ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub, and compare with %s",
		kind, h.Fingerprint())
}

func (h HostKey) add() string {
	return fmt.Sprintf("echo %s >> %s", ShellQuote(h.Line()), h.file())
}

// UnknownHostKeyError is a host whose key no known_hosts file holds.
type UnknownHostKeyError struct {
	HostKey
	Known     []KnownKey // keys of other types that are known for the host
	Malformed []string   // lines of known_hosts that could not be read
}

func (e *UnknownHostKeyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "check host key of %s: unknown %s key %s", e.Target.describe(), e.Key.Type(), e.Fingerprint())
	for i, k := range e.Known {
		sep := ", "
		if i == 0 {
			sep = "; known instead: "
		}
		fmt.Fprintf(&b, "%s%s %s (%s)", sep, k.Type, k.Fingerprint(), k.Where())
	}
	if len(e.Malformed) > 0 {
		fmt.Fprintf(&b, "; unreadable: %s", e.Malformed[0])
	}
	return b.String()
}

func (e *UnknownHostKeyError) permanent() bool { return true }

// Hint is the comparison a person has to make, and the line that settles it.
func (e *UnknownHostKeyError) Hint() string {
	scan := ""
	if e.Target.Via == nil {
		scan = fmt.Sprintf(" (seen from another network: ssh-keyscan -p %d %s | ssh-keygen -lf -)",
			e.Target.Port, ShellQuote(e.Target.Host))
	}
	return fmt.Sprintf("%s%s; if they are the same: %s", e.compare(), scan, e.add())
}

// ChangedHostKeyError is a host that shows another key than known_hosts holds.
// Either it was installed anew, or somebody else is answering.
type ChangedHostKeyError struct {
	HostKey
	Known KnownKey
}

func (e *ChangedHostKeyError) Error() string {
	return fmt.Sprintf("check host key of %s: changed: shows %s, %s holds %s",
		e.Target.describe(), e.Fingerprint(), e.Known.Where(), e.Known.Fingerprint())
}

func (e *ChangedHostKeyError) permanent() bool { return true }

// Hint makes the comparison come first and the removal after it.
func (e *ChangedHostKeyError) Hint() string {
	return fmt.Sprintf("somebody may be answering in the host's place; %s; if it was really given a new key: ssh-keygen -R %s -f %s && %s",
		e.compare(), ShellQuote(e.Host), ShellQuote(e.Known.File), e.add())
}

// RevokedHostKeyError is a key, or the authority behind it, that known_hosts
// marks @revoked.
type RevokedHostKeyError struct {
	HostKey
	Revoked KnownKey
}

func (e *RevokedHostKeyError) Error() string {
	return fmt.Sprintf("check host key of %s: revoked: %s is marked @revoked in %s",
		e.Target.describe(), e.Revoked.Fingerprint(), e.Revoked.Where())
}

func (e *RevokedHostKeyError) permanent() bool { return true }

// Hint sends to whoever revoked the key.
func (e *RevokedHostKeyError) Hint() string {
	return fmt.Sprintf("ask whoever wrote line %d of %s why; the host needs a new key: ssh-keygen -A on the host, after removing the old one",
		e.Revoked.Line, filepath.Base(e.Revoked.File))
}

// HostCertificateError is a host certificate that does not hold: expired, made
// out to another name, or signed by an authority that is not known.
type HostCertificateError struct {
	HostKey
	Err error
}

func (e *HostCertificateError) Error() string {
	return fmt.Sprintf("check host certificate of %s: %v", e.Target.describe(), e.Err)
}

func (e *HostCertificateError) Unwrap() error   { return e.Err }
func (e *HostCertificateError) permanent() bool { return true }

// Hint shows how to read the certificate.
func (e *HostCertificateError) Hint() string {
	return "read the certificate on the host: ssh-keygen -Lf /etc/ssh/ssh_host_*-cert.pub; renew it, or set HostKeyAlias to the name it is made out to"
}
