// Package logview is the screen of the journal: what was asked, done and found,
// a line each, newest at the end.
//
// It draws the events of a [feed.Frame], all or those of one host, and follows
// the end while nobody moves the cursor away from it. The event as it was
// written is one key away.
package logview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// Model is the screen.
type Model struct {
	env    feed.Env
	host   fleet.HostID // empty: all hosts
	frame  feed.Frame
	table  *widget.Table[drain.Event]
	follow bool
	look   *feed.Env // what cells are drawn with
}

var columns = []widget.Column{
	{Title: "UTC", Min: 8},
	{Title: "HOST", Min: 8, Weight: 1, Max: 18, Priority: 2},
	{Title: "BY", Min: 6, Weight: 1, Max: 16, Priority: 3},
	{Title: "WHAT", Min: 12, Weight: 8},
}

// New makes the screen.
func New(env feed.Env) Model {
	look := &env
	m := Model{env: env, look: look, follow: true}
	m.table = widget.NewTable(env.Theme, columns, widget.Rows[drain.Event]{
		ID: func(e drain.Event) string { return strconv.FormatUint(e.Seq, 10) + "/" + e.ID },
		Cells: func(e drain.Event) []widget.Cell {
			s := look.Theme.Styles
			return []widget.Cell{
				widget.T(words.HMS(e.At), s.Dim),
				widget.T(widget.Name(fleet.HostID(e.Stream).Name()), lipgloss.Style{}),
				widget.T(widget.Name(e.By.Name), s.Dim),
				widget.T(words.Event(e), style(*look, e)),
			}
		},
		Match: Filterable,
		Empty: "the journal has nothing yet",
	})
	return m
}

// Filterable is what a filter sees of an event: its line, its fields, and with
// workload: each workload it is about, by kind/id or by id.
func Filterable(e drain.Event) widget.Filterable {
	return widget.Filterable{
		Text:   strings.Join([]string{e.Stream, e.By.Name, string(e.Kind), words.Event(e)}, " "),
		Fields: map[string]string{"host": fleet.HostID(e.Stream).Name(), "by": e.By.Name, "kind": string(e.Kind), "drain": e.Drain},
		Many: func(field string) []string {
			if field != "workload" {
				return nil
			}
			return workloads(e.Body)
		},
	}
}

// workloads are those that a body names under key, keys or may_die, at any depth:
// so it is with every kind of event, those too that are not known here.
func workloads(body json.RawMessage) []string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil
	}
	var out []string
	add := func(v any) {
		if s, ok := v.(string); ok {
			out = append(out, s)
			if _, id, ok := strings.Cut(s, "/"); ok {
				out = append(out, id)
			}
		}
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for name, one := range v {
				switch list, many := one.([]any); {
				case name == "key":
					add(one)
				case many && (name == "keys" || name == "may_die"):
					for _, k := range list {
						add(k)
					}
				default:
					walk(one)
				}
			}
		}
	}
	walk(v)
	return out
}

// style marks what must not be overlooked; what the driver does by itself is
// quiet.
func style(env feed.Env, e drain.Event) lipgloss.Style {
	s := env.Theme.Styles
	switch e.Kind {
	case "drive.deadline", "rec.refused", "rec.terminate_intent", "rec.terminate_outcome", "drive.record":
		return s.Danger
	case "drive.late":
		return s.Warn
	case "drive.ended":
		if bytes.Contains(e.Body, []byte(`"lost"`)) {
			return s.Danger
		}
	case "drive.waits", "drive.took", "drive.released", "drive.intent":
		return s.Dim
	}
	return lipgloss.Style{}
}

// SetTheme draws with another theme from now on; all else stays as it is.
func (m Model) SetTheme(th themes.Theme) Model {
	m.env.Theme, m.look.Theme = th, th
	m.table.SetTheme(th)
	return m
}

// SetFrame takes the latest state of everything.
func (m Model) SetFrame(f feed.Frame) Model {
	m.frame = f
	m.refresh()
	return m
}

