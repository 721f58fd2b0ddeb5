package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// Plan is what a drain would do to each workload, before anything is done.
type Plan struct {
	Host     fleet.HostID  `json:"host"`
	Made     time.Time     `json:"made"`
	Deadline time.Time     `json:"deadline"`
	For      fleet.Purpose `json:"for,omitempty"`
	Items    []PlanItem    `json:"items"`
	Blocks   []string      `json:"blocks,omitempty"`  // what would keep the drain from starting or ending
	Expected time.Time     `json:"expected,omitzero"` // when the last item should be gone, where every one has a time
}

// PlanItem is one line of a plan.
type PlanItem struct {
	Found
	Strategy string       `json:"strategy"`
	Target   fleet.HostID `json:"target,omitempty"`
	GoneBy   time.Time    `json:"gone_by,omitzero"`
	Reason   fleet.Reason `json:"reason,omitzero"` // why it would stay
}

// MayDie lists what the plan says may be killed.
func (p Plan) MayDie() []fleet.Key {
	var keys []fleet.Key
	for _, it := range p.Items {
		if it.MayDie {
			keys = append(keys, it.Key)
		}
	}
	return keys
}

// MakePlan says what Next would do with the view, were a drain started now.
func MakePlan(v View, p Policy, deadline time.Time, purpose fleet.Purpose, now time.Time) Plan {
	plan := Plan{Host: v.Source.Host.ID, Made: now, Deadline: deadline, For: purpose}
	facts, ok := v.Source.Facts.Get()
	if !ok {
		plan.Blocks = append(plan.Blocks, "the host can't be read: "+v.Source.Problem)
		return plan
	}
	for _, probe := range facts.Probes() {
		if probe.Status != fleet.OK && probe.Status != fleet.NotApplicable {
			plan.Blocks = append(plan.Blocks, "probe "+probe.Name+" failed: "+probe.Error)
		}
	}
	if h := facts.Holds.Drain; h != nil {
		plan.Blocks = append(plan.Blocks, "drain "+h.Drain+" of "+h.Who+" holds the host already (journal "+h.Journal+")")
	}
	switch {
	case v.SelfClaims:
	case v.Source.Claims.Status != fleet.OK:
		plan.Blocks = append(plan.Blocks, "the control plane can't be read: "+v.Source.Claims.Error)
	case !v.Source.Stable:
		plan.Blocks = append(plan.Blocks, "two readings of the claims do not agree yet: orphans and ghosts are only suspected")
	}
	d := &decider{v: v, p: p, now: now, facts: facts, inbound: map[fleet.HostID]int{}, s: State{Deadline: deadline}}
	for _, f := range v.Source.Findings {
		if d.subject(f) {
			plan.Items = append(plan.Items, d.planned(f))
		}
	}
	order := func(c fleet.Class) int { return slices.Index(fleet.Classes, c) }
	slices.SortFunc(plan.Items, func(a, b PlanItem) int {
		if x := order(a.Class) - order(b.Class); x != 0 {
			return x
		}
		return a.Key.Compare(b.Key)
	})
	plan.Expected = expected(plan.Items)
	return plan
}

func (d *decider) planned(f fleet.Finding) PlanItem {
	found := Classify(f, d.v.Source.Host, d.p)
	found.MayDie = mayDie(found)
	it := PlanItem{Found: found}
	switch found.Class {
	case fleet.Ephemeral:
		d.planExpiry(&it)
	case fleet.Stateless:
		d.planMove(&it)
	case fleet.Stuck:
		it.Strategy = "notice, TERM, grace, TERM, KILL"
		it.GoneBy, it.Reason = d.planEscalation(it.Budget.Grace, d.now)
	case fleet.Pausable:
		it.Strategy, it.Reason = "snapshot, ship, restore", fleet.Because(WaitNoStrategy, "class", string(found.Class))
	case fleet.Durable:
		it.Strategy, it.Reason = "fence, archive, promote, repoint", fleet.Because(WaitNoStrategy, "class", string(found.Class))
	default:
		it.Strategy, it.Reason = "a person decides", fleet.Because(WaitUnclassified, "verdict", string(found.Verdict))
	}
	if found.Phase == fleet.AtRest {
		it.MayDie, it.GoneBy, it.Target = false, time.Time{}, ""
		it.Strategy, it.Reason = "a person decides", restReason(found.Class)
	}
	return it
}

func (d *decider) planExpiry(it *PlanItem) {
	if it.Expires.After(d.now) && !it.Expires.After(d.s.Deadline) {
		it.Strategy, it.GoneBy = "let it expire", it.Expires
		return
	}
	it.Strategy = "escalate before the deadline"
	begin := d.p.lastStart(d.s.Deadline, it.Budget.Grace)
	if begin.Before(d.now) {
		begin = d.now
	}
	it.GoneBy, it.Reason = d.planEscalation(it.Budget.Grace, begin)
}

func (d *decider) planMove(it *PlanItem) {
	it.Strategy = "start elsewhere, flip, stop"
	if what := missingCommand(it.Found); what != "" {
		it.Reason = fleet.Because(WaitNoCommand, "what", what)
		return
	}
	target, why := d.place(Item{Found: it.Found})
	if target == "" {
		it.Reason = fleet.Because(WaitNoTarget, "why", why)
		return
	}
	d.inbound[target]++
	it.Target, it.GoneBy = target, d.now.Add(it.Budget.Move)
}

// planEscalation says when an escalation that begins at a time is over, or that
// it can't be before the deadline.
func (d *decider) planEscalation(grace time.Duration, begin time.Time) (time.Time, fleet.Reason) {
	need := d.p.escalation(grace)
	over := begin.Add(need - d.p.Margin)
	if over.After(d.s.Deadline) {
		return time.Time{}, fleet.Because(WaitNoTime, "needs", need.String(), "has", d.s.Deadline.Sub(d.now).Round(time.Second).String())
	}
	return over, fleet.Reason{}
}

// expected is when the last item should be gone; zero if any has no such time.
func expected(items []PlanItem) time.Time {
	var last time.Time
	for _, it := range items {
		if it.GoneBy.IsZero() {
			return time.Time{}
		}
		if it.GoneBy.After(last) {
			last = it.GoneBy
		}
	}
	return last
}
