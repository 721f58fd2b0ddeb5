package drain

import (
	"encoding/json"
	"time"

	"ebb/fleet"
)

// Job is one act with what a lever needs to carry it out: the fence (drain,
// epoch, machine), the source, and the workload as the drain knows it.
type Job struct {
	Drain   string        `json:"drain"`
	Epoch   uint64        `json:"epoch"`
	Machine string        `json:"machine"` // of the source: another machine refuses
	Source  fleet.Host    `json:"source"`
	For     fleet.Purpose `json:"for,omitempty"`
	Reason  string        `json:"reason,omitempty"` // of the drain, for notices
	Until   time.Time     `json:"until,omitzero"`   // its outer deadline
	By      string        `json:"by,omitempty"`
	Act     Act           `json:"act"`
	Item    Item          `json:"item"`
}

// Answer is how an act went. A refusal is an answer, with its reason; an error
// is reported only where nothing is known about the act.
type Answer struct {
	Result Result       `json:"result"`
	Reason fleet.Reason `json:"reason,omitzero"`
	Detail string       `json:"detail,omitempty"`
	// State is a lever's own, for its next step; Progress is one line for people;
	// NoReturn says that the step can't be taken back any more.
	State    json.RawMessage `json:"state,omitempty"`
	Progress string          `json:"progress,omitempty"`
	NoReturn bool            `json:"no_return,omitempty"`
}
