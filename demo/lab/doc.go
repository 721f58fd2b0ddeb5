// Package lab builds a fleet of real hosts on one machine, for tests that drive
// the programs as a person would: namespaces with a network, a process table, a
// machine id and a file system of their own, the system's sshd with its default
// limits, and an agent that is not scoped, over links that can be cut.
//
//	lab (one wrapper: net, mount and pid namespace)
//	 ├─ PostgreSQL: control plane and journal
//	 ├─ ebb: what a test runs
//	 └─ bridge ── veth ── host: init, sshd, ebbd, workloads
//
// Everything lives inside one wrapper that [Enter] starts, so that processes,
// links and mounts are gone with it however it ends. Nothing outside it is
// contacted. It needs root and Linux; [Missing] says what a machine lacks.
//
// The program labhost is what hosts run: as their first process, and as workloads.
// Beside ebb it is the lever that carries a paused workload from one host to
// another. [Main] tells these roles apart.
package lab
