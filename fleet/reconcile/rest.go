package reconcile

import (
	"fmt"
	"strconv"
	"strings"

	"ebb/fleet"
)

// processes decides about processes that belong to no workload, and are neither
// the host's own nor kept.
func (c *comparison) processes() {
	loose, byPID := map[*fleet.Process]bool{}, map[int]*fleet.Process{}
	for i := range c.procs {
		p := &c.procs[i]
		owned := !p.Owner.IsZero() && c.spokenFor(p.Owner)
		if !owned && p.Kept == "" && (p.System == "" || !p.Owner.IsZero()) {
			loose[p], byPID[p.Run.PID] = true, p
		}
	}
	dead := map[*fleet.Process]int{}
	for p := range loose {
		if parent := folds(p, byPID); parent != nil {
			dead[parent]++
		}
	}
	blind := c.unanswered(fleet.Probe("processes", c.facts.Processes), fleet.Probe("workloads", c.facts.Workloads))
	unread := c.claimsUnread()
	for i := range c.procs {
		p := &c.procs[i]
		if !loose[p] || folds(p, byPID) != nil {
			continue
		}
		f := fleet.Finding{Key: p.Key(), Since: p.Started, Process: p, Evidence: []fleet.Evidence{{
			Source: fmt.Sprintf("/proc/%d/stat", p.Run.PID), Says: p.Comm + " runs", At: c.when(c.facts.Processes.At),
		}}}
		if n := dead[p]; n > 0 {
			f.Evidence = append(f.Evidence, c.says(fmt.Sprintf("%d of its children ended and wait for it", n)))
		}
		switch {
		case blind != nil:
			c.conclude(f, fleet.UnknownV, *blind)
		case !p.Owner.IsZero() && unread != "":
			c.conclude(f, fleet.UnknownV, c.claimsSay(unread))
		case !p.Owner.IsZero():
			c.conclude(f, fleet.Unattributed, c.says("of "+p.Owner.String()+", which is neither claimed nor among the workloads"))
		default:
			c.conclude(f, fleet.Unattributed, c.says("no rule recognises it"))
		}
	}
}

// folds returns the parent that a zombie is told with: one of the same group
// that is itself still alive.
func folds(p *fleet.Process, byPID map[int]*fleet.Process) *fleet.Process {
	if parent := byPID[p.PPID]; p.State == "Z" && parent != nil && parent.State != "Z" && parent.Owner == p.Owner {
		return parent
	}
	return nil
}

// resources decides about namespaces, loop devices and directories that belong
// to no workload on the host and to nothing that is claimed.
func (c *comparison) resources() {
	blind := c.unanswered(fleet.Probe("processes", c.facts.Processes), fleet.Probe("workloads", c.facts.Workloads))
	unread := c.claimsUnread()
	for _, r := range c.loose {
		f := fleet.Finding{Key: r.Key, Since: r.Since, Resource: r, Evidence: []fleet.Evidence{c.thing(r)}}
		ticket, admitted := c.tickets[r.Owner]
		switch {
		case blind != nil:
			c.conclude(f, fleet.UnknownV, *blind)
		case r.Owner.IsZero():
			c.conclude(f, fleet.Unattributed, c.says("no rule says whose it is"))
		case unread != "":
			c.conclude(f, fleet.UnknownV, c.claimsSay(unread))
		case c.elsewhere[r.Owner] != "":
			c.conclude(f, fleet.Unattributed, c.says(fmt.Sprintf("its owner %s is claimed on %s", r.Owner, c.elsewhere[r.Owner])))
		case len(r.Users) > 0:
			c.conclude(f, fleet.Unattributed, c.says(fmt.Sprintf("its owner %s is gone, but process %d uses it", r.Owner, r.Users[0].PID)))
		case len(c.owned[r.Owner]) > 0:
			c.conclude(f, fleet.Unattributed, c.says(fmt.Sprintf("process %d of its owner %s still runs", c.owned[r.Owner][0].Run.PID, r.Owner)))
		case admitted:
			c.conclude(f, fleet.UnknownV, c.says("its owner was admitted, and not yet reported done: ticket "+ticket.ID))
		default:
			c.conclude(f, fleet.Leak, c.says(fmt.Sprintf("its owner %s is not here%s", r.Owner, c.unclaimed())))
		}
	}
}

func (c *comparison) unclaimed() string {
	if c.in.SelfClaims {
		return ""
	}
	return ", and not claimed in two readings"
}

// finding begins a finding about a workload with what claim and host say.
func (c *comparison) finding(claim *fleet.Claim, w *fleet.Workload) fleet.Finding {
	f := fleet.Finding{
		Key: w.Key, Class: w.Class, Owner: w.Owner, Since: w.Started, Workload: w, Evidence: c.room(),
	}
	if claim != nil {
		f.Claim, f.Evidence = claim, append(f.Evidence, c.claimed(claim))
		if claim.Class.Valid() {
			f.Class = claim.Class
		}
		if claim.Owner != "" {
			f.Owner = claim.Owner
		}
		if f.Since.IsZero() {
			f.Since = claim.Changed
		}
	}
	says := word(w.Phase)
	switch {
	case w.Run.UID != "":
		says += ", " + w.Run.String()
	case !w.Run.IsZero():
		says = string(strconv.AppendInt(append(append(make([]byte, 0, 40), says...), ", process "...), int64(w.Run.PID), 10))
	}
	f.Evidence = append(f.Evidence, c.workloadsSay(says))
	f.Evidence = append(f.Evidence, c.belongings(w.Key)...)
	return f
}

func (c *comparison) claimFinding(claim *fleet.Claim) fleet.Finding {
	return fleet.Finding{
		Key: claim.Key, Class: claim.Class, Owner: claim.Owner, Since: claim.Changed, Claim: claim,
		Evidence: []fleet.Evidence{c.claimed(claim)},
	}
}

func (c *comparison) claimed(claim *fleet.Claim) fleet.Evidence {
	says := word(claim.Phase)
	if claim.Status != "" {
		says += " (" + claim.Status + ")"
	}
	return c.claimsSay(says)
}

// belongings are the resources of a workload, as evidence.
func (c *comparison) belongings(k fleet.Key) []fleet.Evidence {
	var all []fleet.Evidence
	for _, r := range c.things[k] {
		all = append(all, c.thing(r))
	}
	return all
}

func (c *comparison) thing(r *fleet.Resource) fleet.Evidence {
	from := c.facts.Dirs
	switch r.Key.Kind {
	case "netns":
		from = c.facts.Netns
	case "loop":
		from = c.facts.Loops
	}
	parts := []string{r.Key.String()}
	for _, p := range []string{r.Identity, r.Detail} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if r.Deleted {
		parts = append(parts, "its file is deleted")
	}
	return fleet.Evidence{Source: from.Source, Says: strings.Join(parts, ", "), At: c.when(from.At)}
}
