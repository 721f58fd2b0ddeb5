package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/replay"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// film is a journal that is played again on the console's screens. What is shown
// comes from the player alone; the console behind goes on, unseen, and comes back
// as it was. Three things keep a replay from acting: its keys are answered here,
// whatever is wanted is refused, and its verbs do nothing.
type film struct {
	player replay.Player
	first  keys.Scope // the screen it began with
	gen    int        // which tick is waited for; older ones are dropped
	last   time.Time  // by this process's clock: when time was last let pass

	// The console behind.
	alone  bool // there is none
	live   feed.Frame
	have   bool
	verbs  feed.Verbs
	panes  panes
	cur    keys.Scope
	host   fleet.HostID
	trail  []place
	filter map[keys.Scope]string
}

// rollEvery is how often time passes on the screen while a journal is played.
const rollEvery = 250 * time.Millisecond

type (
	rolledMsg struct{ gen int }
	// tapeMsg is the journal that was read for a replay, or why it could not be.
	tapeMsg struct {
		play feed.Play
		tape *replay.Tape
		err  error
	}
)

// now is the moment that screens draw: of the journal that is played, else of
// this process's clock. Keys, questions and notes run by the latter alone.
func (m *Model) now() time.Time {
	if m.film != nil {
		return m.film.player.Now()
	}
	return m.opt.Now()
}

// rewind reads the whole journal, where it can be read.
func (m *Model) rewind(p feed.Play) tea.Cmd {
	if m.film != nil {
		m.say(noteInfo, "this is a replay already")
		return nil
	}
	m.say(noteInfo, "reading the journal"+m.env.Theme.Glyphs.Ellipsis)
	events, ctx := m.frame.Events, m.ctx
	history, whole := m.opt.Source.(feed.Historian)
	return func() tea.Msg {
		if whole {
			ctx, cancel := context.WithTimeout(ctx, verbLimit)
			defer cancel()
			all, err := history.History(ctx)
			if err != nil {
				return tapeMsg{play: p, err: err}
			}
			events = all
		}
		t, err := replay.Of(events)
		return tapeMsg{p, t, err}
	}
}

// gotTape begins the replay, unless the person has gone on to something else.
func (m *Model) gotTape(t tapeMsg) tea.Cmd {
	switch {
	case errors.Is(t.err, replay.ErrEmpty):
		m.say(noteInfo, "the journal has nothing to replay yet")
	case t.err != nil:
		m.say(noteBad, "replay: the journal can't be read: "+words.Text(t.err.Error()))
	case m.film != nil || m.over != nil || m.line != nil || m.cur != keys.Log:
		m.say(noteInfo, "the journal has been read: R on the log plays it")
	default:
		p := replay.NewPlayer("journal", t.tape)
		if t.play.ID != "" {
			p = p.ToEvent(t.play.ID)
		} else if t.play.Host != "" {
			p = p.ToDrain(t.play.Host)
		}
		m.note = note{}
		m.play(p, t.play.Host)
		return m.rolls()
	}
	return nil
}

// play puts a replay in the place of the console.
func (m *Model) play(p replay.Player, host fleet.HostID) {
	m.film = &film{player: p, alone: m.opt.Replay != nil, live: m.frame, have: m.have, verbs: m.opt.Verbs,
		panes: m.panes, cur: m.cur, host: m.host, trail: m.trail, filter: m.filter}
	hosts := p.Tape().Hosts()
	m.cur, m.host = keys.Fleet, ""
	if len(hosts) > 0 {
		m.host = hosts[0]
	}
	if host != "" || len(hosts) == 1 {
		m.cur = keys.Board
	}
	if host != "" {
		m.host = host
	}
	m.film.first = m.cur
	m.opt.Verbs, m.panes, m.trail, m.filter = replay.Nothing{}, newPanes(m.env), nil, map[keys.Scope]string{}
	m.gateGen++ // whatever is still being read is about the console behind
	m.planGen++
	m.showFilm()
	m.panes.all[keys.Board].setHost(m.host)
	if notes := p.Tape().Notes; len(notes) > 0 {
		m.say(noteInfo, strings.Join(notes, "; "))
	}
}

// leave goes back to the console behind, or ends the program where there is none.
func (m *Model) leave() tea.Cmd {
	f := m.film
	if f.alone {
		return tea.Quit
	}
	m.film = nil
	m.opt.Verbs, m.panes, m.cur, m.host, m.trail, m.filter = f.verbs, f.panes, f.cur, f.host, f.trail, f.filter
	m.guard.Close()
	m.over, m.later, m.line, m.note, m.focus = nil, nil, nil, note{}, nil
	m.gateGen++
	m.planGen++
	if f.have {
		m.take(f.live)
	}
	return nil
}

