package widget

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/themes"
)

// promptLimit is the most characters a line of input takes.
const promptLimit = 200

// Entry is what became of a line of input.
type Entry int

// A line is being typed, was entered, or was given up.
const (
	Typing Entry = iota
	Entered
	GivenUp
)

// Prompt is the line at the foot of a screen where a filter or a command is
// typed. It has no clock and reads no clipboard: its cursor does not blink, and
// pasted text comes from the terminal.
type Prompt struct {
	sign  string
	in    textinput.Model
	err   error
	fresh bool // what stands there was offered, and nobody has touched it
	theme themes.Theme
}

// NewPrompt makes a line of input that begins with sign, such as "/" or ":".
// Tab completes to one of words.
func NewPrompt(sign string, words []string, th themes.Theme) *Prompt {
	in := textinput.New()
	in.Prompt = ""
	in.CharLimit = promptLimit
	in.KeyMap.Paste = key.NewBinding(key.WithDisabled())
	in.ShowSuggestions = len(words) > 0
	in.SetSuggestions(words)
	in.Focus()
	p := &Prompt{sign: sign, in: in, theme: th}
	p.touch(false)
	return p
}

// SetValue replaces what was typed.
func (p *Prompt) SetValue(s string) {
	p.in.SetValue(s)
	p.in.CursorEnd()
}

// Offer puts a default there. It is drawn as selected text, and goes as such:
// the first character that is typed takes its place, any other key edits it.
func (p *Prompt) Offer(s string) {
	p.SetValue(s)
	p.touch(s != "")
}

// Suggest replaces what tab completes to: whole lines. The first that begins like
// what was typed is shown behind it; up and down choose another.
func (p *Prompt) Suggest(lines []string) {
	p.in.ShowSuggestions = true
	p.in.SetSuggestions(lines)
}

// Suggested is the line that tab would complete to, "" for none.
func (p *Prompt) Suggested() string { return p.in.CurrentSuggestion() }

// touch notes whether what stands there is an offer, and draws it as that.
func (p *Prompt) touch(fresh bool) {
	p.fresh = fresh
	s := p.theme.Styles
	text := textinput.StyleState{Text: s.Input, Suggestion: s.Dim, Placeholder: s.Dim, Prompt: s.KeyHint}
	if fresh {
		text.Text = s.Selected
	}
	styles := textinput.Styles{Focused: text, Blurred: text}
	styles.Cursor.Blink = false
	p.in.SetStyles(styles)
}

// Value is what was typed, without the sign.
func (p *Prompt) Value() string { return p.in.Value() }

// SetError shows what is wrong with the line, until it changes.
func (p *Prompt) SetError(err error) { p.err = err }

// Update takes a key or pasted text. The value can be read at any time, so a
// filter can follow what is typed.
func (p *Prompt) Update(msg tea.Msg) Entry {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "enter":
			return Entered
		case "esc", "ctrl+c":
			return GivenUp
		case "backspace":
			if p.in.Value() == "" {
				return GivenUp
			}
		}
		p.feed(msg)
	case tea.PasteMsg:
		first, _, _ := strings.Cut(strings.TrimLeft(msg.Content, "\r\n"), "\n")
		p.feed(tea.PasteMsg{Content: Clean(strings.TrimRight(first, "\r"))})
	}
	return Typing
}

// feed hands msg to the input. The command it returns would only blink.
func (p *Prompt) feed(msg tea.Msg) {
	before := p.in.Value()
	if p.fresh {
		if k, ok := msg.(tea.KeyPressMsg); !ok || k.Text != "" {
			p.in.SetValue("")
		}
		p.touch(false)
	}
	p.in, _ = p.in.Update(msg)
	if p.in.Value() != before {
		p.err = nil
	}
}

// View draws the line in exactly width cells.
func (p *Prompt) View(width int) string {
	g, s := p.theme.Glyphs, p.theme.Styles
	right := ""
	if p.err != nil {
		right = s.Warn.Render(draw(p.err.Error(), g))
	}
	p.in.SetWidth(max(1, width-4))
	if right == "" {
		// The input pads what was typed, not what is suggested behind it: the rest is
		// blank, and cut without a sign that something is missing.
		line := ansi.Truncate(" "+s.KeyHint.Render(p.sign)+p.in.View(), width, "")
		return fit(line, width, g.Ellipsis, false)
	}
	return Sides(" "+s.KeyHint.Render(p.sign)+s.Input.Render(draw(p.in.Value(), g)), right+" ", width)
}
