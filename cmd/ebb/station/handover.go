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
	stays := func(why string) string {
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
