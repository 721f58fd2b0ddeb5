package handoverview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// Page is what one shift tells the next, as a value.
type Page struct {
	At     time.Time `json:"at"`  // by the journal's clock
	For    string    `json:"for"` // who reads it
	Needs  []Line    `json:"needs"`
	Drains []Line    `json:"drains"`
	Next   []Line    `json:"next"` // what happens by itself in the next hours, soonest first
	Holds  []Line    `json:"holds"`
	Parked []Line    `json:"parked"` // at rest on their hosts until somebody resumes them
	Told   []Line    `json:"told"`   // notices sent, and promises made
	Forced []Line    `json:"forced"` // workloads that a signal ended in the last hours, newest first
	Gone   []Line    `json:"terminated"`
	Words  []Line    `json:"words"` // what was written for the next shift, newest first
}

// Line is one line of the page: whose, since or until when, and what.
type Line struct {
	Host  fleet.HostID `json:"host,omitempty"` // empty: about no host
	About string       `json:"about,omitempty"`
	Who   string       `json:"who,omitempty"`
	Since time.Time    `json:"since,omitzero"`
	Due   time.Time    `json:"due,omitzero"`
	Text  string       `json:"text"`

	id     string
	silent bool // a host that does not answer
}

// Section is a part of the page under its title.
type Section struct {
	Title string
	Lines []Line
}

// Sections are the parts in the order in which they are read.
func (p Page) Sections() []Section {
	return []Section{{"needs somebody", p.Needs}, {"drains", p.Drains}, {"next hours", p.Next}, {"holds", p.Holds},
		{"parked", p.Parked}, {"notices and promises", p.Told}, {"ended by force", p.Forced}, {"terminated", p.Gone}, {"last words", p.Words}}
}

// What bounds the page, so that it stays one.
const (
	ahead      = 4 * time.Hour  // how far it looks
	behind     = 12 * time.Hour // and how far back: the longest shift
	mostNext   = 8              // lines of what comes by itself
	mostForced = 8
	mostWords  = 8
)

// Make builds the page from a frame: now is this process's clock, local where the
// person is.
func Make(f feed.Frame, now time.Time, local *time.Location) Page {
	m := maker{f: f, now: now, clock: f.Clock(now), local: local, p: Page{At: f.Clock(now), For: f.Config.Operator}}
	for i := range f.Snapshot.Hosts {
		v := &f.Snapshot.Hosts[i]
		s, has := f.Drains[v.Host.ID]
		m.forced(v.Host.ID, s)
		m.parked(v.Host.ID, s)
		if has && words.Terminated(v, &s) != "" {
			m.p.Gone = append(m.p.Gone, Line{Host: v.Host.ID, Since: s.Terminated, Who: s.TerminatedBy, Text: words.Terminated(v, &s), id: "gone"})
			continue
		}
		if has = has && s.Drain != "" && !s.Undone; has {
			m.ofDrain(v, s)
		}
		m.ofHost(v, &s, has)
	}
	m.ofEvents()
	byHost := func(a, b Line) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.id, b.id)) }
	for _, lines := range [][]Line{m.p.Needs, m.p.Drains, m.p.Holds, m.p.Parked, m.p.Told, m.p.Gone} {
		slices.SortStableFunc(lines, byHost)
	}
	slices.SortStableFunc(m.p.Forced, func(a, b Line) int { return cmp.Or(b.Since.Compare(a.Since), byHost(a, b)) })
	if extra := len(m.p.Forced) - mostForced; extra > 0 {
		m.p.Forced = append(m.p.Forced[:mostForced-1:mostForced-1], Line{Since: m.p.Forced[mostForced-1].Since, Text: fmt.Sprintf("and %d more: the log has them all", extra+1), id: "more forced"})
	}
	slices.SortStableFunc(m.p.Next, func(a, b Line) int { return cmp.Or(a.Due.Compare(b.Due), byHost(a, b)) })
	if extra := len(m.p.Next) - mostNext; extra > 0 {
		m.p.Next = append(m.p.Next[:mostNext-1:mostNext-1], Line{Due: m.p.Next[mostNext-1].Due, Text: fmt.Sprintf("and %d more: 2, the boards, have them all", extra+1), id: "more"})
	}
	return m.p
}

// maker builds a page.
type maker struct {
	f          feed.Frame
	now, clock time.Time
	local      *time.Location
	p          Page
}