// leaveOrSay is esc on the screen that a replay began with.
func (m *Model) leaveOrSay() tea.Cmd {
	if m.film.alone {
		m.say(noteInfo, "q ends the replay")
		return nil
	}
	return m.leave()
}

// leaveBlind is a key on a screen that is too small to read.
func (m *Model) leaveBlind(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return m.leave()
	}
	return nil
}

// showFilm hands the player's frame to the screens.
func (m *Model) showFilm() {
	m.frame, m.have = m.film.player.Frame(), true
	m.panes.hand(m.frame, m.cur)
}

// turn goes to another place on the tape.
func (m *Model) turn(p replay.Player) tea.Cmd {
	was := m.film.player.Playing()
	m.film.player = p
	m.showFilm()
	if p.Playing() && !was {
		return m.rolls()
	}
	return nil
}

// rolls lets time pass while the journal is played.
func (m *Model) rolls() tea.Cmd {
	if m.film == nil || !m.film.player.Playing() {
		return nil
	}
	m.film.gen++
	m.film.last = m.opt.Now()
	return m.roll(m.film.gen)
}

func (m *Model) roll(gen int) tea.Cmd {
	ctx := m.ctx
	return func() tea.Msg {
		if !pause(ctx, rollEvery) {
			return nil
		}
		return rolledMsg{gen}
	}
}

func (m *Model) rolled(msg rolledMsg) tea.Cmd {
	if m.film == nil || msg.gen != m.film.gen || !m.film.player.Playing() {
		return nil
	}
	now := m.opt.Now()
	m.film.player = m.film.player.Advance(now.Sub(m.film.last))
	m.film.last = now
	m.showFilm()
	if !m.film.player.Playing() {
		return nil
	}
	return m.roll(msg.gen)
}

// filmKey takes the keys of a replay, and answers those that would act.
func (m *Model) filmKey(k tea.KeyPressMsg) (tea.Cmd, bool) {
	if m.film == nil {
		return nil, false
	}
	r, p := m.env.Keys.Replay, m.film.player
	switch {
	case key.Matches(k, r.Leave):
		return m.leave(), true
	case key.Matches(k, r.Pause):
		return m.turn(p.Pause()), true
	case key.Matches(k, r.Faster):
		return m.turn(p.Faster()), true
	case key.Matches(k, r.Slower):
		return m.turn(p.Slower()), true
	case key.Matches(k, r.Step):
		return m.turn(p.Step(1)), true
	case key.Matches(k, r.Before):
		return m.turn(p.Step(-1)), true
	case key.Matches(k, r.Begin):
		return m.turn(p.Begin()), true
	case key.Matches(k, r.End):
		return m.turn(p.End()), true
	case key.Matches(k, r.Person):
		next, ok := p.NextPerson()
		if !ok {
			m.say(noteInfo, "nobody is needed after this")
		}
		return m.turn(next), true
	case key.Matches(k, r.Time):
		m.line = m.input("to a time (14:26:30 UTC, +5m, -30s)", p.Now().UTC().Format("15:04:05"), (*Model).seek)
		return nil, true
	}
	for verb, b := range acts(m.env.Keys, m.cur) {
		if key.Matches(k, b) {
			m.say(noteInfo, isReplay(verb))
			return nil, true
		}
	}
	return nil, false
}

// acts are the keys of a screen that ask for something to be done. Whatever were
// missing here is refused where it is wanted.
func acts(k keys.Map, s keys.Scope) map[feed.Verb]key.Binding {
	switch s {
	case keys.Fleet:
		cordon := k.Fleet.Cordon
		cordon.SetKeys(append(cordon.Keys(), k.Fleet.CordonWhy.Keys()...)...)
		return map[feed.Verb]key.Binding{feed.Cordon: cordon, feed.Uncordon: k.Fleet.Uncordon, feed.Drain: k.Fleet.Drain, feed.Undrain: k.Fleet.Undrain, feed.Resume: k.Fleet.Resume}
	case keys.Board:
		b := k.Board
		return map[feed.Verb]key.Binding{feed.Escalate: b.Escalate, feed.MoreTime: b.MoreTime, feed.Reclass: b.Class, feed.Hold: b.Hold,
			feed.Keep: b.Keep, feed.Retry: b.Retry, feed.Park: b.Park, feed.Ship: b.Ship, feed.Resume: b.Resume, feed.TargetGone: b.TargetGone,
			feed.Extend: b.Extend, feed.Stop: b.Stop, feed.Undrain: b.Undrain, feed.Drain: b.Drain}
	case keys.Diff:
		return map[feed.Verb]key.Binding{feed.Clean: k.Diff.Clean}
	case keys.Gate:
		g := k.Gate
		return map[feed.Verb]key.Binding{feed.Verify: g.Verify, feed.Terminate: g.Terminate, feed.Accept: g.Accept, feed.Clean: g.Clean}
	case keys.Plan:
		return map[feed.Verb]key.Binding{feed.Drain: k.Plan.Drain}
	case keys.Handover:
		both := k.Handover.Accept
		both.SetKeys(append(both.Keys(), k.Handover.Write.Keys()...)...)
		return map[feed.Verb]key.Binding{feed.HandOver: both}
	}
	return nil
}

