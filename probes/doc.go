// Package probes reads what is on a host: processes, the workloads that rules
// recognise among them, network namespaces, loop devices, owned directories
// and GPUs. One kind of fact lives in one file, with the sample of the kernel
// file it reads beside the parser.
//
// Everything is read below a Root, so that a tree of fixture files, a scoped
// agent of a demo and a real host are read by the same code. Parsing is apart
// from reading: parsers take bytes and are fuzzed.
//
// What it promises:
//
//   - A probe that could not answer yields a failed reading, never an empty
//     one. Each runs under its own timeout, and one that is stuck in the kernel
//     is left alone until it comes back: it never piles up.
//   - A process that vanishes while it is read is absent; one whose pid was
//     taken over in between is never mixed with its successor.
//   - Of a process's arguments only the ids that rules name leave this package.
//
// It never changes anything on the host, signals nothing, and holds no device
// open: GPUs are asked about by a short-lived child.
package probes
