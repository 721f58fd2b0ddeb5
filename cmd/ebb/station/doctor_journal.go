package station

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/drain/journal"
)

// hearing is how long doctor waits for the journal's own test of whether it hears
// what others append.
const hearing = 3 * time.Second

// checkJournal looks whether the journal can be read and written, whether its
// clock is ours, and whether it says what others append or has to be polled.
func (s *Station) checkJournal(ctx context.Context) Checkup {
	c := Checkup{What: "journal", Result: "fail", Do: "check [journal] url; a drain needs it, a cordon does not"}
	if s.Journal == nil {
		c.Detail = s.JournalError.Error()
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second+hearing)
	defer cancel()
	now, err := s.Journal.Now(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	asked := time.Now()
	if err := s.Journal.Writable(ctx); err != nil {
		c.Detail = err.Error()
		if errors.Is(err, journal.ErrReadOnly) {
			c.Do = "point [journal] url at the primary, or make it writable: one can look and cordon, and start no drain"
		}
		return c
	}
	c.Result, c.Detail, c.Do = "ok", s.Journal.Name(), ""
	if skew := asked.Sub(now).Abs(); skew > 2*time.Second {
		c.warn(fmt.Sprintf("its clock and ours differ by %s", skew.Round(time.Second)), "set this machine's clock, or the database's")
	}
	if sharedJournal(s.Config) && s.deaf(ctx) {
		c.warn("it is polled only: notifications do not arrive", "connect past the transaction pooler, or live with a second of delay")
	}
	return c
}

// deaf reports whether notifications of the journal do not arrive here.
func (s *Station) deaf(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, hearing)
	defer cancel()
	_ = s.Journal.Watch(ctx, 0, func([]drain.Event) error {
		<-ctx.Done() // what it reads is of no interest
		return ctx.Err()
	})
	trouble := s.trouble.Load()
	return trouble != nil && errors.Is(*trouble, journal.ErrNoListen)
}

// warn adds something that does not stop a drain.
func (c *Checkup) warn(detail, do string) {
	if c.Result == "ok" {
		c.Result = "warn"
	}
	c.Detail += "; " + detail
	if c.Do != "" {
		do = c.Do + "; " + do
	}
	c.Do = do
}
