package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"

	"github.com/jackc/pgx/v5"
)

// How often a watch looks where nothing tells it to.
const (
	channel     = "ebb_journal"    // of LISTEN and NOTIFY
	filePoll    = time.Second / 4  // SQLite: has another process written?
	blindPoll   = time.Second      // PostgreSQL without notifications
	idlePoll    = 5 * time.Second  // PostgreSQL with them, should one get lost
	listenAgain = 30 * time.Second // after notifications did not arrive
	hearWithin  = 2 * time.Second  // the notification that a listener sends itself
	readAtOnce  = 500
)

// Watch calls fn with every event after a sequence number, in order and without
// gaps, and goes on as events are appended by anybody. It outlives the loss of
// the database, which it reports to WithTrouble, and returns when ctx ends, the
// journal is closed, fn fails, or the journal turns out to be shorter than what
// was read from it (ErrRewound).
func (j *Journal) Watch(ctx context.Context, after uint64, fn func([]drain.Event) error) error {
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(j.closed, cancel)
	wake := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { j.signal(inner, wake) })
	defer func() { stop(); cancel(); wg.Wait() }()

	err := j.follow(inner, after, fn, wake)
	if j.closed.Err() != nil && ctx.Err() == nil {
		return ErrClosed
	}
	return err
}

func (j *Journal) follow(ctx context.Context, after uint64, fn func([]drain.Event) error, wake <-chan struct{}) error {
	wait, sure := 100*time.Millisecond, false
	for {
		local := j.next() // before reading, or an append in between would be slept through
		events, err := j.step(ctx, after, &sure)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrRewound):
			return err
		case err != nil:
			j.trouble(err)
			sure = false
			pause(ctx, wait)
			wait = min(2*wait, 5*time.Second)
			continue
		case wait > 100*time.Millisecond:
			j.trouble(nil)
			wait = 100 * time.Millisecond
		}
		if len(events) > 0 {
			if err := fn(events); err != nil {
				return err
			}
			after = events[len(events)-1].Seq
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-local:
		case <-wake:
		}
	}
}

// step reads on. At the start and after every trouble it makes sure that this is
// still the journal that was read before: a replica that was promoted may lack
// the newest events, and would give their numbers to others.
func (j *Journal) step(ctx context.Context, after uint64, sure *bool) ([]drain.Event, error) {
	if !*sure {
		last, err := j.last(ctx)
		if err != nil {
			return nil, err
		}
		if last < after {
			return nil, fmt.Errorf("watch journal %s: it ends at %d, and %d was read: %w", j.name, last, after, ErrRewound)
		}
		*sure = true
	}
	events, err := j.All(ctx, after, readAtOnce)
	if err == nil && len(events) > 0 && events[0].Seq != after+1 {
		return nil, fmt.Errorf("watch journal %s: event %d follows %d: %w", j.name, events[0].Seq, after, ErrRewound)
	}
	return events, err
}

// signal writes to wake whenever there may be something new.
func (j *Journal) signal(ctx context.Context, wake chan<- struct{}) {
	switch {
	case j.dialect.pg:
		j.signalPG(ctx, wake)
	case j.file:
		j.signalFile(ctx, wake)
	}
}

func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// signalFile asks SQLite whether another connection has changed the file. The
// answer is a number that only one and the same connection can compare.
func (j *Journal) signalFile(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		_ = j.watchFile(ctx, wake) // whatever ails the database, the reader meets it too
		poke(wake)
		pause(ctx, time.Second)
	}
}

func (j *Journal) watchFile(ctx context.Context, wake chan<- struct{}) error {
	conn, err := j.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for last := int64(-1); ; {
		var version int64
		if err := conn.QueryRowContext(ctx, `pragma data_version`).Scan(&version); err != nil {
			return err
		}
		if version != last {
			last = version
			poke(wake)
		}
		if !pause(ctx, filePoll) {
			return ctx.Err()
		}
	}
}

// signalPG listens, and polls while it can't.
func (j *Journal) signalPG(ctx context.Context, wake chan<- struct{}) {
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		heard, err := j.hear(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		j.trouble(err)
		deaf := wait
		switch {
		case heard:
			wait, deaf = 100*time.Millisecond, 100*time.Millisecond // it worked until now
		case errors.Is(err, ErrNoListen):
			deaf = listenAgain
		default:
			wait = min(2*wait, listenAgain)
		}
		for end := time.Now().Add(deaf); ctx.Err() == nil && time.Now().Before(end); {
			poke(wake)
			pause(ctx, min(blindPoll, time.Until(end)))
		}
	}
}

// hear listens until something goes wrong. It first makes sure that what is sent
// is heard: behind a transaction pooler LISTEN succeeds and nothing ever comes.
func (j *Journal) hear(ctx context.Context, wake chan<- struct{}) (heard bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, j.listen.Copy())
	if err != nil {
		return false, j.fail("listen to", err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye) // nothing is lost with it
	}()
	if _, err := conn.Exec(ctx, "listen "+channel); err != nil {
		return false, j.fail("listen to", fmt.Errorf("%w: %w", ErrNoListen, err))
	}
	if err := j.selfTest(ctx, conn, wake); err != nil {
		return false, j.fail("listen to", err)
	}
	j.trouble(nil)
	for {
		poke(wake)
		quiet, cancel := context.WithTimeout(ctx, idlePoll)
		_, err := conn.WaitForNotification(quiet)
		late := quiet.Err() != nil
		cancel()
		if err != nil && (ctx.Err() != nil || !late || conn.IsClosed()) {
			return true, j.fail("listen to", err)
		}
	}
}

// selfTest sends a word through the pool and waits for it on the listener.
func (j *Journal) selfTest(ctx context.Context, conn *pgx.Conn, wake chan<- struct{}) error {
	word := fmt.Sprintf("heard %d %p", conn.PgConn().PID(), conn)
	if _, err := j.db.ExecContext(ctx, `select pg_notify($1, $2)`, channel, word); err != nil {
		return fmt.Errorf("%w: %w", ErrNoListen, err)
	}
	soon, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(soon)
		switch {
		case err != nil && soon.Err() != nil:
			return ErrNoListen
		case err != nil:
			return err
		case n.Payload == word:
			return nil
		}
		poke(wake)
	}
}
