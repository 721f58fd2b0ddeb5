package sshlink

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// ErrClosed is the cause of every error after [Pool.Close].
var ErrClosed = errors.New("pool closed")

// hinter is what every error type of this package is: it can say what to type.
type hinter interface{ Hint() string }

// Hint finds in err's chain what a person should type or do next; empty when
// nobody in the chain knows.
func Hint(err error) string {
	var h hinter
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// permanent reports whether trying again changes nothing until a person acts.
// Such an error is returned at once instead of being waited out.
func permanent(err error) bool {
	var p interface{ permanent() bool }
	return errors.As(err, &p) && p.permanent()
}

// ConfigError is a line of ssh_config that can't be used.
type ConfigError struct {
	File string
	Line int // 0 when the file as a whole is meant
	Err  error
}

func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("read ssh_config %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("read ssh_config %s:%d: %v", e.File, e.Line, e.Err)
}

func (e *ConfigError) Unwrap() error   { return e.Err }
func (e *ConfigError) permanent() bool { return true }

// Hint names the place to edit.
func (e *ConfigError) Hint() string {
	if e.Line == 0 {
		return "check that the file exists and can be read: " + ShellQuote(e.File)
	}
	return fmt.Sprintf("edit line %d of %s; man 5 ssh_config explains the keyword", e.Line, ShellQuote(e.File))
}

// DestinationError is a destination that can't be read as one.
type DestinationError struct {
	Dest string
	Err  error
}

func (e *DestinationError) Error() string {
	return fmt.Sprintf("parse destination %q: %v", e.Dest, e.Err)
}

func (e *DestinationError) Unwrap() error   { return e.Err }
func (e *DestinationError) permanent() bool { return true }

// Hint shows the forms that are understood.
func (e *DestinationError) Hint() string {
	return "write an ssh_config alias, user@host, host:port, [v6]:port or ssh://user@host:port"
}

// DialError is a host that could not be reached, or hung up before it had
// authenticated us.
type DialError struct {
	Target Target
	Op     string // "connect" or "handshake"
	Err    error
}

func (e *DialError) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Op, e.Target.describe(), e.Err)
}

func (e *DialError) Unwrap() error { return e.Err }

// Hint tells apart a host that is silent, one that refuses and a name that does
// not resolve.
func (e *DialError) Hint() string {
	var dns *net.DNSError
	switch {
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("the name does not resolve; set HostName for %s in ssh_config", e.Target.Name)
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens on port %d; is sshd running there?", e.Target.Port)
	case e.Op == "handshake":
		return "the host hung up during the handshake; a busy sshd does that (MaxStartups); try by hand: " + e.Target.command()
	}
	return "try by hand: " + e.Target.command()
}

// AuthError is a host that took none of our keys.
type AuthError struct {
	Target  Target
	Offered []string // the keys that were shown, as "type fingerprint (source)"
	Notes   []string // why others were not: encrypted, unreadable, no agent
	Err     error

	hint string
}

func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "authenticate %s: ", e.Target.describe())
	if len(e.Offered) == 0 {
		b.WriteString("no key to offer")
	} else {
		fmt.Fprintf(&b, "refused %s", strings.Join(e.Offered, ", "))
	}
	for _, n := range e.Notes {
		b.WriteString("; " + n)
	}
	if e.Err != nil && len(e.Offered) > 0 {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *AuthError) Unwrap() error   { return e.Err }
func (e *AuthError) permanent() bool { return true }

// Hint is ssh-add for an encrypted key, else how to see what the server wants.
func (e *AuthError) Hint() string {
	if e.hint != "" {
		return e.hint
	}
	if e.Err != nil && strings.Contains(strings.ToLower(e.Err.Error()), "too many") {
		return "the agent holds more keys than the server lets us try; set IdentityFile and IdentitiesOnly yes in ssh_config"
	}
	return "see what the server accepts: " + e.Target.command("-v")
}

// KeepaliveError is the end of a connection whose far side stopped answering.
type KeepaliveError struct {
	Target Target
	Waited time.Duration
}

func (e *KeepaliveError) Error() string {
	return fmt.Sprintf("keepalive %s: no answer for %v", e.Target.describe(), e.Waited)
}

// Hint names the two usual causes.
func (e *KeepaliveError) Hint() string {
	return "the host or the link to it is frozen; try by hand: " + e.Target.command()
}

// LostError is a connection that ended without our doing.
type LostError struct {
	Target Target
	Err    error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("connection to %s: lost: %v", e.Target.describe(), e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Hint says that the next call connects again.
func (e *LostError) Hint() string {
	return "the next call connects again; look at sshd's log on the host if it keeps happening"
}

// NotConnectedError is what a caller gets whose context ended, or who did not
// want to wait, before a connection stood. It carries the last failure.
type NotConnectedError struct {
	Dest  string
	Last  error     // why the latest attempt failed; nil when none has ended yet
	Next  time.Time // when the next attempt may start; zero when one is under way
	Cause error     // the context's error; nil for a caller that did not wait
}

func (e *NotConnectedError) Error() string {
	switch {
	case e.Last == nil:
		return fmt.Sprintf("connect %s: %v", e.Dest, e.Cause)
	case e.Cause == nil:
		return fmt.Sprintf("connect %s: waiting to try again: %v", e.Dest, e.Last)
	}
	return fmt.Sprintf("connect %s: %v: last: %v", e.Dest, e.Cause, e.Last)
}

// Unwrap exposes both the failure and the context's end.
func (e *NotConnectedError) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Last, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Hint is that of the last failure.
func (e *NotConnectedError) Hint() string {
	if h := Hint(e.Last); h != "" {
		return h
	}
	return "the host did not answer in time; wait longer or try by hand: ssh " + ShellQuote(e.Dest)
}

// SessionLimitError is a caller whose context ended while all sessions of the
// connection were in use.
type SessionLimitError struct {
	Target Target
	Limit  int
	Err    error
}

func (e *SessionLimitError) Error() string {
	return fmt.Sprintf("open session on %s: all %d sessions in use: %v", e.Target.describe(), e.Limit, e.Err)
}

func (e *SessionLimitError) Unwrap() error { return e.Err }

// Hint explains where the limit comes from.
func (e *SessionLimitError) Hint() string {
	return "wait for a running command to end; sshd allows 10 sessions per connection (MaxSessions)"
}

// SessionRefusedError is a session or a command that the server would not start.
type SessionRefusedError struct {
	Target Target
	What   string // "session" or "command"
	Err    error
}

func (e *SessionRefusedError) Error() string {
	return fmt.Sprintf("open %s on %s: refused: %v", e.What, e.Target.describe(), e.Err)
}

func (e *SessionRefusedError) Unwrap() error { return e.Err }

// Hint names sshd's setting.
func (e *SessionRefusedError) Hint() string {
	if e.What == "session" {
		return "look at MaxSessions in the host's sshd_config; it must be at least the number of sessions asked for"
	}
	return "the host's sshd or the key's options forbid commands; try by hand: " + e.Target.command()
}

// ShellQuote makes s one word for a shell.
func ShellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
