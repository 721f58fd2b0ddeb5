package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// wantDrain asks for deadline, purpose and reason, has the plan made, shows it,
// and asks. A drain that is there already is taken up.
func (m *Model) wantDrain(w feed.Want) tea.Cmd {
	j := job{verb: feed.Drain, host: w.Host}
	if s, ok := m.drainOf(w.Host); ok && s.Phase != drain.Stopped {
		return m.takeUp(j, s)
	}
	deadline := w.Request.Deadline
	if deadline <= 0 {
		deadline = defaultDeadline
	}
	f := &form{host: w.Host, fields: []field{
		{name: "deadline", value: []rune(words.Duration(deadline)), fresh: true},
		{name: "for", options: purposes()},
		{name: "reason"},
	}}
	purpose, reason := purposeOf(w.Text)
	f.fields[1].chosen = slices.Index(f.fields[1].options, string(purpose))
	if reason != "" {
		f.fields[2].value = []rune(reason)
	} else if holds, _, _ := m.holds(w.Host); holds.Cordon != nil {
		f.fields[2].value, f.fields[2].fresh = []rune(widget.Clean(holds.Cordon.Why)), true
	}
	return m.show(f)
}

// purposeOf takes "for kernel" off the beginning of what was typed behind a host.
func purposeOf(text string) (fleet.Purpose, string) {
	if rest, ok := strings.CutPrefix(text, "for "); ok {
		word, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if p := fleet.Purpose(word); slices.Contains(fleet.Purposes, p) {
			return p, strings.TrimSpace(reason)
		}
	}
	return fleet.ForUnstated, text
}

func (m *Model) takeUp(j job, s drain.State) tea.Cmd {
	switch {
	case m.frame.Driving[j.host]:
		m.say(noteInfo, "this console drives the drain of "+widget.Name(j.host.Name())+" already: x extends it, s stops it")
		return nil
	case s.Driver != "" && !s.Phase.Ended():
		m.say(noteInfo, words.Name(s.Driver)+" drives the drain of "+widget.Name(j.host.Name()))
		return nil
	}
	verbs := m.opt.Verbs
	return m.ask(widget.Question{
		Title: "take up the drain of " + widget.Name(j.host.Name()),
		Lines: []string{fmt.Sprintf("drain %s of %s: %s, %s, deadline %s", words.Name(s.Drain), words.Name(s.By.Name), words.Phase(s.Phase), words.StillLeft(s), words.HM(s.Deadline)), "nobody drives it; this console would"},
		Act:   "take it up", Undoable: true,
	}, func(m *Model) tea.Cmd {
		return m.start(j, func(ctx context.Context) (string, error) {
			return verbs.Drain(ctx, j.host, feed.Request{}, drain.Plan{})
		})
	})
}

// askDrain shows the plan and asks. Who may die stands first, by name.
func (m *Model) askDrain(h fleet.HostID, r feed.Request, p drain.Plan) tea.Cmd {
	j := job{verb: feed.Drain, host: h}
	var lines []string
	for _, b := range p.Blocks {
		lines = append(lines, "BLOCKS: "+words.Text(b))
	}
	for _, it := range p.Items {
		if p.LateBy(it) {
			lines = append(lines, "TOO LATE: "+words.Key(it.Key)+of(it.Owner)+" has until "+words.HM(it.GoneBy)+", after the deadline")
		}
	}
	for _, it := range p.Items {
		if it.MayDie && !it.ExpiresInTime() {
			text := "MAY DIE: " + words.Key(it.Key) + of(it.Owner)
			if it.Class != fleet.Stuck {
				text += ", if this does not end it in time"
			}
			lines = append(lines, text+": "+words.Text(it.Strategy))
		}
	}
	if p.Untold {
		lines = append(lines, "owners are not told before: no receiver of notices is configured")
	}
	for _, it := range p.Items {
		if !it.MayDie || it.ExpiresInTime() {
			lines = append(lines, planLine(it))
		}
	}
	if len(p.Items) == 0 {
		what := "nothing has to leave"
		if p.Unread != "" {
			what = "what runs there is not known"
		}
		lines = append(lines, what)
	}
	end := "it would not end by itself: see what stays"
	switch {
	case p.Expected.IsZero():
	case p.Parks > 0:
		end = fmt.Sprintf("expected at %s: all have left but the %d parked here", words.HM(p.Expected), p.Parks)
	default:
		end = "expected to be empty at " + words.HM(p.Expected)
	}
	lines = append(lines, "", end)
	if r.Reason != "" {
		lines = append(lines, "reason, for all to read: "+words.Text(r.Reason))
	}
	title := "drain " + widget.Name(h.Name()) + " until " + words.HM(p.Deadline)
	if r.For != "" {
		title += " for " + string(r.For)
	}
	verbs := m.opt.Verbs
	return m.ask(widget.Question{Title: title, Lines: lines, Act: "drain", Undoable: true}, func(m *Model) tea.Cmd {
		if s, ok := m.drainOf(h); ok && s.Phase != drain.Stopped {
			return m.refuse(j, because("drain "+words.Name(s.Drain)+" of "+words.Name(s.By.Name)+" has begun in the meantime"))
		}
		cmd := m.start(j, func(ctx context.Context) (string, error) { return verbs.Drain(ctx, h, r, p) })
		return tea.Batch(cmd, m.open("board", h))
	})
}

// of names an owner behind a name; who has none is not named.
func of(owner string) string {
	if owner == "" {
		return ""
	}
	return " of " + words.Name(owner)
}

