package widget

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// paintPause is how long a dialog stays deaf on a terminal that has never
	// answered a query.
	paintPause = 500 * time.Millisecond
	// askAgain is how long an answer may take before the terminal is asked once
	// more: answers get lost, and a dialog must not stay deaf for that.
	askAgain = 2 * time.Second
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
// the terminal had read the question. The program may write queries before
// frames, though: a query may go out ahead of the frame it was meant to follow,
// while an older one is still being written. So two are sent, the second once
// the first is answered. By then the frame was written, and the second lies
// behind it.
//
// Each query first puts the (hidden) cursor on a place of its own, so an answer
// says which query it answers: a late one to an earlier dialog counts for
// nothing, and one that gets lost is asked for again.
//
// A terminal that has ever answered must answer for each dialog, however long
// that takes: it may hang, and a key it has buffered meanwhile was typed blind.
// Only one that never answered counts by a pause, see [Guard.Unsent].
//
// The root model calls Start first, hands tea.CursorPositionMsg to Answer and
// tea.KeyboardEnhancementsMsg to Reports, calls Again once in a while, and runs
// the commands that come back.
type Guard struct {
	sent    int // queries so far: their numbers
	answers bool
	reports bool

	open          bool
	opened, asked time.Time
	first, second int // the first query of this dialog, and of its second stage; 0: none
	seen          bool

	key    string
	keyAt  time.Time
	hasKey bool
}

// Start asks once at the beginning, to learn whether this terminal answers.
func (g *Guard) Start() tea.Cmd { return g.ask() }

// Open begins a dialog: from now on nothing counts until it was painted.
func (g *Guard) Open(now time.Time) tea.Cmd {
	g.open, g.opened, g.asked, g.second, g.seen = true, now, now, 0, false
	cmd := g.ask()
	g.first = g.sent
	return cmd
}

// Reopen begins the dialog that is open once more, after the screen was away.
func (g *Guard) Reopen(now time.Time) tea.Cmd {
	if !g.open {
		return nil
	}
	return g.Open(now)
}

// Close ends the dialog.
func (g *Guard) Close() { g.open = false }

// Waiting says whether a dialog is open that is not known to be painted.
func (g *Guard) Waiting() bool { return g.open && !g.seen }

// Dialog tells one dialog from another: every opening has its own number.
func (g *Guard) Dialog() int { return g.first }

// Again asks once more where an answer is overdue.
func (g *Guard) Again(now time.Time) tea.Cmd {
	if !g.Waiting() || now.Sub(g.asked) < askAgain {
		return nil
	}
	g.asked = now
	return g.ask()
}

// Queries stand in the corner that every screen has on which anything can be
// answered at all, but for its first line: an answer from there may be a key.
const (
	queryCols  = MinWidth
	queryRows  = MinHeight - 1
	queryCells = queryCols * queryRows
)

// place is where query n puts the cursor, counted from zero.
func place(n int) (x, y int) {
	n %= queryCells
	return n % queryCols, 1 + n/queryCols
}

// ask puts the cursor where its answer names the query, and back.
func (g *Guard) ask() tea.Cmd {
	g.sent++
	x, y := place(g.sent)
	return tea.Raw(fmt.Sprintf("\x1b7\x1b[%d;%dH\x1b[6n\x1b8", y+1, x+1))
}

// query is the newest query that asked from a place; 0 where none did.
func (g *Guard) query(x, y int) int {
	for n := g.sent; n > 0 && n > g.sent-queryCells; n-- {
		if qx, qy := place(n); qx == x && qy == y {
			return n
		}
	}
	return 0
}

// Answer takes an answer of the terminal, which is where it says the cursor is.
func (g *Guard) Answer(x, y int) tea.Cmd {
	n := g.query(x, y)
	if n == 0 {
		return nil // not asked for: a key that looks like an answer
	}
	g.answers = true
	switch {
	case !g.Waiting() || n < g.first:
	case g.second == 0:
		cmd := g.ask()
		g.second = g.sent
		return cmd
	case n >= g.second:
		g.seen = true
	}
	return nil
}

// Expected is where the answer to the newest query will say that the cursor is.
func (g *Guard) Expected() (x, y int) { return place(g.sent) }

// Reports notes whether the terminal itself tells presses from repeats.
func (g *Guard) Reports(events bool) { g.reports = events }

// Unsent says that the dialog has not even been handed to the terminal yet: the
// pause of a terminal that never answers begins after that.
func (g *Guard) Unsent(now time.Time) { g.opened = now }

// Painted says whether the person has the dialog before their eyes.
func (g *Guard) Painted(now time.Time) bool {
	return g.open && (g.seen || !g.answers && now.Sub(g.opened) >= paintPause)
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
