package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/proof"
	"ebb/probes/wire"
)

// Check is one thing that must never happen.
type Check string

// What must never happen, and two promises besides. Each is measured on what
// hosts, planes and processes have really gone through.
const (
	EmptyKnown     Check = "1 a host read as empty while something has not answered"
	TerminateOnce  Check = "2 terminate without a proof confirmed in that instant, or twice"
	CordonFirst    Check = "3 a drain on a host whose cordon did not take at plane and host"
	KillLast       Check = "4 KILL before notice, TERM, grace, TERM, thirty seconds and the record, or of what nobody named"
	NoStranger     Check = "5 an act without lease or epoch, or twice for one id"
	HoldsStay      Check = "6 a hold lifted that was not asked for"
	OnlyIdentified Check = "7 a signal, a cleaning or an act that meets another than the one identified"
	NamesAndLosses Check = "8 a deadline without names, a loss that counts as a success"
	OneCopy        Check = "9 two runnable copies of one stateful workload"
	NoForgery      Check = "10 a line or an id that a workload's name can forge"
	OnWord         Check = "what is parked resumed without a word, or twice"
	Caps           Check = "a limit of moves or of room that is passed"
	NothingCut     Check = "a request cut that was in flight"
	ItEnds         Check = "a drain that does not end"
)

// Checks lists them in order.
var Checks = []Check{EmptyKnown, TerminateOnce, CordonFirst, KillLast, NoStranger, HoldsStay, OnlyIdentified, NamesAndLosses, OneCopy, NoForgery, OnWord, Caps, NothingCut, ItEnds}

