package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/tui/keys"
	"ebb/tui/widget"
)

// copier is what a screen is that knows better what to copy than the name of the
// host under the cursor: what it is, and its text.
type copier interface{ Copy() (what, text string) }

// copy puts onto the clipboard what the cursor is on. The terminal does that, so
// it reaches the person's own machine (OSC 52); whether it did is not known.
func (m *Model) copy() tea.Cmd {
	what, text := m.copied()
	if text == "" {
		m.say(noteInfo, "nothing to copy here")
		return nil
	}
	m.say(noteOK, "copied, where the terminal allows it: "+what)
	return tea.SetClipboard(text)
}

// copied is what to copy on a screen: the proof's path on the gate, the page on
// handover, names elsewhere. Nothing is copied that a terminal could take for a
// command.
func (m *Model) copied() (what, text string) {
	switch m.cur {
	case keys.Gate:
		if g, _, ok := m.panes.gate.now().Gate(); ok && g.Proof != nil && g.Host == m.host {
			return widget.Clean(g.Proof.Path), widget.Clean(g.Proof.Path)
		}
	case keys.Handover:
		return "the handover page", m.handoverText()
	}
	if c, ok := m.panes.all[m.cur].model().(copier); ok {
		if what, text = c.Copy(); text != "" {
			return widget.Clean(what), cleanLines(text)
		}
	}
	h := m.panes.all[m.cur].Host()
	if h == "" {
		return "", ""
	}
	return widget.Name(h.Name()), widget.Name(h.Name())
}

func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = widget.Clean(l)
	}
	return strings.Join(lines, "\n")
}

// handoverText is the whole page as plain lines.
func (m *Model) handoverText() string {
	const width, most = 100, 400
	var out []string
	for line := range strings.SplitSeq(ansi.Strip(m.panes.all[keys.Handover].View(width, most)), "\n") {
		out = append(out, strings.TrimRight(line, " "))
	}
	text := strings.TrimRight(strings.Join(out, "\n"), "\n")
	return fmt.Sprintf("handover, %s UTC\n%s\n", m.frame.Clock(m.env.Now()).UTC().Format("2006-01-02 15:04"), text)
}
