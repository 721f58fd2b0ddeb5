package tui

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
)

// Model is the root. It is used by one program, through a pointer.
type Model struct {
	ctx    context.Context // the console's lifetime: commands end with it
	opt    Options
	env    feed.Env
	panes  panes
	guard  widget.Guard
	canvas canvas

	width, height int
	frame         feed.Frame
	have          bool // a frame has come

	cur   keys.Scope
	host  fleet.HostID // the host that the screens of one host are about
	trail []place      // where esc goes

	over   overlay // on top of everything; nil without one
	later  overlay // waits until the one on top is closed
	line   *line   // being typed; nil without one
	filter map[keys.Scope]string

	running  map[job]run
	drove    map[fleet.HostID]string // drains that this console drives, until they end
	mine     map[fleet.HostID]bool   // hosts whose drain was ended from here
	film     *film                   // a journal that is played again; nil: this is now
	jobs     int                     // runs started so far: their ids
	planGen  int                     // times that plans were asked for; older answers are dropped
	planNext []fleet.HostID          // hosts whose plan is still to be made
	gateGen  int
	note     note
	taken    int // messages so far

	stopped bool // by ctrl-z; nothing counts until it was taken up again

	ticking  bool // a tick is under way
	soon     bool // within a second
	tickGen  int  // which; older ones are dropped
	focus    []fleet.HostID
	focusing bool
}

// place is a screen and the host it was about.
type place struct {
	screen keys.Scope
	host   fleet.HostID
}

// note is the last word on what was done. It goes with the next key, with the
// screen it was said on, or after a while; an error stays until the next act.
type note struct {
	text  string
	kind  noteKind
	at    time.Time // by this process's clock
	taken int       // the number of the message with which it came
}

// noteFor is how long a word stays that is no error.
const noteFor = 30 * time.Second

// stands says whether a note is still to be read.
func (n note) stands(now time.Time) bool {
	return n.text != "" && (n.kind == noteBad || now.Sub(n.at) < noteFor)
}

type noteKind int

const (
	noteInfo noteKind = iota
	noteOK
	noteBad
)

// New makes a console whose commands end with ctx.
func New(ctx context.Context, o Options) (*Model, error) {
	o = o.defaults()
	th, err := o.theme(true)
	if err != nil {
		return nil, err
	}
	m := &Model{
		ctx: ctx, opt: o, cur: keys.Fleet,
		filter: map[keys.Scope]string{}, running: map[job]run{},
		drove: map[fleet.HostID]string{}, mine: map[fleet.HostID]bool{},
	}
	m.env = feed.Env{Theme: th, Keys: keys.Default(), Now: m.now, Local: o.Local}
	m.panes = newPanes(m.env)
	if o.Replay != nil {
		m.play(*o.Replay, "")
	}
	return m, nil
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd {
	m.canvas.since = time.Now()
	cmds := []tea.Cmd{m.guard.Start(), m.next(nil), m.rolls()}
	if m.opt.Theme == "" {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return tea.Batch(cmds...)
}

type (
	// frameMsg is the latest frame, and what is closed when there is a newer one.
	frameMsg struct {
		frame feed.Frame
		next  <-chan struct{}
	}
	tickMsg    struct{ gen int }
	focusedMsg struct{}
)

// frameEvery bounds how often frames are taken: ten a second.
const frameEvery = 100 * time.Millisecond

// next waits for a newer frame, but not longer than the console lives, and takes
// the latest there is then.
func (m *Model) next(newer <-chan struct{}) tea.Cmd {
	ctx, source := m.ctx, m.opt.Source
	if source == nil {
		return nil // a replay that nothing goes on behind
	}
	return func() tea.Msg {
		if newer != nil && !pause(ctx, frameEvery) {
			return nil
		}
		if newer != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-newer:
			}
		}
		f, next := source.Latest()
		return frameMsg{f, next}
	}
}

// pause waits, and says whether the time has passed.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	return m, tea.Batch(cmd, m.tick(), m.refocus(), m.pace(msg))
}

func (m *Model) update(msg tea.Msg) tea.Cmd {
	m.taken++
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case frameMsg:
		if m.film != nil {
			m.film.live, m.film.have = msg.frame, true
		} else {
			m.take(msg.frame)
		}
		return m.next(msg.next)
	case rolledMsg:
		return m.rolled(msg)
	case tapeMsg:
		return m.gotTape(msg)
	case tickMsg:
		if msg.gen != m.tickGen {
			return nil
		}
		return m.ticked()
	case focusedMsg:
		m.focusing = false
	case tea.CursorPositionMsg:
		m.canvas.answered(time.Now())
		return m.guard.Answer(msg.X, msg.Y)
	case tea.KeyboardEnhancementsMsg:
		m.guard.Reports(msg.SupportsEventTypes())
	case tea.ColorProfileMsg:
		m.recolour(msg.Profile)
	case tea.BackgroundColorMsg:
		m.retheme(msg.IsDark())
	case tea.ResumeMsg:
		return m.resumed()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.MouseWheelMsg:
		return m.wheel(msg)
	case tea.PasteMsg:
		m.paste(msg)
	case feed.Open:
		return m.open(msg.Screen, msg.Host)
	case feed.Play:
		return m.rewind(msg)
	case feed.Want:
		return m.want(msg)
	case feed.Show:
		return m.show(newPage(msg.Title, msg.Lines))
	case feed.Say:
		m.say(noteInfo, msg.Text)
	case doneMsg:
		return m.done(msg)
	case planMsg:
		return m.planned(msg)
	case gateMsg:
		return m.gated(msg)
	}
	return nil
}

