package engine

import (
	"context"
	"time"

	"ebb/drain"
)

// past is what a stream and the leases tell about who drove a drain before.
type past struct {
	drain string    // that the times below are of
	drove time.Time // last sign of a driver
	spoke time.Time // when a person last said that it is to go on
}

// note takes one event in.
func (p *past) note(ev drain.Event) {
	if ev.Drain == "" {
		return
	}
	if ev.Drain != p.drain {
		*p = past{drain: ev.Drain}
	}
	if ev.Kind.IsDrive() {
		p.drove = later(p.drove, ev.At)
		return
	}
	body, err := ev.Decode()
	if err != nil {
		return
	}
	switch b := body.(type) {
	case drain.AskStart, drain.AskExtend:
		p.spoke = later(p.spoke, ev.At)
	case drain.AskRetry:
		if b.Key.IsZero() {
			p.spoke = later(p.spoke, ev.At)
		}
	}
}

// asked adds the last renewal of a lease that was never given back.
func (p *past) asked(ctx context.Context, d *Driver) {
	if p.drain != d.s.Drain || p.drove.IsZero() {
		return // nobody has driven it
	}
	leases, err := d.e.cfg.Journal.Leases(ctx)
	if err != nil {
		return // the last event of a driver stands for it
	}
	for _, l := range leases {
		if l.Drain == p.drain {
			p.drove = later(p.drove, l.Until.Add(-drain.LeaseTTL))
		}
	}
}

// gap is for how long nobody has driven the drain; zero where nobody ever has.
func (p *past) gap(s drain.State, now time.Time) time.Duration {
	if s.Epoch == 0 || p.drain != s.Drain || p.drove.IsZero() {
		return 0
	}
	return now.Sub(p.drove)
}

// alone is for how long, in addition, no person has said that it is to go on.
func (p *past) alone(s drain.State, now time.Time) time.Duration {
	return now.Sub(later(p.drove, p.spoke))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
