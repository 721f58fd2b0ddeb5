package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// An instant at which a driver vanishes: just before or just after an event is
// written. Before an intent nothing has happened, after it nobody knows, before
// the outcome the act has been carried out, and after it everybody knows.
type instant struct {
	name string
	is   func(drain.Body) bool
	late bool // after the event is written
}

// around are both instants of an event.
func around(name string, is func(drain.Body) bool) []instant {
	return []instant{{"before " + name, is, false}, {"after " + name, is, true}}
}

// ofStep are the four instants of a step.
func ofStep(s drain.Step) []instant {
	return slices.Concat(
		around("the intent of "+string(s), func(b drain.Body) bool {
			in, ok := b.(drain.DriveIntent)
			return ok && in.Act.Step == s
		}),
		around("the outcome of "+string(s), func(b drain.Body) bool {
			out, ok := b.(drain.DriveOutcome)
			return ok && strings.Contains(out.Act, "/"+string(s)+"/")
		}))
}

func ofPhase(p drain.Phase) []instant {
	return around("the phase "+string(p), func(b drain.Body) bool {
		ph, ok := b.(drain.DrivePhase)
		return ok && ph.Phase == p
	})
}

func ofKind(k drain.Kind) []instant {
	return around(string(k), func(b drain.Body) bool { return b.Kind() == k })
}

// ways are the strategies, each with a workload that takes it and its steps.
var ways = []struct {
	name  string
	id    string
	class fleet.Class
	what  []func(*proc)
	steps []drain.Step
	kinds []drain.Kind
}{
	{"redeploy", "chat", fleet.Stateless, nil, []drain.Step{drain.StepStart, drain.StepHealth, drain.StepFlip, drain.StepUnready, drain.StepQuiesce, drain.StepTerm},
		[]drain.Kind{"drive.missing", "drive.ended"}},
	{"redeploy by a lever", "shop", fleet.Stateless, nil, drain.WayOf(fleet.Stateless), nil},
	{"snapshot, ship, restore", "nb", fleet.Pausable, nil, drain.WayOf(fleet.Pausable), []drain.Kind{"drive.ended"}},
	{"failover", "pg", fleet.Durable, nil, drain.WayOf(fleet.Durable), nil},
	{"escalate", "old", fleet.Stuck, []func(*proc){stubborn}, []drain.Step{drain.StepNotice, drain.StepTerm, drain.StepTerm2, drain.StepKill}, []drain.Kind{"drive.record"}},
	{"expire", "job", fleet.Ephemeral, nil, nil, []drain.Kind{"drive.found", "drive.waits", "drive.missing", "drive.ended"}},
}

// A driver vanishes at each instant of each strategy and of each phase, and
// another one takes over: no act runs twice, there are never two runnable copies,
// nothing is lost, and the host is emptied.
func TestTakeoverAtEveryInstant(t *testing.T) {
	for _, way := range ways {
		var at []instant
		for _, s := range way.steps {
			at = append(at, ofStep(s)...)
		}
		for _, k := range way.kinds {
			at = append(at, ofKind(k)...)
		}
		if way.name == "expire" {
			at = append(at, ofKind("drive.took")...)
			for _, p := range []drain.Phase{drain.Cordoning, drain.Draining, drain.Verifying, drain.Empty} {
				at = append(at, ofPhase(p)...)
			}
		}
		for _, in := range at {
			t.Run(way.name+", "+in.name, func(t *testing.T) {
				t.Parallel()
				playOnFile(t, func(t *testing.T, w *world) {
					what := slices.Clone(way.what)
					if way.class == fleet.Ephemeral {
						what = append(what, expiresIn(time.Minute))
					}
					w.add(way.id, way.class, what...)
					w.vanish(in, 2*time.Hour)
					time.Sleep(drain.LeaseTTL + time.Second)
					s := drive(t, w.mortal(bob, nil))
					w.whole(s, vm(way.id))
				})
			})
		}
	}
}

// The same where the outer deadline passes before anybody takes over: what is left
// is named, whatever half of a move it is in, and a person's word finishes the
// move or rolls it back.
func TestDeadlineInMidMove(t *testing.T) {
	for _, way := range ways {
		if _, moved := map[fleet.Class]bool{fleet.Pausable: true, fleet.Durable: true}[way.class]; !moved {
			continue
		}
		for _, step := range way.steps {
			for _, in := range ofStep(step)[1:] {
				t.Run(way.name+", "+in.name, func(t *testing.T) {
					t.Parallel()
					playOnFile(t, func(t *testing.T, w *world) { w.overdue(in, way.id, way.class) })
				})
			}
		}
	}
}

