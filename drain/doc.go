// Package drain decides how a host is emptied: pure functions over values, with
// no I/O and no clock of their own.
//
// Data comes in as a State (the fold of a drain's events), a View (what source
// and targets were just observed to be) and the time. Next answers with the
// events to record and the acts to carry out; whoever runs them (the engine)
// appends what happened, and Apply folds that into the next State:
//
//	View ─┐
//	State ┼─► Next ─► events, acts ─► engine ─► journal ─► Apply ─► State
//	now ──┘
//
// What this package promises: nothing that no rule classifies is acted upon; no
// KILL is decided before notice, TERM, the full grace, TERM, 30 seconds and a
// durable record; there are never two runnable copies of a workload that is
// moved (see Move), and what is parked on its host comes back on word only (see
// parkWay); what vanished without cause is called lost; and a deadline
// names everything that is left before anything else happens: then moves past
// their point of no return are finished and others are rolled back, but no such
// act keeps the names waiting. Waits are times in
// the state, so a driver that dies can be replaced by another at any moment.
package drain
