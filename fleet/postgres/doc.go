// Package postgres is a control plane in somebody else's PostgreSQL schema: it
// reads hosts and claims from it, and sets and clears one flag on a host.
//
// A handful of statements map the schema (Statements). They are written with
// named arguments (@host, @reason, @actor, …), and their results are read by
// column name, so columns may come in any order and the optional ones may be
// missing. The defaults fit the tables of example.sql.
//
// Data comes in as rows and goes out as fleet.Host, fleet.Claim, fleet.Flag. The
// package keeps nothing between calls but connections; it caches nothing, so
// what it returns was in the database during the call. Calls about single hosts
// that come while a statement runs are answered by the next one, together: a
// thousand drains must not cost a thousand statements at a time.
//
// What it promises: a flag that someone else set is kept, and lifted only on
// explicit word; a status word nobody knows counts as running; a row that can't
// be read is an error and never a missing row. Every error names the plane, the
// statement, and what to do. It uses no prepared statements and no session
// state, so it works behind a transaction pooler. It never creates tables.
package postgres
