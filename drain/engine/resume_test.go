package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// parker is a lever that parks and resumes for real in the world of these tests:
// what is parked has no process, its state is on the host's disk, and its claim
// says that it rests.
type parker struct{ w *world }

func (p parker) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	return through(ctx, p.w, "lever", j.Act.ID, func() (drain.Answer, error) {
		b := p.w.boxes[j.Source.ID]
		b.mu.Lock()
		defer b.mu.Unlock()
		if had, ok := b.acts[j.Act.ID]; ok {
			return had, nil
		}
		a, err := p.act(b, j)
		if err == nil {
			b.acts[j.Act.ID] = a
			b.ran[j.Act.ID]++
			err = p.w.lands(j.Act.Step)
		}
		return a, err
	})
}

func (p parker) act(b *box, j drain.Job) (drain.Answer, error) {
	k, done := j.Act.Key, drain.Answer{Result: drain.Done}
	phase := map[drain.Step]fleet.Phase{drain.StepPark: fleet.AtRest, drain.StepWake: fleet.Running}[j.Act.Step]
	if j.Act.Op == drain.OpUndo {
		return drain.Answer{}, fmt.Errorf("%s is undone", j.Act.Step)
	}
	switch j.Act.Step {
	case drain.StepPark:
		b.disk[k] = b.procs[k]
		delete(b.procs, k)
	case drain.StepResume:
		old := b.disk[k]
		if old == nil || b.procs[k] != nil {
			return drain.Answer{Result: drain.Refused, Detail: "there is no state, or it runs"}, nil
		}
		n := *old
		n.run = fleet.Run{Boot: b.boot, PID: old.run.PID + 1000, Start: old.run.Start + 1000}
		b.procs[k] = &n
		delete(b.disk, k)
	}
	if phase != "" {
		p.w.plane.mu.Lock()
		c := p.w.plane.claims[k]
		c.Phase = phase
		p.w.plane.claims[k] = c
		p.w.plane.mu.Unlock()
	}
	b.gen++
	return done, nil
}

func (p parker) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	var a drain.Answer
	var known bool
	err := p.w.call(ctx, "lever", "status "+j.Act.ID, func() error {
		b := p.w.boxes[j.Source.ID]
		b.mu.Lock()
		defer b.mu.Unlock()
		a, known = b.acts[j.Act.ID]
		return nil
	})
	return a, known, err
}

// lands lets a test know that a step of a lever has come about, and lose its answer.
func (w *world) lands(s drain.Step) error {
	w.mu.Lock()
	landed := w.landed
	w.mu.Unlock()
	if landed == nil {
		return nil
	}
	return landed(s)
}

// parks makes the engines of a world park what is pausable.
func parks(w *world) func(*engine.Config) {
	return func(c *engine.Config) {
		c.Levers[drain.ActLever], c.Levers[drain.ActRest] = parker{w}, parker{w}
		c.Policy.Levers = map[string]drain.LeverSpec{"x": {Name: "x"}}
		c.Policy.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Pausable, Lever: "x", Park: true}}
	}
}

// parkOn drains the source until all that is left is parked on it.
func parkOn(t *testing.T, w *world) *engine.Engine {
	t.Helper()
	w.add("nb", fleet.Pausable)
	e := w.engine(ann, parks(w))
	start(t, e, time.Hour)
	s, err := beside(t, e, nil).end()
	if err != nil || s.Phase != drain.Parked || !slices.Equal(s.Parked(), []fleet.Key{vm("nb")}) || len(s.Lost) > 0 {
		t.Fatalf("%v, phase %s, parked %v, lost %v", err, s.Phase, s.Parked(), s.Lost)
	}
	return e
}

// reboot starts a host anew: what is on its disk stays.
func (b *box) reboot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.procs)
	b.boot += "'"
	b.gen++
}

// running is what runs on the source, and what its claim says.
func running(w *world, k fleet.Key) (bool, fleet.Phase) {
	b := w.boxes[source]
	b.mu.Lock()
	defer b.mu.Unlock()
	w.plane.mu.Lock()
	defer w.plane.mu.Unlock()
	return b.procs[k] != nil, w.plane.claims[k].Phase
}

