package station

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// HandOver ends the drives of this console. Where a resident engine is there and
// shows that it can reach the host without this session's keys, the drive is its
// own from then on; else the drain stays, held, and nobody drives it. The lines
// say which, host by host.
func (c *Console) HandOver(ctx context.Context) []string {
	c.mu.Lock()
	var hosts []fleet.HostID
	for h := range c.driving {
		hosts = append(hosts, h)
	}
	c.mu.Unlock()
	slices.Sort(hosts)
	lines := make([]string, len(hosts))
	done := make(chan struct{})
	for i, h := range hosts {
		go func() {
			lines[i] = c.handOver(ctx, h)
			done <- struct{}{}
		}()
	}
	for range hosts {
		<-done
	}
	c.stopAll()
	return lines
}

func (c *Console) handOver(ctx context.Context, host fleet.HostID) string {
	var s drain.State
	stays := func(why string) string {
		if s.Resumes() {
			return fmt.Sprintf("%s: %s; what was parked is not all resumed: ebb resume %s goes on with that", host.Name(), why, host.Name())
		}
		return fmt.Sprintf("%s: %s; the drain stays and holds it: ebb drain %s takes it up", host.Name(), why, host.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, 12*time.Second)
	defer cancel()
	s, err := c.Engine.State(ctx, host)
	if err != nil {
		return stays(err.Error())
	}
	residents, err := c.Residents(ctx)
	if err != nil {
		return stays(err.Error())
	}
	if len(residents) == 0 {
		return stays("no resident engine is there")
	}
	why := ""
	for _, r := range residents {
		if why = c.reached(ctx, host, s, r); why == "" {
			return fmt.Sprintf("%s: handed over to %s", host.Name(), r)
		}
	}
	return stays(why)
}

// reached asks a resident to show that it can reach the host, and waits for its
// word; it returns why not.
func (c *Console) reached(ctx context.Context, host fleet.HostID, s drain.State, resident string) string {
	if err := c.Engine.Ask(ctx, host, s.Drain, drain.AskHandover{To: resident, Note: "the console is being closed"}); err != nil {
		return err.Error()
	}
	after := s.Num
	for {
		events, err := c.Journal.Stream(ctx, string(host), after, 100)
		if err != nil {
			return err.Error()
		}
		for _, ev := range events {
			after = ev.Num
			body, err := ev.Decode()
			if reach, ok := body.(drain.RecReach); err == nil && ok && reach.Driver == resident {
				if reach.OK {
					return ""
				}
				return resident + " can't reach it: " + reach.Error
			}
		}
		select {
		case <-ctx.Done():
			return resident + " does not answer"
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// takeOver journals that whoever sits at this console takes a drain over, and
// drives it from here once nobody else does. The word is addressed to this
// console by its name as a driver: another console that drives the drain reads
// that, and releases it. A resident engine goes on with what it drives.
func (c *Console) takeOver(ctx context.Context, host fleet.HostID, s drain.State, word drain.AskHandover) error {
	word.To = c.Holder
	if err := c.Engine.Ask(ctx, host, s.Drain, word); err != nil {
		return err
	}
	if s.Phase.Ended() && !s.Unsettled() {
		return nil // nothing is driven
	}
	c.wg.Go(func() {
		limit := time.NewTimer(drain.LeaseTTL + 10*time.Second)
		defer limit.Stop()
		again := time.NewTicker(500 * time.Millisecond)
		defer again.Stop()
		for {
			if st, err := c.Engine.State(c.ctx, host); err == nil && (st.Drain != s.Drain || st.Over() || st.Driver == c.Holder) {
				return
			}
			c.drive(host) // ends at once while another one has it
			select {
			case <-c.ctx.Done():
				return
			case <-limit.C:
				return
			case <-again.C:
			}
		}
	})
	return nil
}

// yield releases a drive that another console has taken over, by its own word and
// under its own name. It is called with the lock held.
func (c *Console) yield(host fleet.HostID, ev drain.Event) {
	body, err := ev.Decode()
	word, ok := body.(drain.AskHandover)
	if err != nil || !ok || word.To == c.Holder || word.To == "" || word.To != ev.By.Console || ev.Drain != c.drains[host].Drain {
		return
	}
	if d, on := c.driving[host]; on {
		c.log.Info("taken over", "host", host, "by", ev.By.Name, "console", word.To)
		d.end()
	}
}
