package sshlink

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Target is one place to connect to, with everything that ssh_config says about
// the way there. Values are final: no tokens, no ~.
type Target struct {
	Name string // as asked for, without user and port
	User string
	Host string // the name or address that is dialled
	Port int

	HostKeyAlias string   // the name to look up in known_hosts, if not Host
	KnownHosts   []string // files, the user's first; those that don't exist are passed over

	Identities     []Identity
	Certificates   []string // files named by CertificateFile
	IdentitiesOnly bool     // offer no key of the agent that Identities does not name
	Agent          string   // the agent's socket; empty for none

	ConnectTimeout time.Duration // for TCP and handshake together; zero if not set
	Via            *Target       // the last jump host, which has its own Via; nil for a direct connection
}

// Identity is a private key file to try.
type Identity struct {
	Path string
	// Default marks one of ssh's standard names, which nobody asked for and whose
	// absence is not worth a word.
	Default bool
}

// Address is what is dialled, as host:port.
func (t Target) Address() string { return joinHostPort(t.Host, t.Port) }

// describe names the target in errors: the alias, and the address where it says
// more.
func (t Target) describe() string {
	switch {
	case t.Name != t.Host:
		return t.Name + " (" + t.Address() + ")"
	case t.Port != 22:
		return t.Address()
	}
	return t.Name
}

// command is how a person would reach the target by hand.
func (t Target) command(flags ...string) string {
	words := append([]string{"ssh"}, flags...)
	if t.Name == t.Host && t.Port != 22 {
		words = append(words, "-p", strconv.Itoa(t.Port))
	}
	return strings.Join(append(words, ShellQuote(t.User+"@"+t.Name)), " ")
}

// key is equal for targets that one connection can serve: all but the name.
func (t Target) key() string {
	t.Name = ""
	via := ""
	if t.Via != nil {
		via = t.Via.key()
	}
	t.Via = nil
	return fmt.Sprintf("%q via %q", fmt.Sprintf("%+v", t), via)
}
