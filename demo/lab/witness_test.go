//go:build linux

package lab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"ebb/demo/lab"
	"ebb/drain"
	"ebb/drain/journal"
	"ebb/fleet"
)

// witness reads the journal as it is written, from a connection of its own, so
// that a test can strike at an exact event.
type witness struct {
	*bench
	mu     sync.Mutex
	events []drain.Event
	more   chan struct{} // closed, and replaced, when there are more events
	pos    int           // how far moments have been looked for
}

// watch starts a witness of the lab's journal.
func (b *bench) watch() *witness {
	b.Helper()
	j, err := journal.Open(b.ctx, b.Journal)
	b.must(err)
	w := &witness{bench: b, more: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.ctx)
	var read sync.WaitGroup
	read.Go(func() {
		err := j.Watch(ctx, 0, func(evs []drain.Event) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, evs...)
			close(w.more)
			w.more = make(chan struct{})
			return nil
		})
		if ctx.Err() == nil {
			b.Errorf("the witness of the journal: %v", err)
		}
	})
	b.Cleanup(func() { cancel(); read.Wait(); j.Close() })
	return w
}

// moment picks an event.
type moment func(host string, ev drain.Event, body drain.Body) bool

func body[B drain.Body](holds func(B) bool) moment {
	return func(_ string, _ drain.Event, body drain.Body) bool {
		b, ok := body.(B)
		return ok && holds(b)
	}
}

// intends is the moment at which an act of a step is on record and not done.
func intends(kind drain.ActKind, step drain.Step) moment {
	return body(func(b drain.DriveIntent) bool { return b.Act.Kind == kind && b.Act.Step == step })
}

// enters is the moment at which a drain comes to a phase.
func enters(p drain.Phase) moment {
	return body(func(b drain.DrivePhase) bool { return b.Phase == p })
}

// sees waits for the next event that is the moment, after the one before.
func (w *witness) sees(host, what string, is moment) drain.Event {
	w.Helper()
	w.Logf("waiting for %s", what)
	for end := time.After(3 * time.Minute); ; {
		w.mu.Lock()
		for w.pos < len(w.events) {
			ev := w.events[w.pos]
			w.pos++
			got, err := ev.Decode()
			if err == nil && ev.Stream == "prod/"+host && is(host, ev, got) {
				w.mu.Unlock()
				return ev
			}
		}
		more := w.more
		w.mu.Unlock()
		select {
		case <-more:
		case <-w.ctx.Done():
			w.Fatalf("%s: %s: %v", host, what, context.Cause(w.ctx))
		case <-end:
			w.Fatalf("%s: %s: not seen; %s", host, what, items(w.state(host)))
		}
	}
}

// stream are the events of a host that have been read so far.
func (w *witness) stream(host string) []drain.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []drain.Event
	for _, ev := range w.events {
		if ev.Stream == "prod/"+host {
			all = append(all, ev)
		}
	}
	return all
}

// state is the fold of them.
func (w *witness) state(host string) (st drain.State) {
	for _, ev := range w.stream(host) {
		if next, err := drain.Apply(st, ev); err == nil {
			st = next
		}
	}
	return st
}

// sound looks, at the end of a drain, for what must never happen: an act done
// twice, a driver who goes on after another has taken over, something lost or
// forgotten, a hold that was lifted.
func (w *witness) sound(host string, others ...string) {
	w.Helper()
	j, err := journal.Open(w.ctx, w.Journal)
	w.must(err)
	defer j.Close()
	all, err := j.Stream(w.ctx, "prod/"+host, 0, 0)
	w.must(err)
	intents := w.acts(all)
	w.named(all)
	deeds := map[string]int{}
	for _, name := range append([]string{host}, others...) {
		w.stillHeld(name)
		list, err := w.Hosts[name].Deeds()
		w.must(err)
		for _, d := range list {
			deeds[d.What+" "+d.Key]++
		}
	}
	for what, n := range deeds {
		verb, key, _ := strings.Cut(what, " ")
		switch {
		case verb == "start" && n > 1:
			w.Errorf("%s was started elsewhere %d times", key, n)
		case verb == "term" && n > intents["term "+key]:
			w.Errorf("%s was sent TERM %d times, for %d intents", key, n, intents["term "+key])
		}
	}
	moves, err := w.Ask(w.ctx, `select coalesce(string_agg(id || ' ' || n, ', '), '') from (select id, count(*) as n from moves group by id having count(*) > 1) m`)
	w.must(err)
	if moves != "" {
		w.Errorf("claims moved more than once: %s", moves)
	}
}

// countMoves has the database count how often each claim moves.
func (b *bench) countMoves() {
	b.Helper()
	for _, text := range []string{
		`create table moves (id text, at timestamptz default clock_timestamp())`,
		`create function moved() returns trigger language plpgsql as 'begin insert into moves values (new.id); return new; end'`,
		`create trigger moved after update on sandboxes for each row when (old.agent_id is distinct from new.agent_id) execute function moved()`,
	} {
		b.must(b.SQL(b.ctx, text))
	}
}

