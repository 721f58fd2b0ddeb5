package drain

import (
	"cmp"
	"slices"
	"strings"
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
	Total    int           `json:"total"`
	Stay     int           `json:"stay,omitempty"`  // of these, how many would stay
	Dies     int           `json:"dies,omitempty"`  // and how many may be killed
	Parks    int           `json:"parks,omitempty"` // and how many are parked here until somebody resumes them
	Classes  []PlanClass   `json:"classes,omitempty"`
	// Untold says that owners of what may be killed hear nothing before: no receiver
	// of notices is configured.
	Untold bool `json:"untold,omitempty"`
	// Unread says why the host can't be read: what runs on it is not known.
	Unread string `json:"unread,omitempty"`
	// Refused says why no drain of this host can be started at all.
	Refused string `json:"refused,omitempty"`
}

// PlanClass counts the workloads of one class.
type PlanClass struct {
	Class fleet.Class `json:"class"`
	Total int         `json:"total"`
	Stay  int         `json:"stay,omitempty"`
	Dies  int         `json:"dies,omitempty"`
}

// PlanItem is one line of a plan.
type PlanItem struct {
	Found
	Strategy string `json:"strategy"`
	Steps    []Step `json:"steps,omitempty"` // of its lever
	// Parks says that it stays on this host, at rest, and After how it comes back
	// when somebody says so. NotParked is why it is shipped although it was to be
	// parked.
	Parks     bool         `json:"parks,omitempty"`
	After     []Step       `json:"after,omitempty"`
	NotParked fleet.Reason `json:"not_parked,omitzero"`
	Target    fleet.HostID `json:"target,omitempty"`
	GoneBy    time.Time    `json:"gone_by,omitzero"`
	Reason    fleet.Reason `json:"reason,omitzero"` // why it would stay
	Says      string       `json:"says,omitempty"`  // what its lever says about the way
}

// ExpiresInTime reports whether an item that may be killed is expected to end by
// itself before the deadline: it is named all the same, for the case that it
// outlives its own time.
func (it PlanItem) ExpiresInTime() bool {
	return it.MayDie && it.Class == fleet.Ephemeral && it.Reason.IsZero() && !it.Expires.IsZero() && it.GoneBy.Equal(it.Expires)
}

// LateBy reports whether the plan gives an item until after the outer deadline.
func (p Plan) LateBy(it PlanItem) bool { return it.GoneBy.After(p.Deadline) }

