// Package reconcile compares what a control plane claims about a host with what
// the host's agent saw, and gives one verdict on each thing, with the evidence.
//
// It promises that what could not be read never becomes "there is nothing
// there": a probe that failed makes everything that rests on it unknown. Ghosts,
// orphans and leaks are what acts are built on, so each needs two readings of
// the claims that say the same, and the probes it rests on to have answered. No
// resource is a leak while any claim that is not gone names its owner.
//
// Every workload and every claim that is not gone ends in exactly one finding.
// What belongs to a workload (its processes, its namespace, its directories) is
// evidence in the finding of that workload; what belongs to none has a finding
// of its own. The host's own things and kept processes have none.
//
// It is a function of its input: readings in, findings out, in an order that
// does not depend on theirs.
package reconcile

import (
	"cmp"
	"slices"
	"time"

	"ebb/fleet"
)

// Input is what is compared. Before and After are readings of the claims around
// the reading of the facts.
type Input struct {
	Host   fleet.Host
	Before fleet.Reading[[]fleet.Claim]
	After  fleet.Reading[[]fleet.Claim]
	Facts  fleet.Reading[fleet.Facts]
	// SelfClaims is for planes that claim nothing: what the host recognises is
	// what is claimed, and the readings of the claims are not looked at.
	SelfClaims bool
	// Now stands in the evidence where a reading has no time of its own.
	Now time.Time
}

// Output is the outcome.
type Output struct {
	Findings []fleet.Finding
	// Stable reports that the facts lie between two readings of the claims that
	// agree. Without it ghosts and orphans are only suspected: something may have
	// moved between one reading and the other.
	Stable bool
}

// Reconcile gives the verdicts.
func Reconcile(in Input) Output {
	c := newComparison(in)
	keys := c.keys()
	c.findings = make([]fleet.Finding, 0, len(keys)+len(c.loose))
	for _, k := range keys {
		c.decide(k)
	}
	c.processes()
	c.resources()
	return Output{Findings: sorted(c.findings), Stable: c.stable()}
}

// sorted puts findings in order. They are big, so their places are sorted and
// each is moved once.
func sorted(findings []fleet.Finding) []fleet.Finding {
	places := make([]*fleet.Finding, len(findings))
	for i := range findings {
		places[i] = &findings[i]
	}
	slices.SortFunc(places, compare)
	out := make([]fleet.Finding, len(findings))
	for i, f := range places {
		out[i] = *f
	}
	return out
}

// compare orders findings by class, then key; what else differs decides where
// two findings speak of the same key.
func compare(a, b *fleet.Finding) int {
	if a.Class != b.Class {
		if n := cmp.Compare(rank(a.Class), rank(b.Class)); n != 0 {
			return n
		}
	}
	if n := a.Key.Compare(b.Key); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(a.Verdict, b.Verdict), compareRuns(runOf(a), runOf(b)), cmp.Compare(identity(a), identity(b)))
}

func rank(c fleet.Class) int {
	if i := slices.Index(fleet.Classes, c); i >= 0 {
		return i
	}
	return len(fleet.Classes)
}

func runOf(f *fleet.Finding) fleet.Run {
	switch {
	case f.Workload != nil:
		return f.Workload.Run
	case f.Process != nil:
		return f.Process.Run
	}
	return fleet.Run{}
}

func identity(f *fleet.Finding) string {
	if f.Resource != nil {
		return f.Resource.Identity
	}
	return ""
}

func compareRuns(a, b fleet.Run) int {
	if a == b {
		return 0
	}
	return cmp.Or(cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Start, b.Start), cmp.Compare(a.UID, b.UID))
}

// stable reports whether the facts were read after one reading of the claims had
// ended and before the next began, and both say the same.
func (c *comparison) stable() bool {
	if c.in.Facts.Status != fleet.OK {
		return false
	}
	if c.in.SelfClaims {
		return true
	}
	b, f, a := c.in.Before, c.in.Facts, c.in.After
	return b.Status == fleet.OK && a.Status == fleet.OK && len(c.changed) == 0 &&
		!f.At.Before(b.At.Add(b.Took)) && !a.At.Before(f.At.Add(f.Took))
}
