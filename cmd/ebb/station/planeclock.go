package station

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// planeClock tells a database's time, so that how old its flags are does not
// depend on this machine's clock. It asks once a minute, and after a failure
// every ten seconds.
type planeClock struct {
	url string

	mu    sync.Mutex
	ahead time.Duration
	asked time.Time
	err   error
}

func (c *planeClock) Now(ctx context.Context) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := time.Minute
	if c.err != nil {
		again = 10 * time.Second
	}
	if c.asked.IsZero() || time.Since(c.asked) >= again {
		c.ahead, c.err = databaseAhead(ctx, c.url)
		c.asked = time.Now()
	}
	return time.Now().Add(c.ahead), c.err
}

func databaseAhead(ctx context.Context, url string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, errors.New("the plane's clock can't be read") // what pgx says may hold the URL
	}
	defer conn.Close(ctx)
	var now time.Time
	if err := conn.QueryRow(ctx, "select clock_timestamp()", pgx.QueryExecModeSimpleProtocol).Scan(&now); err != nil {
		return 0, err
	}
	return time.Until(now), nil
}

var errNoClock = errors.New("this plane has no clock that can be read")

// Now implements observe.Clocked.
func (p plane) Now(ctx context.Context) (time.Time, error) {
	if p.clock == nil {
		return time.Time{}, errNoClock
	}
	return p.clock(ctx)
}
