// Package levers carries acts out: one file for each way in which a workload
// leaves a host.
//
//	signal  TERM and KILL, by the source's agent
//	exec    a command of the target's configuration, by the target's agent
//	flip    the claim moves to the target, at the control plane
//	notice  the owner is told, by webhook or command
//	quiet   the source's agent waits until a serving workload has nothing in flight
//	lever   a program beside the engine does a step, or takes it back
//	rest    what is parked is at rest here, by its lever and at the control plane
//
// A lever does one act once and answers how it went. It decides nothing: what to
// do and when is the pure core's, and the last word on identity, epoch and the
// gap before KILL is the agent's. Every lever can be asked again about an act it
// was given (Status): after a crash that is how an intent without an outcome is
// resolved.
//
// # Executable levers
//
// An executable lever is a program that carries the steps of one strategy out,
// beside the engine. "ebb lever test" tries one out against what follows. It is
// called once for each question, with one JSON object on one line of its standard
// input:
//
//	{
//	  "op": "do",                              plan, do, status or undo
//	  "act": "d-31c0/notebook/nb-7/restore/1", unique; a repeat is the same act
//	  "of": "",                                status: the act that is asked about
//	  "step": "restore",
//	  "steps": ["snapshot", "…"],              the whole way, in its order
//	  "drain": "d-31c0", "epoch": 3, "for": "kernel", "deadline": "2026-11-29T15:00:00Z",
//	  "workload": {"kind": "notebook", "id": "nb-7", "class": "pausable", "owner": "lena"},
//	  "source": {"id": "prod/gpu-041", "address": "gpu-041", "machine": "5f0c…"},
//	  "target": {"id": "prod/gpu-044", "address": "gpu-044", "machine": "9c41…"},
//	  "state": {"snapshot": "s3://…"}          what its last answer said
//	}
//
// It answers with exactly one JSON object on standard output, and exit status 0:
//
//	{
//	  "result": "done",               or running, wait, refused, failed
//	  "reason": "engine 1.4, wanted 1.5",      or {"code": "…", "args": {…}}
//	  "progress": "shipped 3.1 of 7.9 GB",     one line for people
//	  "state": {"snapshot": "s3://…"},         kept for the next call
//	  "no_return": true                        the step can't be taken back any more
//	}
//
// What it has to keep to:
//
//   - plan changes nothing. It is asked before a drain, without one, and with the
//     target that was chosen: done if the way can be gone, wait or refused if not,
//     with the reason. The codes incompatible and no_room have the arguments what,
//     has, wants and host, and are shown as ebb's own are; any other reason is
//     shown as it is.
//   - Every step may come again, with the same act, with another one, and from
//     another driver with a higher epoch: a step that has been done answers done.
//   - running says that it goes on after this call has ended; it is asked again
//     with status. status answers what became of an act, also after the program,
//     or the whole machine, ended in its midst: done, running, or failed, which
//     means that do may be asked again. An act that never began is failed, and so
//     is one whose step has been taken back: to ask about it must not bring the
//     other copy to life again.
//   - undo takes one step back, ends what still does it, and answers done only
//     when nothing of it is left; undoing what was never done is done. Undo of
//     restore is the word on which a source is resumed: while the target can't
//     be asked, it is failed, and never done. Once no_return has been answered,
//     undo is refused. A start that failed is undone on its target before one is
//     asked for again: half a replacement may have been left there.
//   - snapshot leaves a source that does not run on by itself, not even after a
//     restart of its host, and fence leaves a primary that takes no writes, also
//     after its restart.
//   - A lever that parks does snapshot and resume, and park, clock and answers where
//     they mean something; there is no target then. After park the state lies on the
//     source's own disk, outlives a reboot, and the source has no process: its host
//     shows it at rest (the rest of its manifest, say), else it is not believed.
//     resume starts exactly that state there, once, and is refused where something
//     of that name runs already or the state can't be resumed any more. It is never
//     taken back: it may answer no_return.
//   - An op or a step that it does not know is refused or failed, and so is
//     a lower epoch than one that it has seen for the drain.
//   - target.machine is the machine that the target was when the move began. Where
//     another one answers under its name, nothing of the move is there: a step is
//     failed, and ebb does not ask for remove.
//   - wait says why it can't begin yet; refused that it won't, and names both
//     values; failed that it tried.
//
// The limits:
//
//   - The answer has at most 1 MiB (MaxReply) and is UTF-8; its state has at most
//     64 KiB (drain.MaxLeverState). Reason and progress are cut at 2,000 bytes.
//     Fields that are not listed are ignored. An answer that is not that, or any
//     exit status but 0, is a failed act, with what was wrong about it.
//   - Standard error is for people: its last 1,024 bytes stand in the journal
//     where a call fails, and nowhere else.
//   - A call has the time that its configuration gives it (one minute by default);
//     status has at least ten seconds, plan at most ten (MaxPlan). Then the whole
//     process group gets TERM, and KILL five seconds later; and status is asked,
//     whose answer stands.
//   - Each call leads a process group of its own, and what is left in that group two
//     seconds after it has ended is killed. What it starts in sessions of its own (setsid) may
//     go on, and is what status tells of.
package levers
