package drain

import (
	"encoding/json"
	"time"

	"ebb/fleet"
)

// Drives are what the driver appends, with its lease.
type (
	// DriveTook opens a driver's turn. Blind is how long nobody drove: running
	// countdowns are moved on by it, because blind time consumes no grace.
	DriveTook struct {
		Driver  string        `json:"driver"`
		Machine string        `json:"machine"` // of the source, bound at first sight
		Boot    string        `json:"boot,omitempty"`
		Blind   time.Duration `json:"blind,omitempty"`
		Person  bool          `json:"person,omitempty"` // the gap was too long: wait for a person
	}
	// DriveReleased closes a driver's turn.
	DriveReleased struct {
		Why string `json:"why,omitempty"`
	}
	// DrivePhase moves the drain to another phase.
	DrivePhase struct {
		Phase  Phase         `json:"phase"`
		Reason fleet.Reason  `json:"reason,omitzero"`
		Issues []fleet.Issue `json:"issues,omitempty"`
		Seen   time.Time     `json:"seen,omitzero"` // the host's time of the first reading in which nothing stood against it
	}
	// DriveFound adds workloads to the drain, or a new incarnation of one.
	DriveFound struct {
		Items []Found `json:"items"`
		Late  bool    `json:"late,omitempty"`  // arrived after the first pass
		Again bool    `json:"again,omitempty"` // known before: what is said of them has changed
		// Machine and Boot bind the drain to what was seen first, where the driver
		// began before the host could be read.
		Machine string `json:"machine,omitempty"`
		Boot    string `json:"boot,omitempty"`
	}
	// DriveIntent stands before an act.
	DriveIntent struct {
		Act Act `json:"act"`
	}
	// DriveOutcome stands after it.
	DriveOutcome struct {
		Act    string       `json:"act"`
		Key    fleet.Key    `json:"key,omitzero"`
		Result Result       `json:"result"`
		Reason fleet.Reason `json:"reason,omitzero"`
		Detail string       `json:"detail,omitempty"`
		// What a lever says besides: see Answer.
		State    json.RawMessage `json:"state,omitempty"`
		Progress string          `json:"progress,omitempty"`
		NoReturn bool            `json:"no_return,omitempty"`
		// When the driver heard it by its own clock, where the journal's stamps can't be
		// gone by: one whose clock was set back repeats its last one until it has caught up.
		Heard time.Time `json:"heard,omitzero"`
	}
	// DriveWaits says why workloads wait, for those whose reason changed.
	DriveWaits struct {
		Reasons []Wait `json:"reasons"`
	}
	// DriveMissing says that a workload was no longer on the host; whether it
	// left or was lost is decided within the cache window.
	DriveMissing struct {
		Keys []fleet.Key `json:"keys"`
		Back bool        `json:"back,omitempty"` // they are there after all
	}
	// DriveEnded says how workloads ended.
	DriveEnded struct {
		Ends []Ended `json:"ends"`
	}
	// DriveLate says that a workload's move budget has run out.
	DriveLate struct {
		Keys []fleet.Key `json:"keys"`
	}
	// DriveRecord is the durable record that must stand before a KILL.
	DriveRecord struct {
		Key   fleet.Key   `json:"key"`
		Runs  []fleet.Run `json:"runs"`
		Owner string      `json:"owner,omitempty"`
		Class fleet.Class `json:"class,omitempty"`
		Term  time.Time   `json:"term"`
		Term2 time.Time   `json:"term2"`
		Named string      `json:"named"` // "plan", or who asked
	}
	// DriveDeadline names what is left when the outer deadline is reached.
	DriveDeadline struct {
		Left []Left `json:"left"`
		Age  string `json:"age,omitempty"` // how old the reading is, where the host can't be read
	}
)

// Kind implements Body.
func (DriveTook) Kind() Kind     { return "drive.took" }
func (DriveReleased) Kind() Kind { return "drive.released" }
func (DrivePhase) Kind() Kind    { return "drive.phase" }
func (DriveFound) Kind() Kind    { return "drive.found" }
func (DriveIntent) Kind() Kind   { return "drive.intent" }
func (DriveOutcome) Kind() Kind  { return "drive.outcome" }
func (DriveWaits) Kind() Kind    { return "drive.waits" }
func (DriveMissing) Kind() Kind  { return "drive.missing" }
func (DriveEnded) Kind() Kind    { return "drive.ended" }
func (DriveLate) Kind() Kind     { return "drive.late" }
func (DriveRecord) Kind() Kind   { return "drive.record" }
func (DriveDeadline) Kind() Kind { return "drive.deadline" }

// Found is a workload as it was first seen by the drain.
type Found struct {
	Key     fleet.Key     `json:"key"`
	Run     fleet.Run     `json:"run,omitzero"`
	Runs    []fleet.Run   `json:"runs,omitempty"`
	Class   fleet.Class   `json:"class,omitempty"`
	Rule    string        `json:"rule,omitempty"` // why it has that class
	Verdict fleet.Verdict `json:"verdict"`
	Owner   string        `json:"owner,omitempty"`
	Expires time.Time     `json:"expires,omitzero"`
	Budget  fleet.Budget  `json:"budget"`
	MayDie  bool          `json:"may_die,omitempty"` // the plan says that it may be killed
	Start   string        `json:"start,omitempty"`
	Health  string        `json:"health,omitempty"`
	Stop    string        `json:"stop,omitempty"`
	// Declared says that its owner's manifest was there: a manifest that is
	// removed is how such an owner says that the workload has ended.
	Declared bool        `json:"declared,omitempty"`
	Kept     string      `json:"kept,omitempty"`  // a rule has come to let it stay
	Phase    fleet.Phase `json:"phase,omitempty"` // running, or at rest on this host
	// What the rule of its class says about how it leaves, and what it needs where
	// it goes.
	Lever     string          `json:"lever,omitempty"`
	InFlight  *fleet.InFlight `json:"in_flight,omitempty"`
	Readiness string          `json:"readiness,omitempty"`
	Needs     fleet.Needs     `json:"needs,omitzero"`
	Park      bool            `json:"park,omitempty"` // it is to be parked here rather than shipped
}

