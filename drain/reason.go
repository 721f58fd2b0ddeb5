package drain

// Reason codes: why a workload or a drain waits. Their arguments are named
// beside them; the sentences are made where they are shown.
const (
	WaitExpires      = "expires"       // at
	WaitOutlives     = "outlives"      // expires (may be empty), escalates
	WaitUnclassified = "unclassified"  // verdict
	WaitNoStrategy   = "no_strategy"   // class
	WaitNoCommand    = "no_command"    // what: start or health
	WaitNoTarget     = "no_target"     // why
	WaitTurn         = "turn"          // limit, running
	WaitStarting     = "starting"      // target
	WaitHealth       = "health"        // target, detail
	WaitFlip         = "flip"          // target
	WaitNotice       = "notice"        // term
	WaitNoReceiver   = "no_receiver"   // a notice must be accepted, or a person must escalate by name
	WaitGrace        = "grace"         // until
	WaitTermGap      = "term_gap"      // until
	WaitKill         = "kill"          //
	WaitMissing      = "missing"       // until
	WaitHeld         = "held"          // why
	WaitKept         = "kept"          //
	WaitNoTime       = "no_time"       // needs, has
	WaitNotPlanned   = "not_planned"   // it may die only when it is named
	WaitFailed       = "failed"        // step, detail, retry
	WaitUnknown      = "unknown"       // detail
	WaitCordon       = "cordon"        // state
	WaitProbe        = "probe"         // probe, detail
	WaitUnreachable  = "unreachable"   // since, detail
	WaitOtherMachine = "other_machine" // have, want
	WaitBlind        = "blind"         // gap
	WaitRebooted     = "rebooted"      // boot
	WaitPlane        = "plane"         // detail: the claims can't be read
	WaitHold         = "hold"          // what: the hold that is missing
	WaitSurvived     = "survived"      // since: KILL was sent, and it is still there
	WaitArrived      = "arrived"       // found in the moment of the deadline
	WaitNewer        = "newer"         // kind: an event that this program can't read
	WaitNoProcess    = "no_process"    // there is no process to signal
)

// NeedsPerson reports whether a reason goes away only when somebody acts.
func NeedsPerson(code string) bool {
	switch code {
	case WaitUnclassified, WaitNoStrategy, WaitNoCommand, WaitNoReceiver, WaitNoTime,
		WaitNotPlanned, WaitOtherMachine, WaitBlind, WaitRebooted, WaitHeld,
		WaitHold, WaitSurvived, WaitNewer, WaitNoProcess:
		return true
	}
	return false
}