// Late lists what would be gone only after the outer deadline, by its budget.
func (p Plan) Late() []fleet.Key {
	var keys []fleet.Key
	for _, it := range p.Items {
		if p.LateBy(it) {
			keys = append(keys, it.Key)
		}
	}
	return keys
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

// Outlive lists those of MayDie that are expected to expire before the deadline:
// they may be killed only if they outlive that.
func (p Plan) Outlive() []fleet.Key {
	var keys []fleet.Key
	for _, it := range p.Items {
		if it.ExpiresInTime() {
			keys = append(keys, it.Key)
		}
	}
	return keys
}

// MakePlan says what Next would do with the view, were a drain started now.
func MakePlan(v View, p Policy, deadline time.Time, purpose fleet.Purpose, now time.Time) Plan {
	plan := Plan{Host: v.Source.Host.ID, Made: now, Deadline: deadline, For: purpose}
	if plan.Refused = ServesJournal(v.Source, v.JournalHost); plan.Refused != "" {
		plan.Blocks = append(plan.Blocks, plan.Refused)
	}
	facts, ok := v.Source.Facts.Get()
	if !ok {
		plan.Unread = cmp.Or(v.Source.Problem, v.Source.Facts.Error, "it does not answer")
		plan.Blocks = append(plan.Blocks, "the host can't be read: "+plan.Unread)
		return plan
	}
	for _, probe := range facts.Probes() {
		if probe.Status != fleet.OK && probe.Status != fleet.NotApplicable {
			plan.Blocks = append(plan.Blocks, "probe "+probe.Name+" failed: "+probe.Error)
		}
	}
	if h := facts.Holds.Drain; h != nil && h.Drain != v.Standing.Drain {
		plan.Blocks = append(plan.Blocks, "drain "+h.Drain+" of "+h.Who+" holds the host already (journal "+h.Journal+")")
	}
	switch {
	case v.SelfClaims:
	case v.Source.Claims.Status != fleet.OK:
		plan.Blocks = append(plan.Blocks, "the control plane can't be read: "+v.Source.Claims.Error)
	case !v.Source.Stable:
		plan.Blocks = append(plan.Blocks, "two readings of the claims do not agree yet: orphans and ghosts are only suspected")
	}
	d := &decider{v: v, p: p, now: now, facts: facts, inbound: map[fleet.HostID][]Found{}, s: State{Deadline: deadline, For: purpose}}
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
	plan.count()
	plan.Untold = plan.Dies > 0 && !p.Receivers
	return plan
}

// count sums the items up; they are in the order of their classes.
func (p *Plan) count() {
	p.Expected, p.Total, p.Stay, p.Dies, p.Parks, p.Classes = expected(p.Items), len(p.Items), 0, 0, 0, nil
	for _, it := range p.Items {
		if n := len(p.Classes); n == 0 || p.Classes[n-1].Class != it.Class {
			p.Classes = append(p.Classes, PlanClass{Class: it.Class})
		}
		c := &p.Classes[len(p.Classes)-1]
		c.Total++
		if !it.Reason.IsZero() {
			c.Stay++
			p.Stay++
		} else if it.Parks {
			p.Parks++
		}
		if it.MayDie {
			c.Dies++
			p.Dies++
		}
	}
}

// ServesJournal says that a host is the one on which the journal lies, by the
// names that both are called: a drain of it would end what it is written to.
func ServesJournal(v fleet.HostView, journal string) string {
	journal = strings.ToLower(strings.TrimSuffix(journal, "."))
	if journal == "" {
		return ""
	}
	names := []string{v.Host.Address, v.Host.ID.Name()}
	if f, ok := v.Facts.Get(); ok {
		names = append(names, f.Hostname)
	}
	for _, n := range names {
		n = strings.ToLower(strings.TrimSuffix(n, "."))
		if _, after, user := strings.Cut(n, "@"); user {
			n = after
		}
		short, _, _ := strings.Cut(journal, ".")
		if n != "" && (n == journal || n == short && !digits(short)) {
			return "it serves the journal (" + journal + "): a drain of it can't record its own end"
		}
	}
	return ""
}

// digits keeps the first number of an address from being taken for a name.
func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

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
		it.GoneBy, it.Reason = d.planEscalation(it.Budget.Grace, d.begins())
	case fleet.Pausable:
		it.Strategy = "snapshot, ship, restore"
		d.planLever(&it)
	case fleet.Durable:
		it.Strategy = "fence, archive, promote, repoint"
		d.planLever(&it)
	default:
		it.Strategy, it.Reason = "a person decides", fleet.Because(WaitUnclassified, "verdict", string(found.Verdict))
	}
	if why := d.standing(&it); !why.IsZero() {
		it.MayDie, it.GoneBy, it.Target, it.Steps, it.Parks = false, time.Time{}, "", nil, false
		it.Strategy, it.Reason = "as somebody has said", why
	}
	if at, parked := d.v.Parked[found.Key]; parked && found.Phase == fleet.AtRest {
		it.planParked(at, d.s.For, d.now)
	} else if found.Phase == fleet.AtRest {
		it.MayDie, it.GoneBy, it.Target = false, time.Time{}, ""
		it.Strategy, it.Reason = "a person decides", restReason(found.Class)
	}
	return it
}

// standing is what somebody has said of a workload in the drain that would go on:
// it is held, or may stay.
func (d *decider) standing(it *PlanItem) fleet.Reason {
	old, known := d.v.Standing.Items[it.Key]
	if !known || !old.Open() || old.Run != it.Run || !old.Held && !old.Keep {
		return fleet.Reason{}
	}
	return old.Reason
}

func (d *decider) planExpiry(it *PlanItem) {
	if it.Expires.After(d.now) && !it.Expires.After(d.s.Deadline) {
		it.Strategy, it.GoneBy = "let it expire", it.Expires
		return
	}
	it.Strategy = "escalate before the deadline"
	begin := d.p.lastStart(d.s.Deadline, it.Budget.Grace)
	if first := d.begins(); begin.Before(first) {
		begin = first
	}
	it.GoneBy, it.Reason = d.planEscalation(it.Budget.Grace, begin)
}

