package journal

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"ebb/drain"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// What callers branch on.
var (
	ErrLeaseLost = drain.ErrLeaseLost
	ErrNoLease   = errors.New("drives need a lease")
	ErrReadOnly  = errors.New("the database is read-only")
	ErrFull      = errors.New("no space left for the database")
	ErrRewound   = errors.New("the journal is shorter than what was already read from it: another or an older database answers")
	ErrNoListen  = errors.New("notifications do not arrive (a transaction pooler, or a replica): polling instead")
	ErrClosed    = errors.New("the journal is closed")
)

// ConflictError says that the stream does not end where the writer believed.
type ConflictError struct {
	Stream     string
	Want, Have uint64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("stream %s: expected to append after event %d, but it ends at %d", e.Stream, e.Want, e.Have)
}

// Unwrap makes it a drain.ErrConflict.
func (e *ConflictError) Unwrap() error { return drain.ErrConflict }

// HeldError says who holds the lease that was asked for.
type HeldError struct{ Lease drain.Lease }

func (e *HeldError) Error() string {
	return fmt.Sprintf("drain %s is driven by %s, whose lease runs until %s", e.Lease.Drain, e.Lease.Holder, e.Lease.Until.Format(time.RFC3339))
}

// DuplicateError says that an event id is taken by another event.
type DuplicateError struct{ ID string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("event id %s is already in the journal, with another content or in another batch", e.ID)
}

// UncertainError says that nobody knows whether a batch was committed: the
// connection died in the commit, and the journal can't be asked. The same batch,
// with the same ids, can be appended again without harm.
type UncertainError struct {
	IDs []string
	Err error
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("nobody knows whether events %s were committed: %v", strings.Join(e.IDs, ", "), e.Err)
}

func (e *UncertainError) Unwrap() error { return e.Err }

// Held returns the lease that stands in the way.
func (e *HeldError) Held() drain.Lease { return e.Lease }

// SchemaError says that the tables are not those that this program knows.
type SchemaError struct {
	Have, Want int
	Err        error // why they could not be brought up to date; nil where they are newer
}

func (e *SchemaError) Error() string {
	if e.Have > e.Want {
		return fmt.Sprintf("its tables have version %d and this ebb knows version %d: use the ebb that the others use", e.Have, e.Want)
	}
	if e.Have == 0 {
		return fmt.Sprintf("its tables are missing and can't be created: %v", e.Err)
	}
	return fmt.Sprintf("its tables have version %d and can't be brought to version %d: %v", e.Have, e.Want, e.Err)
}

func (e *SchemaError) Unwrap() error { return e.Err }

// fail names the operation and the journal in an error.
func (j *Journal) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s journal %s: %w", op, j.name, classify(err))
}

// classify puts a sentinel in front of the errors whose cause a person must
// remove: no space, and a database that can't be written.
func classify(err error) error {
	if errors.Is(err, ErrReadOnly) || errors.Is(err, ErrFull) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w (a replica, or default_transaction_read_only): %w", ErrReadOnly, err)
		case "53100": // disk_full
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case 8: // SQLITE_READONLY
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		case 13: // SQLITE_FULL
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return err
}

// ofData reports whether an error speaks of what was to be written, and not of the
// database: a key that is too long for it, say.
func ofData(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return slices.ContainsFunc([]string{"22", "23", "54"}, func(class string) bool { return strings.HasPrefix(pg.Code, class) })
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case 18, 19, 20: // SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH
			return true
		}
	}
	return false
}

// lostConnection reports whether an error speaks of the way to the server, or of
// a server that is going away or coming up, and not of the statement.
func lostConnection(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P")
	}
	var op net.Error
	return errors.As(err, &op) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}