// A host is drained, its workload parked, the host rebooted; the gate stays shut;
// and on word, and no sooner, the workload runs there again.
func TestParkRebootResume(t *testing.T) {
	playOnFile(t, func(t *testing.T, w *world) {
		e := parkOn(t, w)
		w.boxes[source].reboot()
		ver, err := e.Verify(t.Context(), source, "test")
		if err != nil || ver.Proof != nil || len(ver.Issues) != 1 || ver.Issues[0].Key != vm("nb") || !ver.Issues[0].Acceptable {
			t.Fatalf("%v, proof %v, %+v", err, ver.Proof, ver.Issues)
		}
		if s, err := beside(t, e, nil).end(); err != nil || s.Phase != drain.Parked {
			t.Fatalf("driven again: %v, %s", err, s.Phase)
		}
		if runs, claimed := running(w, vm("nb")); runs || claimed != fleet.AtRest {
			t.Fatalf("it was resumed without a word: runs %v, claimed %s", runs, claimed)
		}
		keys, err := e.Resume(t.Context(), source, fleet.Key{})
		if err != nil || !slices.Equal(keys, []fleet.Key{vm("nb")}) {
			t.Fatalf("%v, %v", keys, err)
		}
		s, err := beside(t, e, nil).end()
		if it := s.Items[vm("nb")]; err != nil || it.Resumed.By != "ann" || s.Phase != drain.Stopped || len(s.Lost) > 0 {
			t.Fatalf("%v, phase %s, %+v", err, s.Phase, it)
		}
		if runs, claimed := running(w, vm("nb")); !runs || claimed != fleet.Running {
			t.Fatalf("runs %v, claimed %s", runs, claimed)
		}
		w.held()
		var refused *engine.Refused
		if _, err := e.Resume(t.Context(), source, fleet.Key{}); !errors.As(err, &refused) {
			t.Fatalf("once more: %v", err)
		}
	})
}

// A host that was given back is held no more; what was parked there is resumed on
// word, and the next drain begins with nothing of it.
func TestResumeAfterUndrain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e := parkOn(t, w)
		w.boxes[source].reboot()
		for _, lift := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := e.Undrain(ctx, source, false); return err },
			func(ctx context.Context) error { _, err := e.Uncordon(ctx, source, "done", false); return err },
		} {
			if err := lift(t.Context()); err != nil {
				t.Fatal(err)
			}
			if runs, _ := running(w, vm("nb")); runs {
				t.Fatal("a hold was lifted, and it runs")
			}
		}
		if _, err := e.Resume(t.Context(), source, vm("nb")); err != nil {
			t.Fatal(err)
		}
		if s, err := beside(t, e, nil).end(); err != nil || s.Items[vm("nb")].Resumed.IsZero() || s.Resumes() {
			t.Fatalf("%v, %+v", err, s.Items[vm("nb")])
		}
		b := w.boxes[source]
		b.mu.Lock()
		if b.holds.Any() {
			t.Errorf("it is held again: %+v", b.holds)
		}
		b.mu.Unlock()
		if _, err := beside(t, e, nil).end(); err == nil {
			t.Error("there is nothing to drive, and it is driven")
		}
	})
}

// Whoever drives dies, with an answer that is lost, at each step of the way there
// and back; the next one asks before it repeats anything.
func TestParkIsTakenOverAtEveryStep(t *testing.T) {
	for _, step := range []drain.Step{drain.StepSnapshot, drain.StepPark, drain.StepResume, drain.StepClock, drain.StepAnswers, drain.StepWake} {
		play(t, func(t *testing.T, w *world) {
			w.add("nb", fleet.Pausable)
			e := w.engine(ann, parks(w))
			start(t, e, time.Hour)
			dies := step == drain.StepSnapshot || step == drain.StepPark
			if dies {
				w.driveTo(t, step)
			}
			if s, err := beside(t, w.engine(bob, parks(w)), nil).end(); err != nil || s.Phase != drain.Parked {
				t.Fatalf("%s: %v, phase %s", step, err, s.Phase)
			}
			if _, err := e.Resume(t.Context(), source, fleet.Key{}); err != nil {
				t.Fatal(err)
			}
			if !dies {
				w.driveTo(t, step)
			}
			if s, err := beside(t, w.engine(bob, parks(w)), nil).end(); err != nil || s.Items[vm("nb")].Resumed.IsZero() {
				t.Fatalf("%s: %v, %+v", step, err, s.Items[vm("nb")])
			}
			if runs, claimed := running(w, vm("nb")); !runs || claimed != fleet.Running {
				t.Fatalf("%s: runs %v, claimed %s", step, runs, claimed)
			}
			acts := w.boxes[source].acted()
			if again := slices.IndexFunc(acts, func(id string) bool { return strings.HasSuffix(id, "/2") }); again >= 0 && !strings.Contains(acts[again], "/"+string(step)+"/") {
				t.Fatalf("%s: %v", step, acts)
			}
		})
	}
}

// driveTo drives until a step has come about, whose answer is lost with its driver.
func (w *world) driveTo(t *testing.T, step drain.Step) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	w.mu.Lock()
	w.landed = func(s drain.Step) error {
		if s != step {
			return nil
		}
		die()
		return errFault
	}
	w.mu.Unlock()
	if _, err := w.engine(ann, parks(w)).Drive(ctx, source, nil); err == nil {
		t.Fatalf("it did not die at %s", step)
	}
	w.mu.Lock()
	w.landed = nil
	w.mu.Unlock()
	time.Sleep(20 * time.Second)
}
