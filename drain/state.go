package drain

import (
	"time"

	"ebb/fleet"
)

// Phase is where a drain stands.
type Phase string

// The phases. Parked, Stopped and DeadlineReached keep both holds.
const (
	NoDrain         Phase = ""
	Planned         Phase = "planned"
	Cordoning       Phase = "cordoning"
	Draining        Phase = "draining"
	Verifying       Phase = "verifying"
	Empty           Phase = "empty"
	Parked          Phase = "parked" // nothing is left but what is parked here
	DeadlineReached Phase = "deadline"
	Stopped         Phase = "stopped"
)

// Ended reports whether a driver has nothing more to do until it is asked.
func (p Phase) Ended() bool { return p == Empty || p == Parked || p == Stopped || p == DeadlineReached }

// Step is how far a workload is on its way out.
type Step string

// The steps of the strategies, in the order in which they happen.
const (
	StepWait    Step = ""        // nothing has been done to it
	StepExpire  Step = "expire"  // waits for its own end
	StepStart   Step = "start"   // its replacement is being started
	StepHealth  Step = "health"  // its replacement must answer
	StepFlip    Step = "flip"    // its claim moves
	StepNotice  Step = "notice"  // its owner has been told
	StepTerm    Step = "term"    // TERM sent, the grace runs
	StepTerm2   Step = "term2"   // second TERM sent
	StepRecord  Step = "record"  // the KILL is on record
	StepKill    Step = "kill"    // KILL sent
	StepMissing Step = "missing" // no longer there; left or lost is being decided

	// Of a serving workload, once its replacement has the traffic.
	StepUnready Step = "unready" // it says that it takes no traffic
	StepQuiesce Step = "quiesce" // nothing may be in flight any more
	StepStop    Step = "stop"    // its lever stops it

	// Of a pausable one.
	StepSnapshot Step = "snapshot" // its state is written, and it does not run on
	StepShip     Step = "ship"     // its state is brought to the target
	StepRestore  Step = "restore"  // it is resumed there
	StepClock    Step = "clock"    // its clock is set right
	StepAnswers  Step = "answers"  // it must answer
	StepRemove   Step = "remove"   // what is left of it here goes

	// Of a pausable one that stays on its host.
	StepPark   Step = "park"   // its state is kept at rest here, and its claim says so
	StepResume Step = "resume" // it is resumed here
	StepWake   Step = "wake"   // its claim says that it runs

	// Of a durable one.
	StepAnnounce Step = "announce" // its users are told
	StepFence    Step = "fence"    // it takes no writes, not even after a restart
	StepArchive  Step = "archive"  // the end of its log is kept
	StepReplay   Step = "replay"   // the target has all of that log
	StepPromote  Step = "promote"  // the target takes writes
	StepRepoint  Step = "repoint"  // its users and its claim go there
	StepProve    Step = "prove"    // nothing that was acknowledged is missing
)

