package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/fleet/reconcile"
)

// faulty is the journal with the world's faults on its way.
type faulty struct {
	engine.Journal
	w *world
}

func through[T any](ctx context.Context, w *world, way, name string, fn func() (T, error)) (T, error) {
	var out T
	err := w.call(ctx, way, name, func() (err error) {
		out, err = fn()
		return err
	})
	if errors.Is(err, errFault) {
		var none T
		return none, err
	}
	return out, err
}

func (j *faulty) Append(ctx context.Context, b drain.Batch) ([]drain.Event, error) {
	return through(ctx, j.w, "journal", "append "+string(b.Events[0].Kind), func() ([]drain.Event, error) { return j.Journal.Append(ctx, b) })
}

func (j *faulty) Stream(ctx context.Context, s string, after uint64, limit int) ([]drain.Event, error) {
	return through(ctx, j.w, "journal", "stream", func() ([]drain.Event, error) { return j.Journal.Stream(ctx, s, after, limit) })
}

func (j *faulty) Acquire(ctx context.Context, id, holder string, least uint64) (drain.Lease, error) {
	return through(ctx, j.w, "journal", "acquire", func() (drain.Lease, error) { return j.Journal.Acquire(ctx, id, holder, least) })
}

func (j *faulty) Renew(ctx context.Context, l drain.Lease) (drain.Lease, error) {
	return through(ctx, j.w, "journal", "renew", func() (drain.Lease, error) { return j.Journal.Renew(ctx, l) })
}

func (j *faulty) Release(ctx context.Context, l drain.Lease) error {
	return j.w.call(ctx, "journal", "release", func() error { return j.Journal.Release(ctx, l) })
}

func (j *faulty) Leases(ctx context.Context) ([]drain.Lease, error) {
	return through(ctx, j.w, "journal", "leases", func() ([]drain.Lease, error) { return j.Journal.Leases(ctx) })
}

func (j *faulty) Now(ctx context.Context) (time.Time, error) {
	return through(ctx, j.w, "journal", "now", func() (time.Time, error) { return j.Journal.Now(ctx) })
}

func (p *plane) Set(ctx context.Context, host fleet.HostID, f fleet.Flag) (fleet.Flag, error) {
	return through(ctx, p.w, "plane", "set", func() (fleet.Flag, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if have := p.flags[host]; have.Set {
			return have, nil
		}
		f.At = p.clock()
		p.flags[host] = f
		return f, nil
	})
}

// theirs is what a plane says of a flag that ebb has not set.
type theirs struct{}

func (theirs) Error() string { return "the plane's flag was not set by ebb" }
func (theirs) Final() bool   { return true }

func (p *plane) Lift(ctx context.Context, host fleet.HostID, force bool) error {
	return p.w.call(ctx, "plane", "lift", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flags[host].Who == "somebody" && !force {
			return theirs{}
		}
		p.lifts++
		delete(p.flags, host)
		return nil
	})
}

func (p *plane) Eligible(ctx context.Context, host fleet.HostID) (fleet.Eligibility, error) {
	return through(ctx, p.w, "plane", "eligible", func() (fleet.Eligibility, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		e := fleet.Eligibility{Flag: p.flags[host], Eligible: fleet.Read(p.stale, "scheduler", time.Now(), 0)}
		if p.blind {
			e.Eligible = fleet.ReadNotApplicable[bool]("scheduler", time.Now(), "no view")
		}
		return e, nil
	})
}

// looker reads the world as an observer does: claims, facts, claims.
type looker struct{ w *world }

func (l *looker) claims(ctx context.Context, host fleet.HostID) fleet.Reading[[]fleet.Claim] {
	got, err := through(ctx, l.w, "plane", "claims", func() ([]fleet.Claim, error) {
		l.w.plane.mu.Lock()
		defer l.w.plane.mu.Unlock()
		var out []fleet.Claim
		for _, c := range l.w.plane.claims {
			if c.Host == host {
				out = append(out, c)
			}
		}
		slices.SortFunc(out, func(a, b fleet.Claim) int { return a.Key.Compare(b.Key) })
		return out, nil
	})
	if err != nil {
		return fleet.ReadFailed[[]fleet.Claim]("plane", time.Now(), 0, err)
	}
	return fleet.Read(got, "plane", time.Now(), 0)
}

func (l *looker) Look(ctx context.Context, id fleet.HostID) (fleet.HostView, error) {
	v := fleet.HostView{Host: fleet.Host{ID: id, Address: id.Name(), Instance: "i-" + id.Name()}}
	before := l.claims(ctx, id)
	b := l.w.boxes[id]
	facts, err := through(ctx, l.w, string(id), "facts", func() (fleet.Facts, error) {
		if b.isOff() {
			return fleet.Facts{}, errFault
		}
		return b.facts(), nil
	})
	if v.Facts = fleet.Read(facts, "agent", time.Now(), 0); err != nil {
		v.Facts = fleet.ReadFailed[fleet.Facts]("agent", time.Now(), 0, err)
		v.Problem = err.Error()
	}
	v.Claims = l.claims(ctx, id)
	el, err := l.w.plane.Eligible(ctx, id)
	if err == nil {
		v.Host.Draining, v.Host.DrainAt = el.Flag.Set, el.Flag.At
	}
	out := reconcile.Reconcile(reconcile.Input{Host: v.Host, Before: before, After: v.Claims, Facts: v.Facts, Now: time.Now()})
	v.Findings, v.Stable = out.Findings, out.Stable && !l.w.unseen
	v.Cordon = cordonOf(v, el, l.w.plane.clock())
	return v, nil
}

