package proof

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// Item is one line of the digest: something on the host that is neither kept
// nor the host's own, or a part of the host's state that a proof rests on.
type Item struct {
	Kind     string `json:"kind"`     // "process", "workload", "netns", "hold", …
	ID       string `json:"id"`       // as a person would name it
	Identity string `json:"identity"` // what can't be reused: run, inode, drain
	State    string `json:"state"`    // what may change while the identity stays
}

func (a Item) compare(b Item) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.State, b.State))
}

// Items lists what the digest covers, sorted. It leaves out what comes and goes
// on a host that nobody touches: the host's own processes (the console's own
// sshd is one), what is kept, loads, ages, the letters of process states.
//
// A probe that did not answer is an item too, so that facts with holes in them
// never have the digest of the whole ones.
func Items(f fleet.Facts) []Item {
	s := survey(f)
	items := []Item{{Kind: "boot", ID: f.Boot, Identity: f.Machine}}
	items = append(items, stateItems(f)...)
	for _, p := range s.processes {
		items = append(items, Item{
			Kind: "process", ID: fmt.Sprint(p.Run.PID), Identity: p.Run.String(), State: fields(p.Comm, keyText(p.Owner)),
		})
	}
	for _, w := range s.workloads {
		items = append(items, Item{
			Kind: "workload", ID: w.Key.String(), Identity: w.Run.String(), State: fields(string(w.Phase), runsText(w.Runs)),
		})
	}
	for _, r := range s.resources {
		state := ""
		if r.Deleted {
			state = "deleted"
		}
		items = append(items, Item{
			Kind: r.Key.Kind, ID: r.Key.ID, Identity: r.Identity, State: fields(keyText(r.Owner), state),
		})
	}
	for _, h := range s.holders {
		items = append(items, Item{Kind: "gpu", ID: h.gpu.UUID, Identity: h.run.String()})
	}
	slices.SortFunc(items, Item.compare)
	return items
}

// stateItems are the lines about the agent's own state. The epoch is not among
// them: a takeover in mid-proof changes who drives, not what is on the host.
func stateItems(f fleet.Facts) []Item {
	var items []Item
	for _, h := range []*fleet.Hold{f.Holds.Cordon, f.Holds.Drain} {
		if h != nil {
			items = append(items, Item{
				Kind: "hold", ID: string(h.Kind), Identity: h.Drain,
				State: fields(h.Who, h.Since.UTC().Format(time.RFC3339Nano)),
			})
		}
	}
	if f.Unheld {
		items = append(items, Item{Kind: "unheld", ID: "unheld"})
	}
	for _, t := range f.OpenTickets() {
		items = append(items, Item{
			Kind: "ticket", ID: t.ID, Identity: t.Key.String(), State: fields(string(t.Op), t.Who),
		})
	}
	for _, p := range f.Probes() {
		if !answered(p) {
			items = append(items, Item{Kind: "probe", ID: p.Name, State: cmp.Or(string(p.Status), "unknown")})
		}
	}
	return items
}

// fields joins parts so that no two lists of parts give the same text.
func fields(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%d:%s,", len(p), p)
	}
	return b.String()
}

// split takes apart what fields joined; it is for showing only.
func split(s string) []string {
	var parts []string
	for s != "" {
		var n int
		count, rest, ok := strings.Cut(s, ":")
		if _, err := fmt.Sscanf(count, "%d", &n); err != nil || !ok || n < 0 || n >= len(rest) {
			return append(parts, s)
		}
		parts = append(parts, rest[:n])
		s = rest[n+1:]
	}
	return parts
}

func keyText(k fleet.Key) string {
	if k.IsZero() {
		return ""
	}
	return k.String()
}

func runsText(runs []fleet.Run) string {
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.String()
	}
	slices.Sort(names)
	return fields(names...)
}

// Digest is the SHA-256 of the items in hex. The order in which they are given
// does not matter. Every field is preceded by its length, so that two different
// lists never have the same encoding.
func Digest(items []Item) string {
	sorted := slices.SortedFunc(slices.Values(items), Item.compare)
	buf := binary.BigEndian.AppendUint64([]byte("ebb-digest-1\n"), uint64(len(sorted)))
	for _, it := range sorted {
		for _, field := range []string{it.Kind, it.ID, it.Identity, it.State} {
			buf = binary.BigEndian.AppendUint64(buf, uint64(len(field)))
			buf = append(buf, field...)
		}
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}

// ClaimsDigest is what Asserted.Claims holds: the SHA-256 of what a control
// plane says about a host, which is not empty even where there are no claims.
func ClaimsDigest(claims []fleet.Claim) string {
	items := make([]Item, 0, len(claims))
	for _, c := range claims {
		run := ""
		if !c.Run.IsZero() {
			run = c.Run.String()
		}
		items = append(items, Item{
			Kind: "claim", ID: c.Key.String(), Identity: run, State: fields(string(c.Host), string(c.Phase), c.Status),
		})
	}
	return Digest(items)
}
