// Package planview is the screen of what a drain would do to each workload, what
// would block it, and who may die, before anything is done. It shows one host's
// plan, or those of several hosts below each other in one scroll.
//
// Plans come from the root as values, with what they were made for; the screen
// counts their age and offers to drain as planned, with that very plan.
package planview

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
)

// oldAfter is how old a plan may get before it is marked: the host goes on.
const oldAfter = time.Minute

// made is where the plan of one host stands.
type made struct {
	plan    *drain.Plan
	got     time.Time // by this process's clock
	request feed.Request
	problem string
	busy    bool
}

// Model is the screen.
type Model struct {
	hosts []fleet.HostID // in their order
	table *widget.Table[row]
	d     *drawing
}

// New makes the screen.
func New(env feed.Env) Model {
	d := &drawing{env: env, plans: map[fleet.HostID]made{}}
	m := Model{d: d}
	m.table = widget.NewTable(env.Theme, columns(false), widget.Rows[row]{
		ID:      row.id,
		Cells:   d.cells,
		Section: d.section,
		Heading: d.heading,
		Match:   filterable,
		Sign:    d.sign,
		Empty:   "nothing has to leave",
	})
	return m
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.d.env.Theme = th
	m.table.SetTheme(th)
	return m
}

// SetFrame takes nothing: a plan is made once.
func (m Model) SetFrame(feed.Frame) Model { return m }

// SetHost shows the plan of one host. Where it is one of several that are shown,
// the cursor goes to it.
func (m Model) SetHost(h fleet.HostID) Model {
	if len(m.hosts) > 1 && slices.Contains(m.hosts, h) {
		if m.Host() != h {
			m.table.SelectNext(func(r row) bool { return r.host == h })
		}
		return m
	}
	if len(m.hosts) == 1 && m.hosts[0] == h {
		return m
	}
	return m.SetHosts([]fleet.HostID{h})
}

// SetHosts shows the plans of several hosts below each other, and forgets those
// of others.
func (m Model) SetHosts(hosts []fleet.HostID) Model {
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h fleet.HostID) bool { return h == "" })
	for h := range m.d.plans {
		if !slices.Contains(hosts, h) {
			delete(m.d.plans, h)
		}
	}
	m.hosts, m.d.several = hosts, len(hosts) > 1
	m.table.SetColumns(columns(m.d.several))
	m.table.Lead() // on the first one, while plans come in
	m.refresh()
	return m
}

// SetBusy says that the plan of a host is being made.
func (m Model) SetBusy(h fleet.HostID) Model {
	p := m.d.plans[h]
	p.busy, p.problem = true, ""
	m.d.plans[h] = p
	m.refresh()
	return m
}

// SetPlan takes a host's plan that was made for a request, or why it could not
// be made.
func (m Model) SetPlan(h fleet.HostID, p drain.Plan, r feed.Request, err error) Model {
	if !slices.Contains(m.hosts, h) {
		return m
	}
	now := made{plan: &p, request: r, got: m.d.env.Now()}
	if err != nil {
		now = m.d.plans[h]
		now.busy, now.problem = false, err.Error()
	}
	m.d.plans[h] = now
	m.refresh()
	return m
}

func (m Model) refresh() { m.table.SetRows(m.d.lines(m.hosts)) }

// SetFilter shows only the workloads that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	return m
}

// Host is the host that is shown; of several the one under the cursor.
func (m Model) Host() fleet.HostID {
	if r, ok := m.table.Selected(); ok {
		return r.host
	}
	if len(m.hosts) > 0 {
		return m.hosts[0]
	}
	return ""
}

// Hosts are all hosts that are shown.
func (m Model) Hosts() []fleet.HostID { return m.hosts }

// Stale says whether a plan is missing or old enough to be made anew.
func (m Model) Stale() bool {
	for _, h := range m.hosts {
		if p := m.d.plans[h]; !p.busy && (p.plan == nil || m.d.env.Now().Sub(p.got) > oldAfter) {
			return true
		}
	}
	return false
}

// Focus lists the hosts that the plans are about.
func (m Model) Focus() []fleet.HostID { return m.hosts }

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return len(m.d.plans) > 0 }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Plan }

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.d.env.Keys.Global) {
		return m, nil
	}
	own := m.d.env.Keys.Plan
	h := m.Host()
	switch {
	case h == "":
	case key.Matches(k, own.Drain):
		return m, feed.Send(feed.Want{Verb: feed.Drain, Host: h, Request: m.d.plans[h].request})
	case key.Matches(k, own.Until):
		return m, feed.Send(feed.Want{Verb: feed.Plan, Host: h, Hosts: m.hosts, Edit: true, Request: m.d.plans[h].request})
	case key.Matches(k, own.Details):
		if r, ok := m.table.Selected(); ok && r.note == "" {
			return m, feed.Send(details(r))
		}
	}
	return m, nil
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	m.d.narrow = width < wideFrom
	head := m.head(width)
	if len(head) > height/2 {
		head = append(head[:height/2-1:height/2-1], head[len(head)-1])[:max(0, height/2)]
	}
	body := m.table.View(width, height-len(head))
	if len(m.hosts) < 2 && m.d.plans[m.Host()].plan == nil {
		body = strings.Repeat("\n", max(0, height-len(head)-1))
	}
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}
