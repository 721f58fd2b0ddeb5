// Package widget holds what several screens draw with: safe text, cells of
// exact width, ages and countdowns, bars, a windowed table, questions, the line
// of input, and the frame around it all.
//
// It draws values and keeps the state of a cursor or a line being typed. It
// reads no clock (time comes in), does no I/O and starts nothing. All it returns
// has exactly the size that was asked for, measured in terminal cells.
//
// Text that comes from a host or a database goes through [Clean] before it is
// drawn, and names through [Name]: neither may move the cursor, hide a
// character, or pass for one of the console's own signs.
package widget
