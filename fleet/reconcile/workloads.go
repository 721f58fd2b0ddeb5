package reconcile

import (
	"cmp"
	"fmt"

	"ebb/fleet"
)

// decide gives the verdicts on one key that a workload or a claim has.
func (c *comparison) decide(k fleet.Key) {
	claim, ws := c.claims[k], c.workloads[k]
	if len(ws) == 0 {
		c.absent(claim)
		return
	}
	match := 0
	for i, w := range ws {
		if claim != nil && fits(claim.Run, w) {
			match = i
			break
		}
	}
	for i, w := range ws {
		switch {
		case i == match:
		case w.Kept != "":
			c.conclude(c.finding(nil, w), fleet.Agreed, c.kept(w))
		default:
			c.conclude(c.finding(nil, w), fleet.UnknownV, c.says("the host lists another workload of this name"))
		}
	}
	c.present(claim, ws[match])
}

// present decides about a workload that is on the host.
func (c *comparison) present(claim *fleet.Claim, w *fleet.Workload) {
	f := c.finding(claim, w)
	unread := c.claimsUnread()
	ticket, admitted := c.tickets[w.Key]
	switch {
	case w.Kept != "":
		c.conclude(f, fleet.Agreed, c.kept(w))
	case c.in.SelfClaims && knownPhase(w.Phase):
		c.conclude(f, at(w.Phase), fleet.Evidence{})
	case c.in.SelfClaims && w.Phase == fleet.Gone:
		c.conclude(f, fleet.Ghost, c.says("its manifest is there, and no process of it runs"))
	case c.in.SelfClaims:
		c.conclude(f, fleet.UnknownV, c.says("its phase is not known: "+word(w.Phase)))
	case unread != "":
		c.conclude(f, fleet.UnknownV, c.claimsSay(unread))
	case c.changed[w.Key]:
		c.conclude(f, fleet.UnknownV, c.claimsSay(c.change(w.Key)))
	case w.Phase == fleet.Gone:
		c.declaredOnly(f, claim)
	case claim == nil && admitted:
		c.conclude(f, fleet.UnknownV, c.says("admitted, and not yet reported done: ticket "+ticket.ID))
	case claim == nil && c.elsewhere[w.Key] != "":
		c.conclude(f, fleet.Orphan, c.claimsSay("no claim here; claimed on "+string(c.elsewhere[w.Key])))
	case claim == nil:
		c.conclude(f, fleet.Orphan, c.claimsSay("no claim"))
	case claim.Phase == fleet.Running && w.Phase == fleet.Running && !fits(claim.Run, w):
		c.otherRun(claim, w)
	case claim.Phase == w.Phase && knownPhase(w.Phase):
		c.conclude(f, at(w.Phase), fleet.Evidence{})
	default:
		c.conclude(f, fleet.UnknownV, c.says(fmt.Sprintf("claimed %s, found %s", word(claim.Phase), word(w.Phase))))
	}
}

// kept says what holds for a workload that a keep rule covers, whatever else has
// its name or claims it.
func (c *comparison) kept(w *fleet.Workload) fleet.Evidence {
	return c.says("stays by the keep rule " + w.Kept)
}

// declaredOnly decides about a manifest whose process has ended: whoever still
// claims the workload claims a ghost, and without a claim both sides say that it
// is gone.
func (c *comparison) declaredOnly(f fleet.Finding, claim *fleet.Claim) {
	says := c.says("its manifest is there, and no process of it runs")
	if claim == nil {
		c.conclude(f, fleet.Agreed, says)
		return
	}
	c.conclude(f, fleet.Ghost, says)
}

// otherRun splits a key whose claim means another incarnation than the one that
// runs: the claimed one is gone, and nobody claims the other.
func (c *comparison) otherRun(claim *fleet.Claim, w *fleet.Workload) {
	other := c.says(fmt.Sprintf("another incarnation: claimed %s, found %s", claim.Run, w.Run))
	c.conclude(c.claimFinding(claim), fleet.Ghost, other)
	c.conclude(c.finding(nil, w), fleet.Orphan, other)
}

