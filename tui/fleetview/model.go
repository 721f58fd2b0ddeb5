// Package fleetview is the screen of all hosts: one line each, those first that
// need a person.
//
// It draws a [feed.Frame] and asks nobody: keys become messages ([feed.Want],
// [feed.Open]) in which the host is frozen by its id. The cursor and the marks
// follow ids, whatever the order does. A host that can't be reached is shown as
// that, with since when and why, never as empty.
package fleetview

import (
	"fmt"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// Model is the screen.
type Model struct {
	env   feed.Env
	frame feed.Frame
	table *widget.Table[*row]
	draw  *drawing
	kept  *kept
	shift *widget.Shift // of the rows under the cursor
}

// New makes the screen.
func New(env feed.Env) Model {
	d := &drawing{env: env}
	m := Model{env: env, draw: d, kept: &kept{}, shift: &widget.Shift{}}
	m.table = widget.NewTable(env.Theme, columns(wideFrom), widget.Rows[*row]{
		ID:      func(r *row) string { return string(r.v.Host.ID) },
		Cells:   d.cells,
		Match:   filterable,
		Sign:    d.sign,
		Heading: d.heading,
		Empty:   "no host is listed yet",
	})
	m.table.Lead()
	return m
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.env.Theme, m.draw.env.Theme = th, th
	m.table.SetTheme(th)
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.frame = f
	m.draw.frame = f
	m.refresh()
	return m
}

func (m Model) refresh() {
	all := m.kept.rows(m.frame, m.draw.as, m.env.Now())
	m.draw.all, m.draw.groups = tally{}, map[string]*tally{}
	for _, r := range all {
		m.draw.all.add(r)
		if m.draw.as.Group != "" {
			t := m.draw.groups[r.group]
			if t == nil {
				t = &tally{}
				m.draw.groups[r.group] = t
			}
			t.add(r)
		}
	}
	before := m.table.Place()
	m.table.SetRows(all)
	m.kept.forget()
	m.shift.See(before, m.table.Place(), m.env.Now())
}

// SetFilter shows only the hosts that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	m.shift.Settle()
	return m
}

// SetHost puts the cursor on a host.
func (m Model) SetHost(h fleet.HostID) Model {
	m.table.Select(string(h))
	return m
}

// Host is the host under the cursor.
func (m Model) Host() fleet.HostID {
	r, ok := m.table.Selected()
	if !ok {
		return ""
	}
	return r.v.Host.ID
}

// Focus lists the hosts whose full facts the screen draws.
func (m Model) Focus() []fleet.HostID {
	var out []fleet.HostID
	for _, r := range m.table.Visible() {
		out = append(out, r.v.Host.ID)
	}
	return out
}

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return len(m.frame.Snapshot.Hosts) > 0 }

// Marks is how many rows are marked.
func (m Model) Marks() int { return m.table.MarkCount() }

// ClearMarks takes all marks away.
func (m Model) ClearMarks() { m.table.ClearMarks() }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Fleet }

