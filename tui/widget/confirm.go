package widget

import (
	"fmt"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"ebb/themes"
)

// Verdict is where a question stands.
type Verdict int

// A question is open until it is answered; No is what everything but the one
// right answer leads to.
const (
	Open Verdict = iota
	No
	Yes
)

// Question is what a dialog asks.
type Question struct {
	Title string
	Lines []string // what will happen, to what, by name
	Act   string   // the verb: "terminate"

	// Word has to be typed for Yes: the name of the host, or a count. A question
	// without one is answered by the key y, and must be about what can be undone.
	Word string
	// Undoable says that the act can be taken back. A question that is not, and
	// has no word, can't be answered with Yes at all.
	Undoable bool
}

// Confirm is a question on the screen. Enter alone never confirms; pasted text
// is refused, since the point of typing a name is to have read it. Its answer is
// about what was asked when it opened: the caller keeps the target by identity
// in its own hands, and reads the state again before it acts.
//
// Lines that don't fit are scrolled through, and until the last of them has been
// drawn the answer can't be Yes: who reads "kills 40 processes" must have had
// the names before their eyes.
type Confirm struct {
	q     Question
	guard *Guard
	typed []rune
	note  string

	top  int  // first of the lines that is drawn
	page int  // how many were drawn last
	all  bool // whether the last line has been drawn
}

// NewConfirm asks a question. The command that comes back has to be run, or only
// a pause opens the ears of the dialog.
func NewConfirm(q Question, g *Guard, now time.Time) (*Confirm, tea.Cmd) {
	return &Confirm{q: q, guard: g}, g.Open(now)
}

// Key takes a key. Esc is No at any time; every other key counts only once the
// question was painted.
func (c *Confirm) Key(k tea.KeyPressMsg, now time.Time) Verdict {
	name := k.String()
	counts := false
	if c.q.Word != "" && (k.Text != "" || name == "backspace") {
		counts = c.guard.AcceptText(k, now)
	} else {
		counts = c.guard.Accept(k, now)
	}
	if name == "esc" || name == "ctrl+c" {
		return c.end(No)
	}
	if !counts {
		return Open
	}
	c.note = ""
	if c.scroll(name) {
		return Open
	}
	if c.q.Word == "" {
		return c.letter(name)
	}
	switch name {
	case "enter":
		switch {
		case c.matches():
			return c.yes()
		case len(c.typed) == 0:
			return c.end(No)
		}
		c.note = "that is not " + Clean(c.q.Word)
	case "backspace", "ctrl+h":
		c.typed = c.typed[:max(0, len(c.typed)-1)]
	case "ctrl+u":
		c.typed = nil
	default:
		c.write(k)
	}
	return Open
}

func (c *Confirm) letter(name string) Verdict {
	switch name {
	case "y":
		if c.q.Undoable {
			return c.yes()
		}
		c.note = "this can't be confirmed here: there is no name to type"
	case "n", "enter":
		return c.end(No)
	}
	return Open
}

// write adds one typed character. More than one at once is not typing.
func (c *Confirm) write(k tea.KeyPressMsg) {
	r, n := utf8.DecodeRuneInString(k.Text)
	if n == 0 || n != len(k.Text) || r == utf8.RuneError || len(c.typed) >= 2*utf8.RuneCountInString(c.q.Word)+40 {
		return
	}
	c.typed = append(c.typed, r)
}

// Paste refuses pasted text, and says so.
func (c *Confirm) Paste() {
	if c.q.Word != "" {
		c.note = "paste is refused here: type it"
	}
}

// yes ends the question, if all of it has been on the screen.
func (c *Confirm) yes() Verdict {
	if !c.all {
		c.note = "there is more to read: pgdn"
		return Open
	}
	return c.end(Yes)
}

func (c *Confirm) scroll(key string) bool {
	switch key {
	case "up":
		c.top--
	case "down":
		c.top++
	case "pgup":
		c.top -= max(1, c.page-1)
	case "pgdown":
		c.top += max(1, c.page-1)
	default:
		return false
	}
	c.top = max(0, c.top)
	return true
}

func (c *Confirm) end(v Verdict) Verdict {
	c.guard.Close()
	return v
}

// matches says whether exactly the word was typed.
func (c *Confirm) matches() bool { return c.q.Word != "" && string(c.typed) == c.q.Word }

// View draws the question in at most height lines of exactly width cells. Where
// there is no room for title, one line and the answer, it says that and nothing
// else.
func (c *Confirm) View(width, height int, now time.Time, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	line := func(text string) string { return fit(" "+text, width, g.Ellipsis, false) }
	foot := c.foot(now, th)
	const head = 2
	if width < MinWidth || height < head+1+len(foot) {
		return []string{line("too small")}[:max(0, min(1, height))]
	}
	title := s.Title
	if !c.q.Undoable {
		title = s.Danger
	}
	out := []string{line(title.Render(draw(c.q.Title, g))), line("")}
	for _, l := range c.window(width-2, height-head-len(foot), th) {
		out = append(out, line(l))
	}
	for _, l := range foot {
		out = append(out, line(l))
	}
	return out
}

// window is the lines that fit in room, with a last one that counts the rest.
func (c *Confirm) window(width, room int, th themes.Theme) []string {
	var lines []string
	for _, l := range c.q.Lines {
		lines = append(lines, Wrap(draw(l, th.Glyphs), width)...)
	}
	c.page = room
	if len(lines) <= room {
		c.top, c.all = 0, true
	} else {
		c.page = max(1, room-1)
		c.top = min(c.top, len(lines)-c.page)
	}
	shown := lines[c.top:min(len(lines), c.top+c.page)]
	out := make([]string, 0, room)
	for _, l := range shown {
		out = append(out, th.Styles.Text.Render(l))
	}
	if len(lines) > room && room > 1 {
		below := len(lines) - c.top - len(shown)
		c.all = c.all || below == 0
		out = append(out, th.Styles.Dim.Render(fmt.Sprintf("%d of %d lines %s pgup pgdn", c.top+len(shown), len(lines), th.Glyphs.Dot)))
	} else if len(lines) > room {
		c.all = c.all || c.top+len(shown) == len(lines)
	}
	return out
}

// foot is where the answer is given.
func (c *Confirm) foot(now time.Time, th themes.Theme) []string {
	s, g := th.Styles, th.Glyphs
	act := draw(c.q.Act, g)
	out := []string{""}
	switch {
	case !c.guard.Painted(now):
		out = append(out, s.Dim.Render("wait"+g.Ellipsis))
	case c.q.Word == "":
		out = append(out, s.KeyHint.Render("y")+" "+act+"   "+s.KeyHint.Render("n, enter, esc")+" no")
	default:
		out = append(out, s.Text.Render("type ")+s.Title.Render(draw(c.q.Word, g))+s.Text.Render(" to "+act+": ")+
			s.Input.Render(draw(string(c.typed), g))+s.Cursor.Render("_"), c.hint(s, act))
	}
	if c.note != "" {
		out = append(out, s.Warn.Render(draw(c.note, g)))
	}
	return out
}

func (c *Confirm) hint(s themes.Styles, act string) string {
	no := s.KeyHint.Render("esc") + s.Dim.Render(" no")
	if c.matches() {
		return s.KeyHint.Render("enter") + " " + s.Danger.Render(act) + "   " + no
	}
	if len(c.typed) == 0 {
		return s.KeyHint.Render("enter, esc") + s.Dim.Render(" no")
	}
	return no
}

// Typed is what has been typed so far, cleaned.
func (c *Confirm) Typed() string { return Clean(string(c.typed)) }