// cordonOf measures by the clock of whoever has written the time.
func cordonOf(v fleet.HostView, el fleet.Eligibility, plane time.Time) fleet.CordonState {
	holds := v.Facts.Value.Holds
	switch {
	case v.Facts.Status != fleet.OK || !holds.Any() && !v.Host.Draining:
		return fleet.Uncordoned
	case !holds.Any():
		return fleet.PlaneOnly
	case !v.Host.Draining:
		return fleet.HostOnly
	}
	host := v.Facts.Value.At
	first := host
	for _, h := range []*fleet.Hold{holds.Cordon, holds.Drain} {
		if h != nil && h.Since.Before(first) {
			first = h.Since
		}
	}
	if host.Sub(first) < window || plane.Sub(el.Flag.At) < window || el.Eligible.Value {
		return fleet.Cordoning
	}
	return fleet.Cordoned
}

func (l *looker) Targets(id fleet.HostID) []fleet.HostView {
	var out []fleet.HostView
	for host, b := range l.w.boxes {
		if host != id {
			f := b.facts()
			out = append(out, fleet.HostView{Host: fleet.Host{ID: host}, Facts: fleet.Read(f, "agent", time.Now(), 0), Stable: true,
				Claims: fleet.Read([]fleet.Claim(nil), "plane", time.Now(), 0)})
		}
	}
	return out
}

type agents struct{ w *world }

func (a *agents) Agent(ctx context.Context, host fleet.HostID, role engine.Role) (engine.Agent, error) {
	b := a.w.boxes[host]
	err := a.w.call(ctx, string(host), "open "+string(role), func() error {
		if b.isOff() {
			return errFault
		}
		return nil
	})
	return b, err
}

func (b *box) isOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.off
}

func (b *box) HostKey() ssh.PublicKey { return b.signer.PublicKey() }

func (b *box) Facts(ctx context.Context, _ bool) (fleet.Facts, error) {
	return through(ctx, b.w, string(b.id), "facts", func() (fleet.Facts, error) { return b.facts(), nil })
}

func (b *box) reply() engine.HoldAnswer {
	return engine.HoldAnswer{Holds: b.holds, Machine: b.machine, Boot: b.boot, At: b.clock()}
}

func (b *box) Reword(ctx context.Context, who, why, _ string) (engine.HoldAnswer, error) {
	return through(ctx, b.w, string(b.id), "reword", func() (engine.HoldAnswer, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if c := b.holds.Cordon; c != nil && c.Who == who {
			h := *c
			h.Why = why
			b.holds.Cordon = &h
		}
		return b.reply(), nil
	})
}

func (b *box) SetHold(ctx context.Context, h fleet.Hold, machine string) (engine.HoldAnswer, error) {
	return through(ctx, b.w, string(b.id), "hold "+string(h.Kind), func() (engine.HoldAnswer, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		h.Since = b.clock()
		if machine != "" && machine != b.machine {
			return engine.HoldAnswer{}, &engine.Refused{Verb: "hold", Host: b.id, Issues: []fleet.Issue{{Detail: "this is machine " + b.machine}}}
		}
		if h.Kind == fleet.CordonHold {
			if b.holds.Cordon == nil {
				b.holds.Cordon = &h
			}
			return b.reply(), nil
		}
		old := b.holds.Drain
		switch {
		case machine != b.machine:
			return engine.HoldAnswer{}, fmt.Errorf("another machine: %s", b.machine)
		case b.sealed != "":
			return engine.HoldAnswer{}, &engine.Refused{Verb: "drain", Host: b.id, Issues: []fleet.Issue{{Detail: "sealed"}}}
		case old != nil && old.Drain != h.Drain:
			return engine.HoldAnswer{}, &engine.HoldTaken{Hold: *old}
		case h.Epoch < b.epochs[h.Drain]:
			return engine.HoldAnswer{}, fmt.Errorf("%w: epoch %d after %d", drain.ErrLeaseLost, h.Epoch, b.epochs[h.Drain])
		case old != nil:
			h.Who, h.Why, h.Since = old.Who, old.Why, old.Since
		}
		b.holds.Drain, b.epochs[h.Drain] = &h, h.Epoch
		return b.reply(), nil
	})
}

func (b *box) LiftHold(ctx context.Context, l engine.Lift) (engine.HoldAnswer, error) {
	return through(ctx, b.w, string(b.id), "lift "+string(l.Kind), func() (engine.HoldAnswer, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lifted = append(b.lifted, string(l.Kind)+" by "+l.Who)
		if l.Kind == fleet.CordonHold {
			b.holds.Cordon = nil
		} else {
			b.holds.Drain = nil
		}
		return b.reply(), nil
	})
}

