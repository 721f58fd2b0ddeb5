// Package agent is the daemon on each host: it says what the host knows, holds
// the host, admits work, acts on identified processes and things, and signs
// proofs of emptiness.
//
// It promises:
//
//   - A hold that was confirmed outlives a crash, a restart, a reboot and a full
//     disk. Two preallocated slots are written in place, alternately.
//   - An act runs once. Its beginning and its end are durable, so a repeat is
//     answered with the first outcome, and an act cut short says "interrupted".
//   - A signal reaches the process that was identified or nobody; the same for a
//     namespace, a loop device, a directory that is cleaned.
//   - KILL comes only after TERM, the whole grace, TERM and thirty seconds, all
//     counted on this host's own clock.
//   - A serving workload counts as quiet only where every reading of its gauges, on
//     this host's loopback, was zero over the whole window. What can't be read is
//     unknown, and never zero.
//   - The end of a workload's process is told at once. A crowd of readers costs
//     little more than one, and none of them keeps others from a socket.
//   - Every change is written to an audit log before it is confirmed. Only a
//     cordon stands without.
//
// It never listens on the network, never runs a command that its own
// configuration does not name, and never lets an argument of a process leave
// the host.
//
// Data comes from a Prober (what the host shows) and from the state directory
// (what it was told). It goes out over one Unix socket per role, as HTTP.
//
// The state directory holds
//
//	holds.0 holds.1   the two slots
//	audit.log         one JSON object a line
//	acts.log          one JSON object a line: begun, sent, finished
//	tickets/ID.json   one admission each
package agent
