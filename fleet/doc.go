// Package fleet is ebb's vocabulary: the values that every other package
// passes around, and nothing that does I/O.
//
// Control planes make claims about hosts (Claim); agents on the hosts report
// facts (Facts). A Reading wraps whatever was read with where it came from,
// when, and whether it can be relied on, because in this program "we could not
// look" must never turn into "there is nothing there": the zero Reading is
// unknown, not empty.
//
// All values are JSON-tagged: they travel between agent and console, stand in
// journals and are printed by "-o json". Field names are stable.
package fleet
