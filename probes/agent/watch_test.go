package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ebb/fleet"
	"ebb/probes/wire"
)

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	ok(t, err)
	return string(b)
}

// Whatever happens on the host and to its holds, what a watcher has pieced
// together from changes is what the agent says.
func TestAWatcherSeesWhatTheAgentSays(t *testing.T) {
	r := newRig(t)
	c := r.dial(wire.Operate)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var seen fleet.Facts
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, fleet.Facts{}, func(f fleet.Facts) error {
			mu.Lock()
			defer mu.Unlock()
			seen = f
			return nil
		})
	}()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(rt, "processes")
		fail := rapid.Bool().Draw(rt, "netns fails")
		r.prober.set(func(now time.Time) Readings {
			rd := empty(now)
			for i := range n {
				rd.Processes.Value = append(rd.Processes.Value, fleet.Process{Run: fleet.Run{Boot: testBoot, PID: 100 - i, Start: uint64(n)}})
			}
			if fail {
				rd.Netns = fleet.ReadFailed[[]fleet.Resource]("/run/netns", now, 0, errors.New("hung"))
			}
			return rd
		})
		switch rapid.IntRange(0, 2).Draw(rt, "hold") {
		case 0:
			_, err := c.Cordon(ctx, wire.CordonRequest{Who: "ann"})
			ok(t, err)
		case 1:
			_, err := c.Uncordon(ctx, wire.LiftRequest{Who: "ann"})
			ok(t, err)
		}
		r.clock.advance(time.Second)
		_, err := c.Facts(ctx, true)
		ok(t, err)
		want := r.agent.Facts()
		until(t, "the watcher is there", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen.Generation == want.Generation
		})
		mu.Lock()
		defer mu.Unlock()
		got := seen
		if got.Agent.Role != "operate" {
			rt.Fatalf("the role of the channel is %q", got.Agent.Role)
		}
		got.Agent.Role = ""
		// Times of reading follow with the next change or heartbeat.
		got.At, got.Processes.At, got.Workloads.At, got.Netns.At, got.Dirs.At = want.At, want.Processes.At, want.Workloads.At, want.Netns.At, want.Dirs.At
		got.Loops.At, got.GPUs.At = want.Loops.At, want.GPUs.At
		if jsonOf(t, got) != jsonOf(t, want) {
			rt.Fatalf("seen\n%s\nwant\n%s", jsonOf(t, got), jsonOf(t, want))
		}
	})
	cancel()
	<-done
}

// stuckWriter is a caller that reads nothing for a while.
type stuckWriter struct {
	header http.Header
	mu     sync.Mutex
	lines  []wire.Change
	free   chan struct{}
	wrote  chan struct{}
}

func (w *stuckWriter) Header() http.Header { return w.header }
func (w *stuckWriter) WriteHeader(int)     {}
func (w *stuckWriter) Flush()              {}
func (w *stuckWriter) Write(p []byte) (int, error) {
	var c wire.Change
	if err := json.Unmarshal(p, &c); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.lines = append(w.lines, c)
	w.mu.Unlock()
	w.wrote <- struct{}{}
	<-w.free
	return len(p), nil
}

func TestASlowReaderGetsTheLatestAndHoldsUpNobody(t *testing.T) {
	r := newRig(t)
	_, err := r.dial(wire.Observe).Facts(t.Context(), true)
	ok(t, err)
	w := &stuckWriter{header: http.Header{}, free: make(chan struct{}), wrote: make(chan struct{}, 10)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.watch(ctx, w, place{byKey: true}, wire.Observe) }()
	<-w.wrote
	var base = r.agent.Facts()
	for i := range 50 { // fifty generations while the first line is not read
		_, err := r.agent.announce(Caller{Role: wire.Operate}, wire.EpochRequest{Drain: "d1", Epoch: uint64(i + 1)})
		ok(t, err)
		ok(t, r.drain("d1", uint64(i+1)))
	}
	w.free <- struct{}{}
	<-w.wrote
	cancel()
	w.free <- struct{}{}
	<-done
	if len(w.lines) != 2 {
		t.Fatalf("%d lines", len(w.lines))
	}
	got, err := wire.Apply(base, w.lines[1])
	ok(t, err)
	if want := r.agent.Facts(); got.Generation != want.Generation || got.Holds.Drain.Epoch != 50 {
		t.Fatalf("got generation %d, the agent is at %d", got.Generation, want.Generation)
	}
}

