// Package demo is a fleet of hosts on one machine, without root, database
// server or network: what "ebb demo" shows and what the scenarios play on.
//
// Each host is a directory, a scoped agent (ebbd serve --root DIR --scope
// TOKEN), an SSH server on loopback with a host key of its own, and real
// processes as its workloads. Scope means that only processes with the host's
// token among their arguments are its own: nothing else on the machine is
// looked at or touched, every proof names the scope, and terminators for real
// machines refuse it.
//
// The console reaches a demo host in exactly the way in which it reaches any
// other: ssh_config, host keys, ebbd dial-stdio, HTTP/2. What is played here is
// the platform (Platform): a scheduler with a stale view that asks hosts before
// it places work, and the owners who start and end it.
package demo
