package widget

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 5, 1, 14, 2, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func press(s string) tea.KeyPressMsg {
	switch s {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "backspace":
		return tea.KeyPressMsg{Code: tea.KeyBackspace}
	case "tab":
		return tea.KeyPressMsg{Code: tea.KeyTab}
	case "left":
		return tea.KeyPressMsg{Code: tea.KeyLeft}
	case "end":
		return tea.KeyPressMsg{Code: tea.KeyEnd}
	}
	return tea.KeyPressMsg{Code: []rune(s)[0], Text: s}
}

// answer answers the newest query, as a terminal does.
func answer(g *Guard) tea.Cmd {
	x, y := g.Expected()
	return g.Answer(x, y)
}

func TestGuardWaitsForTheSecondAnswer(t *testing.T) {
	var g Guard
	if g.Start() == nil {
		t.Fatal("nothing asked at the start")
	}
	answer(&g)
	if g.Open(at(0)) == nil {
		t.Fatal("nothing asked behind the frame")
	}
	if g.Accept(press("a"), at(50)) {
		t.Error("a key counts before any answer")
	}
	if answer(&g) == nil {
		t.Fatal("no second query after the first answer")
	}
	if g.Accept(press("b"), at(900)) {
		t.Error("a key counts after one answer, when the frame may still be under way")
	}
	if answer(&g) != nil {
		t.Error("a third query")
	}
	if !g.Accept(press("c"), at(901)) {
		t.Error("a key does not count although the dialog is painted")
	}
	g.Close()
	if g.Accept(press("d"), at(2000)) {
		t.Error("a key counts where no dialog is")
	}
}

// A terminal that never answered counts by a pause, which begins when the dialog
// was handed to it.
func TestGuardPause(t *testing.T) {
	var g Guard
	g.Start()
	g.Open(at(0))
	if g.Accept(press("a"), at(499)) {
		t.Error("a key counts before the pause is over")
	}
	g.Unsent(at(3000))
	if g.Accept(press("a"), at(3499)) {
		t.Error("a key counts although the dialog has just been handed over")
	}
	if !g.Accept(press("b"), at(3500)) {
		t.Error("a terminal that never answers leaves the dialog deaf")
	}
}

// A terminal that answered once and then hangs has painted nothing, however long
// ago the dialog opened: what it hands over then was typed blind.
func TestGuardOnATerminalThatHangs(t *testing.T) {
	var g Guard
	g.Start()
	answer(&g)
	g.Open(at(0))
	for ms := 600; ms < 3_600_000; ms += 97_000 {
		if g.Accept(press("y"), at(ms)) {
			t.Fatalf("a key counts after %d ms without an answer", ms)
		}
		g.Unsent(at(0))
	}
	answer(&g)
	answer(&g)
	if !g.Accept(press("y"), at(3_700_000)) {
		t.Error("a key does not count although the terminal is back")
	}
}

// An answer that is lost leaves no dialog deaf, and one that comes late counts
// for the dialog it was asked for, and for no other.
func TestGuardLostAndLateAnswers(t *testing.T) {
	var g Guard
	g.Start()
	answer(&g)
	g.Open(at(0))
	lateX, lateY := g.Expected()
	if g.Again(at(1999)) != nil {
		t.Error("asked again too soon")
	}
	if g.Again(at(2000)) == nil || g.Again(at(2500)) != nil {
		t.Error("not asked again, or all the time")
	}
	answer(&g)
	answer(&g)
	if !g.Painted(at(3000)) {
		t.Error("deaf because of an answer that was lost")
	}
	if g.Again(at(9000)) != nil {
		t.Error("asked again although it is painted")
	}
	g.Close()
	g.Open(at(10_000))
	g.Answer(lateX, lateY)
	g.Answer(lateX, lateY)
	if g.second != 0 {
		t.Error("the late answer to the first dialog moves the second on")
	}
	g.Answer(MinWidth+7, 3) // nobody asked from there
	if g.second != 0 {
		t.Error("an answer nobody asked for moves a dialog on")
	}
	answer(&g)
	answer(&g)
	if !g.Painted(at(10_100)) {
		t.Error("not painted after its own two answers")
	}
}

// Queries ask from places that are on every screen that can be answered at all,
// and never from the first line, where an answer may be a key.
func TestGuardPlaces(t *testing.T) {
	seen := map[[2]int]bool{}
	for n := range queryCells {
		x, y := place(n)
		if x < 0 || x >= MinWidth || y < 1 || y >= MinHeight || seen[[2]int{x, y}] {
			t.Fatalf("query %d at %d,%d", n, x, y)
		}
		seen[[2]int{x, y}] = true
	}
}

func TestGuardRepeats(t *testing.T) {
	open := func() *Guard {
		g := &Guard{}
		g.Open(at(0))
		answer(g)
		answer(g)
		return g
	}
	g := open()
	if !g.Accept(press("y"), at(1000)) || g.Accept(press("y"), at(1050)) || g.Accept(press("y"), at(1140)) {
		t.Error("a held key counts")
	}
	if !g.Accept(press("n"), at(1150)) || !g.Accept(press("n"), at(1250)) {
		t.Error("another key, or the same after 100 ms, does not count")
	}
	// A key held since before the dialog opened.
	g = &Guard{}
	for ms := 0; ms < 600; ms += 30 {
		g.Accept(press("enter"), at(ms))
	}
	g.Open(at(600))
	answer(g)
	answer(g)
	for ms := 610; ms < 1600; ms += 30 {
		if g.Accept(press("enter"), at(ms)) {
			t.Fatalf("a key held from before counts at %d ms", ms)
		}
	}
	// Where the terminal reports repeats it is believed, both ways.
	g = open()
	g.Reports(true)
	held := press("y")
	held.IsRepeat = true
	if g.Accept(held, at(5000)) {
		t.Error("a reported repeat counts")
	}
	if !g.Accept(press("4"), at(5100)) || !g.Accept(press("4"), at(5150)) {
		t.Error("two quick presses that the terminal reports as such do not count")
	}
}

// Over any history: a key counts only if two queries were answered that were
// asked after this opening, or if the terminal never answered and the pause
// passed.
func TestGuardProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Guard
		ms, opened, isOpen := 0, 0, false
		type query struct{ x, y, dialog, stage int }
		var line []query // what the terminal has to answer, in order
		dialog, stage := 0, 0
		ask := func(cmd tea.Cmd, stage int) {
			if cmd != nil {
				x, y := g.Expected()
				line = append(line, query{x, y, dialog, stage})
			}
		}
		ask(g.Start(), 0)
		answered := false
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			ms += rapid.IntRange(0, 1000).Draw(t, "ms")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				dialog, stage, opened, isOpen = dialog+1, 0, ms, true
				ask(g.Open(at(ms)), 1)
			case 1:
				if len(line) == 0 {
					g.Answer(0, 0) // spurious: never asked from there
					continue
				}
				q := line[0]
				line = line[1:]
				answered = true
				if q.dialog == dialog && isOpen {
					stage = max(stage, q.stage)
				}
				ask(g.Answer(q.x, q.y), 2)
			case 2:
				g.Close()
				isOpen = false
			case 3:
				ask(g.Again(at(ms)), 1+stage)
			case 4:
				if len(line) > 0 {
					line = line[1:] // lost
				}
			case 5:
				got := g.Accept(press(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")), at(ms))
				if got && (!isOpen || stage < 2 && (answered || ms-opened < 500)) {
					t.Fatalf("a key counts at stage %d, %d ms after opening", stage, ms-opened)
				}
			}
		}
	})
}