// ofHost are the holds of a host, and its silence.
func (m *maker) ofHost(v *fleet.HostView, s *drain.State, drained bool) {
	id := v.Host.ID
	holds, at, _ := v.Holds()
	if c := holds.Cordon; c != nil {
		text := "cordoned"
		if c.Why != "" {
			text += ": " + words.Text(c.Why)
		}
		if !drained {
			text += " (no drain)"
		}
		if m.f.Replay == "" && m.now.Sub(at) > feed.StaleAfter {
			text += ", as read " + widget.Ago(m.now.Sub(at))
		}
		m.p.Holds = append(m.p.Holds, Line{Host: id, Since: c.Since, Who: c.Who, Text: text, id: "hold"})
	}
	if !v.Unreachable.IsZero() && (holds.Any() || drained) && words.Terminating(s) == "" {
		m.p.Needs = append(m.p.Needs, Line{Host: id, Since: v.Unreachable, silent: true, id: "silent",
			Text: "held and unreachable since " + words.HM(v.Unreachable) + ": " + words.Text(v.Problem)})
	}
}

// ofDrain are a drain, what blocks it by name, what comes next, and what its
// owners were told.
func (m *maker) ofDrain(v *fleet.HostView, s drain.State) {
	id := v.Host.ID
	text := words.Phase(s.Phase) + ", " + words.StillLeft(s)
	switch {
	case s.Driver != "":
		text += ", driven by " + words.Name(s.Driver)
	case !s.Phase.Ended():
		text += ", nobody drives"
	}
	if s.Reason != "" {
		text += ": " + words.Text(s.Reason)
	}
	m.p.Drains = append(m.p.Drains, Line{Host: id, About: s.Drain, Since: s.Started, Due: s.Deadline, Who: s.By.Name, Text: text, id: "drain"})
	m.blocks(id, s)
	if !s.Phase.Ended() {
		m.next(id, Line{Due: s.Deadline, Who: s.By.Name, id: "deadline"}, "the drain's deadline")
	}
	for _, k := range sorted(s.Items) {
		if it := s.Items[k]; it.Open() {
			m.ofItem(id, s, it)
		}
	}
}

// blocks is what needs somebody, each by name.
func (m *maker) blocks(id fleet.HostID, s drain.State) {
	add := func(name, text string) {
		m.p.Needs = append(m.p.Needs, Line{Host: id, About: name, Text: text, id: "needs/" + name})
	}
	if !m.f.Driving[id] && s.Forsaken(m.clock) {
		add("driver", "nobody drives its drain: ebb drain "+words.Host(id)+" takes it up")
	}
	switch {
	case s.Person || s.NeedsPerson():
		add("", "the drain waits for a person: "+words.Reason(s.Waiting))
	case s.Phase == drain.DeadlineReached:
		add("", "the deadline was reached at "+words.HM(s.Since)+": extend, escalate by name, or stop")
	}
	for _, is := range s.Issues {
		if _, listed := s.Items[is.Key]; !listed && s.Phase != drain.Parked { // what it waits for is nobody's to clear
			add(is.Check+" "+is.Key.String(), "in the way: "+words.Issue(is))
		}
	}
	for _, k := range sorted(s.Items) {
		it := s.Items[k]
		switch {
		case it.End == drain.Lost:
			add(k.String(), words.Key(k)+" "+words.Doing(it, m.f.Policy, false))
		case it.Open() && drain.NeedsPerson(it.Reason.Code):
			name := words.Key(k)
			if it.Owner != "" {
				name += " of " + words.Name(it.Owner)
			}
			add(k.String(), name+": "+words.Doing(it, m.f.Policy, false))
		}
	}
}

// ofItem is what comes next of a workload, and what its owner was told.
func (m *maker) ofItem(id fleet.HostID, s drain.State, it drain.Item) {
	k := it.Key
	if s.Driver == "" && m.f.Driving[id] { // the journal has not told yet
		s.Driver = m.f.Config.Operator
	}
	due := words.DueOf(it, s, m.f.Policy, m.clock)
	if what := due.What; what == "TERM" || what == "KILL" || what == "expires" || what == "notice" {
		if what == "notice" {
			what = "escalated, its owner told before:"
			if !m.f.Policy.Receivers {
				what = "escalated, nobody told (no receiver):"
			}
		}
		m.next(id, Line{Due: due.At, Who: it.Owner, About: k.String(), id: "due/" + k.String()}, what+" "+words.Key(k))
	}
	if it.NoticeAt.IsZero() {
		return
	}
	text := words.Key(k) + " told " + words.HM(it.NoticeAt)
	switch {
	case it.Untold:
		text = words.Key(k) + ": " + words.NotTold
	case !it.Accepted && !m.f.Policy.Receivers:
		text = words.Key(k) + ": " + words.NoReceiver
	}
	if !due.IsZero() {
		text += ", " + due.What + " " + words.HM(due.At)
	}
	m.p.Told = append(m.p.Told, Line{Host: id, About: k.String(), Since: it.NoticeAt, Due: due.At, Who: it.Owner, Text: text, id: "notice/" + k.String()})
}

