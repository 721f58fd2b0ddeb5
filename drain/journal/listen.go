package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How a watch learns of what others append to PostgreSQL.
const (
	channel     = "ebb_journal"    // of LISTEN and NOTIFY
	blindPoll   = time.Second      // without notifications
	idlePoll    = 5 * time.Second  // with them, should one get lost
	listenAgain = 30 * time.Second // after notifications did not arrive
	hearWithin  = 2 * time.Second  // the notification that a listener sends itself
)

// signalPG listens, and polls while it can't.
func (j *Journal) signalPG(ctx context.Context, wake chan<- struct{}, h *health) {
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		heard, err := j.hear(ctx, wake, h)
		if ctx.Err() != nil {
			return
		}
		h.set(&h.hearing, err)
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
func (j *Journal) hear(ctx context.Context, wake chan<- struct{}, h *health) (heard bool, err error) {
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
		return false, j.fail("listen to", unheard(err))
	}
	if err := j.selfTest(ctx, conn, wake); err != nil {
		return false, j.fail("listen to", err)
	}
	h.set(&h.hearing, nil)
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
		return unheard(err)
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

// unheard tells a server that can't notify from one that is away for a moment.
func unheard(err error) error {
	if lostConnection(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoListen, err)
}