// must notes what must never happen, the first time that it does.
func (w *World) must(c Check, ok bool, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checked[c]++
	if !ok && w.bad == "" {
		w.bad = fmt.Sprintf("[%s] %s after %s: ", c, time.Now().UTC().Format(time.TimeOnly), time.Since(w.began).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
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

// sweep is what must hold after every step.
func (w *World) sweep() {
	for _, id := range w.sources {
		w.watches[id].checkHolds()
	}
	for _, id := range w.order0 {
		h := w.hosts[id]
		if a := h.agent; a.up && a.rec.seal != "" {
			w.must(TerminateOnce, a.rec.boot == h.boot, "%s is sealed by a proof of boot %s in boot %s", h.id, a.rec.boot, h.boot)
		}
	}
	for k, s := range w.sites {
		if s.up {
			w.checkCopies(k, "a step")
		}
	}
	clear(w.asked)
}

// checkHolds: nothing is lifted that nobody asked to lift, and nothing at all
// from a sealed host. Another machine of the name has holds of its own.
func (x *watch) checkHolds() {
	h := x.host()
	holds, had, flag := h.durable(), x.holds, x.w.plane.flags[x.id].Set
	same, asked := x.machine == h.machine, x.w.asked[x.id]
	if holds != had || flag != x.flag {
		x.w.must(HoldsStay, asked || !same || had.Cordon == nil || holds.Cordon != nil, "the cordon of %s is gone, and nobody asked for it", x.id)
		x.w.must(HoldsStay, asked || !same || had.Drain == nil || holds.Drain != nil, "the drain hold of %s is gone, and nobody asked for it", x.id)
		x.w.must(HoldsStay, asked || !x.flag || flag, "the plane's flag of %s is gone, and nobody asked for it", x.id)
	}
	if d := holds.Drain; d != nil && holds != had {
		x.w.must(NoStranger, x.begun[d.Drain], "drain %s holds %s, and no operator asked for it", d.Drain, x.id)
	}
	x.holds, x.flag, x.machine = holds, flag, h.machine
}

// checkActed is what must hold when an act takes effect on a host.
func (w *World) checkActed(h *host, r wire.ActRequest, what string) {
	w.must(OnlyIdentified, r.Machine == h.machine, "act %s meant machine %s and reached %s", r.ID, r.Machine, h.machine)
	w.must(NoStranger, r.Epoch >= h.heard[r.Drain], "act %s of epoch %d takes effect on %s, which has heard of %d", r.ID, r.Epoch, h.id, h.heard[r.Drain])
	w.must(TerminateOnce, h.agent.rec.seal == "", "act %s takes effect on %s, which is sealed", r.ID, h.id)
	h.effects[what]++
	w.must(NoStranger, h.effects[what] == 1, "act %s takes effect %d times", what, h.effects[what])
}

// checkSignal is what must hold when a process is about to feel a signal.
func (w *World) checkSignal(h *host, r wire.ActRequest, run fleet.Run) {
	w.checkActed(h, r, r.ID+" "+run.String())
	x, hold := w.watches[h.id], h.durable().Drain
	w.must(NoStranger, hold != nil && hold.Drain == r.Drain, "%s of %s on a host that drain %s does not hold", r.Signal, r.Key, r.Drain)
	w.must(CordonFirst, x != nil && x.proved, "%s of %s before the cordon has taken", r.Signal, r.Key)
	w.must(OnlyIdentified, slices.Contains(r.Runs, run), "%s of %v, which act %s does not name", r.Signal, run, r.ID)
	if x == nil {
		return
	}
	for _, p := range h.procs {
		if p.run != run {
			continue
		}
		w.must(OnlyIdentified, p.key == r.Key, "%s of %s reaches %s", r.Signal, r.Key, p.key)
		if r.Signal == "KILL" {
			x.checkKill(p, r)
		} else if p.serves && w.notices[p.run].IsZero() {
			w.must(NothingCut, p.busy() == 0, "TERM of %s with %d requests in flight", p.key, p.busy())
		}
	}
}

// checkKill measures on what that very process has gone through.
func (x *watch) checkKill(p *proc, r wire.ActRequest) {
	w := x.w
	w.must(KillLast, x.named[p.run] || x.mayDie[p.key], "KILL of %s, which nobody named", p.key)
	rec, ok := x.records[r.Recorded]
	w.must(KillLast, ok && rec.Key == p.key && slices.Contains(rec.Runs, p.run), "KILL of %s without its record", p.key)
	grace := time.Minute
	if it := x.state.Items[p.key]; it.Class == fleet.Stuck && it.ClassBy == "" {
		grace = 90 * time.Second
	}
	grace = max(grace, p.grace)
	var terms []time.Time
	for _, s := range x.host().signals {
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
	if heard := w.heard[p.run]; w.policy.Receivers && !x.named[p.run] {
		w.must(KillLast, !heard.IsZero() && now.Sub(heard) >= w.policy.Notice, "KILL of %s, whose owner heard of it at %v", p.key, heard)
	}
	w.must(KillLast, due, "KILL of %s too early: notice %v, TERM %v, now %v, grace %v", p.key, notice, terms, now, grace)
}

// checkClean is what must hold when a thing is about to be removed.
func (w *World) checkClean(h *host, r wire.ActRequest) {
	w.must(OnlyIdentified, r.Machine == h.machine, "cleaning %s meant machine %s and reached %s", r.Key, r.Machine, h.machine)
	t, ok := h.things[r.Key.ID]
	w.must(OnlyIdentified, ok && t.identity == r.Identity, "cleaning %s of identity %s removes %s", r.Key, r.Identity, t.identity)
	w.must(OnlyIdentified, t.user.IsZero() && h.procs[t.owner] == nil, "cleaning %s, which %s uses", r.Key, t.owner)
	w.must(OnlyIdentified, h.durable().Any() && len(h.agent.open()) == 0, "cleaning %s on a host that may take new work", r.Key)
	h.effects[r.ID]++
	w.must(NoStranger, h.effects[r.ID] == 1, "cleaning %s takes effect %d times", r.ID, h.effects[r.ID])
}

// nothing is that a host is empty, as it really is, but for what late says.
func (x *watch) nothing(c Check, what string, late func(*proc) bool) {
	w, h := x.w, x.host()
	w.must(c, h.probe == "" || late != nil && h.broke.Equal(time.Now()), "%s while probe %s fails", what, h.probe)
	w.must(c, len(h.agent.open()) == 0, "%s while tickets are open: %v", what, h.agent.open())
	w.must(c, h.durable().Both(), "%s without both holds: %+v", what, h.durable())
	w.must(c, len(x.state.Open) == 0, "%s with an act on its way: %v", what, x.state.Open)
	for _, k := range h.keys() {
		p := h.procs[k]
		w.must(c, x.excused(k) || late != nil && late(p), "%s while %s runs (%+v)", what, k, *p)
	}
	for _, l := range x.state.Lost {
		w.must(c, x.excused(l.Key), "%s although %s was lost", what, l.Key)
	}
}

// late says what the driver that wrote an event need not have seen: what came in
// the instant of its last reading, or since, which the next one shows, and what
// may be gone in a moment.
func (x *watch) late(ev drain.Event) func(*proc) bool {
	var read time.Time
	for _, c := range x.w.consoles {
		if strings.HasPrefix(ev.By.Console, c.name+"/") {
			read = c.looked[x.id]
		}
	}
	return func(p *proc) bool {
		return !read.IsZero() && !p.born.Before(read) || p.stray && time.Since(p.born) < x.w.policy.Transient
	}
}

func (x *watch) checkEmpty(ev drain.Event) {
	for _, c := range x.w.consoles {
		if at, last := c.looked[x.id], x.host().lastAct; strings.HasPrefix(ev.By.Console, c.name+"/") {
			if x.another() && !x.host().came.Before(at) { // in the middle of the write: that says nothing of this one
				x.w.count("empty, and another machine since")
				continue
			}
			x.nothing(EmptyKnown, "empty", x.late(ev))
			x.w.must(EmptyKnown, at.After(last), "empty by a reading of %v; the last act was at %v", at, last)
		}
	}
}

// checkProved looks at a host in the moment in which its agent signs.
func (w *World) checkProved(h *host, doc proof.Document) {
	if x := w.watches[h.id]; x != nil {
		w.must(EmptyKnown, doc.Machine == h.machine && doc.Boot == h.boot, "a proof of machine %s in boot %s by %s in boot %s", doc.Machine, doc.Boot, h.machine, h.boot)
		w.must(EmptyKnown, h.probe == "", "a proof while probe %s fails", h.probe)
		for _, k := range h.keys() {
			w.must(EmptyKnown, x.excused(k), "a proof while %s runs", k)
		}
	}
}

// checkTerminated is what must hold in the moment in which a host goes.
func (w *World) checkTerminated(h *host, how string) {
	w.count("terminated by " + how)
	x := w.watches[h.id]
	w.must(TerminateOnce, h.ended == 0, "a terminator (%s) runs for %s, for which it has run", how, h.machine)
	w.must(TerminateOnce, h.agent.up && h.agent.rec.seal != "" && h.agent.rec.boot == h.boot, "%s runs for %s, which has confirmed no proof in this boot", how, h.id)
	if x != nil {
		w.must(TerminateOnce, h.agent.rec.seal == x.state.Drain, "%s runs for %s with the seal of drain %s; its drain is %s", how, h.id, h.agent.rec.seal, x.state.Drain)
		x.nothing(TerminateOnce, how, nil)
	}
}

// checkDeadline reports a workload that is on the host and not named.
func (x *watch) checkDeadline(ev drain.Event, s drain.State, b drain.DriveDeadline) {
	w, h := x.w, x.host()
	names := map[fleet.Key]bool{}
	for _, l := range b.Left {
		names[l.Key] = true
		w.must(NamesAndLosses, !l.Reason.IsZero(), "%s is left at the deadline without a reason", l.Key)
	}
	for k, it := range s.Items {
		w.must(NamesAndLosses, !it.Open() || names[k] || h.procs[k] == nil, "%s is open at the deadline and not named", k)
	}
	w.must(NamesAndLosses, b.Age == "" || len(b.Left) > 0, "a deadline without names on a host that can't be read")
	if b.Age != "" || s.Boot != h.boot || h.probe == "processes" || h.probe == "workloads" {
		return
	}
	late := x.late(ev)
	for _, k := range h.keys() {
		w.must(NamesAndLosses, names[k] || x.excused(k) || late(h.procs[k]), "%s is on the host at the deadline and not named", k)
	}
}

// checkEnded compares what the journal calls left with what really happened.
func (x *watch) checkEnded(it drain.Item, e drain.Ended) {
	w, h := x.w, x.host()
	p := h.procs[e.Key]
	w.must(NamesAndLosses, p == nil || p.run != it.Run || p.rests, "%s has ended (%s), says the journal, and it runs", e.Key, e.End)
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
		w.must(NamesAndLosses, !claimed || claim.Phase == fleet.Gone || claim.Host != x.id || it.Declared, "%s was lost (%s), and counts as ended by its owner", e.Key, cause)
	case "ttl":
		w.must(NamesAndLosses, !it.Expires.After(time.Now().Add(time.Hour+w.policy.CacheWindow)), "%s was lost (%s) before its time was over, and counts as ended by it", e.Key, cause)
	case "lever":
		sent := w.site(e.Key).repoint || !it.FlippedAt.IsZero()
		for _, a := range h.agent.acts {
			sent = sent || slices.Contains(a.req.Runs, it.Run)
		}
		w.must(NamesAndLosses, sent || it.Move.Complete(), "%s was lost (%s), and counts as ended by us, who never touched it", e.Key, cause)
	}
}

// checkRoom counts what is on a target just when something has come.
func (w *World) checkRoom(h *host) {
	if h.slots > 0 && w.late { // it was given up, and comes all the same
		h.excess++
	}
	if h.slots > 0 {
		w.must(Caps, len(h.procs) <= h.slots+h.excess, "%d workloads on %s, which has room for %d: %v", len(h.procs), h.id, h.slots, h.keys())
	}
}

// checkLine: whatever a workload is called, an event is one line, and that line is
// the event.
func (w *World) checkLine(ev drain.Event) {
	text := string(ev.Body)
	plain := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
	w.must(NoForgery, plain, "an event's body is not one plain line: %q", text)
}

// checkID: an act's id is a plain word, whatever its workload is called. That no
// two workloads share one is seen where acts begin.
func (w *World) checkID(a drain.Act) {
	plain := a.ID != "" && len(a.ID) < 300 && !strings.ContainsFunc(a.ID, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	w.must(NoForgery, plain, "the id of an act is no plain word: %q", a.ID)
}
