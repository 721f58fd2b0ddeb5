package widget

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// paintPause is how long a dialog stays deaf on a terminal that has never
	// answered a query.
	paintPause = 500 * time.Millisecond
	// paintLimit is the same for a terminal that is known to answer, but does
	// not: a link that hangs. Long, since the frame may hang with the answer.
	paintLimit = 10 * time.Second
	// repeatWithin is how close two presses of one key are a key held down.
	repeatWithin = 100 * time.Millisecond
)

// Guard decides which keys a dialog may take for an answer. It drops keys typed
// before the person could see the question, and keys that repeat because they
// are held down. One guard serves the whole session, since it learns whether
// the terminal answers and remembers the key that was pressed last.
//
// That the dialog was painted is known by asking the terminal where its cursor
// is: it answers in order, so keys that come before the answer were typed before
// the terminal had read the question. The program writes queries before frames,
// though: a query may go out ahead of the frame it was meant to follow, while an
// older one is still being written. So two are sent, the second once the first
// is answered. By then the frame was written, and the second lies behind it.
//
// The root model calls Start first, hands tea.CursorPositionMsg to Answer and
// tea.KeyboardEnhancementsMsg to Reports, and runs the commands that come back.
type Guard struct {
	sent, answered int // queries, and answers; a terminal answers in order
	answers        bool
	reports        bool

	open   bool
	opened time.Time
	target int // the answer waited for, as a count
	second bool
	seen   bool

	key    string
	keyAt  time.Time
	hasKey bool
}

// Start asks once at the beginning, to learn whether this terminal answers.
func (g *Guard) Start() tea.Cmd { return g.ask() }

// Open begins a dialog: from now on nothing counts until it was painted.
func (g *Guard) Open(now time.Time) tea.Cmd {
	g.open, g.opened, g.second, g.seen = true, now, false, false
	cmd := g.ask()
	g.target = g.sent
	return cmd
}

// Close ends the dialog.
func (g *Guard) Close() { g.open = false }

func (g *Guard) ask() tea.Cmd {
	g.sent++
	return tea.RequestCursorPosition
}

// Answer takes an answer of the terminal. An answer to a query of an earlier
// dialog counts for nothing but itself.
func (g *Guard) Answer() tea.Cmd {
	if g.answered == g.sent {
		return nil // not asked for: a key that looks like an answer
	}
	g.answered++
	g.answers = true
	if !g.open || g.seen || g.answered < g.target {
		return nil
	}
	if g.second {
		g.seen = true
		return nil
	}
	g.second = true
	cmd := g.ask()
	g.target = g.sent
	return cmd
}

// Reports notes whether the terminal itself tells presses from repeats.
func (g *Guard) Reports(events bool) { g.reports = events }

// Painted says whether the person has the dialog before their eyes.
func (g *Guard) Painted(now time.Time) bool {
	if !g.open {
		return false
	}
	pause := paintPause
	if g.answers {
		pause = paintLimit
	}
	return g.seen || now.Sub(g.opened) >= pause
}

// Accept says whether a key may count in the dialog that is open. It wants to
// see every key, those too that it drops.
func (g *Guard) Accept(k tea.KeyPressMsg, now time.Time) bool {
	name := k.String()
	again := g.hasKey && name == g.key && now.Sub(g.keyAt) < repeatWithin
	g.key, g.keyAt, g.hasKey = name, now, true
	switch {
	case k.IsRepeat, again && !g.reports:
		return false
	}
	return g.Painted(now)
}

// AcceptText is Accept for a key that only writes: a name with a doubled letter
// is typed faster than a held key repeats, and one letter too many can only make
// the name wrong.
func (g *Guard) AcceptText(k tea.KeyPressMsg, now time.Time) bool {
	g.key, g.keyAt, g.hasKey = k.String(), now, true
	return g.Painted(now)
}
