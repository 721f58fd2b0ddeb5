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

func TestGuardWaitsForTheSecondAnswer(t *testing.T) {
	var g Guard
	if g.Start() == nil {
		t.Fatal("nothing asked at the start")
	}
	g.Answer()
	if g.Open(at(0)) == nil {
		t.Fatal("nothing asked behind the frame")
	}
	if g.Accept(press("a"), at(50)) {
		t.Error("a key counts before any answer")
	}
	if g.Answer() == nil {
		t.Fatal("no second query after the first answer")
	}
	if g.Accept(press("b"), at(900)) {
		t.Error("a key counts after one answer, when the frame may still be under way")
	}
	if g.Answer() != nil {
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

func TestGuardPause(t *testing.T) {
	var g Guard
	g.Start()
	g.Open(at(0))
	if g.Accept(press("a"), at(499)) {
		t.Error("a key counts before the pause is over")
	}
	if !g.Accept(press("b"), at(500)) {
		t.Error("a terminal that never answers leaves the dialog deaf")
	}
	// Once it is known to answer, a slow link is waited for.
	g.Answer()
	g.Open(at(1000))
	if g.Accept(press("a"), at(1600)) {
		t.Error("the pause counts although the terminal answers")
	}
	if !g.Accept(press("b"), at(11_000)) {
		t.Error("a lost answer leaves the dialog deaf for ever")
	}
}

// Answers to what an earlier dialog asked say nothing about this one.
func TestGuardStaleAnswers(t *testing.T) {
	var g Guard
	g.Start()
	g.Answer()
	g.Open(at(0)) // its query is under way
	g.Close()
	g.Open(at(10))
	if g.Answer() != nil {
		t.Error("the answer to the first dialog moves the second on")
	}
	if g.Answer() == nil {
		t.Error("the answer to the second dialog does not move it on")
	}
	g.Answer()
	if !g.Painted(at(20)) {
		t.Error("not painted after its own two answers")
	}
	g.Answer() // nobody asked
	g.Open(at(30))
	if g.Painted(at(40)) {
		t.Error("an answer nobody asked for counts for a later dialog")
	}
}

func TestGuardRepeats(t *testing.T) {
	open := func() *Guard {
		var g Guard
		g.Open(at(0))
		g.Answer()
		g.Answer()
		return &g
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
	g.Answer()
	g.Answer()
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

// Over any history: a key counts only if two answers came after this opening,
// or the pause passed.
func TestGuardProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Guard
		ms, opened, isOpen := 0, 0, false
		type query struct{ dialog, stage int }
		var line []query // what the terminal has to answer, in order
		dialog, stage := 0, 0
		ask := func(cmd tea.Cmd, q query) {
			if cmd != nil {
				line = append(line, q)
			}
		}
		ask(g.Start(), query{})
		answered := false
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			ms += rapid.IntRange(0, 400).Draw(t, "ms")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				dialog, stage, opened, isOpen = dialog+1, 0, ms, true
				ask(g.Open(at(ms)), query{dialog, 1})
			case 1:
				if len(line) == 0 {
					g.Answer() // spurious
					continue
				}
				q := line[0]
				line = line[1:]
				answered = true
				if q.dialog == dialog && isOpen {
					stage = q.stage
				}
				ask(g.Answer(), query{dialog, 2})
			case 2:
				g.Close()
				isOpen = false
			case 3:
				got := g.Accept(press(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")), at(ms))
				pause := 500
				if answered {
					pause = 10_000
				}
				if got && (!isOpen || stage < 2 && ms-opened < pause) {
					t.Fatalf("a key counts at stage %d, %d ms after opening", stage, ms-opened)
				}
			}
		}
	})
}