// acts wants each act to be begun once and to end at most once, in turns that
// follow one another. It counts the intents to send TERM.
func (w *witness) acts(all []drain.Event) map[string]int {
	w.Helper()
	begun, ended, terms := map[string]bool{}, map[string]bool{}, map[string]int{}
	var epoch uint64
	for i, ev := range all {
		if ev.Num != uint64(i+1) {
			w.Fatalf("event %d stands at place %d", ev.Num, i+1)
		}
		if ev.Kind.IsDrive() {
			if ev.Epoch < epoch {
				w.Errorf("event %d, %s, is of epoch %d, after one of %d", ev.Num, ev.Kind, ev.Epoch, epoch)
			}
			epoch = ev.Epoch
		}
		got, err := ev.Decode()
		w.must(err)
		switch b := got.(type) {
		case drain.DriveIntent:
			if begun[b.Act.ID] {
				w.Errorf("act %s is begun twice", b.Act.ID)
			}
			begun[b.Act.ID] = true
			if b.Act.Signal == "TERM" {
				terms["term "+b.Act.Key.String()]++
			}
		case drain.DriveOutcome:
			if ended[b.Act] || !begun[b.Act] {
				w.Errorf("act %s ends twice, or before it began", b.Act)
			}
			ended[b.Act] = true
		}
	}
	return terms
}

// named wants nothing to be lost, and everything that is left to be named.
func (w *witness) named(all []drain.Event) {
	w.Helper()
	var st drain.State
	for _, ev := range all {
		if next, err := drain.Apply(st, ev); err == nil {
			st = next
		}
	}
	if !st.Phase.Ended() {
		w.Errorf("the drain is %s", st.Phase)
	}
	if len(st.Open) > 0 {
		w.Errorf("acts without an outcome: %v", st.Open)
	}
	for _, l := range st.Lost {
		w.Errorf("%s is lost: %s", l.Key, l.How)
	}
	left := map[fleet.Key]bool{}
	for _, l := range st.Left {
		left[l.Key] = true
	}
	for k, it := range st.Items {
		if it.Open() && !left[k] {
			w.Errorf("%s is left and not named", k)
		}
	}
}

// stillHeld wants no hold of a host to have been lifted by anybody, by the
// host's own record.
func (w *witness) stillHeld(host string) {
	w.Helper()
	f, err := os.Open(w.Hosts[host].Path("/var/lib/ebb/audit.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return // nobody has changed anything there
	}
	w.must(err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Verb, What, Outcome string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && (strings.HasPrefix(line.Verb, "uncordon") || strings.HasPrefix(line.Verb, "undrain")) {
			w.Errorf("%s: %s %s: %s", host, line.Verb, line.What, line.Outcome)
		}
	}
	w.must(lines.Err())
}

// relay keeps a console at a drain: where one ends by a signal, or finds the
// drain led by somebody else, the next one is started.
type relay struct {
	b    *bench
	host string
	mu   sync.Mutex
	run  *lab.Run
	end  chan lab.Result
	stop func() // starts no other
}

func (b *bench) relay(host string, args ...string) *relay {
	b.Helper()
	r := &relay{b: b, host: host, end: make(chan lab.Result, 1)}
	r.next(args)
	ctx, cancel := context.WithCancel(b.ctx)
	var follow sync.WaitGroup
	follow.Go(func() { r.follow(ctx) })
	r.stop = func() {
		cancel()
		follow.Wait()
	}
	b.Cleanup(func() {
		r.stop()
		_ = r.run.Signal(os.Kill)
		<-r.run.Ended()
	})
	return r
}

func (r *relay) next(args []string) bool {
	run, err := r.b.Begin(append([]string{"drain", r.host}, args...)...)
	if err != nil {
		r.b.Errorf("drain %s: %v", r.host, err)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
	return true
}

func (r *relay) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.run.Ended():
		}
		res := r.run.Wait(ctx)
		led := res.Code == 3 && strings.Contains(res.Err, "ebb board "+r.host)
		if res.Code != -1 && !led {
			r.end <- res
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if !r.next(nil) {
			return
		}
	}
}

// kill ends the console that is there now with SIGKILL.
func (r *relay) kill() {
	r.b.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b.must(r.run.Signal(os.Kill))
}

// wait waits for the drain's end.
func (r *relay) wait() lab.Result {
	r.b.Helper()
	select {
	case res := <-r.end:
		return res
	case <-r.b.ctx.Done():
		r.b.Fatalf("drain %s: %v", r.host, context.Cause(r.b.ctx))
	}
	panic(fmt.Sprintf("drain %s has no end", r.host))
}