// absent decides about a claim without a workload on the host.
func (c *comparison) absent(claim *fleet.Claim) {
	f := c.claimFinding(claim)
	f.Evidence = append(f.Evidence, c.belongings(claim.Key)...)
	unread := c.claimsUnread()
	ticket, admitted := c.tickets[claim.Key]
	running := c.unanswered(fleet.Probe("processes", c.facts.Processes), fleet.Probe("workloads", c.facts.Workloads))
	stored := c.unanswered(fleet.Probe("dirs", c.facts.Dirs), fleet.Probe("loops", c.facts.Loops))
	switch {
	case unread != "":
		c.conclude(f, fleet.UnknownV, c.claimsSay(unread))
	case !c.known:
		c.conclude(f, fleet.UnknownV, c.factsSay(c.in.Facts.Status, c.in.Facts.Error))
	case c.changed[claim.Key]:
		c.conclude(f, fleet.UnknownV, c.claimsSay(c.change(claim.Key)))
	case !knownPhase(claim.Phase):
		c.conclude(f, fleet.UnknownV, c.claimsSay("the phase of the claim is not known"))
	case c.itself(claim.Key):
		c.conclude(f, at(claim.Phase), fleet.Evidence{})
	case running != nil: // what can't be called absent isn't at rest either
		c.conclude(f, fleet.UnknownV, *running)
	case len(c.owned[claim.Key]) > 0:
		c.conclude(f, fleet.UnknownV, c.says(fmt.Sprintf("process %d is its own, but it is not among the workloads", c.owned[claim.Key][0].Run.PID)))
	case claim.Phase == fleet.AtRest && c.state(claim.Key) != nil:
		c.conclude(f, fleet.Resting, c.says("its state is here"))
	case claim.Phase == fleet.AtRest && stored != nil:
		c.conclude(f, fleet.UnknownV, *stored)
	case admitted:
		c.conclude(f, fleet.UnknownV, c.says("admitted, and not yet reported done: ticket "+ticket.ID))
	case claim.Phase == fleet.AtRest:
		c.conclude(f, fleet.Ghost, c.says("claimed at rest, and its state is missing"))
	default:
		c.conclude(f, fleet.Ghost, c.workloadsSay("not among the workloads"))
	}
}

// unanswered returns the first probe that did not answer. "Not applicable" does
// for things that a host may lack; there is no host without processes.
func (c *comparison) unanswered(probes ...fleet.ProbeStatus) *fleet.Evidence {
	for _, p := range probes {
		lackable := p.Name != "processes" && p.Name != "workloads"
		if p.Status != fleet.OK && (p.Status != fleet.NotApplicable || !lackable) {
			return &fleet.Evidence{
				Source: cmp.Or(p.Source, p.Name), Says: notRead(p.Name, p.Status, p.Error), At: c.when(p.At),
			}
		}
	}
	return nil
}

// state finds what a workload at rest would be brought back from.
func (c *comparison) state(k fleet.Key) *fleet.Resource {
	for _, r := range c.things[k] {
		if r.Key.Kind != "netns" && !r.Deleted {
			return r
		}
	}
	return nil
}

// itself reports whether the claim is about a thing that is here, not about a
// workload.
func (c *comparison) itself(k fleet.Key) bool {
	for _, r := range c.things[k] {
		if r.Key == k {
			return true
		}
	}
	return false
}

func knownPhase(p fleet.Phase) bool { return p == fleet.Running || p == fleet.AtRest }

func at(p fleet.Phase) fleet.Verdict {
	if p == fleet.AtRest {
		return fleet.Resting
	}
	return fleet.Agreed
}

// fits reports whether a claim's run can be the workload's. Only what both name
// is compared: planes often know a UID and no pid, or nothing.
func fits(claimed fleet.Run, w *fleet.Workload) bool {
	if claimed.IsZero() || w.Run.IsZero() && len(w.Runs) == 0 {
		return true
	}
	if compatible(claimed, w.Run) && !w.Run.IsZero() {
		return true
	}
	for _, r := range w.Runs {
		if compatible(claimed, r) {
			return true
		}
	}
	return false
}

func compatible(a, b fleet.Run) bool {
	return (a.Boot == "" || b.Boot == "" || a.Boot == b.Boot) && (a.PID == 0 || b.PID == 0 || a.PID == b.PID) &&
		(a.Start == 0 || b.Start == 0 || a.Start == b.Start) && (a.UID == "" || b.UID == "" || a.UID == b.UID)
}

// claimsUnread says why the two readings of the claims can't be relied on.
func (c *comparison) claimsUnread() string {
	switch {
	case c.in.SelfClaims:
	case c.in.After.Status != fleet.OK:
		return notRead("claims", c.in.After.Status, c.in.After.Error)
	case c.in.Before.Status != fleet.OK:
		return notRead("claims, the first of two times,", c.in.Before.Status, c.in.Before.Error)
	}
	return ""
}

func (c *comparison) change(k fleet.Key) string {
	if was := c.was[k]; was != nil {
		return "changed between two readings: was " + word(was.Phase)
	}
	return "changed between two readings: there was no claim"
}
