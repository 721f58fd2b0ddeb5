package feed

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"ebb/tui/keys"
)

// Send is a command that delivers a message.
func Send(msg tea.Msg) tea.Cmd { return func() tea.Msg { return msg } }

// Cursor is what the keys of movement move: a table.
type Cursor interface {
	Move(n int)
	Page(n int)
	First()
	Last()
	ToggleMark()
}

// Move moves a cursor where the key is one of movement, and says whether it was.
// Marking goes on to the next row.
func Move(c Cursor, k tea.KeyPressMsg, g keys.GlobalKeys) bool {
	switch {
	case key.Matches(k, g.Up):
		c.Move(-1)
	case key.Matches(k, g.Down):
		c.Move(1)
	case key.Matches(k, g.PageUp):
		c.Page(-1)
	case key.Matches(k, g.PageDown):
		c.Page(1)
	case key.Matches(k, g.Home):
		c.First()
	case key.Matches(k, g.End):
		c.Last()
	case key.Matches(k, g.Mark):
		c.ToggleMark()
		c.Move(1)
	default:
		return false
	}
	return true
}
