package drain

// Untold is the reason of a notice that is done with nobody told: no receiver is
// configured.
const Untold = "untold"

// Reason codes: why a workload or a drain waits. Their arguments are named
// beside them; the sentences are made where they are shown.
const (
	WaitExpires      = "expires"        // at
	WaitOutlives     = "outlives"       // expires (may be empty), escalates
	WaitUnclassified = "unclassified"   // verdict
	WaitNoStrategy   = "no_strategy"    // class
	WaitNoCommand    = "no_command"     // what: start or health
	WaitNoTarget     = "no_target"      // why
	WaitTurn         = "turn"           // limit, running
	WaitStarting     = "starting"       // target
	WaitHealth       = "health"         // target, detail
	WaitUnsure       = "unsure"         // target, detail or until: whether a replacement was started there is not known
	WaitTargetGone   = "target_gone"    // target: it is listed no more, and something may run there
	WaitFlip         = "flip"           // target
	WaitNotice       = "notice"         // term
	WaitNoReceiver   = "no_receiver"    // a notice must be accepted, or a person must escalate by name
	WaitGrace        = "grace"          // until
	WaitTermGap      = "term_gap"       // until
	WaitKill         = "kill"           //
	WaitMissing      = "missing"        // until
	WaitHeld         = "held"           // why
	WaitKept         = "kept"           //
	WaitNoTime       = "no_time"        // needs, has
	WaitNotPlanned   = "not_planned"    // it may die only when it is named
	WaitFailed       = "failed"         // step, detail, retry
	WaitUnknown      = "unknown"        // detail
	WaitCordon       = "cordon"         // state
	WaitProbe        = "probe"          // probe, detail
	WaitUnreachable  = "unreachable"    // since, detail
	WaitOtherMachine = "other_machine"  // have, want
	WaitBlind        = "blind"          // gap
	WaitRebooted     = "rebooted"       // boot
	WaitPlane        = "plane"          // detail: the claims can't be read
	WaitHold         = "hold"           // what: the hold that is missing
	WaitSurvived     = "survived"       // since: KILL was sent, and it is still there
	WaitArrived      = "arrived"        // found in the moment of the deadline
	WaitNewer        = "newer"          // kind: an event that this program can't read
	WaitNoProcess    = "no_process"     // there is no process to signal
	WaitNoRoom       = "no_room"        // what, has, wants, host: the nearest that can't take it
	WaitIncompatible = "incompatible"   // what, has, wants, host
	WaitNoLever      = "no_lever"       // lever, step: it isn't configured, or lacks a step
	WaitLever        = "lever"          // lever, step: its program has been asked
	WaitRunning      = "running"        // lever, step, detail: it goes on with it
	WaitLeverWaits   = "lever_waits"    // lever, step, detail
	WaitLeverRefuses = "lever_refuses"  // lever, step, detail: it won't, as it says beforehand
	WaitLeverSilent  = "lever_silent"   // lever, step, detail: it does not say whether it could
	WaitUndo         = "undo"           // step, why: the move is rolled back
	WaitRolledBack   = "rolled_back"    // detail: a move failed and was rolled back; it runs here as before
	WaitTwoCopies    = "two_copies"     // target, detail: it stays paused until the other copy is known to be gone
	WaitCopyGone     = "copy_gone"      // target, has and wants where it is another machine: what was brought there is gone with it
	WaitCopyUnread   = "copy_unread"    // target, detail: what is left here goes once that can be read
	WaitLeaving      = "leaving"        // its lever says that it has left, and it is still there
	WaitUnready      = "unready"        // it is being taken out of traffic
	WaitBusy         = "in_flight"      // detail: requests are on their way
	WaitParked       = "parked"         // since: it is at rest here until somebody resumes it
	WaitParkedStays  = "parked_stays"   // for: it is at rest here, and must leave
	WaitResumed      = "resumed"        // by: it runs here again
	WaitNotResumed   = "not_resumed"    // step, detail: it stays as it is
	WaitOtherHere    = "other_here"     // what, has, wants: it was parked on another version than there is here
	NotParkedFor     = "not_parked_for" // for: the host may not come back with its state
	NotParkedOn      = "not_parked_on"  // what, has: the drain is about what its snapshot depends on
)

// NeedsPerson reports whether a reason goes away only when somebody acts.
func NeedsPerson(code string) bool {
	switch code {
	case WaitUnclassified, WaitNoStrategy, WaitNoCommand, WaitNoReceiver, WaitNoTime,
		WaitNotPlanned, WaitOtherMachine, WaitBlind, WaitRebooted, WaitHeld,
		WaitHold, WaitSurvived, WaitNewer, WaitNoProcess, WaitNoLever, WaitRolledBack, WaitTwoCopies, WaitTargetGone, WaitCopyGone,
		WaitParkedStays, WaitNotResumed, WaitOtherHere:
		return true
	}
	return false
}
