// Package tui is the console: the root model that routes keys and data to
// screens, asks before what can't be undone, and carries verbs out.
//
// One direction: a [feed.Source] hands over the latest frame, every screen draws
// it, shown or hidden. A key goes to the dialog on top, else to the line being
// typed, else to what is global, else to the screen. A screen answers with a
// message ([feed.Want]) that freezes its target; the root asks where that is
// due, reads the state again when the answer is yes, and calls a verb from a
// command. Update waits for nothing.
//
// What it never does: an irreversible act without the name typed, on stale data,
// on a screen that is too small, by a key that was typed before the question was
// painted, or twice at once.
package tui
