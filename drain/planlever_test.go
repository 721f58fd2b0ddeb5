package drain

import (
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

// leverPlan is a plan with one workload for each name, all moved by a lever.
func leverPlan(names ...string) Plan {
	p := Plan{Host: "prod/h1", Made: noon, Deadline: noon.Add(time.Hour), For: fleet.ForKernel}
	for _, n := range names {
		p.Items = append(p.Items, PlanItem{Found: Found{Key: wk(n), Class: fleet.Pausable, Lever: "nb"}, Steps: []Step{StepSnapshot, StepRestore}, Target: "prod/t1", GoneBy: noon.Add(10 * time.Minute)})
	}
	p.count()
	return p
}

func TestPlanTold(t *testing.T) {
	values := fleet.Because(WaitIncompatible, "what", "engine", "has", "1.4", "wants", "1.5", "secret", "x")
	for name, c := range map[string]struct {
		word LeverWord
		want fleet.Reason
	}{
		"done":            {LeverWord{Answer: Answer{Result: Done, Progress: "7.9 GB"}}, fleet.Reason{}},
		"refused":         {LeverWord{Answer: Answer{Result: Refused, Detail: "no quota"}}, fleet.Because(WaitLeverRefuses, "lever", "nb", "step", "snapshot", "detail", "no quota")},
		"refused in code": {LeverWord{Answer: Answer{Result: Refused, Reason: fleet.Because("quota", "has", "1", "wants", "2")}}, fleet.Because(WaitLeverRefuses, "lever", "nb", "step", "snapshot", "detail", "quota has 1 wants 2")},
		"failed":          {LeverWord{Answer: Answer{Result: FailedAct, Detail: "no store"}}, fleet.Because(WaitLeverRefuses, "lever", "nb", "step", "snapshot", "detail", "no store")},
		"waits":           {LeverWord{Answer: Answer{Result: WaitAct, Detail: "a backup runs"}}, fleet.Because(WaitLeverWaits, "lever", "nb", "step", "snapshot", "detail", "a backup runs")},
		"both values":     {LeverWord{Answer: Answer{Result: Refused, Reason: values}}, fleet.Because(WaitIncompatible, "what", "engine", "has", "1.4", "wants", "1.5", "host", "t1")},
		"no room, later":  {LeverWord{Answer: Answer{Result: WaitAct, Reason: fleet.Because(WaitNoRoom, "what", "disk", "has", "1", "wants", "2", "host", "t9")}}, fleet.Because(WaitNoRoom, "what", "disk", "has", "1", "wants", "2", "host", "t9")},
		"running":         {LeverWord{Answer: Answer{Result: RunningAct}}, fleet.Because(WaitLeverSilent, "lever", "nb", "step", "snapshot", "detail", "it answers running to plan")},
		"silent":          {LeverWord{Silent: "it did not answer in time"}, fleet.Because(WaitLeverSilent, "lever", "nb", "step", "snapshot", "detail", "it did not answer in time")},
	} {
		before := leverPlan("a", "b")
		p := before.Told(map[fleet.Key]LeverWord{wk("a"): c.word})
		a, b := p.Items[0], p.Items[1]
		if !a.Reason.Equal(c.want) || a.GoneBy.IsZero() == c.want.IsZero() || a.Target != "prod/t1" {
			t.Errorf("%s: %+v gone by %s", name, a.Reason, a.GoneBy)
		}
		stay := 0
		if !c.want.IsZero() {
			stay = 1
		}
		if p.Stay != stay || p.Classes[0].Stay != stay || p.Expected.IsZero() != (stay == 1) || a.Says != c.word.Answer.Progress {
			t.Errorf("%s: %d would stay of %+v, expected %s", name, p.Stay, p.Classes, p.Expected)
		}
		if !b.Reason.IsZero() || b.GoneBy.IsZero() || !before.Items[0].Reason.IsZero() {
			t.Errorf("%s: what was not asked about, or the plan before, has changed", name)
		}
	}
}

func TestPlanQuestions(t *testing.T) {
	p := leverPlan("asked", "no place", "stays", "no lever", "no way")
	p.Items[1].Target = ""
	p.Items[2].Reason = fleet.Because(WaitNoRoom)
	p.Items[3].Lever = ""
	p.Items[4].Steps = nil
	got := p.Questions()
	if len(got) != 1 {
		t.Fatalf("%d questions", len(got))
	}
	j := got[0]
	if a := j.Act; a.Op != OpPlan || a.Key != wk("asked") || a.Step != StepSnapshot || a.Target != "prod/t1" || a.Lever != "nb" || j.Source.ID != "prod/h1" || j.For != fleet.ForKernel || !j.Until.Equal(p.Deadline) {
		t.Errorf("%+v", j)
	}
}

// What a lever does for a stateless workload is asked about as well, and a plan
// counts by class and names what its budget takes past the deadline.
func TestPlanCounts(t *testing.T) {
	w := newWorld(t)
	w.targets = []fleet.HostID{"prod/t1"}
	w.add("s1", fleet.Stateless)
	w.add("s2", fleet.Stateless)
	w.add("k1", fleet.Stuck)
	w.p.Levers = map[string]LeverSpec{"web": {Name: "web", Steps: []Step{StepStart, StepHealth, StepFlip}}}
	w.p.Rules = []fleet.ClassRule{{Match: fleet.RuleMatch{ID: "s*"}, Class: fleet.Stateless, Lever: "web", InFlight: &fleet.InFlight{URL: "http://127.0.0.1:1/"}}}
	p := MakePlan(w.view(), w.p, noon.Add(15*time.Minute), "", noon)
	if len(p.Classes) != 2 || p.Classes[0] != (PlanClass{Class: fleet.Stateless, Total: 2, Dies: 2}) || p.Classes[1] != (PlanClass{Class: fleet.Stuck, Total: 1, Dies: 1}) {
		t.Errorf("%+v", p.Classes)
	}
	if late := p.Late(); len(late) != 2 || late[0].ID != "s1" {
		t.Errorf("late: %v", late)
	}
	q := p.Questions()
	if len(q) != 2 || len(q[0].Act.Steps) != 3 || !strings.Contains(p.Items[0].Strategy, "let it finish") {
		t.Errorf("%+v", q)
	}
}
