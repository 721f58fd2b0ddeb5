package station

import (
	"context"
	"sync"

	"ebb/drain"
	"ebb/fleet"
)

// promises folds every stream of the journal, to say what the drains of other
// hosts have chosen before an event of it, whichever process drives them.
type promises struct {
	read  func(ctx context.Context, after uint64) ([]drain.Event, error)
	apply func(drain.State, drain.Event) (drain.State, error)

	mu     sync.Mutex
	after  uint64
	states map[fleet.HostID]drain.State
}

// before is what drains of hosts other than one chose before an event, by what
// the journal says now.
func (p *promises) before(ctx context.Context, except fleet.HostID, seq uint64) (map[fleet.HostID][]fleet.Needs, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	events, err := p.read(ctx, p.after)
	if err != nil {
		return nil, err
	}
	for _, ev := range events {
		host := fleet.HostID(ev.Stream)
		// What does not fold is passed over, as the driver of that host does.
		p.states[host], _ = p.apply(p.states[host], ev)
		p.after = ev.Seq
	}
	sum := map[fleet.HostID][]fleet.Needs{}
	for source, s := range p.states {
		if source == except {
			continue
		}
		for target, needs := range s.Promises(seq) {
			sum[target] = append(sum[target], needs...)
		}
	}
	return sum, nil
}

func (s *Station) promisedBefore() func(context.Context, fleet.HostID, uint64) (map[fleet.HostID][]fleet.Needs, error) {
	p := &promises{apply: s.Trust.Apply, states: map[fleet.HostID]drain.State{},
		read: func(ctx context.Context, after uint64) ([]drain.Event, error) {
			if err := s.NeedJournal(); err != nil {
				return nil, err
			}
			return s.Journal.All(ctx, after, 0)
		}}
	return p.before
}