// take takes a frame.
func (m *Model) take(f feed.Frame) {
	m.frame, m.have = f, true
	m.endedElsewhere()
	m.panes.hand(f, m.cur)
	if m.host == "" && m.cur == keys.Fleet {
		m.host = m.panes.all[keys.Fleet].Host()
	}
}

// idleTick is how often a page on which nothing counts is drawn anew, so that
// the age of what feeds it is never far from the truth.
const idleTick = 10 * time.Second

// tick lets a second pass where something on the screen counts.
func (m *Model) tick() tea.Cmd {
	counts := m.over != nil || len(m.running) > 0 || m.panes.all[m.cur].Counting()
	if m.width == 0 || m.ticking && (m.soon || !counts) {
		return nil
	}
	m.ticking, m.soon = true, counts
	m.tickGen++
	ctx, wait, gen := m.ctx, idleTick, m.tickGen
	if counts {
		wait = time.Second - time.Duration(m.frame.Clock(m.env.Now()).Nanosecond())
	}
	return func() tea.Msg {
		if !pause(ctx, wait) {
			return nil
		}
		return tickMsg{gen}
	}
}

// ticked reads the gate anew while it is looked at.
func (m *Model) ticked() tea.Cmd {
	m.ticking = false
	if m.over != nil {
		return m.guard.Again(m.env.Now())
	}
	if m.cur != keys.Gate || m.host == "" || m.over != nil || m.gone(m.host) != "" {
		return nil
	}
	_, at, ok := m.panes.gate.now().Gate()
	busy := false
	for j := range m.running {
		busy = busy || j.verb == feed.Check || j.verb == feed.Verify || j.host == m.host
	}
	if !ok || busy || m.film != nil || m.env.Now().Sub(at) < gateEvery {
		return nil
	}
	return m.readGate(feed.Check, m.host)
}

// gateEvery is how often the gate is read while it is looked at.
const gateEvery = 10 * time.Second

// refocus tells which hosts are on the screen, one call at a time, so that the
// last one told is the last one meant.
func (m *Model) refocus() tea.Cmd {
	want := m.panes.all[m.cur].Focus()
	if m.focusing || !m.have || slices.Equal(want, m.focus) {
		return nil
	}
	m.focus, m.focusing = want, true
	verbs := m.opt.Verbs
	return func() tea.Msg {
		verbs.Focus(want...)
		return focusedMsg{}
	}
}

// retheme follows what the terminal says of its background.
func (m *Model) retheme(dark bool) {
	th, err := m.opt.theme(dark)
	if err != nil || th.Name == m.env.Theme.Name {
		return
	}
	if err := m.wear(m.opt.Theme, dark); err != nil {
		m.say(noteBad, err.Error())
	}
}

// recolour draws with what is left of the theme in the colours that the terminal
// shows.
func (m *Model) recolour(p colorprofile.Profile) {
	n := 0
	switch p {
	case colorprofile.ANSI256:
		n = 256
	case colorprofile.ANSI:
		n = 16
	}
	if n == m.opt.colours {
		return
	}
	m.opt.colours = n
	if err := m.wear(m.opt.Theme, m.env.Theme.Dark); err != nil {
		m.say(noteBad, err.Error())
	}
}

// wear draws with another theme. Whatever a person has marked, sorted, opened or
// scrolled to stays.
func (m *Model) wear(name string, dark bool) error {
	o := m.opt
	o.Theme = name
	th, err := o.theme(dark)
	if err != nil {
		return err
	}
	m.opt, m.env.Theme = o, th
	for _, s := range m.panes.all {
		s.setTheme(th)
	}
	return nil
}

func (m *Model) say(kind noteKind, text string) { m.note = note{text, kind, m.opt.Now(), m.taken} }

// errorFor is how long an error is kept on the way to another screen: one that
// came in the moment before the key would not be read otherwise.
const errorFor = 5 * time.Second

// leaveNote drops a word on what was done on the screen that is left. What is said
// of the new one stays.
func (m *Model) leaveNote() {
	if n := m.note; n.taken != m.taken && (n.kind != noteBad || m.opt.Now().Sub(n.at) >= errorFor) {
		m.note = note{}
	}
}

// view returns the host as the latest frame has it.
func (m *Model) view(h fleet.HostID) fleet.HostView {
	v, _ := m.frame.Snapshot.Host(h)
	return v
}

// holds returns the holds of a host as the latest frame has them.
func (m *Model) holds(h fleet.HostID) (holds fleet.Holds, at time.Time, known bool) {
	v := m.view(h)
	return v.Holds()
}
