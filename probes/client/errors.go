package client

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"ebb/probes/wire"
)

// ErrNotInstalled says that the host has no ebbd: its shell did not find it.
var ErrNotInstalled = errors.New("ebbd is not installed there")

// Problem is an answer of the agent that is not a success.
type Problem struct {
	Status int
	wire.Problem
}

func (p *Problem) Error() string {
	text := p.Problem.Error
	if text == "" {
		text = "HTTP status " + strconv.Itoa(p.Status)
	}
	if p.Hold != nil {
		text += " (held by " + plain(p.Hold.Who) + ")"
	}
	return text
}

// Refused reports whether the agent decided against the call, as opposed to
// having failed at it.
func (p *Problem) Refused() bool { return p.Status >= 400 && p.Status < 500 }

// HasCode reports whether an error is a problem with this code.
func HasCode(err error, code string) bool {
	var p *Problem
	return errors.As(err, &p) && p.Code == code
}

// VersionError says that agent and console speak different protocols.
type VersionError struct {
	Agent, Console           string
	AgentProto, ConsoleProto int
}

func (e *VersionError) Error() string {
	age := "older"
	if e.AgentProto > e.ConsoleProto {
		age = "newer"
	}
	return fmt.Sprintf("the agent (%s, protocol %d) is %s than this console (%s, protocol %d)",
		plain(e.Agent), e.AgentProto, age, e.Console, e.ConsoleProto)
}

// Hint says what to do about it.
func (e *VersionError) Hint() string {
	if e.AgentProto > e.ConsoleProto {
		return "update ebb on this console"
	}
	return "update the agent with: ebb agent install HOST"
}

// MachineError says that another machine answers.
type MachineError struct{ Want, Got string }

func (e *MachineError) Error() string {
	return fmt.Sprintf("another machine answers: %s, not %s", plain(e.Got), e.Want)
}

// Hint says what to do about it.
func (e *MachineError) Hint() string {
	return "if the machine was replaced, forget the old one first; nothing is done to it until then"
}

// RoleError says that the channel does not let its user do what was wanted.
type RoleError struct{ Want, Got wire.Role }

func (e *RoleError) Error() string {
	return fmt.Sprintf("this key or user has role %s there, and the call needs %s", e.Got, e.Want)
}

// Hint says what to do about it.
func (e *RoleError) Hint() string {
	return "use a key or a user with role " + string(e.Want) + " on that host"
}

// noAgent explains a stream on which no magic line came.
func noAgent(noise []byte, err error) error {
	low := bytes.ToLower(noise)
	for _, sign := range []string{"command not found", "no such file or directory", "not found", "exit status 127"} {
		if bytes.Contains(low, []byte(sign)) && bytes.Contains(low, []byte("ebbd")) {
			return fmt.Errorf("%w: %s", ErrNotInstalled, lastLine(noise))
		}
	}
	var exit interface{ ExitStatus() int }
	if errors.As(err, &exit) && exit.ExitStatus() == 127 {
		return ErrNotInstalled
	}
	if line := lastLine(noise); line != "" {
		return fmt.Errorf("%w; the host says: %s", err, line)
	}
	return err
}

// lastLine returns the end of what a host said, fit to be shown.
func lastLine(noise []byte) string {
	lines := strings.Split(strings.TrimSpace(string(noise)), "\n")
	line := plain(lines[len(lines)-1])
	if r := []rune(line); len(r) > 200 {
		line = string(r[:200]) + "…"
	}
	return line
}

// plain removes what could move a cursor or reorder text.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\t", " "), ""))
}
