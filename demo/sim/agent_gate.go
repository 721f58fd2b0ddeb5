package sim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// cleanGap is for how long a thing must have been seen unused.
const cleanGap = 10 * time.Second

// idle is a thing seen unused, by identity.
type idle struct {
	key      fleet.Key
	identity string
}

// facts are what the agent shows.
func (a *agent) facts() fleet.Facts {
	f := a.m.Look()
	f.Machine, f.Boot, f.Holds, f.Sealed = a.id, a.m.Boot(), a.rec.holds, a.rec.seal
	f.Accepted, f.Tickets = slices.Clone(a.rec.accepted), a.open()
	return f
}

// observeIdle notes since when things have been seen unused.
func (a *agent) observeIdle() {
	if !a.rec.holds.Any() || len(a.open()) > 0 {
		a.idle = nil
		return
	}
	f := a.m.Look()
	if len(f.Netns.Value) == 0 {
		a.idle = nil
		return
	}
	next := map[idle]time.Duration{}
	for _, r := range f.Netns.Value {
		if inUse(r, f) {
			continue
		}
		k := idle{r.Key, r.Identity}
		since, ok := a.idle[k]
		if !ok {
			since = a.m.Boottime()
		}
		next[k] = since
	}
	a.idle = next
}

func inUse(r fleet.Resource, f fleet.Facts) bool {
	return len(r.Users) > 0 || slices.ContainsFunc(f.Workloads.Value, func(w fleet.Workload) bool { return w.Key == r.Owner })
}

// clean removes a thing, if it is the one identified and nobody has used it for a
// while.
func (a *agent) clean(r wire.ActRequest, reply *wire.ActReply) error {
	f := a.m.Look()
	if f.Netns.Status != fleet.OK || f.Workloads.Status != fleet.OK || f.Processes.Status != fleet.OK {
		return refuse(wire.CodeOtherRun)
	}
	i := slices.IndexFunc(f.Netns.Value, func(x fleet.Resource) bool { return x.Key == r.Key && x.Identity == r.Identity })
	if i < 0 || inUse(f.Netns.Value[i], f) {
		return refuse(wire.CodeOtherRun)
	}
	now := a.m.Boottime()
	since, seen := a.idle[idle{r.Key, r.Identity}]
	if !seen {
		since = now
	}
	if left := cleanGap - (now - since); left > 0 {
		reply.NotYet = a.m.Clock().Add(left)
		return refuse(wire.CodeTooEarly)
	}
	a.m.Remove(r)
	return nil
}

// accept makes an exception for one key that the person has typed.
func (a *agent) accept(r wire.AcceptRequest) error {
	if err := a.isMachine(r.Machine, false); err != nil {
		return err
	}
	if r.Key.IsZero() || r.Typed != r.Key.String() || r.Reason == "" || r.Who == "" {
		return refuse(wire.CodeBadRequest)
	}
	if err := a.notSealed(); err != nil {
		return err
	}
	next := a.rec.clone()
	next.accepted = slices.DeleteFunc(next.accepted, func(x fleet.Accepted) bool { return x.Key == r.Key })
	next.accepted = append(next.accepted, fleet.Accepted{Key: r.Key, Reason: r.Reason, Who: r.Who, At: a.m.Clock()})
	return a.commit(next)
}

// prove looks anew and signs what it finds, if that is nothing.
func (a *agent) prove(r wire.ProofRequest) (wire.ProofReply, error) {
	var none wire.ProofReply
	if err := a.isMachine(r.Machine, true); err != nil {
		return none, err
	}
	if r.Drain == "" || r.Host == "" || r.Nonce == "" {
		return none, refuse(wire.CodeBadRequest)
	}
	var asserted proof.Asserted
	if err := json.Unmarshal(cmpBytes(r.Asserted), &asserted); err != nil {
		return none, refuse(wire.CodeBadRequest)
	}
	key := a.m.Signer()
	if r.HostKey != ssh.FingerprintSHA256(key.PublicKey()) {
		return none, refuse(wire.CodeBadProof)
	}
	if err := a.notSealed(); err != nil {
		return none, err
	}
	hold := a.rec.holds.Drain
	switch {
	case hold == nil:
		return none, refuse(wire.CodeNotHeld)
	case hold.Drain != r.Drain:
		return none, &refusal{code: wire.CodeOtherDrain, hold: hold}
	}
	if err := a.notStale(r.Drain, r.Epoch); err != nil {
		return none, err
	}
	f := a.facts()
	if issues := slices.Concat(proof.Issues(f), a.actIssues(), proof.AssertedIssues(asserted, f.Accepted)); len(issues) > 0 {
		return none, &refusal{code: wire.CodeNotEmpty, issues: issues}
	}
	if err := a.write(); err != nil {
		return none, err
	}
	items, now := proof.Items(f), a.m.Clock()
	raw, err := proof.Marshal(proof.Document{Version: proof.Version, Host: fleet.HostID(r.Host), Machine: a.id, Boot: a.m.Boot(), Drain: r.Drain, Epoch: r.Epoch,
		Purpose: hold.For, Nonce: r.Nonce, Made: now, Expires: now.Add(proof.Lifetime), MadeBoot: a.m.Boottime(), Holds: f.Holds, Probes: f.Probes(),
		Kept: proof.KeptOf(f), Accepted: f.Accepted, Lost: r.Lost, Digest: proof.Digest(items), Items: len(items), HostKey: r.HostKey, Asserted: asserted})
	if err != nil {
		return none, err
	}
	sig, err := proof.Sign(raw, key)
	return wire.ProofReply{Proof: raw, Signature: sig}, err
}

