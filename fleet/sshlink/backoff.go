package sshlink

import (
	"math/rand/v2"
	"time"
)

// youngDeath is the age below which a connection that ends counts as a failure.
const youngDeath = 10 * time.Second

// backoff is how long a destination is left alone: up to base, 2·base, 4·base …
// and no more than the maximum. The wait is drawn evenly from that whole span, so
// that many consoles that lost one host don't come back in step.
type backoff struct {
	failures int
	err      error
	next     time.Time
}

func (b *backoff) fail(err error, now time.Time, o Options) {
	b.err = err
	b.next = now.Add(rand.N(ceiling(b.failures, o) + 1))
	b.failures++
}

func ceiling(failures int, o Options) time.Duration {
	d := o.BackoffBase
	for range failures {
		if d >= o.BackoffMax/2 {
			return o.BackoffMax
		}
		d *= 2
	}
	return min(d, o.BackoffMax)
}
