package fleet

import "time"

// Verdict is the outcome of comparing claims with facts for one key.
type Verdict string

// The verdicts. A resource with any claim that is not gone is never a leak.
const (
	Agreed       Verdict = "agreed"
	Resting      Verdict = "at_rest"      // claimed at rest, and its state is there
	Ghost        Verdict = "ghost"        // claimed running, absent
	Orphan       Verdict = "orphan"       // running, unclaimed
	Leak         Verdict = "leak"         // a resource whose owner is gone
	Unattributed Verdict = "unattributed" // runs, and no rule recognises it
	UnknownV     Verdict = "unknown"      // what would decide it can't be read
)

// Clean reports whether the verdict leaves nothing to explain.
func (v Verdict) Clean() bool { return v == Agreed || v == Resting }

// Finding is a verdict on one key with what it rests on.
type Finding struct {
	Key      Key        `json:"key"`
	Verdict  Verdict    `json:"verdict"`
	Class    Class      `json:"class,omitempty"`
	Owner    string     `json:"owner,omitempty"`
	Since    time.Time  `json:"since,omitzero"`
	Claim    *Claim     `json:"claim,omitempty"`
	Workload *Workload  `json:"workload,omitempty"`
	Process  *Process   `json:"process,omitempty"`
	Resource *Resource  `json:"resource,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is one observation behind a finding.
type Evidence struct {
	Source string    `json:"source"` // "plane prod", "/proc/4117/stat"
	Says   string    `json:"says"`
	At     time.Time `json:"at,omitzero"`
}

// Reason says why something waits, as a code and arguments; its text is made
// where it is shown.
type Reason struct {
	Code string            `json:"code"`
	Args map[string]string `json:"args,omitempty"`
}

// Because makes a reason from a code and alternating argument names and values.
func Because(code string, args ...string) Reason {
	r := Reason{Code: code}
	for i := 0; i+1 < len(args); i += 2 {
		if r.Args == nil {
			r.Args = make(map[string]string, len(args)/2)
		}
		r.Args[args[i]] = args[i+1]
	}
	return r
}

// IsZero reports whether there is no reason.
func (r Reason) IsZero() bool { return r.Code == "" }

// Equal compares by value.
func (r Reason) Equal(o Reason) bool {
	if r.Code != o.Code || len(r.Args) != len(o.Args) {
		return false
	}
	for k, v := range r.Args {
		if o.Args[k] != v {
			return false
		}
	}
	return true
}
