package themes

import "charm.land/lipgloss/v2"

// Styles are the roles a screen draws with. Fields are values and may be copied.
type Styles struct {
	Text     lipgloss.Style // what is read
	Dim      lipgloss.Style // what is only looked up: units, owners, wall times
	Title    lipgloss.Style // the name of the screen, headings of sections
	Head     lipgloss.Style // titles of columns
	Rule     lipgloss.Style // the one line that separates
	Cursor   lipgloss.Style // the one accent: where the cursor is
	Selected lipgloss.Style // the row under the cursor
	Mark     lipgloss.Style // marked rows
	Input    lipgloss.Style // what a person types
	KeyHint  lipgloss.Style // a key in a line of help
	Ok       lipgloss.Style // proved good
	Warn     lipgloss.Style // late, or soon late
	Danger   lipgloss.Style // needs a person now, or cannot be undone
	Info     lipgloss.Style // on its way
	Stale    lipgloss.Style // values older than they should be
	BarFull  lipgloss.Style // the part of a bar that is there
	BarEmpty lipgloss.Style // the part that is not

	// States holds one style for each name in [States].
	States map[string]lipgloss.Style
}

// State is the style of a state by its name; a name that is not known is drawn
// like text that is stale, since nothing is known about it.
func (s Styles) State(name string) lipgloss.Style {
	if st, ok := s.States[name]; ok {
		return st
	}
	return s.Stale
}

// fields maps the names of a theme file to the fields of s.
func (s *Styles) fields() map[string]*lipgloss.Style {
	return map[string]*lipgloss.Style{
		"text": &s.Text, "dim": &s.Dim, "title": &s.Title, "head": &s.Head, "rule": &s.Rule,
		"cursor": &s.Cursor, "selected": &s.Selected, "mark": &s.Mark,
		"input": &s.Input, "keyhint": &s.KeyHint,
		"ok": &s.Ok, "warn": &s.Warn, "danger": &s.Danger, "info": &s.Info, "stale": &s.Stale,
		"bar-full": &s.BarFull, "bar-empty": &s.BarEmpty,
	}
}

// stateRole says which role a state borrows where the theme does not give it a
// style of its own under "state-NAME". Quiet states borrow quiet roles.
var stateRole = map[string]string{
	Serving: "text", Cordoned: "text", Cordoning: "info", Draining: "info", Empty: "ok",
	Unreachable: "warn", Lost: "danger", NeedsYou: "danger",
	HostOnly: "warn", PlaneOnly: "warn", Terminated: "dim",
}
