package tui

import (
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/tui/paint"
)

// How often the screen is drawn. A key shows at once, or on a slow line four
// times a second; what counts by itself shows once a second there.
const (
	drawKeys      = 15 * time.Millisecond
	drawFeed      = 100 * time.Millisecond
	drawKeysSlow  = 250 * time.Millisecond
	drawFeedSlow  = time.Second
	slowFirstTime = 1500 * time.Millisecond // for the first screen and the answer behind it
)

// canvas decides when the screen is drawn, and hands it to the terminal. Its
// clock is the machine's: it is about the line, not about what is shown.
type canvas struct {
	out   *paint.Output // nil: the program draws what View returns
	slow  bool          // asked for
	found bool          // the line turned out to be slow
	since time.Time     // when the first query was sent; zero: it was answered

	due   bool // the next View draws
	drawn time.Time
	next  time.Time // when a drawing is due anyway; zero: none
	asked int       // the question that was drawn last, as the guard counts
}

// drawMsg says that a moment has come that a drawing was put off to.
type drawMsg struct{ at time.Time }

// slowly says whether to spare the line.
func (c *canvas) slowly() bool { return c.slow || c.found || c.out != nil && c.out.Slow() }

// answered notes the first answer of the terminal: it lay behind the first
// screen, so it took as long as that.
func (c *canvas) answered(now time.Time) {
	if c.out != nil && !c.since.IsZero() {
		c.found = now.Sub(c.since) > slowFirstTime
		c.since = time.Time{}
	}
}

// pace says when what a message has changed is drawn: now, or by a command. A
// question is drawn at once, since the query that asks whether it was painted
// must not be ahead of it.
func (m *Model) pace(msg tea.Msg) tea.Cmd {
	c := &m.canvas
	if c.out == nil {
		return nil
	}
	now := time.Now()
	every := drawKeys
	switch msg := msg.(type) {
	case drawMsg:
		if !msg.at.Equal(c.next) {
			return nil // something else was drawn sooner
		}
		c.due = true
		return nil
	case frameMsg, tickMsg, rolledMsg, focusedMsg:
		if every = drawFeed; c.slowly() {
			every = drawFeedSlow
		}
	case tea.ColorProfileMsg:
		c.out.SetProfile(msg.Profile)
	default:
		if c.slowly() {
			every = drawKeysSlow
		}
	}
	at := c.drawn.Add(every)
	if m.guard.Waiting() && c.asked != m.guard.Dialog() || !at.After(now) {
		c.due = true
		return nil
	}
	if !c.next.IsZero() && !c.next.After(at) {
		return nil
	}
	c.next = at
	ctx := m.ctx
	return func() tea.Msg {
		if !pause(ctx, time.Until(at)) {
			return nil
		}
		return drawMsg{at}
	}
}

// draw hands the screen to the terminal where that is due.
func (m *Model) draw() {
	c := &m.canvas
	if !c.due || m.width < 1 || m.height < 1 {
		return
	}
	c.due, c.drawn, c.next = false, time.Now(), time.Time{}
	n := c.out.Show(m.Screen(), m.width, m.height)
	if d := m.guard.Dialog(); m.guard.Waiting() && c.asked != d {
		c.asked = d
		c.out.Await(n)
	}
}

// unsent tells the guard where the question is not even on its way yet: the
// pause of a terminal that never answers begins when it was sent.
func (m *Model) unsent(now time.Time) {
	c := &m.canvas
	if c.out == nil || !m.guard.Waiting() {
		return
	}
	if at, ok := c.out.Sent(); ok && c.asked == m.guard.Dialog() {
		now = now.Add(-time.Since(at))
	}
	m.guard.Unsent(now)
}

// tty is a terminal that the program finds its size and its settings on, while
// what it writes goes through the output.
type tty struct {
	*paint.Output
	file *os.File
}

func (t tty) Read(b []byte) (int, error) { return t.file.Read(b) }
func (t tty) Fd() uintptr                { return t.file.Fd() }
func (t tty) Close() error               { return nil }

// newTerminal is what the program writes to, and the output behind it.
func newTerminal(to io.Writer) (io.Writer, *paint.Output) {
	out := paint.NewOutput(to)
	if f, ok := to.(*os.File); ok {
		return tty{out, f}, out
	}
	return out, out
}
