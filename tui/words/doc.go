// Package words turns codes into plain sentences: why something waits, what a
// comparison found, what happened, what happens next and when.
//
// Both the console and the command line speak through it, so that they say the
// same. It is functions of values: no clock, no I/O, no styles. Every sentence
// is one line. Names and details that come from a host or a database are quoted
// where they hold anything a plain name does not, so none can pass for a part of
// the sentence around it or move a cursor; a code that is not known is shown as
// it is, with its arguments.
package words
