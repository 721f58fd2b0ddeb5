package feed

import (
	"ebb/fleet"
	"ebb/tui/keys"
)

// Verb names what a person can ask for, as it is typed after ":".
type Verb string

// The verbs of the console.
const (
	Cordon     Verb = "cordon"
	Uncordon   Verb = "uncordon"
	Plan       Verb = "plan"
	Drain      Verb = "drain"
	Undrain    Verb = "undrain"
	Extend     Verb = "extend"
	Stop       Verb = "stop"
	MoreTime   Verb = "more-time"
	Reclass    Verb = "class"
	Hold       Verb = "hold"
	Retry      Verb = "retry"
	Escalate   Verb = "escalate"
	Keep       Verb = "keep"
	Park       Verb = "park"
	Ship       Verb = "ship"
	Resume     Verb = "resume"
	TargetGone Verb = "target-gone"
	HandOver   Verb = "handover"
	Clean      Verb = "clean"
	Check      Verb = "check"
	Verify     Verb = "verify"
	Accept     Verb = "accept"
	Terminate  Verb = "terminate"
)

// Reads reports whether a verb changes nothing.
func (v Verb) Reads() bool { return v == Plan || v == Check }

// Want is a message from a screen: a person asked for a verb. Its target is
// frozen in that moment, by identity; whatever moves on the screen afterwards,
// the verb is about what is named here.
type Want struct {
	Verb      Verb
	Host      fleet.HostID
	Hosts     []fleet.HostID   // cordon: all that are meant
	Hidden    int              // marked hosts that a filter hides: they are not meant
	Edit      bool             // ask for the reason before
	Key       fleet.Key        // a workload, or what the gate names
	Keys      []fleet.Key      // several marked workloads
	Run       fleet.Run        // the incarnation that was on the screen
	Resource  fleet.Resource   // clean
	Resources []fleet.Resource // clean: all marked ones, where there are several
	Issue     fleet.Issue      // accept
	Request   Request          // what the plan on the screen was made for
	Text      string           // what was typed behind a command
}

// Open is a message from a screen: show another one.
type Open struct {
	Screen keys.Scope
	Host   fleet.HostID
}

// Play is a message from a screen: play the journal again, from an event on; with
// none, from the beginning of the host's newest drain.
type Play struct {
	Host fleet.HostID // whose board to look at; empty: all hosts
	ID   string
}

// Show is a message from a screen: lay these lines over it, to be read. They are
// cleaned before they are drawn.
type Show struct {
	Title string
	Lines []string
}

// Say is a message from a screen: a line for the person, such as why a key does
// nothing here.
type Say struct{ Text string }