func (b *box) Announce(ctx context.Context, id string, epoch uint64) (uint64, error) {
	return through(ctx, b.w, string(b.id), "announce", func() (uint64, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if top := b.epochs[id]; epoch < top {
			return top, fmt.Errorf("%w: epoch %d after %d", drain.ErrLeaseLost, epoch, top)
		}
		b.epochs[id] = epoch
		return epoch, nil
	})
}

func (b *box) Clean(ctx context.Context, c engine.Cleaning) (drain.Answer, error) {
	return through(ctx, b.w, string(b.id), "clean", func() (drain.Answer, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		n := len(b.leaks)
		b.leaks = slices.DeleteFunc(b.leaks, func(r fleet.Resource) bool { return r.Identity == c.Resource.Identity })
		if len(b.leaks) == n {
			return drain.Answer{Result: drain.Refused, Detail: "not the one identified"}, nil
		}
		return drain.Answer{Result: drain.Done}, nil
	})
}

func (b *box) Prove(ctx context.Context, a engine.ProofAsk) (engine.SignedProof, []fleet.Issue, error) {
	if len(b.refuse) > 0 {
		return engine.SignedProof{}, b.refuse, nil
	}
	f := b.facts()
	var asserted proof.Asserted
	if err := json.Unmarshal(a.Asserted, &asserted); err != nil {
		return engine.SignedProof{}, nil, err
	}
	items, now := proof.Items(f), time.Now()
	raw, err := proof.Marshal(proof.Document{Version: proof.Version, Host: a.Host, Machine: b.machine, Boot: b.boot, Drain: a.Drain, Epoch: a.Epoch,
		Nonce: a.Nonce, Made: now, Expires: now.Add(proof.Lifetime), MadeBoot: time.Hour, Holds: f.Holds, Probes: f.Probes(), Accepted: f.Accepted,
		Digest: proof.Digest(items), Items: len(items), HostKey: ssh.FingerprintSHA256(b.signer.PublicKey()), Asserted: asserted})
	if err != nil {
		return engine.SignedProof{}, nil, err
	}
	sig, err := proof.Sign(raw, b.signer)
	return engine.SignedProof{Proof: raw, Signature: sig}, nil, err
}

func (b *box) Accept(ctx context.Context, k fleet.Key, reason, who, _, _ string) error {
	return b.w.call(ctx, string(b.id), "accept", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.accepted = append(b.accepted, fleet.Accepted{Key: k, Reason: reason, Who: who, At: time.Now()})
		return nil
	})
}

func (b *box) Seal(ctx context.Context, s engine.SealAsk) ([]fleet.Issue, error) {
	doc, err := proof.Parse(s.Proof)
	if err != nil {
		return nil, err
	}
	now := proof.Digest(proof.Items(b.facts()))
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.refuse) > 0:
		return b.refuse, nil
	case now != doc.Digest:
		return []fleet.Issue{{Check: fleet.CheckReach, Detail: "the host has changed"}}, nil
	}
	b.sealed = cmp.Or(b.sealed, doc.Drain)
	return nil, nil
}

func (b *box) Poweroff(ctx context.Context, _, _, _ string) error {
	return b.w.call(ctx, string(b.id), "poweroff", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.off = true
		return nil
	})
}

func (b *box) Rebound(ctx context.Context, host fleet.HostID, was, machine, who, why string) error {
	return b.w.call(ctx, string(b.id), "rebound", func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rebound = append(b.rebound, strings.Join([]string{string(host), was, machine, who, why}, " "))
		return nil
	})
}

// lever carries acts out in the world.
type lever struct {
	w    *world
	kind string
}

func (l *lever) box(j drain.Job) *box {
	if l.kind == "exec" {
		return l.w.boxes[j.Act.Target]
	}
	return l.w.boxes[j.Source.ID]
}

func (l *lever) Do(ctx context.Context, j drain.Job) (drain.Answer, error) {
	switch l.kind {
	case "notice":
		return through(ctx, l.w, "notice", j.Act.ID, func() (drain.Answer, error) { return drain.Answer{Result: drain.Done}, nil })
	case "flip":
		return through(ctx, l.w, "plane", "flip", func() (drain.Answer, error) {
			l.w.plane.mu.Lock()
			defer l.w.plane.mu.Unlock()
			c := l.w.plane.claims[j.Act.Key]
			c.Host, c.Phase = j.Act.Target, fleet.Running
			l.w.plane.claims[j.Act.Key] = c
			return drain.Answer{Result: drain.Done}, nil
		})
	}
	b := l.box(j)
	return through(ctx, l.w, string(b.id), "act "+j.Act.ID, func() (drain.Answer, error) { return b.act(j) })
}

func (l *lever) Status(ctx context.Context, j drain.Job) (drain.Answer, bool, error) {
	if l.kind == "notice" || l.kind == "flip" {
		return drain.Answer{}, false, nil
	}
	b := l.box(j)
	var answer drain.Answer
	var known bool
	err := l.w.call(ctx, string(b.id), "outcome "+j.Act.ID, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		answer, known = b.acts[j.Act.ID]
		return nil
	})
	return answer, known, err
}
