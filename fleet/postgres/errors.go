package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"ebb/fleet"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrTheirs says that a flag was set by someone else, or by nobody knows whom.
var ErrTheirs = errors.New("the plane's flag was not set by ebb")

// TheirsError is an ErrTheirs with the flag that stands.
type TheirsError struct {
	Host fleet.HostID
	Flag fleet.Flag
}

func (e *TheirsError) Error() string {
	if e.Flag.Who == "" {
		return fmt.Sprintf("lift the flag of %s: %v (the plane does not say by whom): it is lifted only on explicit word (--theirs)", e.Host, ErrTheirs)
	}
	return fmt.Sprintf("lift the flag of %s: %v but by %q (%q): it is lifted only on explicit word (--theirs)", e.Host, ErrTheirs, e.Flag.Who, e.Flag.Why)
}

func (e *TheirsError) Unwrap() error { return ErrTheirs }

// Final says that trying again does not help.
func (e *TheirsError) Final() bool { return true }

// MissingError says that the plane does not know a host or a claim.
type MissingError struct{ Plane, What string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("plane %s does not know %s", e.Plane, e.What)
}

// Final says that trying again does not help.
func (e *MissingError) Final() bool { return true }

// StatementError says which statement failed and what to do about it.
type StatementError struct {
	Plane, Statement string
	Hint             string
	Err              error
}

func (e *StatementError) Error() string {
	s := fmt.Sprintf("plane %s: statement %q: %v", e.Plane, e.Statement, e.Err)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *StatementError) Unwrap() error { return e.Err }

// Final says that trying again does not help: the statement does not fit.
func (e *StatementError) Final() bool {
	var pg *pgconn.PgError
	return errors.As(e.Err, &pg) && strings.HasPrefix(pg.Code, "42")
}

func (p *Plane) explain(statement string, err error) error {
	if err == nil {
		return nil
	}
	var own *StatementError
	if errors.As(err, &own) {
		return err
	}
	return &StatementError{Plane: p.cfg.Name, Statement: statement, Hint: hint(statement, err), Err: err}
}

// hint says what a person can do about an error.
func hint(statement string, err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "the server did not answer in time: is it overloaded, locked, or behind a broken link?"
		case lostConnection(err):
			return "the server can't be reached: it is down, failing over, or the URL is wrong"
		}
		return ""
	}
	switch pg.Code {
	case "42P01", "42703", "42883":
		return fmt.Sprintf("set %q under [plane.statements] to fit your schema, or create what example.sql shows", statement)
	case "42601", "42P02", "42P18":
		return fmt.Sprintf("correct %q under [plane.statements]", statement)
	case "42501":
		return "grant its role what this statement needs"
	case "25006":
		return "this server takes no writes: point the URL at the primary (target_session_attrs=read-write)"
	case "28P01", "28000":
		return "the role or its password is wrong"
	case "3D000":
		return "the database of the URL does not exist"
	case "53300":
		return "the server has no connection to spare"
	case "57P01", "57P02", "57P03":
		return "the server is going down or coming up: it may be failing over"
	}
	return ""
}

// lostConnection reports whether an error speaks of the way to the server.
func lostConnection(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P")
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var op net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &op) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}
