package proof

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ebb/fleet"
)

// Issues names everything on the host itself that keeps it from being proved
// empty, in the order of the checks. What the terminate role has accepted (the
// facts carry it) is left out, key by key. Holds, probes and open tickets can't
// be accepted: without them nothing else can be relied on.
func Issues(f fleet.Facts) []fleet.Issue {
	s := survey(f)
	var all []fleet.Issue
	all = append(all, holdIssues(f)...)
	all = append(all, probeIssues(f.Probes())...)
	all = append(all, leftIssues(f, s)...)
	all = append(all, resourceIssues(f, s)...)
	for _, t := range f.OpenTickets() {
		all = append(all, fleet.Issue{
			Check: fleet.CheckTickets, Key: t.Key,
			Detail: fmt.Sprintf("ticket %s: %s admitted for %s, not reported done or failed", safe(t.ID), t.Op, safe(t.Who)),
		})
	}
	return order(without(all, f.Accepted))
}

func holdIssues(f fleet.Facts) []fleet.Issue {
	var all []fleet.Issue
	add := func(detail string) { all = append(all, fleet.Issue{Check: fleet.CheckHolds, Detail: detail}) }
	if f.Unheld {
		add("the agent has no record of its holds")
	}
	if f.Holds.Cordon == nil {
		add("the cordon is not there")
	}
	if f.Holds.Drain == nil {
		add("the drain hold is not there")
	}
	return all
}

// answered reports whether a probe's answer can be built on. There is no host
// without processes: "not applicable" there means that /proc was not seen.
func answered(p fleet.ProbeStatus) bool {
	return p.Status == fleet.OK || p.Status == fleet.NotApplicable && p.Name != "processes"
}

func probeIssues(probes []fleet.ProbeStatus) []fleet.Issue {
	var all []fleet.Issue
	for _, p := range probes {
		if answered(p) {
			continue
		}
		detail := fmt.Sprintf("%s: %s", p.Name, cmp.Or(string(p.Status), "not read"))
		if p.Error != "" {
			detail += ": " + safe(p.Error)
		}
		all = append(all, fleet.Issue{Check: fleet.CheckProbes, Key: fleet.Key{Kind: "probe", ID: p.Name}, Detail: detail})
	}
	return all
}

func leftIssues(f fleet.Facts, s surveyed) []fleet.Issue {
	var all []fleet.Issue
	add := func(k fleet.Key, format string, args ...any) {
		all = append(all, fleet.Issue{Check: fleet.CheckLeft, Key: k, Detail: fmt.Sprintf(format, args...), Acceptable: true})
	}
	for _, w := range s.workloads {
		if w.Phase == fleet.Gone {
			continue // a manifest alone: if it is still claimed, the claims say so
		}
		word := "runs"
		if w.Phase == fleet.AtRest {
			word = "rests here"
		}
		add(w.Key, "%s %s", safe(w.Key.String()), word)
	}
	owned := map[fleet.Key]bool{}
	for _, w := range f.Workloads.Value {
		owned[w.Key] = true
	}
	byPID := map[int]fleet.Process{}
	ok := acceptedKeys(f.Accepted)
	for _, p := range s.processes {
		if !ok[p.Key()] { // an accepted parent speaks for itself only
			byPID[p.Run.PID] = p
		}
	}
	for _, p := range s.processes {
		if owned[p.Owner] || folds(p, byPID) {
			continue
		}
		if p.Owner.IsZero() {
			add(p.Key(), "process %d (%s) runs, and no rule recognises it", p.Run.PID, safe(p.Comm))
		} else {
			add(p.Key(), "process %d (%s) of %s runs", p.Run.PID, safe(p.Comm), safe(p.Owner.String()))
		}
	}
	for _, h := range s.holders {
		if !h.listed {
			add(fleet.Key{Kind: "gpu", ID: h.gpu.UUID}, "GPU %d is held by process %d, which is not in the process list", h.gpu.Index, h.run.PID)
		}
	}
	return all
}

// folds reports whether a zombie is named by its parent: both are left, and the
// entry goes when the parent reaps it or ends. A zombie of any other parent
// stands for itself, since other threads of it may still run.
func folds(p fleet.Process, byPID map[int]fleet.Process) bool {
	parent, ok := byPID[p.PPID]
	return ok && p.State == "Z" && parent.State != "Z" && parent.Owner == p.Owner
}

