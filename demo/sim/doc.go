// Package sim plays whole drains in virtual time, from one seed, with faults.
//
// What decides is real: the engines' passes, stepped one by one, the pure core,
// observing and comparing, the gate's verbs, whose asks are obeyed, proofs and
// their signatures, the levers that speak to agents and planes. What they meet is
// made here: one to three hosts that are drained and two that take what comes,
// with their agents and disks, a control plane, links, clocks, a journal in memory
// that keeps the rules of the real one, several consoles that may each believe
// that they drive, operators who ask at the worst moment, also in the middle of a
// call, and somebody who writes to the journal and is no operator. The models of
// journal and agent are compared with the real ones by tests beside them.
//
// Everything happens in one goroutine, in the order of virtual time, and every
// fault is drawn from the seed: the same seed gives the same journal, byte for
// byte. Play must therefore be called where time is virtual (testing/synctest).
//
// After every step it is checked what hosts, planes and processes have really
// gone through, not what the journal says: see Checks.
//
// A history in which faults never stop is for safety. With Options.Live faults
// stop at some time, and every drain must then end within its bound.
package sim
