package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/probes/wire"
)

// must notes what must never happen, the first time that it does.
func (w *World) must(ok bool, format string, args ...any) {
	if !ok && w.bad == "" {
		w.bad = fmt.Sprintf("%s after %s: ", time.Now().UTC().Format(time.TimeOnly), time.Since(w.began).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
	}
}

// granted takes note of who has the lease.
func (w *World) granted(l drain.Lease, err error) {
	if err == nil {
		w.leases[l.Drain] = l
	}
}

// told takes note that owners were told, or that it was tried.
func (w *World) told(runs []fleet.Run, when map[fleet.Run]time.Time) {
	for _, r := range runs {
		if when[r].IsZero() {
			when[r] = time.Now()
		}
	}
}

// checkActed is what must hold when an act takes effect on a host.
func (w *World) checkActed(h *host, r wire.ActRequest, what string) {
	w.must(r.Machine == h.machine, "act %s meant machine %s and reached %s", r.ID, r.Machine, h.machine)
	w.must(r.Epoch >= h.heard[r.Drain], "act %s of epoch %d takes effect on %s, which has heard of %d", r.ID, r.Epoch, h.id, h.heard[r.Drain])
	h.effects[what]++
	w.must(h.effects[what] == 1, "act %s takes effect %d times", what, h.effects[what])
}

// checkSignal is what must hold when a process is about to feel a signal.
func (w *World) checkSignal(h *host, r wire.ActRequest, run fleet.Run) {
	w.checkActed(h, r, r.ID+" "+run.String())
	hold := h.durable().Drain
	w.must(hold != nil && hold.Drain == r.Drain, "%s of %s on a host that drain %s does not hold", r.Signal, r.Key, r.Drain)
	w.must(w.proved, "%s of %s before the cordon has taken", r.Signal, r.Key)
	w.must(slices.Contains(r.Runs, run), "%s of %v, which act %s does not name", r.Signal, run, r.ID)
	for _, p := range h.procs {
		if p.run == run {
			w.must(p.key == r.Key, "%s of %s reaches %s", r.Signal, r.Key, p.key)
			if r.Signal == "KILL" {
				w.checkKill(h, p, r)
			}
		}
	}
}

// checkKill measures on what that very process has gone through.
func (w *World) checkKill(h *host, p *proc, r wire.ActRequest) {
	w.must(w.named[p.run] || w.mayDie[p.key], "KILL of %s, which nobody named", p.key)
	rec, ok := w.records[r.Recorded]
	w.must(ok && rec.Key == p.key && slices.Contains(rec.Runs, p.run), "KILL of %s without its record", p.key)
	grace := time.Minute
	if it := w.state.Items[p.key]; it.Class == fleet.Stuck && it.ClassBy == "" {
		grace = 90 * time.Second
	}
	grace = max(grace, p.grace)
	var terms []time.Time
	for _, s := range h.signals {
		if s.run == p.run && s.signal == "TERM" {
			terms = append(terms, s.at)
		}
	}
	now, notice := time.Now(), w.notices[p.run]
	due := slices.ContainsFunc(terms, func(first time.Time) bool {
		return !notice.IsZero() && first.Sub(notice) >= w.policy.Notice && slices.ContainsFunc(terms, func(second time.Time) bool {
			return second.Sub(first) >= grace && now.Sub(second) >= lastWait
		})
	})
	if heard := w.heard[p.run]; w.policy.Receivers && !w.named[p.run] {
		w.must(!heard.IsZero() && now.Sub(heard) >= w.policy.Notice, "KILL of %s, whose owner heard of it at %v", p.key, heard)
	}
	w.must(due, "KILL of %s too early: notice %v, TERM %v, now %v, grace %v", p.key, notice, terms, now, grace)
}

// saw looks at every event as it is appended.
func (w *World) saw(ev drain.Event) {
	if ev.Stream != string(source) {
		return
	}
	before := w.state
	next, err := drain.Apply(before, ev)
	w.state = next
	body, _ := ev.Decode()
	w.tally[string(ev.Kind)]++
	if ev.Kind.IsDrive() {
		l := w.leases[ev.Drain]
		w.must(ev.Epoch == l.Epoch && l.Until.After(w.log.clock()), "%s of epoch %d, while the lease is of epoch %d until %v", ev.Kind, ev.Epoch, l.Epoch, l.Until)
		w.must(err == nil, "a drive does not fold: %v", err)
	}
	switch b := body.(type) {
	case drain.AskStart:
		for _, k := range b.MayDie {
			w.mayDie[k] = true
		}
		if err == nil && before.Drain != ev.Drain {
			w.proved = false
		}
	case drain.AskEscalate:
		w.named[b.Run] = true
		if b.Run.IsZero() {
			w.named[before.Items[b.Key].Run] = true
		}
	case drain.DriveRecord:
		w.records[ev.ID] = b
	case drain.DriveIntent:
		w.must(w.intents[b.Act.ID] == 0, "act %s is begun twice", b.Act.ID)
		w.intents[b.Act.ID]++
	case drain.DrivePhase:
		w.tally["phase "+string(b.Phase)]++
		if b.Phase == drain.Draining && before.Phase == drain.Cordoning {
			w.proved = true
			holds := w.hosts[source].durable()
			w.must(holds.Both() && w.plane.flags[source].Set, "it drains while the host has %+v and the plane's flag is %v", holds, w.plane.flags[source].Set)
		}
		if b.Phase == drain.Empty {
			w.checkEmpty(ev)
		}
	case drain.DriveDeadline:
		w.checkDeadline(before, b)
	case drain.DriveEnded:
		for _, e := range b.Ends {
			w.checkEnded(before.Items[e.Key], e)
		}
	}
}

func (w *World) checkEmpty(ev drain.Event) {
	h := w.hosts[source]
	w.must(h.probe == "", "empty while probe %s fails", h.probe)
	w.must(len(h.agent.open()) == 0, "empty while tickets are open: %v", h.agent.open())
	w.must(h.durable().Both(), "empty without both holds: %+v", h.durable())
	w.must(len(w.state.Open) == 0, "empty with an act on its way: %v", w.state.Open)
	for _, k := range h.keys() {
		p := h.procs[k]
		young := time.Since(p.born) < w.policy.Transient && p.stray
		w.must(young || w.excused(k), "empty while %s runs (%+v)", k, *p)
	}
	for _, l := range w.state.Lost {
		w.must(w.excused(l.Key), "empty although %s was lost", l.Key)
	}
	for _, c := range w.consoles {
		if strings.HasPrefix(ev.By.Console, c.name+"/") {
			w.must(c.looked.After(h.lastAct), "empty by a reading of %v; the last act was at %v", c.looked, h.lastAct)
		}
	}
}

// excused reports whether a person has accepted that something is there, or lost.
func (w *World) excused(k fleet.Key) bool {
	_, ok := w.state.Accepted[k]
	return ok || slices.ContainsFunc(w.hosts[source].agent.rec.accepted, func(a fleet.Accepted) bool { return a.Key == k })
}

// checkDeadline reports a workload that is on the host and not named.
func (w *World) checkDeadline(s drain.State, b drain.DriveDeadline) {
	h := w.hosts[source]
	names := map[fleet.Key]bool{}
	for _, l := range b.Left {
		names[l.Key] = true
		w.must(!l.Reason.IsZero(), "%s is left at the deadline without a reason", l.Key)
	}
	for k, it := range s.Items {
		w.must(!it.Open() || names[k] || h.procs[k] == nil, "%s is open at the deadline and not named", k)
	}
	w.must(b.Age == "" || len(b.Left) > 0, "a deadline without names on a host that can't be read")
	if b.Age != "" || s.Boot != h.boot || h.probe == "processes" || h.probe == "workloads" {
		return
	}
	for _, k := range h.keys() {
		p := h.procs[k]
		w.must(names[k] || w.excused(k) || p.stray && time.Since(p.born) < w.policy.Transient, "%s is on the host at the deadline and not named", k)
	}
}

// checkEnded compares what the journal calls left with what really happened.
func (w *World) checkEnded(it drain.Item, e drain.Ended) {
	h := w.hosts[source]
	if p := h.procs[e.Key]; p != nil && p.run == it.Run && !p.rests {
		w.must(false, "%s has ended (%s), says the journal, and it runs", e.Key, e.End)
	}
	if e.End == drain.Lost {
		return
	}
	i := slices.IndexFunc(h.deaths[e.Key], func(d death) bool { return d.run == it.Run })
	if i < 0 {
		return
	}
	cause := h.deaths[e.Key][i].cause
	if cause != "crash" && cause != "reboot" {
		return
	}
	claim, claimed := w.plane.at(e.Key)
	switch e.By {
	case "owner":
		w.must(!claimed || claim.Phase == fleet.Gone || claim.Host != source || it.Declared, "%s was lost (%s), and counts as ended by its owner", e.Key, cause)
	case "ttl":
		w.must(!it.Expires.After(time.Now().Add(time.Hour+w.policy.CacheWindow)), "%s was lost (%s) before its time was over, and counts as ended by it", e.Key, cause)
	case "lever":
		sent := w.site(e.Key).repoint || !it.FlippedAt.IsZero()
		for _, a := range h.agent.acts {
			sent = sent || slices.Contains(a.req.Runs, it.Run)
		}
		w.must(sent || it.Move.Complete(), "%s was lost (%s), and counts as ended by us, who never touched it", e.Key, cause)
	}
}

// checkHolds is looked at after every step: nothing is lifted that nobody asked
// to lift.
func (w *World) checkHolds(asked bool) {
	h, had := w.hosts[source].durable(), w.holds
	flag := w.plane.flags[source].Set
	w.must(asked || had.Cordon == nil || h.Cordon != nil, "the cordon is gone, and nobody asked for it")
	w.must(asked || had.Drain == nil || h.Drain != nil, "the drain hold is gone, and nobody asked for it")
	w.must(asked || !w.flag || flag, "the plane's flag is gone, and nobody asked for it")
	w.holds, w.flag = h, flag
}