func planLine(it drain.PlanItem) string {
	text := words.Key(it.Key) + of(it.Owner) + " (" + words.Class(it.Class) + "): "
	if !it.Reason.IsZero() {
		return text + "STAYS: " + words.Reason(it.Reason)
	}
	text += words.Text(it.Strategy)
	if it.Target != "" {
		text += " to " + words.Host(it.Target)
	}
	switch {
	case it.ExpiresInTime():
		text += ", expires in time at " + words.HM(it.GoneBy) + "; killed only if it outlives that"
	case !it.GoneBy.IsZero():
		text += ", gone by " + words.HM(it.GoneBy)
	}
	return text
}

func purposes() []string {
	out := []string{""}
	for _, p := range fleet.Purposes {
		out = append(out, string(p))
	}
	return out
}

// form asks what a drain is for, before its plan is made.
type form struct {
	host    fleet.HostID
	fields  []field
	at      int
	busy    bool
	problem string
}

// field is one line of a form: typed, or chosen among options.
type field struct {
	name    string
	value   []rune
	fresh   bool // an offer that nobody has touched: what is typed takes its place
	options []string
	chosen  int
	typed   string // of an option's name, so far
}

func (f *form) open(g *widget.Guard, now time.Time) tea.Cmd { return g.Open(now) }

func (f *form) key(m *Model, k tea.KeyPressMsg, now time.Time) (bool, tea.Cmd) {
	counts := m.guard.Accept(k, now)
	switch name := k.String(); {
	case name == "esc", name == "ctrl+c":
		m.guard.Close()
		m.say(noteInfo, "not done: drain "+widget.Name(f.host.Name()))
		return true, nil
	case !counts && name == "enter", f.busy:
		return false, nil
	case name == "enter":
		return false, f.submit(m)
	case name == "tab", name == "down":
		f.at = (f.at + 1) % len(f.fields)
	case name == "shift+tab", name == "up":
		f.at = (f.at + len(f.fields) - 1) % len(f.fields)
	default:
		f.problem = f.fields[f.at].edit(k)
		return false, nil
	}
	f.problem = ""
	return false, nil
}

// edit takes a key, and says what is wrong with it.
func (d *field) edit(k tea.KeyPressMsg) string {
	if len(d.options) > 0 {
		return d.choose(k)
	}
	if d.fresh && k.Text != "" {
		d.value = nil
	}
	d.fresh = false
	switch k.String() {
	case "backspace", "ctrl+h":
		d.value = d.value[:max(0, len(d.value)-1)]
	case "ctrl+u":
		d.value = nil
	default:
		if len(d.value) < 160 {
			d.value = append(d.value, []rune(k.Text)...)
		}
	}
	return ""
}

// choose goes through the options, or to the one whose name is typed.
func (d *field) choose(k tea.KeyPressMsg) string {
	n := len(d.options)
	switch name := k.String(); {
	case name == "right", name == "space":
		d.chosen, d.typed = (d.chosen+1)%n, ""
	case name == "left":
		d.chosen, d.typed = (d.chosen+n-1)%n, ""
	case name == "backspace", name == "ctrl+h", name == "ctrl+u":
		d.chosen, d.typed = 0, ""
	case k.Text != "":
		for _, word := range []string{d.typed + strings.ToLower(k.Text), strings.ToLower(k.Text)} {
			if at := slices.IndexFunc(d.options, func(o string) bool { return strings.HasPrefix(cmp.Or(o, "unstated"), word) }); at >= 0 {
				d.chosen, d.typed = at, word
				return ""
			}
		}
		return d.name + ": " + strings.Join(d.options[1:], ", ") + ", or unstated"
	}
	return ""
}

func (f *form) submit(m *Model) tea.Cmd {
	d, err := words.ReadDuration(string(f.fields[0].value))
	if err != nil {
		f.at, f.problem = 0, "the deadline: "+err.Error()
		return nil
	}
	purpose := fleet.Purpose(f.fields[1].options[f.fields[1].chosen])
	if purpose != "" && !slices.Contains(fleet.Purposes, purpose) {
		return nil
	}
	f.busy, f.problem = true, ""
	r := feed.Request{Deadline: d, For: purpose, Reason: strings.TrimSpace(string(f.fields[2].value))}
	return m.makePlan(f.host, r, f)
}

func (f *form) paste() { f.problem = "paste is not taken here: type it" }

func (f *form) view(width, _ int, _ time.Time, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	line := func(text string) string { return widget.Fit(" "+text, width) }
	out := []string{line(s.Title.Render("drain " + plain(widget.Name(f.host.Name()), g))), line("")}
	for i, d := range f.fields {
		cursor, value, hint := " ", plain(string(d.value), g), ""
		if len(d.options) > 0 {
			if value = d.options[d.chosen]; value == "" {
				value = "unstated"
			}
			hint = s.Dim.Render("   " + strings.Join(d.options[1:], " "+g.Dot+" "))
		}
		text := s.Input.Render(value)
		if d.fresh && i == f.at {
			text = s.Selected.Render(value)
		}
		if i == f.at {
			cursor = s.Cursor.Render(g.Cursor)
			if len(d.options) == 0 {
				text += s.Cursor.Render("_")
			} else {
				hint += s.KeyHint.Render("  left right")
			}
		}
		out = append(out, line(cursor+" "+s.Dim.Render(widget.Fit(d.name, 10))+text+hint))
	}
	foot := s.KeyHint.Render("enter") + s.Dim.Render(" show the plan   ") + s.KeyHint.Render("tab") + s.Dim.Render(" next   ") + s.KeyHint.Render("esc") + s.Dim.Render(" no")
	if f.busy {
		foot = s.Dim.Render("the plan is being made" + g.Ellipsis)
	}
	if f.problem != "" {
		foot = s.Warn.Render(plain(f.problem, g))
	}
	return append(out, line(""), line(foot))
}