// Wait is one workload's reason for waiting.
type Wait struct {
	Key    fleet.Key    `json:"key"`
	Reason fleet.Reason `json:"reason"`
}

// Ended is how one workload ended.
type Ended struct {
	Key fleet.Key `json:"key"`
	End End       `json:"end"`
	By  string    `json:"by"` // lever, ttl, owner; for a loss: what was seen
}

// Left is one line of what a deadline found.
type Left struct {
	Key    fleet.Key    `json:"key"`
	Class  fleet.Class  `json:"class,omitempty"`
	Owner  string       `json:"owner,omitempty"`
	Step   Step         `json:"step,omitempty"`
	Reason fleet.Reason `json:"reason,omitzero"`
}

// End is how a workload left the host.
type End string

// The two ends. Lost needs a person's acceptance before the host can go.
const (
	LeftHost End = "left"
	Lost     End = "lost"
)

// Act is one thing to do outside the pure core, once. Its ID is derived from
// drain, workload, step and attempt, so that two drivers who decide the same
// thing name it the same.
type Act struct {
	ID     string        `json:"id"`
	Kind   ActKind       `json:"kind"`
	Key    fleet.Key     `json:"key,omitzero"`
	Runs   []fleet.Run   `json:"runs,omitempty"`
	Step   Step          `json:"step,omitempty"`
	Target fleet.HostID  `json:"target,omitempty"` // where it runs, if not on the source
	Signal string        `json:"signal,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`
	Record string        `json:"record,omitempty"` // KILL: the event that recorded it
	Named  string        `json:"named,omitempty"`  // KILL: who named it
	Exec   string        `json:"exec,omitempty"`   // name of a command
	Text   string        `json:"text,omitempty"`   // notice
	At     time.Time     `json:"at,omitzero"`      // notice: when TERM follows

	// Of a replacement whose start is in doubt. Absent, with a new start, is the
	// time of the target's reading that shows no such thing; Present, with a health
	// command, says that the target shows it: if it answers, it has been started.
	Absent  time.Time `json:"absent,omitzero"`
	Present bool      `json:"present,omitempty"`

	// Of a lever; flip has one where the lever moves the traffic before the claim
	// moves.
	Op    Op          `json:"op,omitempty"`
	Lever string      `json:"lever,omitempty"`
	Of    string      `json:"of,omitempty"`    // status: the act that is asked about
	Class fleet.Class `json:"class,omitempty"` // whose way it takes, with the first act of a move
	Steps []Step      `json:"steps,omitempty"` // the whole way, with the first act of a move
	// Machine is the one that the target is, with the first act of a move: what is
	// brought there is on that machine, and on no other of its name.
	Machine string `json:"machine,omitempty"`
	// With the first act of one that is parked: that it is, and on what its snapshot
	// depends.
	Park   bool              `json:"park,omitempty"`
	Compat map[string]string `json:"compat,omitempty"`

	// Of a quiet act: it is done when every gauge has read zero for the window.
	Quiet *fleet.InFlight `json:"quiet,omitempty"`
}

// Op is what a lever is asked.
type Op string

// The operations that acts ask for, and the one that is asked before a drain.
const (
	OpPlan   Op = "plan"
	OpDo     Op = "do"
	OpStatus Op = "status"
	OpUndo   Op = "undo"
)

// tag is what stands in an act's id, and under which its tries are counted.
func (a Act) tag() Step {
	if a.Op == "" || a.Op == OpDo {
		return a.Step
	}
	return Step(string(a.Op) + "-" + string(a.Step))
}

// moves reports whether an act is one of a move: its lever's, or the claim's
// where the lever's way leads over it.
func (a Act) moves(it Item) bool {
	_, way := ways[a.Class]
	return a.Op != "" && (way || len(it.Move.Steps) > 0)
}

// ActKind says where and how an act runs.
type ActKind string

// The kinds of act.
const (
	ActCordon ActKind = "cordon" // cordon and drain hold, plane and host
	ActNotice ActKind = "notice" // tell the owner; may repeat
	ActSignal ActKind = "signal" // on the source's agent
	ActExec   ActKind = "exec"   // on the target's agent
	ActFlip   ActKind = "flip"   // at the plane: the claim moves to the target
	ActRest   ActKind = "rest"   // at the plane: the claim is at rest, or runs again
	ActLever  ActKind = "lever"  // a program beside the engine
	ActQuiet  ActKind = "quiet"  // on the source's agent: wait until nothing is in flight
)

// Result is how an act went.
type Result string

// The results. Interrupted and NotDone are observed again, never guessed.
const (
	Done        Result = "done"
	FailedAct   Result = "failed"
	Refused     Result = "refused"
	Interrupted Result = "interrupted"
	NotDone     Result = "not_done" // it never reached the place where it runs
	RunningAct  Result = "running"  // a lever goes on with it: ask again
	WaitAct     Result = "wait"     // a lever can't begin yet, and says why
	// Withdrawn is an act that its engine did not begin after all: of two drains
	// that chose the last room of a target at once, the later one stands back.
	Withdrawn Result = "withdrawn"
)
