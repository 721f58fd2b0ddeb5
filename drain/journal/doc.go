// Package journal keeps the events of drains: it appends them, reads them,
// watches for new ones, and lends out the right to drive a drain.
//
// Two databases serve it with one SQL text: SQLite for one machine
// ("sqlite:PATH", also "sqlite::memory:") and PostgreSQL for a team
// ("postgres://…", tables in schema ebb). Data comes in as drain.Batch and goes
// out as drain.Event; bodies are kept as the JSON text that they came as, so an
// event that this program does not understand survives it.
//
// What it promises:
//
//   - Sequence numbers have no gaps and follow the order of commits, so whoever
//     reads past a number has seen everything before it. One head row, updated
//     first in every transaction, makes writers wait for each other.
//   - A batch is appended whole or not at all, at the place where its writer
//     believed the stream to end, and under the lease it names.
//   - An event id is unique. Appending it again answers with what is stored; a
//     commit whose answer was lost is looked up before anything is reported.
//   - Time is the database's (for SQLite: this process's) and never runs back
//     from one event to the next.
//   - No password appears in a name or an error.
//
// It never drives, decides or signs anything, and never deletes an event.
package journal
