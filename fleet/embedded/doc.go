// Package embedded is a control plane in one SQLite file, or in memory, with a
// small scheduler: for demonstrations, tests, and a machine or two without a
// platform of their own.
//
// The tables are those of the postgres plane: agents and sandboxes. Two more
// hold what the scheduler last believed about the hosts and which placements
// were refused, so that a console in another process can read both.
//
// The scheduler is a scheduler as they are: it places work by a view that is up
// to Cache old, and so it goes on choosing a host that has just been cordoned.
// What saves the day is that it asks the host, and takes a refusal as "choose
// another".
//
// What the package promises is what the postgres plane does: a flag that someone
// else set is kept, and lifted only on explicit word. Times are the injected
// clock's.
package embedded
