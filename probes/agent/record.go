package agent

import (
	"slices"
	"time"

	"ebb/fleet"
)

// Bounds of a record, so that it fits its slot whatever is sent.
const (
	maxEpochs   = 64
	maxAccepted = 128
	maxMoved    = 1024
	maxText     = 512 // bytes of a who, a why, a reason
	maxID       = 256 // bytes of a drain's id or of either part of a key
)

// Record is what a host remembers about itself across restarts and reboots.
type Record struct {
	Machine  string           `json:"machine"` // whose record it is: a copied disk holds nothing
	Holds    fleet.Holds      `json:"holds"`
	Unheld   bool             `json:"unheld,omitempty"` // nobody has said yet whether anything holds this host
	Epochs   []Epoch          `json:"epochs,omitempty"` // the last touched one last
	Seal     *Seal            `json:"seal,omitempty"`
	Accepted []AcceptedInBoot `json:"accepted,omitempty"`
	Moved    []fleet.Key      `json:"moved,omitempty"` // off this host, by the drain that holds it
}

// Epoch is the highest epoch seen for one drain, as its source or as a target.
type Epoch struct {
	Drain string `json:"drain"`
	Epoch uint64 `json:"epoch"`
}

// Seal says for which drain the host has been sealed. It ends with the boot.
type Seal struct {
	Drain string    `json:"drain"`
	Boot  string    `json:"boot"`
	Who   string    `json:"who"`
	At    time.Time `json:"at"`
}

// AcceptedInBoot is an exception. It ends with the boot, like what it excuses.
type AcceptedInBoot struct {
	fleet.Accepted
	Boot string `json:"boot"`
}

// epoch returns the highest epoch seen for a drain, and whether there is one.
func (r Record) epoch(drain string) (uint64, bool) {
	for _, e := range r.Epochs {
		if e.Drain == drain {
			return e.Epoch, true
		}
	}
	return 0, false
}

// withEpoch remembers an epoch. The drains heard of longest ago are forgotten,
// never the one that holds the host.
func (r Record) withEpoch(drain string, epoch uint64) Record {
	next := make([]Epoch, 0, len(r.Epochs)+1)
	for _, e := range r.Epochs {
		if e.Drain == drain {
			epoch = max(epoch, e.Epoch)
			continue
		}
		next = append(next, e)
	}
	next = append(next, Epoch{drain, epoch})
	for i := 0; len(next) > maxEpochs; {
		if h := r.Holds.Drain; h != nil && h.Drain == next[i].Drain {
			i++
			continue
		}
		next = slices.Delete(next, i, i+1)
	}
	r.Epochs = next
	return r
}

func (r Record) moved(key fleet.Key) bool { return slices.Contains(r.Moved, key) }

// sealedIn returns the drain for which the host is sealed in this boot.
func (r Record) sealedIn(boot string) string {
	if r.Seal == nil || r.Seal.Boot != boot {
		return ""
	}
	return r.Seal.Drain
}

func (r Record) acceptedIn(boot string) []fleet.Accepted {
	var out []fleet.Accepted
	for _, a := range r.Accepted {
		if a.Boot == boot {
			out = append(out, a.Accepted)
		}
	}
	return out
}

// forBoot drops what a reboot ends.
func (r Record) forBoot(boot string) Record {
	if r.sealedIn(boot) == "" {
		r.Seal = nil
	}
	r.Accepted = slices.DeleteFunc(slices.Clone(r.Accepted), func(a AcceptedInBoot) bool { return a.Boot != boot })
	return r
}

// clip bounds a text from the wire, at a rune's beginning.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

func cloneHold(h *fleet.Hold) *fleet.Hold {
	if h == nil {
		return nil
	}
	c := *h
	return &c
}
