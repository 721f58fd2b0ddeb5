package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
)

// order is one way to sort hosts. Rows that it holds for equal stand by name.
type order struct {
	name string
	less func(a, b *row) int
}

// orders are all of them, in the order in which the key goes through them. None
// depends on the second: rows move when something has happened, not because time
// has passed.
var orders = []order{
	{"attention", func(a, b *row) int { return cmp.Compare(a.rank, b.rank) }},
	{"host", func(a, b *row) int { return cmp.Compare(a.v.Host.ID, b.v.Host.ID) }},
	{"state", func(a, b *row) int { return cmp.Compare(a.word, b.word) }},
	{"since", func(a, b *row) int { return oldest(a.since, b.since) }},
	{"idle", func(a, b *row) int { return cmp.Compare(b.free(), a.free()) }},
	{"work", func(a, b *row) int { return cmp.Compare(b.sum, a.sum) }},
	{"diff", func(a, b *row) int { return cmp.Compare(b.dirty, a.dirty) }},
	{"agent", func(a, b *row) int { return cmp.Compare(a.heard, b.heard) }},
	{"drain", func(a, b *row) int { return oldest(a.ends(), b.ends()) }},
}

// Orders lists the names that hosts can be sorted by. A "-" before one turns it
// round.
func Orders() []string {
	out := make([]string, len(orders))
	for i, o := range orders {
		out[i] = o.name
	}
	return out
}

// Arrangement is how the hosts of the screen stand: sorted by what, from which
// end, and under which label of theirs ("" for none, "state", "plane" or any
// label).
type Arrangement struct {
	Sort    string
	Reverse bool
	Group   string
}

func (a Arrangement) sorted() order {
	for _, o := range orders {
		if o.name == a.Sort {
			return o
		}
	}
	return orders[0]
}

// compare puts one group behind the other, and in each the rows as sorted.
func (a Arrangement) compare(x, y *row, less func(a, b *row) int) int {
	if x.group != y.group {
		return compareGroups(x.group, y.group)
	}
	sorted := less(x, y)
	if a.Reverse {
		sorted = -sorted
	}
	if sorted != 0 {
		return sorted
	}
	return cmp.Or(cmp.Compare(x.v.Host.ID, y.v.Host.ID), cmp.Compare(x.place, y.place))
}

// String says it in the words of the commands.
func (a Arrangement) String() string {
	text := "sorted: " + a.sorted().name
	if a.Reverse {
		text += ", reversed"
	}
	return text
}

// Arrangement is how the hosts stand now.
func (m Model) Arrangement() Arrangement { return m.draw.as }

// Arrange has the hosts stand otherwise. The cursor stays on its host.
func (m Model) Arrange(a Arrangement) Model {
	m.draw.as = a
	m.table.SetSection(nil)
	m.refresh()
	if a.Group != "" {
		m.table.SetSection(func(r *row) string { return r.group })
	}
	m.shift.Settle() // who arranges looks at what becomes of it
	return m
}

// Sort sorts by a name of [Orders], as it was typed.
func (m Model) Sort(text string) (Model, error) {
	name, reverse := strings.CutPrefix(strings.TrimSpace(text), "-")
	if !slices.Contains(Orders(), name) {
		return m, fmt.Errorf("hosts can be sorted by %s", strings.Join(Orders(), ", "))
	}
	a := m.draw.as
	a.Sort, a.Reverse = name, reverse
	return m.Arrange(a), nil
}

// Group puts hosts of one label's value together; "none" takes that back.
func (m Model) Group(label string) (Model, error) {
	a := m.draw.as
	switch label = strings.TrimSpace(label); {
	case label == "none" || label == "":
		a.Group = ""
	case slices.Contains(m.Groups(), label):
		a.Group = label
	default:
		return m, fmt.Errorf("no host has a label %s: there are %s", widget.Name(label), strings.Join(append(m.Groups(), "none"), ", "))
	}
	return m.Arrange(a), nil
}

// Groups lists what hosts can be grouped by: pool and rack first where hosts
// have them, their other labels, and what every host has.
func (m Model) Groups() []string {
	labels := map[string]bool{}
	for _, v := range m.frame.Snapshot.Hosts {
		for k := range v.Host.Labels {
			labels[k] = true
		}
	}
	var out, rest []string
	for _, k := range []string{"pool", "rack"} {
		if labels[k] {
			out = append(out, k)
			delete(labels, k)
		}
	}
	for k := range labels {
		rest = append(rest, k)
	}
	slices.Sort(rest)
	return append(append(out, rest...), "state", "plane")
}

// nextSort and nextGroup go through what there is.
func (m Model) nextSort() Model {
	a := m.draw.as
	at := slices.Index(Orders(), a.sorted().name)
	a.Sort, a.Reverse = orders[(at+1)%len(orders)].name, false
	return m.Arrange(a)
}

func (m Model) nextGroup() Model {
	a := m.draw.as
	all := append([]string{""}, m.Groups()...)
	a.Group = all[(slices.Index(all, a.Group)+1)%len(all)]
	return m.Arrange(a)
}

func oldest(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// free is how many GPUs nothing uses; unknown stands behind none.
func (r *row) free() int {
	busy, all, ok := r.gpus()
	if !ok {
		return -1
	}
	return all - busy
}

// work is how many workloads there are; unknown stands behind none.
func (r *row) work() int {
	n, ok := r.classes()
	if !ok || r.gone != "" {
		return -1
	}
	sum := 0
	for _, c := range n {
		sum += c
	}
	return sum
}

// ends is when the host's drain gives up trying.
func (r *row) ends() time.Time {
	if r.s == nil || r.s.Phase.Ended() {
		return time.Time{}
	}
	return r.s.Deadline
}

// silent is how badly an agent is heard: unreachable, never, not lately, lately.
// Seconds do not count here: the list would not stand still.
func silent(v *fleet.HostView, now time.Time) int {
	at := feed.ReadAt(v)
	switch {
	case !v.Unreachable.IsZero():
		return 0
	case at.IsZero():
		return 1
	case now.Sub(at) > feed.StaleAfter:
		return 2
	}
	return 3
}
