package reconcile

import (
	"cmp"
	"slices"
	"strings"

	"ebb/fleet"
)

// comparison is the input by key.
type comparison struct {
	in    Input
	facts fleet.Facts
	known bool // the facts can be relied on

	claims    map[fleet.Key]*fleet.Claim // not gone, from the newest reading that has the key
	was       map[fleet.Key]*fleet.Claim // from the reading before
	changed   map[fleet.Key]bool         // the two readings of the claims differ
	elsewhere map[fleet.Key]fleet.HostID // claimed on another host
	workloads map[fleet.Key][]*fleet.Workload
	order     []fleet.Key                    // of workloads
	owned     map[fleet.Key][]*fleet.Process // by owner
	things    map[fleet.Key][]*fleet.Resource
	loose     []*fleet.Resource // of no workload and no claim
	ownerOf   map[fleet.Key]fleet.Key
	tickets   map[fleet.Key]fleet.Ticket
	procs     []fleet.Process

	findings []fleet.Finding
	block    []fleet.Evidence // room for the evidence of findings to come
}

func newComparison(in Input) *comparison {
	c := &comparison{
		in: in, claims: map[fleet.Key]*fleet.Claim{}, changed: map[fleet.Key]bool{}, elsewhere: map[fleet.Key]fleet.HostID{},
		owned:  map[fleet.Key][]*fleet.Process{},
		things: map[fleet.Key][]*fleet.Resource{}, ownerOf: map[fleet.Key]fleet.Key{}, tickets: map[fleet.Key]fleet.Ticket{},
	}
	if !in.SelfClaims {
		c.indexClaims()
	}
	if in.Facts.Status == fleet.OK {
		c.facts, c.known = in.Facts.Value, true
		c.indexFacts()
	}
	return c
}

// indexClaims notes, for each key, what the newest reading says that can be
// relied on, and whether the one before said something else. A claim that is
// gone and one that is not there are the same.
func (c *comparison) indexClaims() {
	now, okAfter := c.byKey(c.in.After)
	if c.in.Before.Status == c.in.After.Status && slices.EqualFunc(c.in.Before.Value, c.in.After.Value, identical) {
		c.was, c.claims = now, now // as nearly always
		return
	}
	was, okBefore := c.byKey(c.in.Before)
	if okBefore && okAfter {
		for k, claim := range now {
			if old := was[k]; old == nil || !sameClaim(*claim, *old) {
				c.changed[k] = true
			}
		}
	}
	c.was, c.claims = was, now
	for k, claim := range was {
		if now[k] == nil {
			c.changed[k] = c.changed[k] || okAfter
			c.claims[k] = claim
		}
	}
}

// byKey keeps the claims on this host that are not gone. Where two have the same
// key, what runs goes before what rests, so that neither hides something that
// may be there.
func (c *comparison) byKey(r fleet.Reading[[]fleet.Claim]) (map[fleet.Key]*fleet.Claim, bool) {
	claims := slices.Clone(value(r))
	out := make(map[fleet.Key]*fleet.Claim, len(claims))
	for i := range claims {
		claim := &claims[i]
		if claim.Phase == fleet.Gone {
			continue
		}
		if claim.Host != c.in.Host.ID {
			if host := c.elsewhere[claim.Key]; host == "" || claim.Host < host {
				c.elsewhere[claim.Key] = claim.Host
			}
			continue
		}
		if other := out[claim.Key]; other == nil || preferred(*claim, *other) {
			out[claim.Key] = claim
		}
	}
	return out, r.Status == fleet.OK
}

// value is what was read, and nothing where that can't be relied on.
func value[T any](r fleet.Reading[[]T]) []T {
	if r.Status != fleet.OK {
		return nil
	}
	return r.Value
}

