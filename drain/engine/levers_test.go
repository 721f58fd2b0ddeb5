package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/drain/levers"
	"ebb/fleet"
)

// Levers that lie, hang, fork and flood, as real programs within a drive. These
// tests run in real time: programs know no other.

// moved is a lever whose last step, if it has really been done, ends the workload
// on the source.
type moved struct {
	levers.Programs
	w   *world
	dir string
}

func (m moved) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	a, err := m.Programs.Do(ctx, j)
	if err == nil && a.Result == drain.Done && j.Act.Op == drain.OpDo && j.Act.Step == drain.StepRemove && m.stands(drain.StepRemove) {
		b := m.w.boxes[source]
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leave(j.Act.Key)
	}
	return a, err
}

func (m moved) stands(s drain.Step) bool {
	_, err := os.Stat(filepath.Join(m.dir, "stands", string(s)))
	return err == nil
}

// ended waits until none of the processes is there whose numbers the lever wrote
// into a file.
func (m moved) ended(t *testing.T, file string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(raw)) {
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("it is still there: %s", stat)
			}
		}
	}
}

// levered is a world in real time: its source is cordoned, and has been for long.
func levered(t *testing.T, fault string) (*world, *engine.Engine, moved) {
	t.Helper()
	w := newWorld(t)
	w.add("nb", fleet.Pausable)
	ago := time.Now().Add(-time.Hour)
	w.boxes[source].holds.Cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: "ann", Why: "kernel", Since: ago}
	w.plane.flags[source] = fleet.Flag{Set: true, Who: "ann", At: ago}
	script, err := filepath.Abs("../levers/testdata/lever.sh")
	if err != nil {
		t.Fatal(err)
	}
	m := moved{w: w, dir: t.TempDir()}
	p := levers.Program{Name: "x", Run: []string{"/bin/sh", script, m.dir, fault}, Timeout: time.Minute, Grace: 200 * time.Millisecond}
	if strings.HasPrefix(fault, "restore-") {
		p.Timeout = time.Second // of what never answers
	}
	m.By = map[string]levers.Program{"x": p}
	e := w.engine(ann, func(c *engine.Config) {
		c.Levers[drain.ActLever] = m
		c.Pass = 50 * time.Millisecond
		c.Policy.Levers = map[string]drain.LeverSpec{"x": {Name: "x", Steps: []drain.Step{drain.StepSnapshot, drain.StepRestore, drain.StepRemove}}}
		c.Policy.Rules = []fleet.ClassRule{{Name: "vms", Match: fleet.RuleMatch{Kind: "vm"}, Class: fleet.Pausable, Lever: "x"}}
		c.Policy.Retry, c.Policy.LeverEvery, c.Policy.CacheWindow, c.Policy.Transient = 20*time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 0
	})
	return w, e, m
}

// atDeadline brings the deadline near and returns how the drain stands then.
func atDeadline(t *testing.T, w *world, e *engine.Engine, id string) drain.State {
	t.Helper()
	if err := e.Ask(t.Context(), source, id, drain.AskExtend{Until: time.Now().Add(500 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	s := w.phase(e, drain.DeadlineReached)
	if len(s.Left) == 0 || s.Left[0].Key != vm("nb") || s.Items[vm("nb")].End != "" {
		t.Fatalf("left %+v, item %+v", s.Left, s.Items[vm("nb")])
	}
	return s
}

func TestLeverThatForks(t *testing.T) {
	w, e, m := levered(t, "fork")
	start(t, e, time.Hour)
	beside(t, e, nil)
	s := w.phase(e, drain.Empty)
	if it := s.Items[vm("nb")]; it.End != drain.LeftHost || it.EndBy != "lever" {
		t.Fatalf("%+v", it)
	}
	m.ended(t, "child")
	w.held()
}

// A lever that says that all is done, and has done nothing: what is still there
// is not called gone.
func TestLeverThatLies(t *testing.T) {
	w, e, _ := levered(t, "talk")
	id := start(t, e, time.Hour)
	beside(t, e, nil)
	w.until(e, func(s drain.State) bool { return s.Items[vm("nb")].Reason.Code == drain.WaitLeaving })
	s := atDeadline(t, w, e, id)
	if s.Left[0].Reason.Code != drain.WaitLeaving {
		t.Fatalf("%+v", s.Left)
	}
	w.held()
}

// Levers that hang, deaf to TERM, or that flood, in the middle of the way: they
// are ended, the way is gone back, twice, and a person is asked.
func TestLeverThatHangsOrFloods(t *testing.T) {
	for _, fault := range []string{"restore-hangs", "restore-floods", "restore-noise"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			w, e, m := levered(t, fault)
			id := start(t, e, time.Hour)
			beside(t, e, nil)
			s := w.until(e, func(s drain.State) bool { return s.Items[vm("nb")].Reason.Code == drain.WaitRolledBack })
			if it := s.Items[vm("nb")]; it.Move.Underway() || it.Move.Rounds != 2 {
				t.Fatalf("%+v", it.Move)
			}
			atDeadline(t, w, e, id)
			if m.stands(drain.StepSnapshot) || m.stands(drain.StepRestore) {
				t.Error("something of the move still stands")
			}
			if c := w.plane.claims[vm("nb")]; c.Host != source || c.Phase != fleet.Running {
				t.Errorf("it is claimed %+v", c)
			}
			for _, ev := range w.events() {
				if len(ev.Body) > 16<<10 {
					t.Errorf("%s has %d bytes", ev.Kind, len(ev.Body))
				}
			}
			m.ended(t, "hung")
			w.held()
		})
	}
}

// Its driver's end ends a lever that hangs, and the next driver asks about it.
func TestLeverThatHangsEndsWithItsDriver(t *testing.T) {
	w, e, m := levered(t, "restore-hangs")
	p := m.By["x"]
	p.Timeout = time.Hour
	m.By["x"] = p
	start(t, e, time.Hour)
	d := beside(t, e, nil)
	hung := filepath.Join(m.dir, "hung")
	w.until(e, func(drain.State) bool { _, err := os.Stat(hung); return err == nil })
	d.stop()
	_, _ = d.end()
	m.ended(t, "hung")
	p.Timeout = time.Second
	m.By["x"] = p
	beside(t, e, nil)
	w.until(e, func(s drain.State) bool { return s.Items[vm("nb")].Reason.Code == drain.WaitRolledBack })
	w.held()
}
