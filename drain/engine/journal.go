package engine

import (
	"context"
	"fmt"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// State folds a host's stream: its newest drain.
func (e *Engine) State(ctx context.Context, host fleet.HostID) (drain.State, error) {
	return e.catchUp(ctx, host, drain.State{}, nil)
}

// catchUp folds what the stream has after s and shows each event to sink.
func (e *Engine) catchUp(ctx context.Context, host fleet.HostID, s drain.State, sink func(drain.Event)) (drain.State, error) {
	const page = 500
	for {
		events, err := e.cfg.Journal.Stream(ctx, string(host), s.Num, page)
		if err != nil {
			return s, fmt.Errorf("read the journal of %s: %w", host, err)
		}
		s = e.fold(host, s, events, sink)
		if len(events) < page {
			return s, nil
		}
	}
}

// fold takes in the events that follow s.
func (e *Engine) fold(host fleet.HostID, s drain.State, events []drain.Event, sink func(drain.Event)) drain.State {
	for _, ev := range events {
		next, err := e.cfg.Trust.Apply(s, ev)
		if err != nil {
			e.cfg.Log.Warn("event passed over", "host", host, "num", ev.Num, "error", err)
		}
		s = next
		if sink != nil {
			sink(ev)
		}
	}
	return s
}

// each calls fn for every event of a host's stream that this program knows, and
// returns the number of the last one.
func (e *Engine) each(ctx context.Context, host fleet.HostID, fn func(drain.Event, drain.Body)) (uint64, error) {
	const page = 500
	for after := uint64(0); ; {
		events, err := e.cfg.Journal.Stream(ctx, string(host), after, page)
		if err != nil {
			return after, fmt.Errorf("read the journal of %s: %w", host, err)
		}
		for _, ev := range events {
			after = ev.Num
			if body, err := ev.Decode(); err == nil {
				fn(ev, body)
			}
		}
		if len(events) < page {
			return after, nil
		}
	}
}

// Ask appends an operator's ask to a host's drain.
func (e *Engine) Ask(ctx context.Context, host fleet.HostID, drainID string, ask drain.Body) error {
	return e.append(ctx, host, drainID, 0, nil, nil, ask)
}

// AskOf is Ask for an operator who looks at a drain: what would change nothing, or
// comes too late, is refused with the reason.
func (e *Engine) AskOf(ctx context.Context, s drain.State, ask drain.Body) error {
	if issues := drain.Against(s, ask); len(issues) > 0 {
		return &Refused{Verb: "ask", Host: s.Host, Issues: issues}
	}
	return e.Ask(ctx, s.Host, s.Drain, ask)
}

// record appends a record of a verb and returns why it could not, if so: a
// cordon works without the journal.
func (e *Engine) record(ctx context.Context, host fleet.HostID, b drain.Body) string {
	return e.recordIn(ctx, host, "", b)
}

// recordIn is record for a verb of a drain. What the journal can't take goes
// into the spool, under the id that it would have had.
func (e *Engine) recordIn(ctx context.Context, host fleet.HostID, drainID string, b drain.Body) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	events, err := e.events(host, drainID, 0, b)
	if err == nil {
		_, err = e.put(ctx, drain.Batch{Stream: string(host), Events: events})
	}
	if err == nil {
		return ""
	}
	e.cfg.Log.Error("not journaled", "host", host, "kind", b.Kind(), "error", err)
	if e.cfg.Spool == nil || len(events) == 0 || !spoolable(b) {
		return err.Error()
	}
	if serr := e.cfg.Spool(events[0]); serr != nil {
		e.cfg.Log.Error("not spooled", "host", host, "kind", b.Kind(), "error", serr)
		return fmt.Sprintf("%v; and not kept for later: %v", err, serr)
	}
	return err.Error() + "; kept here until it answers"
}

// spoolable reports whether a record may be appended late. One that a drain's
// state depends on may not: the drain may have gone on by then.
func spoolable(b drain.Body) bool {
	switch b.(type) {
	case drain.RecUndrain, drain.RecTerminateIntent:
		return false
	}
	return true
}

func (e *Engine) append(ctx context.Context, host fleet.HostID, drainID string, epoch uint64, expect *uint64, lease *drain.Lease, bodies ...drain.Body) error {
	events, err := e.events(host, drainID, epoch, bodies...)
	if err == nil {
		_, err = e.put(ctx, drain.Batch{Stream: string(host), Expect: expect, Lease: lease, Events: events})
	}
	return err
}

func (e *Engine) put(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	stored, err := e.cfg.Journal.Append(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("journal %s of %s: %w", b.Events[0].Kind, b.Stream, err)
	}
	return stored, nil
}

func (e *Engine) events(host fleet.HostID, drainID string, epoch uint64, bodies ...drain.Body) ([]drain.Event, error) {
	events := make([]drain.Event, 0, len(bodies))
	for _, b := range bodies {
		ev, err := drain.NewEvent(host, e.cfg.NewID(), drainID, epoch, e.cfg.Actor, b)
		if err != nil {
			return nil, err
		}
		if ev, err = e.cfg.Trust.sign(ev, e.cfg.Signer); err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return events, nil
}
