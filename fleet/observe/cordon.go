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
	// Eligible is the scheduler's own view, where it can be read.
	Eligible fleet.Reading[bool]
}

// CordonOf says how far a cordon has taken. Until the scheduler's cache window
// has passed since the hold was set, it may still place work from a stale view,
// so the cordon is not proved yet; and where its view can be read, it must have
// arrived there too.
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
	set := in.Host.DrainAt
	if since := firstSince(in.Holds); since.After(set) {
		set = since
	}
	if in.HostNow.Sub(set) < in.Window {
		return fleet.Cordoning
	}
	if eligible, known := in.Eligible.Get(); known && eligible {
		return fleet.Cordoning
	}
	return fleet.Cordoned
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

// cordon reads the plane's flag and the scheduler's view back.
func (o *Observer) cordon(ctx context.Context, plane Plane, e *entry) fleet.CordonState {
	holds, _, ok := e.view.Holds()
	if !ok {
		return fleet.Uncordoned
	}
	in := CordonInput{Holds: holds, Host: e.view.Host, SelfClaims: e.view.SelfClaims, Window: o.window(e.view.Host.ID), HostNow: hostNow(e.view)}
	if el, can := plane.(Eligibler); can && !in.SelfClaims {
		if read, err := el.Eligible(ctx, e.view.Host.ID); err == nil {
			in.Host.Draining, in.Host.DrainAt = read.Flag.Set, read.Flag.At
			e.view.Host.Draining, e.view.Host.DrainWhy, e.view.Host.DrainWho, e.view.Host.DrainAt = read.Flag.Set, read.Flag.Why, read.Flag.Who, read.Flag.At
			in.Eligible = read.Eligible
		}
	}
	return CordonOf(in)
}

// hostNow is the host's clock at its last word, moved on by the time since.
func hostNow(v fleet.HostView) time.Time {
	if f, ok := v.Facts.Get(); ok {
		return f.At.Add(time.Since(v.Facts.At))
	}
	if s, ok := v.Summary.Get(); ok {
		return s.At.Add(time.Since(v.Summary.At))
	}
	return time.Now()
}
