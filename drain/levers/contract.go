package levers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"ebb/drain"
	"ebb/fleet"
)

// Request is what an executable lever is asked: see the package documentation.
type Request struct {
	Op       string          `json:"op"`
	Act      string          `json:"act,omitempty"`
	Of       string          `json:"of,omitempty"`
	Step     drain.Step      `json:"step,omitempty"`
	Steps    []drain.Step    `json:"steps,omitempty"`
	Drain    string          `json:"drain,omitempty"`
	Epoch    uint64          `json:"epoch"`
	For      fleet.Purpose   `json:"for,omitempty"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Workload Workload        `json:"workload"`
	Source   Place           `json:"source"`
	Target   Place           `json:"target,omitzero"`
	State    json.RawMessage `json:"state,omitempty"`
}

// Workload is what a lever is told of what it moves.
type Workload struct {
	Kind  string      `json:"kind"`
	ID    string      `json:"id"`
	Class fleet.Class `json:"class,omitempty"`
	Owner string      `json:"owner,omitempty"`
	Run   fleet.Run   `json:"run,omitzero"`
	Needs fleet.Needs `json:"needs,omitzero"`
}

// Place is a host as a lever is told of it.
type Place struct {
	ID      fleet.HostID `json:"id"`
	Address string       `json:"address,omitempty"`
	Machine string       `json:"machine,omitempty"`
}

// Reply is what a lever answers.
type Reply struct {
	Result   drain.Result    `json:"result"`
	Reason   Reason          `json:"reason,omitzero"`
	Progress string          `json:"progress,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	NoReturn bool            `json:"no_return,omitempty"`
}

// Reason is a text, or a code with arguments.
type Reason struct {
	Text string
	fleet.Reason
}

// IsZero reports whether there is none.
func (r Reason) IsZero() bool { return r.Text == "" && r.Code == "" }

// MarshalJSON writes the text where there is one.
func (r Reason) MarshalJSON() ([]byte, error) {
	if r.Text != "" {
		return json.Marshal(r.Text)
	}
	return json.Marshal(r.Reason)
}

// UnmarshalJSON reads either.
func (r *Reason) UnmarshalJSON(b []byte) error {
	*r = Reason{}
	if bytes.HasPrefix(b, []byte(`"`)) {
		return json.Unmarshal(b, &r.Text)
	}
	return json.Unmarshal(b, &r.Reason)
}

// Limits on what a lever says, and on the time that it has to say what a drain
// would be.
const (
	MaxReply = 1 << 20
	MaxPlan  = 10 * time.Second
	maxText  = 2000
)

// ParseReply reads the whole output of a lever: one object and nothing else.
func ParseReply(out []byte) (Reply, error) {
	var r Reply
	if len(bytes.TrimSpace(out)) == 0 {
		return r, errors.New("it answered nothing")
	}
	if len(out) > MaxReply {
		return r, fmt.Errorf("it answered more than %d bytes", MaxReply)
	}
	if !utf8.Valid(out) {
		return r, errors.New("its answer is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	if err := dec.Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("its answer is not a JSON object as it should be: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Reply{}, errors.New("it answered more than one object: something stands behind the first")
	}
	switch r.Result {
	case drain.Done, drain.RunningAct, drain.WaitAct, drain.Refused, drain.FailedAct:
	default:
		return Reply{}, fmt.Errorf("its result is %.40q: want done, running, wait, refused or failed", r.Result)
	}
	if string(r.State) == "null" {
		r.State = nil
	}
	if len(r.State) > drain.MaxLeverState {
		return Reply{}, fmt.Errorf("its state has %d bytes, more than %d", len(r.State), drain.MaxLeverState)
	}
	r.Progress, r.Reason.Text = cut(r.Progress), cut(r.Reason.Text)
	return r, nil
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// answer is a reply as the engine takes it.
func (r Reply) answer() drain.Answer {
	return drain.Answer{Result: r.Result, Reason: r.Reason.Reason, Detail: r.Reason.Text, State: r.State, Progress: r.Progress, NoReturn: r.NoReturn}
}