func TestAReaderThatIsUpToDateIsNotSentEverything(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Heartbeat = 5 * time.Millisecond })
	_, err := r.dial(wire.Observe).Facts(t.Context(), true)
	ok(t, err)
	f := r.agent.Facts()
	resp := r.http(wire.Observe, "GET", wire.PathWatch+"?since="+jsonOf(t, f.Generation), "")
	dec := json.NewDecoder(resp.Body)
	for range 3 { // the first answer and two heartbeats
		var c wire.Change
		ok(t, dec.Decode(&c))
		if !c.Idle || c.Full != nil || c.Generation != f.Generation || c.Since != f.Generation {
			t.Fatalf("%+v", c)
		}
	}
}

// firstLines reads what a watch begins with, up to the first idle line.
func (r *rig) firstLines(query string) []wire.Change {
	r.t.Helper()
	resp := r.http(wire.Observe, "GET", wire.PathWatch+"?"+query, "")
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	var all []wire.Change
	for {
		var c wire.Change
		ok(r.t, dec.Decode(&c))
		all = append(all, c)
		if c.Idle || c.Full != nil {
			return all
		}
	}
}

// Who was away is told what has changed, and no more; who was away for longer
// than changes are kept, or asks for a life that was another's, is told all.
func TestWhoWasAwayIsToldWhatChanged(t *testing.T) {
	r := newRig(t)
	r.prober.set(housing(60))
	c := r.dial(wire.Observe)
	was, err := c.Facts(t.Context(), true)
	ok(t, err)
	r.cordon()
	r.prober.set(housing(61))
	_, err = c.Facts(t.Context(), true)
	ok(t, err)
	at := fmt.Sprintf("by=key&since=%d&started=%d", was.Generation, was.Agent.Started.UnixNano())
	got := was
	for _, change := range r.firstLines(at) {
		if change.Full != nil {
			t.Fatalf("all of it: %.300s", jsonOf(t, change))
		}
		if p := change.Patch; p != nil && p.WorkloadsBy != nil && len(p.WorkloadsBy.Set) > 1 {
			t.Fatalf("more than has changed: %.300s", jsonOf(t, change))
		}
		got, err = wire.Apply(got, change)
		ok(t, err)
	}
	if want := r.agent.Facts(); wire.Differs(got, want) || got.Generation != want.Generation {
		t.Fatalf("got %.300s\nwant %.300s", jsonOf(t, got), jsonOf(t, want))
	}
	for _, other := range []string{
		fmt.Sprintf("since=%d", was.Generation), // knows no deltas
		fmt.Sprintf("by=key&since=%d&started=1", was.Generation),
		fmt.Sprintf("by=key&since=%d", was.Generation-100),
	} {
		if all := r.firstLines(other); len(all) != 1 || all[0].Full == nil {
			t.Errorf("%s: %.300s", other, jsonOf(t, all))
		}
	}
	for i := range 80 { // whole hosts of changes
		r.prober.set(housing(1 + 60*(i%2)))
		_, err = c.Facts(t.Context(), true)
		ok(t, err)
	}
	if all := r.firstLines(at); len(all) != 1 || all[0].Full == nil {
		t.Errorf("long ago: %.300s", jsonOf(t, all[0]))
	}
	r.agent.store.mu.Lock()
	defer r.agent.store.mu.Unlock()
	if w := r.agent.store.weight; w > pastMax || w <= 0 {
		t.Errorf("changes of weight %d are kept", w)
	}
}

// bubbleProber counts under fake time.
type bubbleProber struct {
	mu      sync.Mutex
	scans   int
	quicks  int
	changed bool
	took    time.Duration
}

func (p *bubbleProber) Scan(ctx context.Context, now time.Time) Readings {
	p.mu.Lock()
	p.scans++
	took := p.took
	p.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
	}
	return empty(now)
}

func (p *bubbleProber) Quick(context.Context) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quicks++
	changed := p.changed
	p.changed = false
	return changed, nil
}

func (p *bubbleProber) counts() (int, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quicks, p.scans
}

// bubbleClock follows the bubble's own time.
type bubbleClock struct{ begun time.Time }

func (bubbleClock) Now() time.Time            { return time.Now() }
func (c bubbleClock) Boottime() time.Duration { return time.Since(c.begun) + time.Hour }