// Hint says what comes next for the host under the cursor.
func (m Model) Hint() string {
	r, ok := m.table.Selected()
	switch {
	case ok && r.role == themes.Empty:
		return widget.Name(r.v.Host.ID.Name()) + " is empty: " + words.AfterEmpty
	case ok && r.forsaken && m.frame.Replay == "":
		return "nobody drives the drain of " + widget.Name(r.v.Host.ID.Name()) + ": d takes it up"
	case ok && r.resumes:
		return widget.Name(r.v.Host.ID.Name()) + ": " + r.parked + " " + m.env.Theme.Glyphs.Dot + " " + words.BringsBack
	}
	return ""
}

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || feed.Move(m.table, k, m.env.Keys.Global) {
		return m, nil
	}
	own := m.env.Keys.Fleet
	switch {
	case key.Matches(k, own.Sort):
		return m.nextSort(), nil
	case key.Matches(k, own.Reverse):
		a := m.draw.as
		a.Reverse = !a.Reverse
		return m.Arrange(a), nil
	case key.Matches(k, own.Group):
		return m.nextGroup(), nil
	case key.Matches(k, own.NextNeedsYou):
		if !m.table.SelectNext(func(r *row) bool { return r.needs || r.forgotten }) {
			return m, feed.Send(feed.Say{Text: "no host here needs you"})
		}
		return m, nil
	case key.Matches(k, m.env.Keys.Gate.Verify, m.env.Keys.Gate.Terminate):
		return m, feed.Send(feed.Say{Text: words.OnGate(k.String())}) // they belong to the way on from an empty host
	}
	r, ok := m.table.Selected()
	if !ok {
		return m, nil
	}
	if from, moved := m.table.Moved(); moved {
		m.table.Settle()
		m.shift.Settle()
		return m, feed.Send(feed.Say{Text: fmt.Sprintf("%s is gone from the list: the cursor is on %s now, press again",
			widget.Name(fleet.HostID(from).Name()), widget.Name(r.v.Host.ID.Name()))})
	}
	if key.Matches(k, own.Details) {
		return m, feed.Send(m.draw.details(r))
	}
	acts := key.Matches(k, own.Cordon, own.CordonWhy, own.Uncordon, own.Drain, own.Undrain, own.Resume)
	if acts && m.Marks() == 0 && m.shift.Refuses(m.env.Now()) {
		m.table.Settle()
		return m, feed.Send(feed.Say{Text: "the rows have just moved: the cursor is on " + widget.Name(r.v.Host.ID.Name()) + ", press again"})
	}
	m.table.Settle()
	return m, m.act(k, r)
}

// act turns a key into what is asked of the host under the cursor, or of the
// marked ones.
func (m Model) act(k tea.KeyPressMsg, r *row) tea.Cmd {
	own, id := m.env.Keys.Fleet, r.v.Host.ID
	if n := m.Marks(); n > 0 && key.Matches(k, own.Drain, own.Undrain, own.Uncordon, own.Resume) {
		verb := feed.Drain
		switch {
		case key.Matches(k, own.Uncordon):
			verb = feed.Uncordon
		case key.Matches(k, own.Undrain):
			verb = feed.Undrain
		case key.Matches(k, own.Resume):
			verb = feed.Resume
		}
		return feed.Send(feed.Say{Text: fmt.Sprintf("%s takes one host, and %d are marked: clear the marks with esc, or type :%s %s",
			verb, n, verb, widget.Name(id.Name()))})
	}
	switch {
	case key.Matches(k, own.Cordon), key.Matches(k, own.CordonWhy):
		want := feed.Want{Verb: feed.Cordon, Host: id, Edit: key.Matches(k, own.CordonWhy)}
		want.Hosts, want.Hidden = m.meant(id)
		m.table.ClearMarks()
		return feed.Send(want)
	case key.Matches(k, own.Uncordon):
		return feed.Send(feed.Want{Verb: feed.Uncordon, Host: id})
	case key.Matches(k, own.Drain):
		return feed.Send(feed.Want{Verb: feed.Drain, Host: id})
	case key.Matches(k, own.Undrain):
		return feed.Send(feed.Want{Verb: feed.Undrain, Host: id})
	case key.Matches(k, own.Resume):
		return feed.Send(feed.Want{Verb: feed.Resume, Host: id})
	case key.Matches(k, own.Open):
		return feed.Send(feed.Open{Screen: keys.Board, Host: id})
	}
	return nil
}

// Marked lists the marked hosts that can be seen, and counts those that a filter
// hides.
func (m Model) Marked() (hosts []fleet.HostID, hidden int) {
	marked, hidden := m.table.Marked()
	for _, r := range marked {
		hosts = append(hosts, r.v.Host.ID)
	}
	return hosts, hidden
}

// meant is the marked hosts that can be seen, or the one under the cursor.
func (m Model) meant(cursor fleet.HostID) (hosts []fleet.HostID, hidden int) {
	if hosts, hidden = m.Marked(); len(hosts) == 0 {
		hosts = []fleet.HostID{cursor}
	}
	return hosts, hidden
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	m.draw.measure(width)
	m.table.SetColumns(columns(width))
	m.table.SetGap(gap(width))
	head := m.head(width)
	if height < 6 {
		head = nil
	}
	body := m.table.View(width, height-len(head))
	return widget.Exact(append(head, split(body)...), width, height)
}