// State is one drain as its events say. It is a value: Apply returns a new one
// and never changes what it was given.
type State struct {
	Drain        string        `json:"drain"`
	Host         fleet.HostID  `json:"host"`
	Machine      string        `json:"machine,omitempty"`
	Bound        string        `json:"bound,omitempty"` // the machine that the host is, whichever drain it has
	Boot         string        `json:"boot,omitempty"`
	Phase        Phase         `json:"phase"`
	For          fleet.Purpose `json:"for,omitempty"`
	Evacuate     bool          `json:"evacuate,omitempty"`
	Reason       string        `json:"reason,omitempty"`
	By           Actor         `json:"by"`
	Started      time.Time     `json:"started"`
	Deadline     time.Time     `json:"deadline"`
	Epoch        uint64        `json:"epoch"`
	Driver       string        `json:"driver,omitempty"`   // empty while nobody drives
	Released     time.Time     `json:"released,omitzero"`  // by its last driver, where nobody has taken it since
	Since        time.Time     `json:"since,omitzero"`     // of the phase
	First        bool          `json:"first,omitempty"`    // the first inventory has been taken
	Seen         time.Time     `json:"seen,omitzero"`      // the host's time of the first reading in which nothing stood against it; gone with the next act, arrival or issue
	Proved       bool          `json:"proved,omitempty"`   // the cordon has taken, at plane and host
	CordonAt     time.Time     `json:"cordon_at,omitzero"` // of the last answer to an act that asks for both holds
	CordonFailed bool          `json:"cordon_failed,omitempty"`
	PersonAt     time.Time     `json:"person_at,omitzero"`
	Newer        string        `json:"newer,omitempty"` // an event that this program can't read: it does not drive on
	Round        int           `json:"round,omitempty"` // how often the drain was lifted and begun anew under its id

	Items    map[fleet.Key]Item   `json:"items,omitempty"`
	Open     map[string]Act       `json:"open,omitempty"` // intents without an outcome
	Issues   []fleet.Issue        `json:"issues,omitempty"`
	Waiting  fleet.Reason         `json:"waiting,omitzero"` // why the drain as a whole waits
	Person   bool                 `json:"person,omitempty"` // a person must say that it may go on
	Left     []Left               `json:"left,omitempty"`   // as named at the deadline
	MayDie   map[fleet.Key]bool   `json:"may_die,omitempty"`
	Lost     []LostItem           `json:"lost,omitempty"`
	Accepted map[fleet.Key]string `json:"accepted,omitempty"` // exceptions for the gate, with their reasons
	Early    []Event              `json:"early,omitempty"`    // asks about workloads that have not been found yet

	Num    uint64    `json:"num"`              // last event of the stream that was folded
	LastAt time.Time `json:"last_at,omitzero"` // time of the last event of this drain
	Undone bool      `json:"undone,omitempty"` // its hold has been lifted

	Terminating Termination `json:"terminating,omitzero"` // as far as is known: its intent has no outcome

	Terminated   time.Time `json:"terminated,omitzero"` // the host is gone, with this drain's proof
	TerminatedBy string    `json:"terminated_by,omitempty"`

	own bool // the map of items is nobody else's and may be changed in place; never set in a state that is handed out
}

// Termination is a terminate that has begun: act, when and who.
type Termination struct {
	Act string    `json:"act"`
	At  time.Time `json:"at"`
	By  string    `json:"by,omitempty"`
}

// Item is one workload in a drain.
type Item struct {
	Found
	Late     bool          `json:"late,omitempty"`    // came after the first pass
	Overdue  bool          `json:"overdue,omitempty"` // its move budget has run out
	ClassBy  string        `json:"class_by,omitempty"`
	Held     bool          `json:"held,omitempty"`
	Keep     bool          `json:"keep,omitempty"`
	Extra    time.Duration `json:"extra,omitempty"`    // added to a running grace by a person
	Excepted bool          `json:"excepted,omitempty"` // accepted by the gate while it was here
	Step     Step          `json:"step,omitempty"`
	Reason   fleet.Reason  `json:"reason,omitzero"`
	FoundAt  time.Time     `json:"found_at,omitzero"`
	FirstAct time.Time     `json:"first_act,omitzero"` // the move budget runs from here
	Target   fleet.HostID  `json:"target,omitempty"`
	Placed   uint64        `json:"placed,omitempty"` // the journal's number of the intent that chose the target

	// The replacement belongs to the workload: these survive a restart of it.
	StartedAt time.Time    `json:"started_at,omitzero"`
	HealthyAt time.Time    `json:"healthy_at,omitzero"`
	FlippedAt time.Time    `json:"flipped_at,omitzero"`
	FlippedTo fleet.HostID `json:"flipped_to,omitempty"` // where its claim went last
	Unsure    Unsure       `json:"unsure,omitzero"`      // of a start on Target
	Remains   Remains      `json:"remains,omitzero"`

	// The move too: what a lever has done, and what its next step needs.
	Move Move `json:"move,omitzero"`

	// ParkBy chose between parking and shipping; Resume is the word on which what is
	// parked comes back, and Resumed when it did.
	ParkBy  string `json:"park_by,omitempty"`
	Resume  Word   `json:"resume,omitzero"`
	Resumed Word   `json:"resumed,omitzero"`

	// The last of its traffic belongs to one incarnation.
	UnreadyAt time.Time `json:"unready_at,omitzero"`
	QuietAt   time.Time `json:"quiet_at,omitzero"`

	// The escalation belongs to one incarnation: a new one begins with nothing.
	Escalated   string      `json:"escalated,omitempty"` // who asked for it, by name
	EscalatedAt time.Time   `json:"escalated_at,omitzero"`
	NoticeAt    time.Time   `json:"notice_at,omitzero"`
	Accepted    bool        `json:"accepted,omitempty"` // a receiver took the notice
	AcceptedAt  time.Time   `json:"accepted_at,omitzero"`
	Untold      bool        `json:"untold,omitempty"` // the notice is done, but there was no receiver
	TermAt      time.Time   `json:"term_at,omitzero"`
	Term2At     time.Time   `json:"term2_at,omitzero"`
	RecordAt    time.Time   `json:"record_at,omitzero"`
	Record      string      `json:"record,omitempty"`      // id of the recording event
	RecordRuns  []fleet.Run `json:"record_runs,omitempty"` // what it names, and so all that may be killed
	KillAt      time.Time   `json:"kill_at,omitzero"`
	SignalAt    time.Time   `json:"signal_at,omitzero"` // a signal of ours has reached it, or may have

	MissingAt time.Time    `json:"missing_at,omitzero"`
	RetryAt   time.Time    `json:"retry_at,omitzero"` // not before
	Fails     int          `json:"fails,omitempty"`   // in a row, of the step that failed last
	Tries     map[Step]int `json:"tries,omitempty"`   // acts begun, for their ids: never starts again
	End       End          `json:"end,omitempty"`
	EndBy     string       `json:"end_by,omitempty"`
	EndAt     time.Time    `json:"end_at,omitzero"`
}