func preferred(a, b fleet.Claim) bool {
	first := func(c fleet.Claim) int {
		if c.Phase == fleet.AtRest {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(first(a), first(b)), b.Changed.Compare(a.Changed), b.Expires.Compare(a.Expires), compareRuns(a.Run, b.Run),
		strings.Compare(string(a.Phase), string(b.Phase)), strings.Compare(a.Status, b.Status),
		strings.Compare(string(a.Class), string(b.Class)), strings.Compare(a.Owner, b.Owner),
	) < 0
}

// identical reports whether all is the same that byKey looks at.
func identical(a, b fleet.Claim) bool {
	return sameClaim(a, b) && a.Key == b.Key && a.Host == b.Host && a.Status == b.Status && a.Class == b.Class && a.Owner == b.Owner &&
		a.Changed.Equal(b.Changed) && a.Expires.Equal(b.Expires)
}

func sameClaim(a, b fleet.Claim) bool { return a.Phase == b.Phase && a.Run == b.Run }

// indexFacts copies what findings will point at, so that they stay as they are
// whatever becomes of the reading.
func (c *comparison) indexFacts() {
	for _, t := range c.facts.OpenTickets() {
		if old, ok := c.tickets[t.Key]; !ok || t.ID < old.ID {
			c.tickets[t.Key] = t
		}
	}
	c.indexWorkloads()
	c.procs = slices.Clone(value(c.facts.Processes))
	slices.SortFunc(c.procs, func(a, b fleet.Process) int { return compareRuns(a.Run, b.Run) })
	for i := range c.procs {
		if p := &c.procs[i]; !p.Owner.IsZero() {
			c.owned[p.Owner] = append(c.owned[p.Owner], p)
		}
	}
	for _, r := range []fleet.Reading[[]fleet.Resource]{c.facts.Netns, c.facts.Loops, c.facts.Dirs} {
		c.indexResources(r)
	}
}

// indexWorkloads groups workloads by key; each group is a part of one sorted
// list.
func (c *comparison) indexWorkloads() {
	list := slices.Clone(value(c.facts.Workloads))
	sorted := make([]*fleet.Workload, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, func(a, b *fleet.Workload) int {
		if n := a.Key.Compare(b.Key); n != 0 {
			return n
		}
		return cmp.Or(compareRuns(a.Run, b.Run), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.Rule, b.Rule))
	})
	c.workloads = make(map[fleet.Key][]*fleet.Workload, len(sorted))
	c.order = make([]fleet.Key, 0, len(sorted))
	for from, to := 0, 1; from < len(sorted); from, to = to, to+1 {
		k := sorted[from].Key
		for to < len(sorted) && sorted[to].Key == k {
			to++
		}
		c.workloads[k] = sorted[from:to:to]
		c.order = append(c.order, k)
		for _, w := range sorted[from:to] {
			for _, thing := range w.Owns {
				c.ownerOf[thing] = k
			}
		}
	}
}

func (c *comparison) indexResources(r fleet.Reading[[]fleet.Resource]) {
	list := slices.Clone(value(r))
	slices.SortFunc(list, func(a, b fleet.Resource) int {
		return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Identity, b.Identity))
	})
	for i := range list {
		res := &list[i]
		if res.System != "" {
			continue
		}
		owner := res.Owner
		if by, ok := c.ownerOf[res.Key]; ok && (owner.IsZero() || !c.spokenFor(owner)) {
			owner = by
		}
		if c.claims[res.Key] != nil {
			owner = res.Key
		}
		if c.spokenFor(owner) {
			c.things[owner] = append(c.things[owner], res)
		} else {
			c.loose = append(c.loose, res)
		}
	}
}

// spokenFor reports whether the key has a finding as a workload or a claim.
func (c *comparison) spokenFor(k fleet.Key) bool {
	return len(c.workloads[k]) > 0 || c.claims[k] != nil
}

// keys lists all workloads and claims, in order: findings that come in order are
// sorted fast.
func (c *comparison) keys() []fleet.Key {
	alone := make([]fleet.Key, 0, len(c.claims))
	for k := range c.claims {
		if len(c.workloads[k]) == 0 {
			alone = append(alone, k)
		}
	}
	slices.SortFunc(alone, fleet.Key.Compare)
	keys := make([]fleet.Key, 0, len(c.order)+len(alone))
	for _, k := range c.order {
		for len(alone) > 0 && alone[0].Compare(k) < 0 {
			keys, alone = append(keys, alone[0]), alone[1:]
		}
		keys = append(keys, k)
	}
	return append(keys, alone...)
}
