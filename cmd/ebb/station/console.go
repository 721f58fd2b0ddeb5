package station

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ebb/cmd/version"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/tui/feed"
)

// Console feeds an interactive console: it folds the journal and the observer's
// snapshots into frames, and drives the drains that are started on it.
type Console struct {
	*Station
	readOnly bool

	mu      sync.Mutex
	latest  feed.Frame
	changed chan struct{}
	drains  map[fleet.HostID]drain.State
	events  []drain.Event
	words   []drain.Event // left for the next shift
	journal fleet.ProbeStatus
	offset  time.Duration // the journal's clock less ours
	silent  drain.Silent  // drivers that have gone without a word
	driving map[fleet.HostID]*underway
	proofs  map[fleet.HostID]kept

	dirty chan struct{}
	ctx   context.Context // the console's lifetime: drives and retries end with it
	wg    sync.WaitGroup
}

// underway is a drain that this process drives, until it is stopped or ends.
type underway struct {
	stop    context.CancelFunc
	stopped bool
	ended   chan struct{}
}

func (d *underway) end() {
	d.stopped = true
	d.stop()
}

// NewConsole starts feeding; it ends with ctx, and Wait waits for that.
func NewConsole(ctx context.Context, s *Station, readOnly bool) *Console {
	c := &Console{
		Station: s, readOnly: readOnly, ctx: ctx,
		changed: make(chan struct{}), dirty: make(chan struct{}, 1),
		drains: map[fleet.HostID]drain.State{}, driving: map[fleet.HostID]*underway{}, proofs: map[fleet.HostID]kept{},
		journal: fleet.ProbeStatus{Name: "journal"},
	}
	c.wg.Go(func() { c.followJournal(ctx) })
	c.wg.Go(func() { c.publish(ctx) })
	c.wg.Go(func() { c.watchClock(ctx) })
	return c
}

// Wait returns when everything that the console started has ended.
func (c *Console) Wait() { c.wg.Wait() }

// Latest implements feed.Source.
func (c *Console) Latest() (feed.Frame, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest, c.changed
}

// History implements feed.Historian: the whole journal, for a replay.
func (c *Console) History(ctx context.Context) ([]drain.Event, error) {
	if c.Journal == nil {
		return nil, c.JournalError
	}
	return c.Journal.All(ctx, 0, 0)
}

// publish hands out a new frame when snapshot or journal have changed.
func (c *Console) publish(ctx context.Context) {
	for {
		snap, next := c.Observer.Latest()
		c.mu.Lock()
		c.latest = c.frame(snap)
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-next:
		case <-c.dirty:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// frame is called with the lock held.
func (c *Console) frame(snap fleet.Snapshot) feed.Frame {
	f := feed.Frame{
		At: time.Now().Add(c.offset), Made: time.Now(), Snapshot: snap, Drains: maps.Clone(c.drains), Events: slices.Clip(c.events), Words: slices.Clip(c.words),
		Journal: c.journal, Driving: map[fleet.HostID]bool{}, Policy: c.Policy,
		Config: feed.Config{Operator: c.Actor.Name, ReadOnly: c.readOnly, Version: version.Version, Terminator: c.terminatorText(), Demo: c.Demo},
	}
	for h := range c.driving {
		f.Driving[h] = true
	}
	for h, s := range f.Drains {
		if s.Driver != "" {
			f.Drains[h] = c.silent.Of(s)
		}
	}
	return f
}

func (c *Console) terminatorText() string {
	t := c.Station.Config.Terminate
	if t.Type == "command" {
		return strings.Join(t.Run, " ")
	}
	if t.Type == "poweroff" && c.Demo > 0 {
		return t.Type + ", which on a demo host ends its agent, and no real machine"
	}
	return t.Type
}

// followJournal folds everything the journal has, and then what is added. It
// tries again for as long as the console is open.
func (c *Console) followJournal(ctx context.Context) {
	if c.Journal == nil {
		c.journalState(c.JournalError)
		return
	}
	var after uint64
	for ctx.Err() == nil {
		err := c.Journal.Watch(ctx, after, func(events []drain.Event) error {
			after = events[len(events)-1].Seq
			c.fold(events)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		c.journalState(err)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

func (c *Console) fold(events []drain.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ev := range events {
		host := fleet.HostID(ev.Stream)
		next, err := c.Trust.Apply(c.drains[host], ev)
		if err != nil {
			c.log.Warn("event passed over", "seq", ev.Seq, "error", err)
		}
		c.drains[host] = next
		if ev.Kind == (drain.AskHandover{}).Kind() && c.Trust.Check(ev) == nil {
			c.words = append(c.words, ev)
			c.yield(host, ev)
		}
	}
	c.events = append(c.events, events...)
	if extra := len(c.events) - feed.EventsKept; extra > 0 {
		c.events = slices.Clone(c.events[extra:])
	}
	if extra := len(c.words) - feed.WordsKept; extra > 0 {
		c.words = slices.Clone(c.words[extra:])
	}
	c.journal = fleet.ProbeStatus{Name: "journal", Status: fleet.OK, Source: c.Journal.Name(), At: time.Now()}
	c.poke()
}

func (c *Console) journalState(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal.Status = fleet.Failed
	if err != nil {
		c.journal.Error = err.Error()
	}
	c.poke()
}

// watchClock keeps the offset to the journal's clock and the journal's
// freshness, for countdowns that agree between consoles.
func (c *Console) watchClock(ctx context.Context) {
	for {
		if c.Journal != nil {
			rctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			now, err := c.Journal.Now(rctx)
			silent, unread := c.Silent(rctx)
			cancel()
			if err != nil && ctx.Err() == nil {
				c.journalState(err)
			} else if err == nil {
				c.mu.Lock()
				c.offset = time.Until(now)
				if unread == nil {
					c.silent = silent
				}
				c.journal = fleet.ProbeStatus{Name: "journal", Status: fleet.OK, Source: c.Journal.Name(), At: time.Now()}
				c.poke()
				c.mu.Unlock()
				c.unspool(ctx)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
	}
}

func (c *Console) poke() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// refusal carries an engine's refusal to the screens.
type refusal struct{ *engine.Refused }

// Reasons implements feed.Refusal.
func (r refusal) Reasons() []fleet.Issue { return r.Issues }

// shown makes an error fit for a screen: a refusal keeps its reasons, and a hint
// stands behind the text.
func shown(err error) error {
	var r *engine.Refused
	if errors.As(err, &r) {
		return refusal{r}
	}
	if hint := hintOf(err); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}
