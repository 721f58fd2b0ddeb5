package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// HostID names a host as "plane/id": the control plane that lists it and the
// plane's own identifier for it.
type HostID string

// NewHostID joins a plane's name and its identifier for a host.
func NewHostID(plane, name string) HostID { return HostID(plane + "/" + name) }

// Plane returns the part before the first slash.
func (h HostID) Plane() string {
	plane, _, _ := strings.Cut(string(h), "/")
	return plane
}

// Name returns the plane's own identifier, which may itself hold slashes.
func (h HostID) Name() string {
	_, name, _ := strings.Cut(string(h), "/")
	return name
}

// Key joins a claim and a fact: both speak of the workload or resource {kind,
// id}. A key alone is never enough to act on; see Run.
type Key struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (k Key) String() string { return k.Kind + "/" + k.ID }

// IsZero reports whether the key names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Compare orders keys by kind, then id.
func (k Key) Compare(o Key) int {
	if k.Kind != o.Kind {
		return strings.Compare(k.Kind, o.Kind)
	}
	return strings.Compare(k.ID, o.ID)
}

// MarshalText makes Key usable as a JSON object key: "kind/id".
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote. The kind has no slash in it.
func (k *Key) UnmarshalText(b []byte) error {
	parsed, err := ParseKey(string(b))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// ParseKey reads "kind/id".
func ParseKey(s string) (Key, error) {
	if s == "/" {
		return Key{}, nil
	}
	kind, id, ok := strings.Cut(s, "/")
	if !ok || kind == "" || id == "" {
		return Key{}, fmt.Errorf("workload %q: want KIND/ID", s)
	}
	return Key{Kind: kind, ID: id}, nil
}

// Run is one incarnation of something that runs: a process by boot id, pid and
// start time, or anything else by a UID that is never used twice. Acts name a
// Key and a Run, so that neither a reused pid nor a recreated workload of the
// same name is ever hit by mistake.
type Run struct {
	Boot  string `json:"boot,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // field 22 of /proc/PID/stat: clock ticks after boot
	UID   string `json:"uid,omitempty"`
}

// IsZero reports whether the run identifies nothing.
func (r Run) IsZero() bool { return r == Run{} }

func (r Run) String() string {
	if r.UID != "" {
		return "uid:" + r.UID
	}
	return fmt.Sprintf("%s:%d:%d", r.Boot, r.PID, r.Start)
}

// MarshalText writes "uid:UID" or "BOOT:PID:START".
func (r Run) MarshalText() ([]byte, error) {
	if r.IsZero() {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (r *Run) UnmarshalText(b []byte) error {
	s := string(b)
	*r = Run{}
	if s == "" {
		return nil
	}
	if uid, ok := strings.CutPrefix(s, "uid:"); ok {
		r.UID = uid
		return nil
	}
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return errors.New("run: want BOOT:PID:START or uid:UID")
	}
	r.Boot = parts[0]
	_, err := fmt.Sscanf(parts[1]+" "+parts[2], "%d %d", &r.PID, &r.Start)
	return err
}
