// Package record films a program in a terminal of its own: an asciicast, and a
// moving picture for a page that plays none.
//
// Run starts the program on a pseudo-terminal and reads what it sends. The
// program brings its own clock: before each picture it sends a [Stamp], a
// sequence that terminals ignore, with the time at which the picture is to be
// shown. So a film is the same, byte for byte, however fast the machine is.
package record