func cmpBytes(b []byte) []byte {
	if len(b) == 0 {
		return []byte("{}")
	}
	return b
}

// actIssues names acts that have not ended.
func (a *agent) actIssues() []fleet.Issue {
	var out []fleet.Issue
	for _, id := range slices.Sorted(maps.Keys(a.acts)) {
		if x := a.acts[id]; x.reply.State == wire.ActBegun {
			out = append(out, fleet.Issue{Check: fleet.CheckTickets, Key: x.req.Key, Detail: "act " + id + " has not ended"})
		}
	}
	return out
}

// confirm seals the host, if the proof holds in this instant.
func (a *agent) confirm(r wire.SealRequest) error {
	if err := a.isMachine(r.Machine, true); err != nil {
		return err
	}
	if !slices.Contains([]string{"command", "poweroff", "release"}, r.Terminator) {
		return refuse(wire.CodeBadRequest)
	}
	doc, err := proof.Parse(r.Proof)
	if err != nil {
		return refuse(wire.CodeBadProof)
	}
	key := a.m.Signer().PublicKey()
	if doc.HostKey != ssh.FingerprintSHA256(key) || proof.Verify(r.Proof, r.Signature, key) != nil {
		return refuse(wire.CodeBadProof)
	}
	issues := proof.Check(doc, proof.Expect{Machine: a.id, Boot: a.m.Boot(), HostKey: doc.HostKey, BootNow: a.m.Boottime(), Now: a.m.Clock()})
	if len(issues) > 0 {
		return &refusal{code: wire.CodeBadProof, issues: issues}
	}
	hold := a.rec.holds.Drain
	switch {
	case a.rec.seal != "" && a.rec.seal != doc.Drain:
		return refuse(wire.CodeSealed)
	case hold == nil:
		return refuse(wire.CodeNotHeld)
	case hold.Drain != doc.Drain:
		return &refusal{code: wire.CodeOtherDrain, hold: hold}
	}
	if issues := a.actIssues(); len(issues) > 0 {
		return &refusal{code: wire.CodeChanged, issues: issues}
	}
	if f := a.facts(); proof.Digest(proof.Items(f)) != doc.Digest {
		return &refusal{code: wire.CodeChanged, issues: []fleet.Issue{{Check: fleet.CheckLeft, Detail: "the host is not as the proof says"}}}
	}
	if a.rec.seal != "" {
		return nil
	}
	next := a.rec.clone()
	next.seal = doc.Drain
	return a.commit(next)
}

// poweroff ends a sealed host.
func (a *agent) poweroff(r wire.PoweroffRequest) error {
	if err := a.isMachine(r.Machine, true); err != nil {
		return err
	}
	if a.rec.seal == "" || a.rec.seal != r.Drain {
		return refuse(wire.CodeNotHeld)
	}
	if len(a.open()) > 0 {
		return refuse(wire.CodeTicketsOpen)
	}
	a.m.Poweroff()
	return nil
}

// quiet is an act that waits until nothing is in flight.
type quiet struct{ began, zero time.Duration }

// watchQuiet reads, and again, until nothing has been in flight for the window.
func (a *agent) watchQuiet(x *acted, q quiet) {
	life := a.lives
	a.m.After(2*time.Second, func() {
		if !a.up || a.lives != life {
			return
		}
		now, h := a.m.Boottime(), a.rec.holds.Drain
		n, err := a.m.Gauge(x.req.Key)
		switch {
		case a.rec.seal != "" || h == nil || h.Drain != x.req.Drain:
			_, _ = a.close(x, x.reply, refuse(wire.CodeNotHeld))
			return
		case err != nil || n > 0:
			q.zero = 0
		case q.zero == 0:
			q.zero = now
		case now-q.zero >= cmp.Or(x.req.Window, 5*time.Second):
			_, _ = a.close(x, x.reply, nil)
			return
		}
		if now-q.began > cmp.Or(x.req.Timeout, 3*time.Minute) {
			_, _ = a.close(x, x.reply, refuse(wire.ReasonBusy))
			return
		}
		a.watchQuiet(x, q)
	})
}
