package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Journal is an open journal. Its methods may be called from many goroutines.
type Journal struct {
	db      *sql.DB
	writes  *sql.DB // connections that no reader can take; db itself, where there is only one
	dialect dialect
	name    string
	now     func() time.Time
	trouble func(error)
	pragmas []string

	settleFor time.Duration // how long an unanswered commit is looked for

	listen *pgx.ConnConfig // nil for SQLite
	file   bool            // SQLite in a file, which other processes may write too
	writer chan struct{}   // SQLite: one writer of this process at a time

	closed context.Context // done once the journal is closed
	close  context.CancelCauseFunc

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when this process appends
	queue   []*piece      // to be written
	writing bool          // somebody does
	busy    sync.WaitGroup
	tail    tail
}

// Option changes how a journal is opened.
type Option func(*Journal)

// WithClock gives SQLite the clock that stamps events and leases. PostgreSQL
// always uses its own.
func WithClock(now func() time.Time) Option { return func(j *Journal) { j.now = now } }

// WithTrouble has fn called when a Watch can't listen or can't read (it goes on
// trying), and with nil once both work again after that. Calls come from the
// goroutines of the watches.
func WithTrouble(fn func(error)) Option { return func(j *Journal) { j.trouble = fn } }

// withPragma adds a SQLite pragma to every connection.
func withPragma(p string) Option { return func(j *Journal) { j.pragmas = append(j.pragmas, p) } }

// withSettle bounds how long an unanswered commit is looked for.
func withSettle(d time.Duration) Option { return func(j *Journal) { j.settleFor = d } }

// Open opens a journal and brings its tables up to date. Tables that are newer
// than this program, or that can't be created, are a SchemaError. A PostgreSQL
// replica whose tables are there opens, and can be read.
func Open(ctx context.Context, url string, opts ...Option) (*Journal, error) {
	j := &Journal{now: time.Now, trouble: func(error) {}, settleFor: 8 * time.Second, changed: make(chan struct{})}
	for _, o := range opts {
		o(j)
	}
	if err := j.connect(url); err != nil {
		return nil, err
	}
	if err := j.migrate(ctx); err != nil {
		_ = j.closeDB()
		return nil, j.fail("open", err)
	}
	j.closed, j.close = context.WithCancelCause(context.Background())
	return j, nil
}

// Name says where the journal is, for whoever finds a hold that names it. There
// is no password in it.
func (j *Journal) Name() string { return j.name }

// Close ends every Watch and closes the database. What is being written meanwhile
// fails.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.close(ErrClosed)
	j.mu.Unlock()
	j.busy.Wait()
	return j.closeDB()
}

func (j *Journal) closeDB() error {
	if j.writes == j.db {
		return j.db.Close()
	}
	return errors.Join(j.writes.Close(), j.db.Close())
}

// Now returns the time by the journal's clock.
func (j *Journal) Now(ctx context.Context) (time.Time, error) {
	var us int64
	if err := j.db.QueryRowContext(ctx, j.dialect.sql(`select {now}`), j.clock()).Scan(&us); err != nil {
		return time.Time{}, j.fail("read the clock of", err)
	}
	return fromMicro(us), nil
}

// Writable tries whether the journal can be written, and changes nothing.
func (j *Journal) Writable(ctx context.Context) error {
	undo := errors.New("undo")
	err := j.write(ctx, func(tx *sql.Tx) error {
		if _, err := j.head(ctx, tx, 0); err != nil {
			return err
		}
		return undo
	})
	if errors.Is(err, undo) {
		return nil
	}
	return j.fail("write", err)
}

// moment is what the head row says inside a transaction that has locked it.
type moment struct {
	seq uint64
	at  int64 // for events: never before the last one
	now int64 // for leases: the plain clock
}

// head locks the head row, which every writing transaction does first, and moves
// it on by n.
func (j *Journal) head(ctx context.Context, tx *sql.Tx, n int) (moment, error) {
	var m moment
	var seq int64
	var guard string
	err := tx.QueryRowContext(ctx, j.dialect.sql(
		`update {s}head set seq = seq + $2, at = case when $2 > 0 and at < {now} then {now} else at end
		  where one = 1 returning seq, at, {now}, {guard}`), j.clock(), n).Scan(&seq, &m.at, &m.now, &guard)
	if errors.Is(err, sql.ErrNoRows) {
		return m, errors.New("its head row is missing")
	}
	m.seq = uint64(seq)
	return m, err
}

// commitError marks an error of the commit itself, after which nobody knows yet
// whether the transaction took.
type commitError struct{ err error }

func (e *commitError) Error() string { return "commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// write runs fn in a transaction.
func (j *Journal) write(ctx context.Context, fn func(*sql.Tx) error) error {
	if j.writer != nil {
		select {
		case j.writer <- struct{}{}:
			defer func() { <-j.writer }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var level sql.TxOptions
	if j.dialect.pg {
		// Each statement must see what was committed while it waited for the head
		// row, whatever the role's default is.
		level.Isolation = sql.LevelReadCommitted
	}
	tx, err := j.writes.BeginTx(ctx, &level)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		// What made the rollback necessary is reported; a transaction that is over
		// or cut off rolls back by itself.
		_ = tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		return &commitError{err}
	}
	return nil
}

// begin starts what Close waits for, unless the journal is closed.
func (j *Journal) begin(fn func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Err() != nil {
		return false
	}
	j.busy.Go(fn)
	return true
}

// wake tells the watches of this process that something was appended.
func (j *Journal) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.changed)
	j.changed = make(chan struct{})
}

// next returns a channel that is closed at the next append of this process.
func (j *Journal) next() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// number turns a count into what both databases can store.
func number(what string, n uint64) (int64, error) {
	if n > 1<<62 {
		return 0, fmt.Errorf("%s %d is too large", what, n)
	}
	return int64(n), nil
}
