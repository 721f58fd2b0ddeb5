package observe

import (
	"context"
	"time"

	"ebb/fleet"
)

// CordonInput is what decides how far a cordon has taken.
type CordonInput struct {
	Holds      fleet.Holds
	Host       fleet.Host
	SelfClaims bool          // no plane to tell: the host's word suffices
	Window     time.Duration // the scheduler's cache window with its margin
	HostNow    time.Time     // by the host's clock, as Hold.Since is
	// PlaneNow is the plane's clock, as Host.DrainAt is; zero where nobody can read
	// it. Then only Watched counts: for how long the flag has been seen standing, by
	// this process.
	PlaneNow time.Time
	Watched  time.Duration
	// Eligible is the scheduler's own view, where it can be read.
	Eligible fleet.Reading[bool]
}

// CordonOf says how far a cordon has taken. Until the scheduler's cache window
// has passed since the later of hold and flag, it may still place work from a
// stale view, so the cordon is not proved yet; and where its view can be read,
// it must have arrived there too.
//
// Each side's age is told by its own clock: two clocks that differ by an hour
// neither prove a cordon early nor keep it from being proved.
func CordonOf(in CordonInput) fleet.CordonState {
	host, plane := in.Holds.Any(), in.Host.Draining || in.SelfClaims
	switch {
	case !host && !in.Host.Draining:
		return fleet.Uncordoned
	case !host:
		return fleet.PlaneOnly
	case !plane:
		return fleet.HostOnly
	case in.SelfClaims:
		return fleet.Cordoned
	}
	if min(in.HostNow.Sub(firstSince(in.Holds)), in.flagAge()) < in.Window {
		return fleet.Cordoning
	}
	if eligible, known := in.Eligible.Get(); known && eligible {
		return fleet.Cordoning
	}
	return fleet.Cordoned
}

// flagAge is for how long the plane's flag has stood, at the least.
func (in CordonInput) flagAge() time.Duration {
	if in.PlaneNow.IsZero() || in.Host.DrainAt.IsZero() {
		return in.Watched
	}
	return max(in.Watched, in.PlaneNow.Sub(in.Host.DrainAt))
}

func firstSince(h fleet.Holds) time.Time {
	switch {
	case h.Cordon == nil:
		return h.Drain.Since
	case h.Drain == nil || h.Cordon.Since.Before(h.Drain.Since):
		return h.Cordon.Since
	}
	return h.Drain.Since
}

// Clocked is a plane whose clock can be read.
type Clocked interface {
	Now(ctx context.Context) (time.Time, error)
}

// planeClock is how far a plane's clock is ahead of ours.
type planeClock struct {
	ahead time.Duration
	known bool
}

func readClock(ctx context.Context, plane Plane) planeClock {
	c, can := plane.(Clocked)
	if !can {
		return planeClock{}
	}
	now, err := c.Now(ctx)
	if err != nil {
		return planeClock{}
	}
	// The answer was made a moment ago: that makes its clock seem to be behind, and
	// a flag younger than it is.
	return planeClock{ahead: time.Until(now), known: true}
}

func (c planeClock) now() time.Time {
	if !c.known {
		return time.Time{}
	}
	return time.Now().Add(c.ahead)
}

// sighting is a flag and since when it has been seen standing.
type sighting struct{ at, since time.Time }

// watched is for how long the very flag that a host has now has been seen. It is
// called with the lock held.
func (o *Observer) watched(h fleet.Host) time.Duration {
	if !h.Draining {
		delete(o.flags, h.ID)
		return 0
	}
	s, ok := o.flags[h.ID]
	if !ok || !s.at.Equal(h.DrainAt) {
		s = sighting{at: h.DrainAt, since: time.Now()}
		o.flags[h.ID] = s
	}
	return time.Since(s.since)
}

// cordonOf judges an entry by what is known of it. It is called with the lock
// held.
func (o *Observer) cordonOf(e *entry, eligible fleet.Reading[bool]) fleet.CordonState {
	holds, _, ok := e.view.Holds()
	if !ok {
		return e.view.Cordon
	}
	return CordonOf(CordonInput{Holds: holds, Host: e.view.Host, SelfClaims: e.view.SelfClaims, Window: o.window(e.view.Host.ID),
		HostNow: hostNow(e.view), PlaneNow: e.clock.now(), Watched: o.watched(e.view.Host), Eligible: eligible})
}

// readFlag reads the plane's flag and the scheduler's view back.
func readFlag(ctx context.Context, plane Plane, e *entry) fleet.Reading[bool] {
	ctx, cancel := context.WithTimeout(ctx, planeTimeout)
	defer cancel()
	el, can := plane.(Eligibler)
	if !can || e.view.SelfClaims {
		return fleet.Reading[bool]{}
	}
	read, err := el.Eligible(ctx, e.view.Host.ID)
	if err != nil {
		return fleet.Reading[bool]{}
	}
	h := &e.view.Host
	h.Draining, h.DrainWhy, h.DrainWho, h.DrainAt = read.Flag.Set, read.Flag.Why, read.Flag.Who, read.Flag.At
	return read.Eligible
}

// hostNow is the host's clock at its last word, moved on by the time since the
// answer came: on a slow link it is late, and a hold seems younger than it is.
func hostNow(v fleet.HostView) time.Time {
	if f, ok := v.Facts.Get(); ok {
		return f.At.Add(time.Since(v.Facts.At.Add(v.Facts.Took)))
	}
	if s, ok := v.Summary.Get(); ok {
		return s.HostNow().Add(time.Since(v.Summary.At.Add(v.Summary.Took)))
	}
	return time.Now()
}
