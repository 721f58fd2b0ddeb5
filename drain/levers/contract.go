package levers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// An executable lever is a program that carries the steps of one strategy out,
// beside the engine. It is called once for each question, with one JSON object on
// its standard input:
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
//	  "target": {"id": "prod/gpu-044", "address": "gpu-044"},
//	  "state": {"snapshot": "s3://…"}          what its last answer said
//	}
//
// It answers with exactly one JSON object on standard output, and exit status 0:
//
//	{
//	  "result": "done",               or running, wait, refused, failed
//	  "reason": "engine 1.4, wanted 1.5",      or {"code": "…", "args": {…}}
//	  "progress": "shipped 3.1 of 7.9 GB",     one line for people
//	  "state": {"snapshot": "s3://…"},         at most 64 KiB; kept for the next call
//	  "no_return": true                        the step can't be taken back any more
//	}
//
// What it has to keep to:
//
//   - Every step may come again, with the same act and with another one: a step
//     that has been done answers done.
//   - running says that it goes on after this call has ended; it is asked again
//     with status. status answers what became of an act, also after the program,
//     or the whole machine, ended in its midst: done, running, or failed, which
//     means that do may be asked again. An act that never began is failed.
//   - undo takes one step back, ends what still does it, and answers done only
//     when nothing of it is left; undoing what was never done is done. Undo of
//     restore is the word on which a source is resumed: while the target can't
//     be asked, it is failed, and never done.
//   - snapshot leaves a source that does not run on by itself, not even after a
//     restart of its host, and fence leaves a primary that takes no writes, also
//     after its restart.
//   - A lower epoch than one that it has seen for the drain is refused.
//   - On TERM it ends within five seconds. What it started in sessions of its own
//     may go on, and is what status tells of.
//   - wait says why it can't begin yet; refused that it won't, and names both
//     values; failed that it tried.
//
// Output that is not that is a failed act, with what was wrong about it.
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

// Limits on what a lever says.
const (
	MaxReply = 1 << 20
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
	dec := json.NewDecoder(bytes.NewReader(out))
	if err := dec.Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("its answer is not a JSON object as it should be: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Reply{}, errors.New("it answered more than one object")
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
	return s[:maxText] + "…"
}

// answer is a reply as the engine takes it.
func (r Reply) answer() drain.Answer {
	return drain.Answer{Result: r.Result, Reason: r.Reason.Reason, Detail: r.Reason.Text, State: r.State, Progress: r.Progress, NoReturn: r.NoReturn}
}