func (d *decider) planMove(it *PlanItem) {
	it.Strategy = "start elsewhere, flip, stop"
	if it.InFlight != nil {
		it.Strategy = "start elsewhere, flip, let it finish, stop"
	}
	if what := d.missingCommand(it.Found); what != "" {
		it.Reason = fleet.Because(WaitNoCommand, "what", what)
		return
	}
	if spec, ok := d.p.Levers[it.Lever]; ok {
		it.Steps = slices.DeleteFunc(WayOf(fleet.Stateless), func(s Step) bool { return !spec.Does(s) })
	}
	d.planTarget(it)
}

// planLever is the way of a workload that only a lever can move.
func (d *decider) planLever(it *PlanItem) {
	park, not := Parks(it.Found, d.s.For, offerOf(d.v.Source))
	_, steps, why := d.wayOf(it.Found, park)
	it.NotParked = not
	if !why.IsZero() {
		it.Reason = why
		return
	}
	if it.Steps = steps; park {
		i := slices.Index(steps, StepResume)
		it.Parks, it.Steps, it.After = true, steps[:i], steps[i:]
		it.GoneBy = d.begins().Add(d.planTurn() * it.Budget.Move)
	}
	it.Strategy = joinSteps(it.Steps)
	if park {
		it.Strategy += "; on word: " + joinSteps(it.After)
		return
	}
	d.planTarget(it)
}

// NoWay says why a drain would leave a workload where it is, whatever room other
// hosts have. Zero: there is a way for it.
func NoWay(f Found, p Policy) fleet.Reason {
	d := decider{p: p}
	switch {
	case f.Phase == fleet.AtRest:
		return restReason(f.Class)
	case f.Class == fleet.Stateless:
		if what := d.missingCommand(f); what != "" {
			return fleet.Because(WaitNoCommand, "what", what)
		}
	case f.Class == fleet.Pausable, f.Class == fleet.Durable:
		_, _, why := d.wayOf(f, f.Park)
		return why
	}
	return fleet.Reason{}
}

// planTurn is the how manieth turn the next move is: moves wait for their turn, so
// what comes behind the limit begins when those before it are done.
func (d *decider) planTurn() time.Duration {
	turn := 1
	if n := d.p.MovesPerHost; n > 0 {
		turn += d.moving / n
	}
	d.moving++
	return time.Duration(turn)
}

// planParked is what becomes of a workload that an earlier drain has parked here.
func (it *PlanItem) planParked(at time.Time, purpose fleet.Purpose, now time.Time) {
	it.MayDie, it.Target, it.Parks = false, "", true
	it.Strategy, it.Steps, it.GoneBy = "parked here already, at "+stamp(at), nil, now
	it.NotParked = fleet.Reason{}
	if _, it.After = ParkWay(); risksState(purpose) {
		it.GoneBy, it.Reason = time.Time{}, fleet.Because(WaitParkedStays, "for", string(purpose))
	}
}

func joinSteps(steps []Step) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// planTarget places a move, and says when it should be over. How many a target
// receives at once does not count here, since they come one after another.
func (d *decider) planTarget(it *PlanItem) {
	p := Placing{Found: it.Found, For: d.s.For, Source: d.v.Source, Targets: d.v.Targets, Inbound: d.inbound, Promised: d.v.Promised}
	target, why := Place(p)
	if target == "" {
		it.Reason = why
		return
	}
	d.promise(target, Item{Found: it.Found})
	turn := d.planTurn()
	if n := d.p.MovesPerTarget; n > 0 {
		turn = max(turn, time.Duration(1+(len(d.inbound[target])-1)/n))
	}
	it.Target, it.GoneBy = target, d.begins().Add(turn*it.Budget.Move)
}

// begins is when a drain that is asked for now does its first act: once the cordon
// is shown to have taken, which waits for the scheduler's cache.
func (d *decider) begins() time.Time {
	if d.v.SelfClaims || d.v.Source.Cordon == fleet.Cordoned {
		return d.now
	}
	return d.now.Add(d.p.CacheWindow)
}

// planEscalation says when an escalation that begins at a time is over, or that
// it can't be before the deadline.
func (d *decider) planEscalation(grace time.Duration, begin time.Time) (time.Time, fleet.Reason) {
	need := d.p.escalation(grace)
	over := begin.Add(need - d.p.Margin)
	if over.After(d.s.Deadline) {
		return time.Time{}, fleet.Because(WaitNoTime, "needs", need.String(), "has", max(0, d.s.Deadline.Sub(begin)).Round(time.Second).String())
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
