package proof

import (
	"encoding/hex"
	"fmt"
	"time"

	"ebb/fleet"
)

// Skew is how far the clocks of console and host may differ before the console
// takes a proof for one from the future.
const Skew = time.Minute

// Expect is what a proof is checked against. An empty string is not compared:
// whoever checks a file on a desk may not know the boot. The agent that is to
// seal its host fills in everything.
type Expect struct {
	Host    fleet.HostID
	Machine string
	Boot    string
	Drain   string
	HostKey string // SHA256:… fingerprint
	// BootNow is the host's CLOCK_BOOTTIME and decides where it is set, which is
	// only on the host itself; else Now decides, by the clock of whoever asks.
	BootNow time.Duration
	Now     time.Time
	// Scoped allows proofs by an agent that is limited to a part of its machine;
	// such a proof says nothing about a real host.
	Scoped bool
}

// Check names everything that keeps a document from proving what is expected.
// It does not look at the signature: see Verify.
func Check(d Document, e Expect) []fleet.Issue {
	all := identityIssues(d, e)
	if text := age(d, e); text != "" {
		all = append(all, fleet.Issue{Check: fleet.CheckReach, Detail: text})
	}
	all = append(all, contentIssues(d)...)
	all = append(all, AssertedIssues(d.Asserted, d.Accepted)...)
	return order(all)
}

func identityIssues(d Document, e Expect) []fleet.Issue {
	var all []fleet.Issue
	add := func(check, format string, args ...any) {
		all = append(all, fleet.Issue{Check: check, Detail: fmt.Sprintf(format, args...)})
	}
	if d.Version != Version {
		add(fleet.CheckReach, "a proof of version %d; this program knows %d", d.Version, Version)
	}
	if d.Scope != "" && !e.Scoped {
		add(fleet.CheckReach, "made by an agent that sees only the scope %s", safe(d.Scope))
	}
	for _, f := range []struct{ check, what, has, want string }{
		{fleet.CheckReach, "host", string(d.Host), string(e.Host)},
		{fleet.CheckReach, "machine", d.Machine, e.Machine},
		{fleet.CheckReach, "boot", d.Boot, e.Boot},
		{fleet.CheckReach, "host key", d.HostKey, e.HostKey},
		{fleet.CheckHolds, "drain", d.Drain, e.Drain},
	} {
		switch {
		case f.has == "":
			add(f.check, "names no %s", f.what)
		case f.want != "" && f.has != f.want:
			add(f.check, "of another %s: %s, not %s", f.what, safe(f.has), safe(f.want))
		}
	}
	return all
}

// age says why a proof is too old or too new, or nothing.
func age(d Document, e Expect) string {
	switch {
	case d.Made.IsZero():
		return "does not say when it was made"
	case d.Expires.Sub(d.Made) > Lifetime:
		return fmt.Sprintf("meant to hold longer than %v", Lifetime)
	case e.BootNow > 0:
		old := e.BootNow - d.MadeBoot
		switch {
		case old < 0 || d.MadeBoot <= 0:
			return "from the future, by the clock of this boot"
		case old > Lifetime:
			return fmt.Sprintf("made %v ago; it holds for %v", old.Round(time.Second), Lifetime)
		}
	case e.Now.IsZero():
		return "its age can't be told without a clock"
	case d.Made.After(e.Now.Add(Skew)):
		return fmt.Sprintf("from the future: made %v from now", d.Made.Sub(e.Now).Round(time.Second))
	case e.Now.After(d.Expires):
		return fmt.Sprintf("made %v ago; it holds for %v", e.Now.Sub(d.Made).Round(time.Second), Lifetime)
	}
	return ""
}

// contentIssues checks what the agent says of its host.
func contentIssues(d Document) []fleet.Issue {
	var all []fleet.Issue
	add := func(check, format string, args ...any) {
		all = append(all, fleet.Issue{Check: check, Detail: fmt.Sprintf(format, args...)})
	}
	all = append(all, holdIssues(fleet.Facts{Holds: d.Holds})...)
	if h := d.Holds.Drain; h != nil && h.Drain != d.Drain {
		add(fleet.CheckHolds, "held by another drain: %s, not %s", safe(h.Drain), safe(d.Drain))
	}
	all = append(all, probeIssues(d.Probes)...)
	seen := map[string]bool{}
	for _, p := range d.Probes {
		seen[p.Name] = true
		if p.Status == fleet.OK && d.Made.Sub(p.At) > Lifetime {
			add(fleet.CheckProbes, "%s: last read %v before the proof", safe(p.Name), d.Made.Sub(p.At).Round(time.Second))
		}
	}
	for _, p := range (fleet.Facts{}).Probes() {
		if !seen[p.Name] {
			add(fleet.CheckProbes, "%s: not in the proof", p.Name)
		}
	}
	if raw, err := hex.DecodeString(d.Digest); err != nil || len(raw) != 32 {
		add(fleet.CheckReach, "its digest is not a SHA-256")
	}
	return all
}
