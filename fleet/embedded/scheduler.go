package embedded

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ebb/fleet"
)

// DefaultCache is how old a scheduler's view may get.
const DefaultCache = 30 * time.Second

// Admitter asks a host whether it takes work, and tells it how that went. A
// refusal is an answer and not an error: another host is chosen.
type Admitter interface {
	Admit(ctx context.Context, host fleet.HostID, op fleet.Op, key fleet.Key) (ticket string, refusal *Refusal, err error)
	Report(ctx context.Context, host fleet.HostID, ticket, closed string) error
}

// Refusal is a host's 429: the hold that stands in the way, and its reason.
type Refusal struct {
	Hold   *fleet.Hold
	Reason string
}

// Work is what is to be placed.
type Work struct {
	Key    fleet.Key
	Class  fleet.Class
	Owner  string
	TTL    time.Duration
	Labels map[string]string
	// Start starts the work on the host that took it; its admission stays open
	// until then. Nil where somebody else starts it.
	Start func(ctx context.Context, host fleet.HostID) error
}

// Scheduler places work by a view of the hosts that is up to Cache old. It is
// used by pointer; only one should run on a plane.
type Scheduler struct {
	Plane *Plane
	Hosts Admitter
	Cache time.Duration // DefaultCache where it is zero
	Name  string        // who it is to hosts and in what it records

	mu   sync.Mutex
	view []candidate
	at   time.Time // of the view; zero before the first
}

// candidate is a host as the scheduler believes it to be.
type candidate struct {
	id       fleet.HostID
	eligible bool
	load     int
}

// NoRoomError says why no host took a piece of work.
type NoRoomError struct {
	Key   fleet.Key
	Tried []Refused
}

func (e *NoRoomError) Error() string {
	if len(e.Tried) == 0 {
		return fmt.Sprintf("place %s: no host is eligible", e.Key)
	}
	why := make([]string, len(e.Tried))
	for i, r := range e.Tried {
		why[i] = fmt.Sprintf("%s: %s", r.Host, r.Why)
	}
	return fmt.Sprintf("place %s: no host took it: %s", e.Key, strings.Join(why, "; "))
}

// Place finds a host for a piece of work, has it started there, and claims it.
// Hosts are asked in the order of their load, as the view has it. Where a host
// took it and something failed after that, the host is returned with the error.
func (s *Scheduler) Place(ctx context.Context, w Work) (fleet.HostID, error) {
	hosts, err := s.candidates(ctx)
	if err != nil {
		return "", err
	}
	var tried []Refused
	for _, host := range hosts {
		ticket, refusal, err := s.Hosts.Admit(ctx, host, fleet.OpClaim, w.Key)
		if err == nil && refusal == nil {
			return host, s.start(ctx, host, ticket, w)
		}
		r := Refused{At: s.Plane.now(), Host: host, Key: w.Key, Who: s.Name}
		if r.Why = fmt.Sprint(err); refusal != nil {
			r.Why = cmp.Or(refusal.Reason, "refused")
		}
		tried = append(tried, r)
		if err := s.Plane.refuse(ctx, r); err != nil {
			return "", err
		}
	}
	return "", &NoRoomError{Key: w.Key, Tried: tried}
}

// start claims the work before it runs, so that it is never there unclaimed, and
// closes the admission when it is known how that went.
func (s *Scheduler) start(ctx context.Context, host fleet.HostID, ticket string, w Work) error {
	c := fleet.Claim{Key: w.Key, Host: host, Status: "starting", Class: w.Class, Owner: w.Owner, Labels: w.Labels}
	if w.TTL > 0 {
		c.Expires = s.Plane.now().Add(w.TTL)
	}
	err := s.Plane.Put(ctx, c)
	if err == nil && w.Start != nil {
		err = w.Start(ctx, host)
	}
	// The host must not be left with an open admission because the caller gave up.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err != nil {
		gone := s.Plane.End(end, w.Key)
		var missing *MissingError
		if errors.As(gone, &missing) {
			gone = nil
		}
		err = fmt.Errorf("place %s on %s: %w", w.Key, host, err)
		return errors.Join(err, gone, s.Hosts.Report(end, host, ticket, "failed"))
	}
	s.count(host)
	return errors.Join(s.Plane.Wake(end, w.Key, host), s.Hosts.Report(end, host, ticket, "done"))
}

// candidates returns the hosts that the view calls eligible, the emptiest first.
func (s *Scheduler) candidates(ctx context.Context) ([]fleet.HostID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.Plane.now().Sub(s.at)
	if s.at.IsZero() || age >= cmp.Or(s.Cache, DefaultCache) || age < 0 {
		if err := s.refresh(ctx); err != nil {
			return nil, err
		}
	}
	view := slices.Clone(s.view)
	slices.SortStableFunc(view, func(a, b candidate) int { return cmp.Compare(a.load, b.load) })
	var out []fleet.HostID
	for _, c := range view {
		if c.eligible {
			out = append(out, c.id)
		}
	}
	return out, nil
}

// count lets the view know of a placement of its own.
func (s *Scheduler) count(host fleet.HostID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.view {
		if s.view[i].id == host {
			s.view[i].load++
		}
	}
}

// Refresh reads the view anew, whatever its age.
func (s *Scheduler) Refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refresh(ctx)
}

// Run refreshes the view every Cache until ctx ends, as a scheduler does that
// has nothing to place. What goes wrong is reported and tried again.
func (s *Scheduler) Run(ctx context.Context, trouble func(error)) {
	tick := time.NewTicker(cmp.Or(s.Cache, DefaultCache))
	defer tick.Stop()
	for {
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			trouble(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh reads hosts and loads, and publishes the view for Plane.Eligible. The
// old view stays where that fails.
func (s *Scheduler) refresh(ctx context.Context) error {
	at := s.Plane.now() // before reading: the view is at least this old
	hosts, err := s.Plane.Hosts(ctx)
	if err != nil {
		return err
	}
	claims, err := s.Plane.Claims(ctx, nil)
	if err != nil {
		return err
	}
	view := make([]candidate, len(hosts))
	for i, h := range hosts {
		view[i] = candidate{id: h.ID, eligible: !h.Draining}
		for _, c := range claims[h.ID] {
			if c.Phase == fleet.Running {
				view[i].load++
			}
		}
	}
	err = s.Plane.write(ctx, "refresh the scheduler's view", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `delete from scheduler_view`); err != nil {
			return err
		}
		for _, c := range view {
			if _, err := tx.ExecContext(ctx, `insert into scheduler_view (agent_id, eligible, seen_at) values ($1, $2, $3)`,
				c.id.Name(), c.eligible, stamp(at)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.view, s.at = view, at
	}
	return err
}
