package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Stepper drives one drain as Drive does, with the same passes, but does nothing
// by itself: it has no goroutines and no timers. Whoever holds it opens the turn,
// calls for each pass, carries out the acts that a pass returns, and delivers
// their answers, in an order of its own choosing. So a simulation can play every
// order of events again, exactly.
type Stepper struct {
	d     *Driver
	begun []*Begun
}

// Begun is an act whose intent stands in the journal, to be carried out; or, with
// Asks, a question what became of one that somebody else left.
type Begun struct {
	Job  drain.Job
	Asks bool
	do   func() (drain.Answer, error)
}

// Do carries it out. With an error nothing is known about the act.
func (b *Begun) Do() (drain.Answer, error) { return b.do() }

// Step takes the host's drain up. No turn is open yet.
func (e *Engine) Step(ctx context.Context, host fleet.HostID, sink func(drain.Event)) (*Stepper, error) {
	d := &Driver{e: e, host: host, answers: make(chan answered), left: make(chan struct{}),
		mine: map[string]bool{}, asked: map[string]time.Time{}}
	if err := d.catchUp(ctx); err != nil {
		return nil, err
	}
	if d.s.Drain == "" || d.s.Undone && !d.s.Resumes() {
		return nil, fmt.Errorf("drive %s: it has no drain", host)
	}
	s := &Stepper{d: d}
	d.sink, d.id = sink, d.s.Drain
	d.hand = func(b *Begun) { s.begun = append(s.begun, b) }
	return s, nil
}

// Open opens a turn: it takes the lease, writes that the turn begins and makes
// the epoch known. It is called again after the lease has lapsed. over is true
// where another driver has ended what there was to drive.
func (s *Stepper) Open(ctx context.Context) (begun []*Begun, over bool, err error) {
	d := s.d
	if err := d.catchUp(ctx); err != nil {
		return nil, false, err
	}
	if d.over() {
		return nil, true, nil
	}
	if err := d.take(ctx); err != nil {
		return nil, false, err
	}
	if err := d.open(ctx); err != nil {
		s.Leave(err)
		return nil, false, err
	}
	return s.take(), false, nil
}

// Pass makes one pass. over means that the turn has come to its end.
func (s *Stepper) Pass(ctx context.Context) (begun []*Begun, wake time.Time, over bool, err error) {
	if s.lapsed() {
		return nil, time.Time{}, false, errLapsed
	}
	wake, err = s.d.pass(ctx)
	return s.take(), wake, err == nil && s.d.finished(), err
}

// lapsed is what the guard of keepLease watches for.
func (s *Stepper) lapsed() bool { return s.d.tenure.left() <= 0 }

// Renew asks for the lease once more, as is due every drain.LeaseRenew.
func (s *Stepper) Renew(ctx context.Context) error {
	if s.lapsed() {
		return errLapsed
	}
	asked := time.Now()
	_, err := s.d.e.cfg.Journal.Renew(ctx, s.d.lease)
	if err == nil {
		s.d.tenure.confirm(asked)
	}
	return lapsed(err)
}

// Deliver hands the answer of an act in. An error ends the turn.
func (s *Stepper) Deliver(b *Begun, answer drain.Answer, err error) error {
	return s.d.heard(answered{b.Job.Act, answer, err})
}

// Leave ends the turn. Acts whose answers were not delivered are left to whoever
// comes next.
func (s *Stepper) Leave(why error) {
	running := s.d.running
	s.d.running = 0
	s.d.leave(why)
	s.d.running = running
}

// State is the drain as this driver knows it, and Epoch that of its turn.
func (s *Stepper) State() drain.State { return s.d.s }

// Epoch is the epoch of the turn.
func (s *Stepper) Epoch() uint64 { return s.d.lease.Epoch }

// Lapsed reports whether an error says that the lease has lapsed: then Drive
// would take the drain anew, once the journal answers.
func Lapsed(err error) bool { return errors.Is(err, errLapsed) }

// take returns what has begun: questions first, by the acts that they are about,
// since those come from a map; then the acts in the order of their intents.
func (s *Stepper) take() []*Begun {
	b := s.begun
	s.begun = nil
	slices.SortStableFunc(b, func(x, y *Begun) int {
		switch {
		case x.Asks && y.Asks:
			return cmp.Compare(x.Job.Act.ID, y.Job.Act.ID)
		case x.Asks:
			return -1
		case y.Asks:
			return 1
		}
		return 0
	})
	return b
}
