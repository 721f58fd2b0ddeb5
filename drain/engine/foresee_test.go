package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// seer is a lever that is asked beforehand, and answers as its workload is named.
type seer struct {
	engine.Lever
	mu   sync.Mutex
	jobs []drain.Job
}

func (s *seer) Foresee(ctx context.Context, j drain.Job) (drain.Answer, error) {
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	s.mu.Unlock()
	switch j.Act.Key.ID {
	case "yes":
		return drain.Answer{Result: drain.Done, Progress: "2 GB"}, nil
	case "no":
		return drain.Answer{Result: drain.Refused, Detail: "no quota"}, nil
	}
	<-ctx.Done()
	return drain.Answer{}, context.Cause(ctx)
}

func TestPlanAsksLevers(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		s := &seer{}
		e := w.engine(ann, func(c *engine.Config) {
			c.Levers[drain.ActLever] = s
			c.Policy.Levers = map[string]drain.LeverSpec{"x": {Name: "x"}}
			c.Policy.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Pausable, Lever: "x"}}
		})
		w.add("yes", fleet.Pausable)
		w.add("no", fleet.Pausable)
		began := time.Now()
		p, err := e.Plan(t.Context(), source, engine.Request{Deadline: time.Hour, For: fleet.ForKernel})
		if err != nil {
			t.Fatal(err)
		}
		codes := map[string]string{}
		for _, it := range p.Items {
			codes[it.Key.ID] = it.Reason.Code
		}
		if codes["yes"] != "" || codes["no"] != drain.WaitLeverRefuses || p.Stay != 1 || time.Since(began) != 0 {
			t.Fatalf("%v, %d stay", codes, p.Stay)
		}
		if j := s.jobs[0]; j.Act.Op != drain.OpPlan || j.Act.Target != target || j.For != fleet.ForKernel || j.Source.ID != source {
			t.Errorf("asked %+v", j)
		}

		// Forty that never answer keep nobody waiting, and each is named.
		for i := range 40 {
			w.add(fmt.Sprint("mute-", i), fleet.Pausable)
		}
		began = time.Now()
		if p, err = e.Plan(t.Context(), source, engine.Request{Deadline: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 15*time.Second || p.Stay != 41 {
			t.Fatalf("%d stay, after %s", p.Stay, took)
		}
		if n := w.count("drive.intent") + len(w.boxes[target].acted()); n != 0 {
			t.Errorf("a plan has done %d things", n)
		}
	})
}

// A drain of the host on which the journal lies is refused before anything is
// written, by whichever verb it is asked for.
func TestTheJournalsHostIsNotDrained(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		e := w.engine(ann, func(c *engine.Config) { c.JournalHost = source.Name() + ".internal" })
		w.add("a", fleet.Stuck)
		r := engine.Request{Deadline: time.Hour}
		p, err := e.Plan(t.Context(), source, r)
		if err != nil || p.Refused == "" || len(p.Items) != 1 {
			t.Fatalf("%+v %v", p, err)
		}
		var refused *engine.Refused
		if _, _, err := e.Start(t.Context(), source, r, p); !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if n := len(w.events()); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}
