package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/fleet"
)

// history is what is drawn for one run: everything that happens to it.
type history struct {
	broken   map[int]string
	away     []absence
	procs    []string
	deadline time.Duration
	drivers  []turn
	asks     []ask
}

type absence struct {
	way      string
	at, last time.Duration
}

// turn is a driver that begins at some time and is cancelled at another.
type turn struct {
	who       drain.Actor
	from, end time.Duration
}

type ask struct {
	at   time.Duration
	kind string
}

func drawHistory(t *rapid.T) history {
	h := history{broken: map[int]string{}, deadline: time.Duration(rapid.IntRange(5, 60).Draw(t, "deadline")) * time.Minute}
	minutes := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*60).Draw(t, name)) * time.Second
	}
	for range rapid.IntRange(0, 40).Draw(t, "faults") {
		h.broken[rapid.IntRange(20, 1500).Draw(t, "call")] = rapid.SampledFrom([]string{"fail", "lose"}).Draw(t, "fault")
	}
	for range rapid.IntRange(0, 4).Draw(t, "absences") {
		h.away = append(h.away, absence{rapid.SampledFrom([]string{"journal", "plane", string(source), string(target)}).Draw(t, "way"),
			minutes("at", 40), time.Duration(rapid.SampledFrom([]int{2, 12, 25, 90, 700}).Draw(t, "for")) * time.Second})
	}
	h.procs = rapid.SliceOfN(rapid.SampledFrom([]string{"job", "web", "old", "soft", "db"}), 0, 4).Draw(t, "procs")
	for i := range rapid.IntRange(1, 4).Draw(t, "drivers") {
		from := minutes("from", 30)
		h.drivers = append(h.drivers, turn{[]drain.Actor{ann, bob}[i%2], from, from + minutes("until", 40)})
	}
	for range rapid.IntRange(0, 3).Draw(t, "asks") {
		h.asks = append(h.asks, ask{minutes("asked", 40), rapid.SampledFrom([]string{"stop", "extend", "retry", "handover", "escalate"}).Draw(t, "ask")})
	}
	return h
}

// TestHistories plays random faults at every call, absences, drivers that come
// and go, and asks. Whatever happens: no act runs twice, no two drivers share an
// epoch, no hold is lifted, and a deadline names everything that is left.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		bad := ""
		synctest.Test(t, func(t *testing.T) { bad = h.run(t) })
		if bad != "" {
			rt.Fatal(bad)
		}
	})
}

func (h history) run(t *testing.T) string {
	w := newWorld(t)
	for i, p := range h.procs {
		id := fmt.Sprintf("%s%d", p, i)
		switch p {
		case "job":
			w.add(id, fleet.Ephemeral, expiresIn(10*time.Minute))
		case "web":
			w.add(id, fleet.Stateless)
		case "old":
			w.add(id, fleet.Stuck, stubborn)
		case "soft":
			w.add(id, fleet.Stuck)
		case "db":
			w.add(id, fleet.Durable)
		}
	}
	id := start(t, w.engine(ann), h.deadline)
	w.mu.Lock()
	w.broken = h.broken
	w.mu.Unlock()
	began := time.Now()
	done := make(chan struct{})
	n := 0
	beside := func(fn func()) {
		n++
		go func() { fn(); done <- struct{}{} }()
	}
	for _, a := range h.away {
		beside(func() { time.Sleep(a.at); w.cut(a.way, a.last) })
	}
	for i, d := range h.drivers {
		who := d.who
		who.Console = fmt.Sprintf("%s/%d", who.Console, i)
		beside(func() {
			time.Sleep(d.from)
			ctx, cancel := context.WithDeadline(t.Context(), began.Add(d.end))
			defer cancel()
			_, _ = w.engine(who).Drive(ctx, source, nil)
		})
	}
	for _, a := range h.asks {
		beside(func() { time.Sleep(a.at); w.say(t, id, a.kind) })
	}
	for range n {
		<-done
	}
	if bad := w.judge(); bad != "" {
		return bad
	}
	return w.finish(t, id)
}

// say appends an operator's ask, past all faults.
func (w *world) say(t *testing.T, id, kind string) {
	now, _ := w.log.Now(t.Context())
	var body drain.Body
	switch kind {
	case "stop":
		body = drain.AskStop{}
	case "extend":
		body = drain.AskExtend{Until: now.Add(20 * time.Minute)}
	case "retry":
		body = drain.AskRetry{}
	case "escalate":
		body = drain.AskEscalate{Key: vm("db0"), Run: w.boxes[source].runOf(vm("db0"))}
	default:
		body = drain.AskHandover{Note: "n"}
	}
	ev, _ := drain.NewEvent(source, fmt.Sprintf("ask-%d-%s", time.Now().UnixNano(), kind), id, 0, bob, body)
	_, _ = w.log.Append(t.Context(), drain.Batch{Stream: string(source), Events: []drain.Event{ev}})
}

func (b *box) runOf(k fleet.Key) fleet.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.procs[k]; p != nil {
		return p.run
	}
	return fleet.Run{Boot: b.boot, PID: 1}
}

// judge checks what must hold at any time.
func (w *world) judge() string {
	if bad := w.sound(); bad != "" {
		return bad
	}
	b := w.boxes[source]
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lifted) > 0 || w.plane.lifts > 0 {
		return fmt.Sprintf("lifted: %v, flag %d times", b.lifted, w.plane.lifts)
	}
	var s drain.State
	for _, ev := range w.events() {
		next, err := drain.Apply(s, ev)
		if err != nil && ev.Kind.IsDrive() { // an ask may be refused by the fold
			return "a drive does not fold: " + err.Error()
		}
		s = next
	}
	if s.Proved && (b.holds.Cordon == nil || b.holds.Drain == nil || !w.plane.flags[source].Set) {
		return fmt.Sprintf("a hold is gone: %+v", b.holds)
	}
	if len(s.Lost) > 0 {
		return fmt.Sprintf("lost: %+v", s.Lost)
	}
	named := map[fleet.Key]bool{}
	for _, l := range s.Left {
		named[l.Key] = true
	}
	for k := range b.procs {
		if s.Phase == drain.DeadlineReached && s.First && len(s.Items) > 0 && !named[k] {
			return fmt.Sprintf("%s is left and not named: %+v", k, s.Left)
		}
		if s.Phase == drain.Empty {
			return k.String() + " runs on an empty host"
		}
	}
	if n := w.boxes[target].replicasOver(1); n != "" {
		return n
	}
	return ""
}

func (b *box) replicasOver(most int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, n := range b.replicas {
		if n > most {
			return fmt.Sprintf("%d replacements of %s", n, k)
		}
	}
	return ""
}

// finish lets every fault end: a last driver, with somebody beside it, brings
// the drain to an end of its own.
func (w *world) finish(t *testing.T, id string) string {
	w.mu.Lock()
	w.broken, w.away = map[int]string{}, map[string]time.Time{}
	w.mu.Unlock()
	time.Sleep(drain.LeaseTTL)
	e := w.engine(drain.Actor{Name: "zoe", Console: "last"})
	s, err := e.State(t.Context(), source)
	if err != nil {
		return err.Error()
	}
	if s.Phase == drain.Stopped {
		start(t, e, time.Hour)
	} else if !s.Phase.Ended() {
		w.say(t, id, "retry")
	}
	if s, err = e.Drive(t.Context(), source, nil); err != nil {
		return "the last driver: " + err.Error()
	}
	if !s.Phase.Ended() || len(s.Open) > 0 {
		return fmt.Sprintf("it ended in phase %s with %d open acts", s.Phase, len(s.Open))
	}
	return w.judge()
}
