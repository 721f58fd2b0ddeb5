package drain

import (
	"path"
	"strings"

	"ebb/fleet"
)

// Classify says which class a finding has, by which rule, and what it is given.
// The fleet's rules come first, then what the control plane says, then what the
// owner wrote on the host. An orphan has no class, whatever it says of itself:
// nobody vouches for it.
func Classify(f fleet.Finding, host fleet.Host, p Policy) Found {
	found := Found{Key: f.Key, Verdict: f.Verdict, Owner: f.Owner, Phase: fleet.Running}
	subject := subjectOf(f, host)
	found.Owner = subject.owner
	switch {
	case f.Workload != nil:
		w := f.Workload
		found.Run, found.Runs = w.Run, w.Runs
		found.Start, found.Health, found.Stop = w.Start, w.Health, w.Stop
		found.Declared, found.Phase, found.Expires, found.Needs = w.Declared, w.Phase, w.Expires, w.Needs
	case f.Process != nil:
		found.Run, found.Runs = f.Process.Run, []fleet.Run{f.Process.Run}
	}
	if f.Claim != nil && !f.Claim.Expires.IsZero() {
		found.Expires = f.Claim.Expires
	}
	var budget fleet.Budget
	var rule fleet.ClassRule
	found.Class, found.Rule, rule = classOf(f, subject, p)
	budget, found.Lever, found.InFlight, found.Readiness = rule.Budget, rule.Lever, rule.InFlight, rule.Readiness
	found.Park = rule.Park
	found.Budget = withDefaults(budget, p.Defaults[found.Class])
	if f.Workload != nil && f.Workload.Grace > found.Budget.Grace {
		found.Budget.Grace = f.Workload.Grace
	}
	return found
}

func classOf(f fleet.Finding, s subject, p Policy) (fleet.Class, string, fleet.ClassRule) {
	if f.Verdict == fleet.Orphan || f.Verdict == fleet.Unattributed {
		return fleet.Unclassified, "", fleet.ClassRule{}
	}
	for _, r := range p.Rules {
		if !r.Keep && matches(r.Match, s) {
			return r.Class, ruleName(r), r
		}
	}
	if f.Claim != nil && f.Claim.Class.Valid() {
		return f.Claim.Class, "plane " + s.plane, fleet.ClassRule{}
	}
	if f.Workload != nil && f.Workload.Class.Valid() {
		return f.Workload.Class, "host rule " + f.Workload.Rule, fleet.ClassRule{}
	}
	return fleet.Unclassified, "", fleet.ClassRule{}
}

// Keeps reports whether a rule of the fleet lets the finding stay.
func Keeps(f fleet.Finding, host fleet.Host, p Policy) bool {
	if len(p.Rules) == 0 {
		return false
	}
	s := subjectOf(f, host)
	for _, r := range p.Rules {
		if matches(r.Match, s) {
			return r.Keep
		}
	}
	return false
}

// subject is what class rules are matched against.
type subject struct {
	key                fleet.Key
	owner, plane, pool string
	labels             [2]map[string]string // the claim's, then the host's
}

func subjectOf(f fleet.Finding, host fleet.Host) subject {
	s := subject{key: f.Key, owner: f.Owner, plane: host.ID.Plane(), pool: host.Pool()}
	if w := f.Workload; w != nil {
		s.labels[1] = w.Labels
		if s.owner == "" {
			s.owner = w.Owner
		}
	}
	if c := f.Claim; c != nil {
		s.labels[0] = c.Labels
		if c.Owner != "" {
			s.owner = c.Owner
		}
	}
	return s
}

func matches(m fleet.RuleMatch, s subject) bool {
	return glob(m.Kind, s.key.Kind) && glob(m.ID, s.key.ID) && glob(m.Owner, s.owner) &&
		glob(m.Plane, s.plane) && glob(m.Pool, s.pool) && label(m.Label, s.labels)
}

// glob matches the whole of s; an empty pattern matches everything, and a broken
// one nothing (configurations with broken patterns do not load).
func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

func label(want string, have [2]map[string]string) bool {
	if want == "" {
		return true
	}
	k, v, valued := strings.Cut(want, "=")
	for _, m := range have {
		if got, ok := m[k]; ok {
			return !valued || got == v
		}
	}
	return false
}

func ruleName(r fleet.ClassRule) string {
	if r.Name != "" {
		return "rule " + r.Name
	}
	var parts []string
	for _, p := range [][2]string{{"kind", r.Match.Kind}, {"id", r.Match.ID}, {"owner", r.Match.Owner},
		{"label", r.Match.Label}, {"plane", r.Match.Plane}, {"pool", r.Match.Pool}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return "rule " + strings.Join(parts, ", ")
}

func withDefaults(b, d fleet.Budget) fleet.Budget {
	if b.Move == 0 {
		b.Move = d.Move
	}
	if b.Grace == 0 {
		b.Grace = d.Grace
	}
	return b
}
