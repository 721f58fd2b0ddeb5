// Package sim plays whole drains in virtual time, from one seed, with faults.
//
// What decides is real: the engine's passes, stepped one by one, the pure core,
// observing and comparing, the levers that speak to agents and planes. What they
// meet is made here: hosts with their agents and disks, a control plane, links,
// clocks, a journal in memory that keeps the rules of the real one, and
// operators who ask at the worst moment. The models of journal and agent are
// compared with the real ones by tests beside them.
//
// Everything happens in one goroutine, in the order of virtual time, and every
// fault is drawn from the seed: the same seed gives the same journal, byte for
// byte. Play must therefore be called where time is virtual (testing/synctest).
//
// After every step it is checked what hosts and plane have really gone through,
// not what the journal says: no KILL too early or of what nobody named, no signal
// to another process, no act twice or by a driver that has been replaced, no hold
// lifted unasked, no deadline without names, nothing lost that counts as left, no
// empty host on which something runs, never two runnable copies of what has
// state.
//
// A history in which faults never stop is for safety. With Options.Live faults
// stop at some time, and the drain must then end within its bound.
package sim
