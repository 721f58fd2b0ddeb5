package reconcile

import (
	"cmp"
	"time"

	"ebb/fleet"
)

// usual is how many pieces of evidence a finding about a workload has: what the
// claim says, what the host says, and what follows.
const usual = 3

// room is where a finding's evidence goes: a part of one block, for there are as
// many findings as workloads.
func (c *comparison) room() []fleet.Evidence {
	if len(c.block) < usual {
		c.block = make([]fleet.Evidence, min(256, len(c.order))*usual)
	}
	r := c.block[:0:usual]
	c.block = c.block[usual:]
	return r
}

// conclude adds a finding with its verdict and what decided it.
func (c *comparison) conclude(f fleet.Finding, v fleet.Verdict, why fleet.Evidence) {
	f.Verdict = v
	if why != (fleet.Evidence{}) {
		f.Evidence = append(f.Evidence, why)
	}
	c.findings = append(c.findings, f)
}

// says is a conclusion drawn here, from readings that the evidence before it
// names.
func (c *comparison) says(text string) fleet.Evidence {
	return fleet.Evidence{Source: "host and claims", Says: text, At: c.when(c.in.Facts.At)}
}

func (c *comparison) claimsSay(text string) fleet.Evidence {
	r := c.in.After
	if r.Status != fleet.OK && c.in.Before.Status == fleet.OK && r.At.IsZero() {
		r = c.in.Before
	}
	return fleet.Evidence{Source: cmp.Or(r.Source, "plane "+c.in.Host.ID.Plane()), Says: text, At: c.when(r.At)}
}

func (c *comparison) workloadsSay(text string) fleet.Evidence {
	r := c.facts.Workloads
	return fleet.Evidence{Source: cmp.Or(r.Source, "workloads"), Says: text, At: c.when(r.At)}
}

func (c *comparison) factsSay(status fleet.Status, err string) fleet.Evidence {
	return fleet.Evidence{
		Source: cmp.Or(c.in.Facts.Source, "agent"), Says: notRead("the host's facts", status, err), At: c.when(c.in.Facts.At),
	}
}

func notRead(what string, status fleet.Status, err string) string {
	says := what + " " + string(status)
	switch status {
	case fleet.Unknown:
		says = what + " not read"
	case fleet.NotApplicable:
		says = what + " not applicable here"
	}
	if err != "" {
		says += ": " + err
	}
	return says
}

func (c *comparison) when(t time.Time) time.Time {
	if t.IsZero() {
		return c.in.Now
	}
	return t
}

func word(p fleet.Phase) string {
	switch p {
	case fleet.AtRest:
		return "at rest"
	case "":
		return "in no phase"
	}
	return string(p)
}
