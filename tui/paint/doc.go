// Package paint sends a screen to a terminal in few bytes, and never makes its
// caller wait.
//
// [Screen] is a drawn screen as cells. [Pen] keeps what the terminal shows and
// writes what takes it from there to another screen: only cells that differ,
// scrolling what has moved, in the order that needs fewer changes of style.
// [Output] owns the terminal: it is handed the latest screen and the program's
// own sequences (modes, queries), and one goroutine writes them. A terminal that
// takes nothing for a while gets the newest screen when it is back, not all that
// were missed.
//
// What it promises: behind a query lies a screen at least as new as the one that
// was shown when the query was handed over, so an answer to it says that this
// screen was read. What the terminal shows in the end is what a fresh draw would
// show: whatever else changes the screen makes all of it be sent anew.
package paint