// isReplay answers whoever wants to act in a replay.
func isReplay(v feed.Verb) string { return "this is a replay: nothing to " + string(v) + " in it" }

// seek goes to a moment: a wall time of that day, a whole date, or so far from
// here.
func (m *Model) seek(text string) tea.Cmd {
	if m.film == nil {
		return nil
	}
	at, err := moment(text, m.film.player.Now())
	if err != nil {
		m.say(noteBad, err.Error())
		return nil
	}
	return m.turn(m.film.player.Seek(at))
}

func moment(text string, from time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		if d, err := time.ParseDuration(text); err == nil {
			return from.Add(d), nil
		}
	}
	day := from.UTC().Format("2006-01-02 ")
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04"} {
		for _, s := range []string{day + text, text} {
			if at, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
				return at, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("not a time: %s (14:26, 14:26:30, 2026-11-29 14:26, +5m)", words.Text(text))
}

// unknown says on screens that are read, not folded, that a journal has nothing
// for them.
func (m *Model) unknown() {
	switch m.cur {
	case keys.Gate:
		m.panes.gate.m = m.panes.gate.now().SetGate(feed.Gate{}, errors.New("this is a replay: a gate is read from the host, and is not in a journal"))
	case keys.Plan:
		m.panes.plan.m = m.panes.plan.now().SetPlan(m.host, drain.Plan{}, feed.Request{}, errors.New("this is a replay: a plan is made from the host, and is not in a journal"))
	}
}

// area is the room for the screens: a replay has its mark beside them.
func (m *Model) area() (w, h int) {
	if m.film != nil {
		return m.width - filmMark, m.height
	}
	return m.width, m.height
}

// filmMark is the width of the mark on every line of a replay.
const filmMark = 2

// framed puts the mark of a replay before every line.
func (m *Model) framed(text string) string {
	if m.film == nil || m.width < 1 || m.height < 1 {
		return text
	}
	bar := "│"
	if m.env.Theme.Glyphs.ASCII {
		bar = "|"
	}
	mark := m.env.Theme.Styles.Warn.Render("R")
	if m.width > 1 {
		mark = m.env.Theme.Styles.Warn.Render("R" + bar)
	}
	if m.width <= filmMark {
		return strings.TrimSuffix(strings.Repeat(mark+"\n", m.height), "\n")
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = mark + lines[i]
	}
	return strings.Join(lines, "\n")
}

// filmHead is the line on top of a replay: what is played, where, how fast.
func (m *Model) filmHead(w int) string {
	s, p := m.env.Theme.Styles, m.film.player
	left := " " + s.Title.Render("ebb") + "  " + s.Warn.Render("REPLAY") + "  "
	if w >= 60 {
		left += s.Dim.Render(plain(widget.Name(p.Name()), m.env.Theme.Glyphs) + "  ")
	}
	left += s.Dim.Render(m.crumbs(max(w-60, 12)))
	how := "paused"
	if p.Playing() {
		how = "playing"
	} else if p.Over() {
		how = "at the end"
	}
	n, of := p.At()
	right := s.Info.Render(how) + s.Dim.Render(fmt.Sprintf(" %dx   ", p.Speed()))
	right += p.Now().UTC().Format("15:04:05") + s.Dim.Render(" UTC")
	if w >= 60 {
		right += s.Dim.Render(fmt.Sprintf("   event %d of %d", n, of))
	}
	return widget.Sides(left, right+" ", w)
}

// filmLine is the keys of a replay.
func (m *Model) filmLine() []key.Binding {
	g := m.env.Keys.Global
	return append(append([]key.Binding{g.Help}, m.env.Keys.Own(keys.Replay)...), g.Screen[1], g.Screen[6], g.Filter, g.Back)
}

// help is the keys that work now.
func (m *Model) help() *help {
	h := newHelp(m.env.Keys, m.cur)
	if m.film != nil {
		h.groups = append([]widget.HelpGroup{{Title: "replay", Bindings: m.env.Keys.Own(keys.Replay)}}, h.groups...)
	}
	return h
}

// lastEvent is what happened last, at the foot of a replay.
func (m *Model) lastEvent() string {
	n, _ := m.film.player.At()
	e := m.film.player.Tape().Events()[n-1]
	text := words.HMS(e.At) + "  " + words.Host(fleet.HostID(e.Stream)) + "  " + words.Event(e)
	if e.By.Name != "" {
		text += "  (" + words.Name(e.By.Name) + ")"
	}
	return m.env.Theme.Styles.Dim.Render(plain(text, m.env.Theme.Glyphs))
}
