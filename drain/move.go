package drain

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"ebb/fleet"
)

// MaxLeverState bounds what a lever may hand on from one step to the next.
const MaxLeverState = 64 << 10

// ways are the strategies that a lever carries out: steps in their order, each of
// which may be repeated. A lever that does not have one of them leaves it out,
// but for those that the class can't do without.
//
// The last step is the only one that ends anything here, and it comes after the
// claim has moved to a copy that answers.
var ways = map[fleet.Class][]Step{
	fleet.Pausable: {StepSnapshot, StepShip, StepRestore, StepClock, StepAnswers, StepFlip, StepRemove},
	fleet.Durable:  {StepAnnounce, StepFence, StepArchive, StepReplay, StepPromote, StepRepoint, StepProve, StepRemove},
}

// needed are the steps without which a way is none. Flip and repoint are always
// there, because claims move at the control plane whatever the lever does.
var needed = map[fleet.Class][]Step{
	fleet.Pausable:  {StepSnapshot, StepRestore, StepRemove},
	fleet.Durable:   {StepFence, StepReplay, StepPromote, StepRemove},
	fleet.Stateless: {StepStart, StepHealth},
}

// LeverSpec is a lever as the configuration names it. No steps are all steps.
type LeverSpec struct {
	Name  string
	Steps []Step
}

// Does reports whether the lever has a step.
func (l LeverSpec) Does(s Step) bool { return len(l.Steps) == 0 || slices.Contains(l.Steps, s) }

// way is the strategy of a class with a lever, for a workload that is moved or one
// that is parked; missing names a step that it can't do without.
func way(c fleet.Class, l LeverSpec, park bool) (steps []Step, missing Step) {
	need, all := needed[c], ways[c]
	if park {
		need, all = parkNeeds, parkWay
	}
	for _, s := range need {
		if !l.Does(s) {
			return nil, s
		}
	}
	for _, s := range all {
		if l.Does(s) || atPlane(s) {
			steps = append(steps, s)
		}
	}
	return steps, ""
}

// WayOf are all the steps of a class that a lever carries out, in their order.
func WayOf(c fleet.Class) []Step {
	if c == fleet.Stateless {
		return []Step{StepStart, StepHealth, StepFlip, StepStop}
	}
	return slices.Clone(ways[c])
}

// atPlane reports whether a step changes the claim: where the workload is, or
// whether it rests.
func atPlane(s Step) bool { return s == StepFlip || s == StepRepoint || rest(s) }

// rest reports whether a step says at the plane that the workload rests, or that
// it runs again.
func rest(s Step) bool { return s == StepPark || s == StepWake }

// Move is how far a lever has brought a workload. It belongs to the workload, not
// to one incarnation: what a snapshot ended may be gone while its move goes on.
//
// There are never two runnable copies. The source is made unrunnable by snapshot
// (or fence) before restore (or promote) may begin, and what made it so is undone
// only after everything behind it has been undone, in reverse order and each with
// the lever's word that it is: a target that nobody could confirm as destroyed
// keeps the source paused.
type Move struct {
	Lever string      `json:"lever,omitempty"`
	Class fleet.Class `json:"class,omitempty"` // whose way it takes
	Run   fleet.Run   `json:"run,omitzero"`    // the incarnation with which it began
	Steps []Step      `json:"steps,omitempty"` // the whole way
	// Machine is the one that its target was when it began; see Act.
	Machine string             `json:"machine,omitempty"`
	Begun   map[Step]time.Time `json:"begun,omitempty"` // and not undone
	Done    map[Step]time.Time `json:"done,omitempty"`  // and not undone
	State   json.RawMessage    `json:"state,omitempty"` // the lever's own, handed to its next step
	Says    string             `json:"says,omitempty"`  // its progress
	Asked   string             `json:"asked,omitempty"` // the act that still runs at the lever, to be asked about
	AskAt   time.Time          `json:"ask_at,omitzero"` // when it last said so
	Failed  Step               `json:"failed,omitempty"`
	Result  Result             `json:"result,omitempty"` // of the step that failed
	Rounds  int                `json:"rounds,omitempty"` // moves that were rolled back because a step failed
	// NoReturn says that the other copy is the one that counts: from here on the
	// move can only be finished.
	NoReturn bool `json:"no_return,omitempty"`
	// Undoing says that it is being rolled back, until nothing of it is left.
	Undoing bool `json:"undoing,omitempty"`
	// Park says that it ends on its own host, and Compat what its snapshot can be
	// resumed on: see parkWay.
	Park   bool              `json:"park,omitempty"`
	Compat map[string]string `json:"compat,omitempty"`
}