// SetHost shows the events of one host; of all for none.
func (m Model) SetHost(h fleet.HostID) Model {
	if h != m.host {
		m.host, m.follow = h, true
		m.refresh()
	}
	return m
}

func (m Model) refresh() {
	events := m.frame.Events
	if m.host != "" {
		events = nil
		for _, e := range m.frame.Events {
			if fleet.HostID(e.Stream) == m.host {
				events = append(events, e)
			}
		}
	}
	m.table.SetRows(events)
	if m.follow {
		m.table.Last()
	}
}

// SetFilter shows only the events that match.
func (m Model) SetFilter(f widget.Filter) Model {
	m.table.SetFilter(f)
	m.table.Settle() // who filters looks at what it leaves
	if m.follow {
		m.table.Last()
	}
	return m
}

// Host is the host whose events are shown.
func (m Model) Host() fleet.HostID { return m.host }

// Focus lists no host: the journal is not read from one.
func (m Model) Focus() []fleet.HostID { return nil }

// Counting reports whether anything on the screen changes with time alone.
func (m Model) Counting() bool { return false }

// Scope is where its keys have their meaning.
func (m Model) Scope() keys.Scope { return keys.Log }

// Update takes a key.
func (m Model) Update(msg tea.Msg) (Model, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return m, nil
	}
	if feed.Move(m.table, k, m.env.Keys.Global) {
		m.follow = key.Matches(k, m.env.Keys.Global.End)
		return m, nil
	}
	switch {
	case key.Matches(k, m.env.Keys.Log.Follow):
		if m.follow = !m.follow; m.follow {
			m.table.Last()
		}
	case key.Matches(k, m.env.Keys.Log.Replay):
		play := feed.Play{Host: m.host}
		if e, ok := m.table.Selected(); ok && !m.follow {
			play.ID = e.ID
		}
		return m, feed.Send(play)
	case key.Matches(k, m.env.Keys.Log.Details):
		if e, ok := m.table.Selected(); ok {
			return m, feed.Send(details(e))
		}
	}
	return m, nil
}

// details is an event as it stands in the journal.
func details(e drain.Event) feed.Show {
	out := []string{
		words.Event(e), "",
		fmt.Sprintf("event    %d, number %d of %s", e.Seq, e.Num, words.Name(e.Stream)),
		"at       " + e.At.UTC().Format("2006-01-02 15:04:05.000 MST"),
		"by       " + words.Name(e.By.Name) + " at " + words.Name(e.By.Console),
		fmt.Sprintf("drain    %s, epoch %d", words.Name(e.Drain), e.Epoch),
	}
	if e.Sig == "" {
		out = append(out, "signed   no")
	} else {
		out = append(out, "signed   by "+words.Name(e.By.Key)+", not checked here")
	}
	out = append(out, "")
	var b bytes.Buffer
	if err := json.Indent(&b, e.Body, "", "  "); err != nil {
		b.Reset()
		b.Write(e.Body)
	}
	return feed.Show{Title: widget.Name(string(e.Kind)), Lines: append(out, strings.Split(b.String(), "\n")...)}
}

// View draws the screen in exactly height lines of exactly width cells.
func (m Model) View(width, height int) string {
	if width < 1 || height < 1 {
		return ""
	}
	s := m.env.Theme.Styles
	of := "all hosts"
	if m.host != "" {
		of = widget.Name(m.host.Name())
	}
	shown, all := m.table.Len()
	right := "following"
	if !m.follow {
		right = "not following (f)"
	}
	if pos := m.table.Position(); pos != "" {
		right = pos + "   " + right
	}
	count := fmt.Sprintf("%d events", all)
	if shown != all {
		count = fmt.Sprintf("%d of %d events", shown, all)
	}
	if all >= feed.EventsKept {
		count += ", older ones: ebb log"
	}
	head := []string{widget.Sides(" "+s.Title.Render(of)+s.Dim.Render("   "+count), s.Dim.Render(right+" "), width), widget.Rule(width, m.env.Theme)}
	if height < 6 {
		head = nil
	}
	body := m.table.View(width, height-len(head))
	return widget.Exact(append(head, strings.Split(body, "\n")...), width, height)
}