// forced are the workloads of a host that a signal ended in the last hours, also
// where the drain is over: whoever comes next is asked about them.
func (m *maker) forced(id fleet.HostID, s drain.State) {
	for _, k := range sorted(s.Items) {
		it := s.Items[k]
		if !words.Forced(it) || m.clock.Sub(it.EndAt) >= behind {
			continue
		}
		m.p.Forced = append(m.p.Forced, Line{Host: id, About: k.String(), Since: it.EndAt, Who: it.Owner, id: "forced/" + k.String(),
			Text: words.Key(k) + " " + words.Ending(it) + " " + words.HM(it.EndAt)})
	}
}

// parked are the workloads that are at rest on a host, also where its drain is over
// and its holds are lifted.
func (m *maker) parked(id fleet.HostID, s drain.State) {
	for _, k := range s.Parked() {
		it := s.Items[k]
		text := words.Key(k)
		if it.Owner != "" {
			text += " of " + words.Name(it.Owner)
		}
		if it.Resume.IsZero() {
			text += ": comes back on word only (ebb resume " + words.Host(id) + ")"
		} else {
			text += ": " + words.Doing(it, m.f.Policy, false)
		}
		m.p.Parked = append(m.p.Parked, Line{Host: id, About: k.String(), Since: it.ParkedAt(), Who: cmp.Or(it.ParkBy, s.By.Name), Text: text, id: "parked/" + k.String()})
	}
}

// next is something that happens by itself, at the wall time of both places.
func (m *maker) next(id fleet.HostID, l Line, what string) {
	if l.Due.Sub(m.clock) >= ahead {
		return
	}
	l.Host = id
	l.Text = words.HM(l.Due) + " UTC, " + l.Due.In(m.local).Format("15:04") + " here: " + what
	m.p.Next = append(m.p.Next, l)
}

// ofEvents are words, and promises that still bind somebody.
func (m *maker) ofEvents() {
	seen := map[string]bool{}
	for i, e := range slices.Concat(m.f.Words, m.f.Events) {
		body, err := e.Decode()
		if err != nil || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if _, word := body.(drain.AskHandover); word && i >= len(m.f.Words) {
			continue // one that is not believed, or was left out as too old
		}
		l := Line{Host: fleet.HostID(e.Stream), Since: e.At, Who: e.By.Name, Text: words.Body(body), id: "word/" + e.ID}
		if l.Host == feed.Shift {
			l.Host = ""
		}
		switch b := body.(type) {
		case drain.AskHandover:
			m.p.Words = append(m.p.Words, l)
		case drain.AskMoreTime:
			m.promised(e, l, b.Key, func(s drain.State, it drain.Item) bool { return it.Extra >= b.By || it.Budget.Move >= b.By })
		case drain.AskHold:
			m.promised(e, l, b.Key, func(_ drain.State, it drain.Item) bool { return it.Held })
		case drain.AskKeep:
			m.promised(e, l, b.Key, func(_ drain.State, it drain.Item) bool { return it.Keep })
		case drain.AskExtend:
			m.promised(e, l, fleet.Key{}, func(s drain.State, _ drain.Item) bool { return s.Phase != drain.Stopped && s.Deadline.Equal(b.Until) })
		}
	}
	slices.SortStableFunc(m.p.Words, func(a, b Line) int { return b.Since.Compare(a.Since) })
	m.p.Words = m.p.Words[:min(len(m.p.Words), mostWords)]
}

// promised keeps what somebody was promised while it still matters: the drain
// goes on, the workload is there, and the state says that the promise was taken.
func (m *maker) promised(e drain.Event, l Line, k fleet.Key, taken func(drain.State, drain.Item) bool) {
	s, ok := m.f.Drains[fleet.HostID(e.Stream)]
	if !ok || s.Drain != e.Drain || s.Over() || s.Phase == drain.Empty {
		return
	}
	it, listed := s.Items[k]
	if !k.IsZero() && (!listed || !it.Open()) || !taken(s, it) {
		return
	}
	l.About = k.String()
	if k.IsZero() {
		l.About = ""
	}
	m.p.Told = append(m.p.Told, l)
}

func sorted(items map[fleet.Key]drain.Item) []fleet.Key {
	out := make([]fleet.Key, 0, len(items))
	for k := range items {
		out = append(out, k)
	}
	slices.SortFunc(out, fleet.Key.Compare)
	return out
}