// LostItem is a workload that vanished without an act of ours and without word
// from its owner. It stays on the list even if something of its name comes back.
type LostItem struct {
	Key   fleet.Key `json:"key"`
	Owner string    `json:"owner,omitempty"`
	How   string    `json:"how"`
	At    time.Time `json:"at"`
}

// Replaced reports whether its claim has moved to a replacement, or may have:
// from then on nobody claims the old copy, and that is our own doing.
func (i Item) Replaced() bool {
	return !i.FlippedAt.IsZero() || i.Tries[StepFlip] > 0 || i.Tries[StepRepoint] > 0
}

// giveUp is how often in a row something may fail after the drain has ended,
// before it is left to a person.
const giveUp = 3

// Over reports whether the drain binds its host no more: its hold was lifted, or
// the host is gone. Whatever answers under the host's name from then on is
// drained anew, as the machine that it is.
func (s State) Over() bool { return s.Undone || !s.Terminated.IsZero() }

// Clearing reports whether one reading past the deadline has shown nothing that
// stands against the host, so that the next one decides.
func (s State) Clearing() bool {
	return s.Phase == DeadlineReached && !s.Seen.IsZero() && s.Waiting.IsZero() && !s.Person
}

// Unsettled reports whether the drain has ended while moves still have to be
// finished or rolled back, or what was parked is to come back: whoever drives it
// goes on with those.
func (s State) Unsettled() bool {
	if s.Resumes() {
		return true
	}
	if s.Undone || s.Person || s.Newer != "" || s.Phase != Stopped && s.Phase != DeadlineReached {
		return false
	}
	for _, it := range s.Items {
		if it.Open() && it.Move.Underway() && it.Fails < giveUp && it.Reason.Code != WaitCopyGone && !(it.Move.NoReturn && (it.Held || it.Keep)) {
			return true
		}
	}
	return false
}

// Open reports whether the item is still on the host as far as is known.
func (i Item) Open() bool { return i.End == "" }

// Moving names the workloads that a lever has in the middle of a move.
func (s State) Moving() []fleet.Key {
	var keys []fleet.Key
	for _, k := range sortedKeys(s.Items) {
		if it := s.Items[k]; it.Open() && it.Move.Underway() {
			keys = append(keys, k)
		}
	}
	return keys
}

// Counts is a drain in numbers; every screen that shows them shows names too.
type Counts struct {
	Total, Left, Parked, Overdue, Late, Lost, NeedsYou int
}

// Count counts the items.
func (s State) Count() Counts {
	var c Counts
	for _, it := range s.Items {
		c.Total++
		switch {
		case it.End == Lost:
			c.Lost++
		case it.Parked() && !risksState(s.For) && !NeedsPerson(it.Reason.Code):
			c.Parked++
		case it.End == "":
			c.Left++
			if it.Overdue {
				c.Overdue++
			}
			if NeedsPerson(it.Reason.Code) {
				c.NeedsYou++
			}
		}
		if it.Late {
			c.Late++
		}
	}
	if s.Person || (s.Phase == DeadlineReached && c.Left > 0) {
		c.NeedsYou = max(c.NeedsYou, 1)
	}
	return c
}