func (w *world) overdue(in instant, id string, class fleet.Class) {
	w.add(id, class)
	w.vanish(in, 5*time.Minute)
	time.Sleep(6 * time.Minute)
	e := w.mortal(bob, nil)
	s := drive(w.t, e)
	left := slices.ContainsFunc(s.Left, func(l drain.Left) bool { return l.Key == vm(id) && !l.Reason.IsZero() })
	if it := s.Items[vm(id)]; s.Phase != drain.DeadlineReached || it.Open() && !left {
		w.t.Fatalf("phase %s, left %+v, item %+v", s.Phase, s.Left, it)
	}
	if bad := w.moves(); bad != "" {
		w.t.Error(bad)
	}
	if !s.Person {
		w.t.Error("nobody is asked, past the deadline and after a gap")
	}
	w.say(w.t, s.Drain, "retry")
	s = drive(w.t, e)
	c, b := w.copies[vm(id)], w.boxes[source]
	b.mu.Lock()
	here := b.procs[vm(id)] != nil
	b.mu.Unlock()
	if c.here(here) == c.there() || s.Unsettled() || len(s.Open) > 0 || len(s.Lost) > 0 {
		w.t.Errorf("it runs here: %v, there: %v; open %v, lost %v, item %+v", c.here(here), c.there(), s.Open, s.Lost, s.Items[vm(id)])
	}
	if bad := w.moves(); bad != "" {
		w.t.Error(bad)
	}
	w.held()
}

// mortal is an engine whose process may vanish: from then on nothing that it
// calls is heard. dead is nil for one that does not.
func (w *world) mortal(who drain.Actor, in *instant) *engine.Engine {
	return w.engine(who, w.serving, withMover(w), func(c *engine.Config) {
		if in == nil {
			c.Journal = &faulty{w.open(), w}
			return
		}
		dead := w.dead
		c.Journal = &mortal{mute{faulty: &faulty{w.log, w}, dead: dead}, *in}
		c.Levers = maps.Clone(c.Levers)
		for kind, l := range c.Levers {
			c.Levers[kind] = &ghost{l, dead}
		}
	})
}

// serving gives the chat a server's end: it takes no traffic, and then has none.
func (w *world) serving(c *engine.Config) {
	c.Policy.Rules = append(slices.Clone(c.Policy.Rules), fleet.ClassRule{Name: "chat", Match: fleet.RuleMatch{ID: "chat"}, Class: fleet.Stateless, Readiness: "unready",
		InFlight: &fleet.InFlight{URL: "http://127.0.0.1:8000/metrics", Gauge: []string{"running"}, Window: 10 * time.Second}})
}

// vanish starts a drain and lets its driver vanish at an instant.
func (w *world) vanish(in instant, deadline time.Duration) {
	w.t.Helper()
	w.dead = make(chan struct{})
	e := w.mortal(ann, &in)
	start(w.t, e, deadline)
	d := beside(w.t, e, nil)
	select {
	case <-w.dead:
	case <-d.done:
		w.t.Fatalf("the drive ended without it: %v, %s, %+v", d.err, d.s.Phase, d.s.Items)
	}
	d.stop()
	_, _ = d.end()
}

// whole wants an end without a trace of the takeover.
func (w *world) whole(s drain.State, k fleet.Key) {
	w.t.Helper()
	it := s.Items[k]
	if s.Phase != drain.Empty || len(s.Open) > 0 || len(s.Lost) > 0 || it.End != drain.LeftHost {
		w.t.Fatalf("phase %s, open %v, lost %v, item %+v", s.Phase, s.Open, s.Lost, it)
	}
	w.plane.mu.Lock()
	c := w.plane.claims[k]
	w.plane.mu.Unlock()
	moved := it.Class != fleet.Stuck && it.Class != fleet.Ephemeral
	if moved != (c.Host == target && c.Phase == fleet.Running) {
		w.t.Errorf("it is claimed %s on %s", c.Phase, c.Host)
	}
	if n := copies(w); n > 1 {
		w.t.Errorf("%d replacements", n)
	}
	for _, bad := range []string{w.judge(), w.moves()} {
		if bad != "" {
			w.t.Error(bad)
		}
	}
	w.held()
}

// mortal is the journal of a process that vanishes at an instant.
type mortal struct {
	mute
	in instant
}

func (m *mortal) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	hit := slices.ContainsFunc(b.Events, func(ev drain.Event) bool {
		body, err := ev.Decode()
		return err == nil && m.in.is(body)
	})
	if hit && !m.in.late {
		close(m.dead)
		return nil, errFault
	}
	out, err := m.mute.Append(ctx, b)
	if hit {
		close(m.dead)
		return nil, fmt.Errorf("%w, after %v", errFault, err)
	}
	return out, err
}

// ghost is a lever that nobody holds any more, once its process has vanished.
type ghost struct {
	engine.Lever
	dead chan struct{}
}

func (g *ghost) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	select {
	case <-g.dead:
		return drain.Answer{}, errFault
	default:
		return g.Lever.Do(ctx, j)
	}
}
