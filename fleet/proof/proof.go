// Package proof builds, signs and checks the document by which a host is shown
// to be empty: proof.json and its detached SSH signature proof.json.sig.
//
// The agent of a host makes it. What the agent itself saw (holds, probes, what
// is kept, the digest of everything else) stands at the top level; what the
// console handed in stands apart under "asserted", so that a reader never takes
// the one for the other. Anyone can check the signature:
//
//	ssh-keygen -Y verify -f signers -I HOST -n ebb-proof -s proof.json.sig < proof.json
//
// A proof holds for the boot it was made in and for Lifetime, on the clock that
// the host's kernel counts from its boot. It never says that a host is empty
// where a probe did not answer: Issues names every such probe, and no exception
// covers it.
//
// Everything here is a function of its arguments: facts and documents in,
// issues, bytes and signatures out. It reads no file and no clock.
package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ebb/fleet"
)

const (
	// Version of the document's layout.
	Version = 1
	// Lifetime is how long a proof holds.
	Lifetime = 5 * time.Minute
	// Namespace is that of the signature; a signature made for anything else
	// with the same key is worth nothing here.
	Namespace = "ebb-proof"
)

// Document is proof.json.
type Document struct {
	Version int           `json:"version"`
	Host    fleet.HostID  `json:"host"`
	Machine string        `json:"machine"`
	Boot    string        `json:"boot"`
	Drain   string        `json:"drain"`
	Epoch   uint64        `json:"epoch"`
	Purpose fleet.Purpose `json:"purpose,omitempty"`
	Nonce   string        `json:"nonce"`

	Made    time.Time `json:"made"` // by the host's wall clock, as is Expires
	Expires time.Time `json:"expires"`
	// MadeBoot is the host's CLOCK_BOOTTIME at Made, in nanoseconds: on the host
	// itself it alone decides whether the proof is too old.
	MadeBoot time.Duration `json:"made_boot"`

	Scope    string              `json:"scope,omitempty"` // what the agent was limited to; empty on real hosts
	Holds    fleet.Holds         `json:"holds"`
	Probes   []fleet.ProbeStatus `json:"probes"`
	Kept     []Kept              `json:"kept,omitempty"`
	Accepted []fleet.Accepted    `json:"accepted,omitempty"`
	Lost     []string            `json:"lost,omitempty"`
	Digest   string              `json:"digest"` // of Items
	Items    int                 `json:"items"`  // how many lines the digest covers
	Agent    fleet.AgentInfo     `json:"agent"`
	HostKey  string              `json:"host_key"` // SHA256:… fingerprint of the signing key
	Asserted Asserted            `json:"asserted"`
}

// Kept is something that stays on the host because a keep rule says so.
type Kept struct {
	Key  fleet.Key `json:"key"`
	Name string    `json:"name,omitempty"` // of the process, where it is one
	Rule string    `json:"rule"`
}

// Asserted is what the console vouches for, and the agent can't know.
type Asserted struct {
	Claims   string                `json:"claims"` // ClaimsDigest of what the control plane said
	ClaimsAt time.Time             `json:"claims_at,omitzero"`
	Verdicts map[fleet.Verdict]int `json:"verdicts,omitempty"`
	Findings []Finding             `json:"findings,omitempty"` // every verdict that is not clean, by name
	Lost     []LostItem            `json:"lost,omitempty"`
	Accepted []fleet.Accepted      `json:"accepted,omitempty"`
	Console  string                `json:"console,omitempty"` // user@host and version of the console
}

// Finding is a verdict on one key, without what it rests on.
type Finding struct {
	Key     fleet.Key     `json:"key"`
	Verdict fleet.Verdict `json:"verdict"`
}

// LostItem is a workload that vanished without an act of the drain.
type LostItem struct {
	Key fleet.Key `json:"key"`
	How string    `json:"how"`
	At  time.Time `json:"at,omitzero"`
}

// Marshal writes a document in the one form that Parse takes.
func Marshal(d Document) ([]byte, error) {
	raw, err := encode(d)
	if err != nil {
		return nil, fmt.Errorf("write proof: %w", err)
	}
	// Invalid UTF-8 is replaced on the first pass and only stands in its final
	// form after a second one; a value that can't be read back fails here and
	// not on the reader's side.
	var again Document
	if err := json.Unmarshal(raw, &again); err != nil {
		return nil, fmt.Errorf("write proof: %w", err)
	}
	if raw, err = encode(again); err != nil {
		return nil, fmt.Errorf("write proof: %w", err)
	}
	return raw, nil
}

func encode(d Document) ([]byte, error) {
	raw, err := json.MarshalIndent(d, "", "  ")
	return append(raw, '\n'), err
}

// Parse reads a document and takes nothing but what Marshal writes: unknown and
// repeated fields, other spellings of a name, data after the end are errors, so
// that no two readers can see two different things in the same signed bytes.
func Parse(data []byte) (Document, error) {
	if err := noDuplicates(data); err != nil {
		return Document{}, fmt.Errorf("read proof: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var d Document
	if err := dec.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("read proof: %w", err)
	}
	if d.Version != Version {
		return Document{}, fmt.Errorf("read proof: version %d, this program knows %d", d.Version, Version)
	}
	canon, err := encode(d)
	if err != nil {
		return Document{}, fmt.Errorf("read proof: %w", err)
	}
	if !bytes.Equal(canon, data) {
		return Document{}, errors.New("read proof: not in canonical form")
	}
	return d, nil
}

// noDuplicates walks one JSON value and refuses a field that stands twice in
// its object, and anything that follows the value.
func noDuplicates(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := walk(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the document")
	}
	return nil
}

func walk(dec *json.Decoder, depth int) error {
	if depth > 32 {
		return errors.New("nested too deep")
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			field, _ := name.(string)
			if seen[field] {
				return fmt.Errorf("field %q stands twice", field)
			}
			seen[field] = true
		}
		if err := walk(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