// inBubble runs an agent's scans, and nothing else of it, under fake time.
func inBubble(t *testing.T, f func(t *testing.T, a *Agent, p *bubbleProber)) {
	dir := t.TempDir()
	ok(t, Init(filepath.Join(dir, "state"), testMachine))
	synctest.Test(t, func(t *testing.T) {
		p := &bubbleProber{took: 10 * time.Millisecond}
		a, err := New(Config{Machine: testMachine, Boot: testBoot, StateDir: filepath.Join(dir, "state"), RunDir: dir,
			Prober: p, Clock: bubbleClock{time.Now()}})
		ok(t, err)
		a.work.Go(func() { a.scanLoop(a.life) })
		f(t, a, p)
		a.end()
		a.work.Wait()
		a.close()
	})
}

func TestTwoTiersOfScanning(t *testing.T) {
	inBubble(t, func(t *testing.T, a *Agent, p *bubbleProber) {
		time.Sleep(60*time.Second + 500*time.Millisecond)
		quicks, scans := p.counts()
		if quicks < 59 || quicks > 60 || scans < 12 || scans > 13 {
			t.Fatalf("in a minute %d quick looks and %d scans", quicks, scans)
		}
		p.mu.Lock()
		p.changed = true
		p.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		if _, after := p.counts(); after == scans {
			t.Fatal("a change did not lead to a scan within a second")
		}
	})
}

func TestFreshScansBeginAfterTheCallAndAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, a *Agent, p *bubbleProber) {
		p.mu.Lock()
		p.took = time.Second
		p.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
		_, before := p.counts()
		called := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				f, err := a.fresh(t.Context())
				if err != nil || f.At.Before(called) {
					t.Errorf("scan of %v for a call at %v: %v", f.At, called, err)
				}
			})
		}
		wg.Wait()
		if _, after := p.counts(); after-before > 2 {
			t.Fatalf("%d scans for calls at the same time", after-before)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := a.fresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

// A scan that hangs leaves the readings at their true age: no heartbeat makes
// them look younger.
func TestAHungScanDoesNotLookFresh(t *testing.T) {
	inBubble(t, func(t *testing.T, a *Agent, p *bubbleProber) {
		time.Sleep(7 * time.Second)
		p.mu.Lock()
		p.took = time.Hour
		p.mu.Unlock()
		time.Sleep(time.Minute)
		at := a.Facts().At
		if age := time.Since(at); age < 50*time.Second {
			t.Fatalf("readings look %v old", age)
		}
		pr, pw := io.Pipe()
		defer pr.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.watch(ctx, pipeWriter{pw, http.Header{}}, place{byKey: true}, wire.Observe) }()
		dec := json.NewDecoder(pr)
		var facts fleet.Facts
		for range 4 {
			var c wire.Change
			ok(t, dec.Decode(&c))
			var err error
			facts, err = wire.Apply(facts, c)
			ok(t, err)
		}
		if !facts.Processes.At.Equal(at) {
			t.Fatalf("a heartbeat moved a reading from %v to %v", at, facts.Processes.At)
		}
		cancel()
		pr.Close()
		<-done
	})
}

type pipeWriter struct {
	*io.PipeWriter
	header http.Header
}

func (w pipeWriter) Header() http.Header { return w.header }
func (w pipeWriter) WriteHeader(int)     {}
func (w pipeWriter) Flush()              {}

// Where a scan takes long, scans come less often; a change is seen as soon as ever.
func TestScansOfACrowdedHost(t *testing.T) {
	for took, want := range map[time.Duration]int{10 * time.Millisecond: 12, 35 * time.Millisecond: 8, time.Second: 6} {
		inBubble(t, func(t *testing.T, a *Agent, p *bubbleProber) {
			p.mu.Lock()
			p.took = took
			p.mu.Unlock()
			time.Sleep(10 * time.Second)
			_, before := p.counts()
			time.Sleep(time.Minute)
			_, after := p.counts()
			if n := after - before; n < want-1 || n > want+1 {
				t.Errorf("%d scans a minute of %v each, want about %d", n, took, want)
			}
			p.mu.Lock()
			p.changed = true
			p.mu.Unlock()
			time.Sleep(1100 * time.Millisecond)
			if _, scans := p.counts(); scans == after {
				t.Errorf("scans of %v: a change did not lead to one within a second", took)
			}
		})
	}
}
