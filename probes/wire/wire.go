// Package wire is what agent and console agree on: the magic line, the paths,
// the limits and the requests. It holds no behaviour beyond reading and writing
// that line.
//
// The agent serves HTTP over one Unix socket per role. "ebbd dial-stdio --role
// R" connects standard input and output to the socket of the role, after it has
// written the magic line:
//
//	EBBD/1 0.4.1 operate 5b1c0e4a9d7f4c2f8f4b7a8e9d0c1b2a
//
// The client looks for it in the first 64 KiB, so that what a shell's start-up
// files print does no harm. After it both sides speak HTTP/2 without TLS (SSH
// has encrypted and authenticated the channel).
//
// Where sshd itself lets a console through to a socket, nothing has to be started
// on the host; the agent then writes that line, if a preface asks for it.
package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Limits of the protocol.
const (
	Proto       = 1
	MagicWindow = 64 << 10 // bytes in which the magic line must appear
	MaxBody     = 1 << 20  // bytes of a request
	RetryAfter  = 30       // seconds, in the Retry-After of a refused admission
)

// Both ends ask a silent other for a sign of life, and end the connection without
// one. A machine that is busy may take seconds to run whoever has to answer; to
// take it for dead would cost it another SSH login just then.
const (
	PingEvery    = 2 * time.Second
	PingPatience = 5 * time.Second
)

// Role is what a socket lets its callers do.
type Role string

// Observe is contained in Cordon, and Cordon in Operate. Terminate reads too,
// but is apart from the others; Admission is for the platform's own daemon.
const (
	Observe   Role = "observe"
	Cordon    Role = "cordon"
	Operate   Role = "operate"
	Terminate Role = "terminate"
	Admission Role = "admission"
)

// RunDir is where the sockets lie on a host whose configuration says nothing
// else.
const RunDir = "/run/ebb"

// Roles lists every role.
var Roles = []Role{Observe, Cordon, Operate, Terminate, Admission}

// Valid reports whether r is a role.
func (r Role) Valid() bool {
	for _, known := range Roles {
		if r == known {
			return true
		}
	}
	return false
}

// Covers reports whether a socket of role r serves a call that needs need.
func (r Role) Covers(need Role) bool {
	switch need {
	case Observe:
		return r != Admission && r.Valid()
	case Cordon:
		return r == Cordon || r == Operate
	default:
		return r == need && r.Valid()
	}
}

// Socket is the file name of a role's socket inside the agent's run directory.
func (r Role) Socket() string { return string(r) + ".sock" }

// Hello is the content of the magic line.
type Hello struct {
	Proto   int
	Version string
	Role    Role
	Machine string
}

// ErrNoMagic says that the other side never wrote a magic line: it is not ebbd.
var ErrNoMagic = errors.New("no EBBD line in the first 64 KiB")

// WriteHello writes the magic line.
func WriteHello(w io.Writer, h Hello) error {
	_, err := fmt.Fprintf(w, "EBBD/%d %s %s %s\n", h.Proto, h.Version, h.Role, h.Machine)
	return err
}

// ReadHello skips whatever comes before the magic line and returns it; the
// reader is then at the first byte of HTTP. noise is what was skipped, for
// error messages.
func ReadHello(r *bufio.Reader) (h Hello, noise []byte, err error) {
	for read := 0; read < MagicWindow; {
		line, err := r.ReadSlice('\n')
		read += len(line)
		if i := bytes.Index(line, []byte("EBBD/")); i >= 0 && err == nil {
			if h, ok := parseHello(string(line[i:])); ok {
				return h, append(noise, line[:i]...), nil
			}
		}
		noise = append(noise, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				return Hello{}, noise, fmt.Errorf("%w: the stream ended", ErrNoMagic)
			}
			return Hello{}, noise, err
		}
	}
	return Hello{}, noise, ErrNoMagic
}

func parseHello(line string) (Hello, bool) {
	var h Hello
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return h, false
	}
	if _, err := fmt.Sscanf(fields[0], "EBBD/%d", &h.Proto); err != nil {
		return h, false
	}
	h.Version, h.Role, h.Machine = fields[1], Role(fields[2]), fields[3]
	return h, h.Role.Valid()
}