func resourceIssues(f fleet.Facts, s surveyed) []fleet.Issue {
	var all []fleet.Issue
	for _, r := range s.resources {
		name := safe(r.Key.String())
		issue := fleet.Issue{Check: fleet.CheckLeaks, Key: r.Key, Acceptable: true}
		switch {
		case s.present[r.Owner]:
			issue.Check = fleet.CheckLeft
			issue.Detail = fmt.Sprintf("%s of %s", name, safe(r.Owner.String()))
		case !f.Workloads.Known():
			issue.Check = fleet.CheckLeft
			issue.Detail = name + ", and it is not known whether its owner runs"
		case r.Owner.IsZero():
			issue.Check = fleet.CheckLeft
			issue.Detail = name + " belongs to nothing that is known"
		case len(r.Users) > 0:
			issue.Check = fleet.CheckLeft
			issue.Detail = fmt.Sprintf("%s: its owner %s is not here, but process %d uses it", name, safe(r.Owner.String()), r.Users[0].PID)
		default:
			issue.Detail = fmt.Sprintf("%s: its owner %s is not here", name, safe(r.Owner.String()))
		}
		all = append(all, issue)
	}
	return all
}

// AssertedIssues names what the console's part of a proof leaves unexplained:
// ghosts, orphans, leaks, what is unattributed, unknown or lost. What is unknown
// can't be accepted, only read again; neither can counts that do not fit the
// names.
func AssertedIssues(a Asserted, accepted []fleet.Accepted) []fleet.Issue {
	var all []fleet.Issue
	if a.Claims == "" {
		all = append(all, fleet.Issue{Check: fleet.CheckClaims, Detail: "the claims were not read"})
	}
	named := map[fleet.Verdict]int{}
	for _, f := range a.Findings {
		named[f.Verdict]++
		if f.Verdict.Clean() {
			continue
		}
		issue := fleet.Issue{Check: fleet.CheckClaims, Key: f.Key, Acceptable: f.Verdict != fleet.UnknownV}
		switch f.Verdict {
		case fleet.Leak:
			issue.Check = fleet.CheckLeaks
		case fleet.Unattributed:
			issue.Check = fleet.CheckLeft
		case fleet.Ghost, fleet.Orphan:
		default: // what this version does not know is not something to accept
			issue.Acceptable = false
		}
		issue.Detail = fmt.Sprintf("%s is %s", safe(f.Key.String()), verdictText(f.Verdict))
		all = append(all, issue)
	}
	for v, n := range a.Verdicts {
		if !v.Clean() && n != named[v] {
			all = append(all, fleet.Issue{
				Check: fleet.CheckClaims, Detail: fmt.Sprintf("%d counted as %s, %d named", n, verdictText(v), named[v]),
			})
		}
	}
	for _, l := range a.Lost {
		all = append(all, fleet.Issue{
			Check: fleet.CheckLost, Key: l.Key, Acceptable: true,
			Detail: fmt.Sprintf("%s was lost: %s", safe(l.Key.String()), safe(l.How)),
		})
	}
	return order(without(all, accepted))
}

func verdictText(v fleet.Verdict) string {
	switch v {
	case fleet.Ghost, fleet.Leak:
		return "a " + string(v)
	case fleet.Orphan:
		return "an orphan"
	case "":
		return "without a verdict"
	}
	return safe(string(v))
}

// without drops the issues that have been accepted by their exact key.
func without(all []fleet.Issue, accepted []fleet.Accepted) []fleet.Issue {
	ok := acceptedKeys(accepted)
	return slices.DeleteFunc(all, func(i fleet.Issue) bool {
		return i.Acceptable && !i.Key.IsZero() && ok[i.Key]
	})
}

func acceptedKeys(accepted []fleet.Accepted) map[fleet.Key]bool {
	keys := make(map[fleet.Key]bool, len(accepted))
	for _, a := range accepted {
		keys[a.Key] = true
	}
	return keys
}

func order(all []fleet.Issue) []fleet.Issue {
	slices.SortStableFunc(all, func(a, b fleet.Issue) int {
		return cmp.Or(
			cmp.Compare(slices.Index(fleet.Checks, a.Check), slices.Index(fleet.Checks, b.Check)),
			a.Key.Compare(b.Key), strings.Compare(a.Detail, b.Detail))
	})
	return all
}

// safe keeps a name from the host from speaking for ebb: what is not plainly
// printable is quoted.
func safe(s string) string {
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}