// Underway reports whether something of the move has begun and nothing has ended
// it.
func (m Move) Underway() bool { return len(m.Begun) > 0 && !m.Complete() && !m.Resting() }

// Complete reports whether every step is done.
func (m Move) Complete() bool { return len(m.Steps) > 0 && !m.Undoing && m.Next() == "" }

// Next is the first step that is not done.
func (m Move) Next() Step {
	for _, s := range m.Steps {
		if _, done := m.Done[s]; !done {
			return s
		}
	}
	return ""
}

// Last is the last step that has begun: the first to be undone.
func (m Move) Last() Step {
	for _, s := range slices.Backward(m.Steps) {
		if _, begun := m.Begun[s]; begun {
			return s
		}
	}
	return ""
}

// noReturn reports whether beginning a step means that the move can only be
// finished: from then on the claim, or the write position, may be the target's; or
// what was parked may run.
func noReturn(s Step) bool {
	return s == StepFlip || s == StepPromote || s == StepRepoint || s == StepResume
}

// legal says why an act of a lever does not follow from where the move stands.
// It is the last look before the act, whoever decided upon it.
func (m Move) legal(a Act, phase Phase) error {
	late := phase == Stopped || phase == DeadlineReached
	switch {
	case a.Op == OpStatus:
		if m.Asked == "" || a.Of != m.Asked {
			return illegal("act %s: asks about %q, %q runs", a.ID, a.Of, m.Asked)
		}
		return nil
	case a.Op == OpUndo:
		switch {
		case m.NoReturn:
			return illegal("act %s: undo past the point of no return", a.ID)
		case a.Step != m.Last():
			return illegal("act %s: %s is undone while %q stands", a.ID, a.Step, m.Last())
		}
		return nil
	case m.Undoing:
		return illegal("act %s: begun while the move is rolled back", a.ID)
	case m.Asked != "":
		return illegal("act %s: begun while %s runs", a.ID, m.Asked)
	case late && !m.NoReturn && a.Step != StepResume:
		return illegal("act %s: begun in a drain that is over", a.ID)
	}
	steps := m.Steps
	if len(steps) == 0 {
		steps = a.Steps
	}
	i := slices.Index(steps, a.Step)
	if i < 0 {
		return illegal("act %s: %s is no step of its way", a.ID, a.Step)
	}
	for _, before := range steps[:i] {
		if _, done := m.Done[before]; !done {
			return illegal("act %s: %s before %s is done", a.ID, a.Step, before)
		}
	}
	return nil
}

// begin folds the intent of an act of a lever.
func (m Move) begin(a Act, it Item, at time.Time) Move {
	switch a.Op {
	case OpStatus:
		return m
	case OpUndo:
		m.Undoing, m.Asked = true, ""
		return m
	}
	if len(m.Steps) == 0 {
		m = Move{Lever: a.Lever, Class: a.Class, Run: it.Run, Steps: slices.Clone(a.Steps), Machine: a.Machine, Rounds: m.Rounds, Park: a.Park, Compat: maps.Clone(a.Compat)}
	}
	m.Begun = set(m.Begun, a.Step, at)
	m.NoReturn = m.NoReturn || noReturn(a.Step)
	return m
}

// answered folds what a lever said about a step. An act of which nothing is known
// is one to be asked about.
func (m Move) answered(a Act, b DriveOutcome, at time.Time) Move {
	if len(b.State) > 0 && len(b.State) <= MaxLeverState {
		m.State = slices.Clone(b.State)
	}
	m.Says = b.Progress
	m.NoReturn = m.NoReturn || b.NoReturn && a.Op != OpUndo
	if a.Op == OpUndo {
		if b.Result == Done {
			return m.undone(a.Step)
		}
		return m
	}
	id := a.ID
	if a.Op == OpStatus {
		id = a.Of
	}
	switch b.Result {
	case Done:
		m.Done = set(m.Done, a.Step, at)
		m.Asked, m.Failed, m.Result = "", "", ""
	case RunningAct, Interrupted:
		m.Asked, m.AskAt = id, at
	case WaitAct:
		m.Asked = ""
	case NotDone:
		if a.Op != OpStatus {
			m.Asked = ""
		}
	default:
		m.Asked, m.Failed, m.Result = "", a.Step, b.Result
	}
	return m
}

// undone takes a step back; once nothing has begun any more, the move is as if it
// had never been, but for how often that has happened.
func (m Move) undone(s Step) Move {
	m.Begun, m.Done = maps.Clone(m.Begun), maps.Clone(m.Done)
	delete(m.Begun, s)
	delete(m.Done, s)
	if len(m.Begun) > 0 {
		return m
	}
	rounds := m.Rounds
	if m.Failed != "" {
		rounds++
	}
	return Move{Rounds: rounds}
}
