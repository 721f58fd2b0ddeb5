package engine

import (
	"cmp"
	"fmt"
	"slices"

	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/proof"
)

// Issues lists what keeps a host from being proved empty, as far as host,
// claims and journal say; what has been accepted is left out. The agent has the
// last word on its own part when it signs.
func Issues(v fleet.HostView, s drain.State) []fleet.Issue {
	f, ok := v.Facts.Get()
	if !ok {
		return []fleet.Issue{{Check: fleet.CheckReach, Detail: "the host can't be read: " + v.Facts.Error}}
	}
	var issues []fleet.Issue
	if want := cmp.Or(s.Machine, s.Bound); want != "" && f.Machine != want {
		issues = append(issues, fleet.Issue{Check: fleet.CheckReach,
			Detail: fmt.Sprintf("another machine answers at its address: %s, not %s", f.Machine, want)})
	}
	issues = append(issues, proof.Issues(f)...)
	if v.Claims.Status != fleet.OK && !v.SelfClaims {
		issues = append(issues, fleet.Issue{Check: fleet.CheckClaims, Detail: "the control plane can't be read: " + v.Claims.Error})
	} else if !v.Stable && !v.SelfClaims {
		issues = append(issues, fleet.Issue{Check: fleet.CheckClaims, Detail: "two readings of the claims do not agree yet"})
	}
	issues = append(issues, proof.AssertedIssues(asserted(v, s, ""), f.Accepted)...)
	return unique(append(issues, parkedIssues(v, f, s)...))
}

// parkedIssues names what the journal says is parked on the host and the host no
// longer has, unless its owner says that it has ended: nobody may have looked since
// it vanished.
func parkedIssues(v fleet.HostView, f fleet.Facts, s drain.State) []fleet.Issue {
	if !f.Workloads.Known() || s.Machine != "" && s.Machine != f.Machine {
		return nil
	}
	var issues []fleet.Issue
	for _, k := range s.Parked() {
		here := slices.ContainsFunc(f.Workloads.Value, func(w fleet.Workload) bool { return w.Key == k && w.Phase != fleet.Gone })
		claimed := v.SelfClaims || slices.ContainsFunc(v.Claims.Value, func(c fleet.Claim) bool { return c.Key == k && c.Phase != fleet.Gone })
		known := slices.ContainsFunc(f.Accepted, func(a fleet.Accepted) bool { return a.Key == k })
		if !here && claimed && !known {
			issues = append(issues, fleet.Issue{Check: fleet.CheckLost, Key: k, Detail: k.String() + " was parked here, and its state is gone", Acceptable: true})
		}
	}
	return issues
}

// unique keeps the first issue of each check and key: what both the host and
// the comparison name is one thing to look at.
func unique(all []fleet.Issue) []fleet.Issue {
	type seen struct {
		check string
		key   fleet.Key
	}
	had := map[seen]bool{}
	var out []fleet.Issue
	for _, is := range all {
		k := seen{is.Check, is.Key}
		if !is.Key.IsZero() && had[k] {
			continue
		}
		had[k] = true
		out = append(out, is)
	}
	return out
}

// asserted is the console's part of a proof.
func asserted(v fleet.HostView, s drain.State, console string) proof.Asserted {
	a := proof.Asserted{Console: console, ClaimsAt: v.Claims.At, Verdicts: map[fleet.Verdict]int{}}
	if claims, ok := v.Claims.Get(); ok {
		a.Claims = proof.ClaimsDigest(claims)
	}
	for _, f := range v.Findings {
		a.Verdicts[f.Verdict]++
		if !f.Verdict.Clean() {
			a.Findings = append(a.Findings, proof.Finding{Key: f.Key, Verdict: f.Verdict})
		}
	}
	for _, l := range s.Lost {
		a.Lost = append(a.Lost, proof.LostItem{Key: l.Key, How: l.How, At: l.At})
	}
	if f, ok := v.Facts.Get(); ok {
		a.Accepted = f.Accepted
	}
	return a
}
