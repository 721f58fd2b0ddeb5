package station

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// Resident drives whatever has no driver, for as long as the process lives. As
// many of them as wanted may run: a drain's lease lets one drive it.
type Resident struct {
	*Station
	// Say is told, in one line, what begins and ends; it may be nil.
	Say func(string)

	mu      sync.Mutex
	states  map[fleet.HostID]drain.State
	driving map[fleet.HostID]bool
	notYet  map[fleet.HostID]time.Time // after a drive that failed: not before
	wg      sync.WaitGroup
}

// residentPoll is how often a resident looks for drains whose driver has ended
// without a word: their lease runs out, and no event says so.
const residentPoll = 2 * time.Second

// NewResident makes a resident of a station whose journal is open.
func NewResident(s *Station) *Resident {
	return &Resident{Station: s, states: map[fleet.HostID]drain.State{}, driving: map[fleet.HostID]bool{}, notYet: map[fleet.HostID]time.Time{}}
}

// Run drives until the context ends; then every drive is released.
func (r *Resident) Run(ctx context.Context) error {
	defer r.wg.Wait()
	changed := make(chan struct{}, 1)
	r.wg.Go(func() { r.follow(ctx, changed) })
	presence, err := r.announce(ctx)
	if err != nil {
		return err
	}
	defer r.withdraw(presence)
	tick := time.NewTicker(residentPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
			if next, err := r.Journal.Renew(ctx, presence); err == nil {
				presence = next
			} else if ctx.Err() == nil {
				r.log.Warn("resident's presence not renewed", "error", err)
				if again, err := r.announce(ctx); err == nil {
					presence = again
				}
			}
		}
		r.takeUp(ctx)
	}
}

// announce makes the resident known to consoles: as a lease of its own, which
// runs out by itself when the process ends.
func (r *Resident) announce(ctx context.Context) (drain.Lease, error) {
	l, err := r.Journal.Acquire(ctx, residentPrefix+r.Holder, r.Holder, 0)
	if err != nil {
		return l, fmt.Errorf("announce this resident: %w", err)
	}
	return l, nil
}

func (r *Resident) withdraw(l drain.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = r.Journal.Release(ctx, l)
}

const residentPrefix = "resident/"

// Residents lists the residents that are there now.
func (s *Station) Residents(ctx context.Context) ([]string, error) {
	leases, err := s.Journal.Leases(ctx)
	if err != nil {
		return nil, err
	}
	now, err := s.Journal.Now(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range leases {
		if len(l.Drain) > len(residentPrefix) && l.Drain[:len(residentPrefix)] == residentPrefix && l.Until.After(now) {
			out = append(out, l.Holder)
		}
	}
	return out, nil
}

// follow folds the journal, and tells when something was added.
func (r *Resident) follow(ctx context.Context, changed chan<- struct{}) {
	var after uint64
	for ctx.Err() == nil {
		err := r.Journal.Watch(ctx, after, func(events []drain.Event) error {
			after = events[len(events)-1].Seq
			r.fold(ctx, events)
			select {
			case changed <- struct{}{}:
			default:
			}
			return nil
		})
		if ctx.Err() == nil {
			r.log.Warn("journal", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

func (r *Resident) fold(ctx context.Context, events []drain.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range events {
		host := fleet.HostID(ev.Stream)
		next, err := r.Trust.Apply(r.states[host], ev)
		if err != nil {
			r.log.Warn("event passed over", "seq", ev.Seq, "error", err)
			continue
		}
		r.states[host] = next
		if body, err := ev.Decode(); err == nil {
			if h, ok := body.(drain.AskHandover); ok && h.To == r.Holder && time.Since(ev.At) < time.Minute {
				r.wg.Go(func() { r.reach(ctx, host, ev.Drain) })
			}
		}
	}
}

// reach shows, for somebody who wants to hand a drive over, whether this process
// can act on the host with keys of its own, and journals it.
func (r *Resident) reach(ctx context.Context, host fleet.HostID, drainID string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rec := drain.RecReach{Driver: r.Holder}
	agent, err := r.agents.Agent(ctx, host, engine.RoleOperate)
	if err == nil {
		_, err = agent.Facts(ctx, false)
	}
	if rec.OK = err == nil; err != nil {
		rec.Error = err.Error()
	}
	if err := r.Engine.Ask(ctx, host, drainID, rec); err != nil {
		r.log.Warn("reach not journaled", "host", host, "error", err)
	}
}

// takeUp begins to drive every drain that has work and no driver.
func (r *Resident) takeUp(ctx context.Context) {
	led := r.led(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for host, st := range r.states {
		if !wantsDriver(st) || led[st.Drain] || r.driving[host] || time.Now().Before(r.notYet[host]) {
			continue
		}
		r.driving[host] = true
		r.wg.Go(func() { r.drive(ctx, host, st.Drain) })
	}
}

// wantsDriver reports whether a drain has something to do. One that waits for a
// person is driven too: it observes, and names.
func wantsDriver(st drain.State) bool {
	if st.Drain == "" || st.Undone {
		return st.Resumes()
	}
	if !st.Phase.Ended() || st.Unsettled() {
		return true
	}
	if st.Phase != drain.DeadlineReached {
		return false
	}
	for _, it := range st.Items {
		if it.Open() && it.Escalated != "" {
			return true
		}
	}
	return false
}

// led lists the drains that somebody holds a live lease of.
func (r *Resident) led(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leases, err := r.Journal.Leases(ctx)
	if err != nil {
		return out
	}
	now, err := r.Journal.Now(ctx)
	if err != nil {
		return out
	}
	for _, l := range leases {
		out[l.Drain] = l.Until.After(now)
	}
	return out
}

func (r *Resident) drive(ctx context.Context, host fleet.HostID, id string) {
	r.say("%s: driving drain %s", host, id)
	st, err := r.Engine.Drive(ctx, host, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.driving, host)
	var taken interface{ Held() drain.Lease }
	switch {
	case errors.As(err, &taken), errors.Is(err, drain.ErrLeaseLost):
		r.say("%s: somebody else drives drain %s", host, id)
	case ctx.Err() != nil:
		r.say("%s: released drain %s", host, id)
	case err != nil:
		r.say("%s: drain %s: %v; trying again", host, id, err)
		r.notYet[host] = time.Now().Add(10 * time.Second)
	default:
		r.say("%s: drain %s is %s", host, id, st.Phase)
	}
}

func (r *Resident) say(format string, args ...any) {
	if r.Say != nil {
		r.Say(fmt.Sprintf(format, args...))
	}
}
