package drain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// LeverWord is what came of asking a lever what it would do: its answer, or why
// there is none.
type LeverWord struct {
	Answer Answer
	Silent string
}

// Questions are what a plan leaves for levers to say: one question for each
// workload that a lever is to move and that has a place to go.
func (p Plan) Questions() []Job {
	var jobs []Job
	for _, it := range p.Items {
		if len(it.Steps) == 0 || it.Lever == "" || it.Target == "" && !it.Parks || !it.Reason.IsZero() {
			continue
		}
		jobs = append(jobs, Job{Source: fleet.Host{ID: p.Host}, For: p.For, Until: p.Deadline, Item: Item{Found: it.Found, Target: it.Target},
			Act: Act{ID: "plan/" + it.Key.String(), Kind: ActLever, Op: OpPlan, Key: it.Key, Step: it.Steps[0], Steps: slices.Concat(it.Steps, it.After), Park: it.Parks, Lever: it.Lever, Target: it.Target}})
	}
	return jobs
}

// Told is the plan with what levers have said: a workload whose lever won't move
// it, or says nothing, stays, with that as its reason.
func (p Plan) Told(said map[fleet.Key]LeverWord) Plan {
	p.Items = slices.Clone(p.Items)
	for i, it := range p.Items {
		w, asked := said[it.Key]
		if !asked {
			continue
		}
		p.Items[i].Says = w.Answer.Progress
		if p.Items[i].Reason = it.stays(w); !p.Items[i].Reason.IsZero() {
			p.Items[i].GoneBy = time.Time{}
		}
	}
	p.count()
	return p
}

// stays says why a workload stays, by what its lever has said. Where that names
// both values, they are named as those are that were compared here.
func (it PlanItem) stays(w LeverWord) fleet.Reason {
	a := w.Answer
	because := func(code, detail string) fleet.Reason {
		return fleet.Because(code, "lever", it.Lever, "step", string(it.Steps[0]), "detail", detail)
	}
	switch {
	case w.Silent != "":
		return because(WaitLeverSilent, w.Silent)
	case a.Result == Done:
		return fleet.Reason{}
	case a.Result != WaitAct && a.Result != Refused && a.Result != FailedAct:
		return because(WaitLeverSilent, "it answers "+string(a.Result)+" to plan")
	case a.Reason.Code == WaitIncompatible || a.Reason.Code == WaitNoRoom:
		arg := func(name string) string { return a.Reason.Args[name] }
		return fleet.Because(a.Reason.Code, "what", arg("what"), "has", arg("has"), "wants", arg("wants"), "host", cmp.Or(arg("host"), it.Target.Name()))
	case a.Result == WaitAct:
		return because(WaitLeverWaits, a.text())
	}
	return because(WaitLeverRefuses, a.text())
}

// text is an answer's reason in words, or as its code with its arguments.
func (a Answer) text() string {
	if a.Detail != "" {
		return a.Detail
	}
	parts := []string{a.Reason.Code}
	for _, name := range slices.Sorted(maps.Keys(a.Reason.Args)) {
		parts = append(parts, name+" "+a.Reason.Args[name])
	}
	return cmp.Or(strings.Join(parts, " "), a.Progress)
}
