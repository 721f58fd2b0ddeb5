// Package replay plays a journal again: into the console's own screens, or as
// lines.
//
// A [Tape] is a journal that was read, in the order of the journal. A [Player] is
// a place on it, as a value: it moves by time that has passed, by one event, or
// to a moment, and gives a [feed.Frame] of what the journal says there. Both are
// pure; whoever shows them brings the clock.
//
// What a journal does not carry is not known in a replay: no facts of hosts, no
// claims, no gate, no configured gaps but those that the journal itself shows.
// Signatures are not checked. Nothing can be done in one: [Nothing] refuses every
// verb.
package replay
