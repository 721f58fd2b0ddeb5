package drain

import (
	"encoding/json"
	"fmt"
	"time"

	"ebb/fleet"
)

// Event is one entry of the journal. A stream holds everything about one host,
// in order; Seq orders all streams in commit order without gaps.
type Event struct {
	Seq    uint64          `json:"seq"`
	Stream string          `json:"stream"` // the host's id
	Num    uint64          `json:"num"`    // position in the stream, from 1
	ID     string          `json:"id"`     // unique: an ambiguous commit is looked up by it before it is retried
	At     time.Time       `json:"at"`     // the journal's clock
	Kind   Kind            `json:"kind"`
	V      int             `json:"v"` // version of the body's shape
	Drain  string          `json:"drain,omitempty"`
	Epoch  uint64          `json:"epoch,omitempty"` // of the driver; 0 for asks and records
	By     Actor           `json:"by"`
	Body   json.RawMessage `json:"body,omitempty"`
	Sig    string          `json:"sig,omitempty"` // SSHSIG over the event by By.Key
}

// Actor is who made an event.
type Actor struct {
	Name    string `json:"name"`
	Console string `json:"console,omitempty"` // host and process of the ebb that wrote it
	Key     string `json:"key,omitempty"`     // fingerprint of the signing key
}

// Kind names the shape and meaning of an event's body.
type Kind string

// IsDrive reports whether only the holder of the drain's lease may append it.
func (k Kind) IsDrive() bool { return len(k) > 6 && k[:6] == "drive." }

// Body is the typed content of an event.
type Body interface{ Kind() Kind }

// NewEvent wraps a body. The journal fills in Seq, Num and At.
func NewEvent(host fleet.HostID, id, drain string, epoch uint64, by Actor, body Body) (Event, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return Event{}, fmt.Errorf("encode %s: %w", body.Kind(), err)
	}
	return Event{Stream: string(host), ID: id, Kind: body.Kind(), V: 1, Drain: drain, Epoch: epoch, By: by, Body: raw}, nil
}

// Unrecognised is the body of an event whose kind or version this program does
// not know: it is shown, and not driven.
type Unrecognised struct {
	Name    Kind            `json:"-"`
	Version int             `json:"-"`
	Raw     json.RawMessage `json:"-"`
}

// Kind returns the kind as the event gave it.
func (u Unrecognised) Kind() Kind { return u.Name }

// Decode returns the typed body of an event, or an Unrecognised one.
func (e Event) Decode() (Body, error) {
	fresh, ok := kinds[e.Kind]
	if !ok || e.V != 1 {
		return Unrecognised{Name: e.Kind, Version: e.V, Raw: e.Body}, nil
	}
	return fresh(e.Body)
}

// decoder returns a function that reads a body of type B.
func decoder[B Body]() func(json.RawMessage) (Body, error) {
	return func(raw json.RawMessage) (Body, error) {
		var b B
		if len(raw) == 0 {
			return b, nil
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, fmt.Errorf("decode %s: %w", b.Kind(), err)
		}
		return b, nil
	}
}

// Lease is the right to drive one drain. Epoch rises with every new holder.
type Lease struct {
	Drain  string    `json:"drain"`
	Holder string    `json:"holder"`
	Epoch  uint64    `json:"epoch"`
	Until  time.Time `json:"until"` // by the journal's clock
}

// Lease timing.
const (
	LeaseTTL   = 15 * time.Second
	LeaseRenew = 5 * time.Second
)

// Batch is what is appended in one transaction, all of it or nothing.
type Batch struct {
	Stream string
	Expect *uint64 // the stream's last Num as the writer knows it; nil appends at the end
	Lease  *Lease  // required for drives: holder and epoch must still hold the lease
	Events []Event
}
