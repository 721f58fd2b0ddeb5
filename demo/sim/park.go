package sim

import (
	"context"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// parks draws, apart from all else, whether a workload is one that its rule parks.
func (w *World) parks(p *proc) bool {
	return p.lever && p.class == fleet.Pausable && p.netns == "" && w.draw("parks "+p.key.ID)%2 == 0
}

// purpose is what a drain is for: what is parked may stay on its host for one of
// them, and not for the other.
func (w *World) purpose() fleet.Purpose {
	if w.draw("purpose")%4 == 0 {
		return fleet.ForHardware
	}
	return fleet.ForKernel
}

// park leaves a workload's state on its host, and no process.
func (w *World) park(a drain.Act, s *site, p *proc, h *host) {
	w.must(OneCopy, s.paused && !s.up, "%s is parked: paused %v, up elsewhere %v", a.Key, s.paused, s.up)
	s.parked, s.back = true, false
	if p == nil && s.last != nil && !s.ended {
		n := *s.last
		p = &n
		h.procs[a.Key] = p
	}
	if p != nil {
		p.rests, p.dies = true, time.Time{}
	}
}

// unpark takes that back: the process is there again as it was, paused.
func (w *World) unpark(a drain.Act, s *site, p *proc, h *host) {
	switch {
	case !s.parked:
	case p != nil && p.rests && p.mode == 0:
		h.respawn(p)
	case p != nil && p.rests && p.mode == 2:
		s.last = p
		delete(h.procs, a.Key)
	}
	s.parked = false
}

// resume brings back what is parked: on word, from its state, and nowhere else.
// Where that has come about already, although the answer was another, it changes
// nothing.
func (w *World) resume(a drain.Act, s *site, p *proc, h *host) {
	if s.back {
		return
	}
	w.must(OnWord, s.parked && s.word, "%s is resumed: parked %v, asked for %v", a.Key, s.parked, s.word)
	w.must(OneCopy, !s.up, "%s is resumed here while it is up elsewhere", a.Key)
	s.parked, s.paused, s.word, s.back = false, false, false, true
	if p != nil && p.rests {
		h.respawn(p)
	}
}

// rest changes the claim of what has been parked, or runs again.
func (p *plane) rest(k fleet.Key, h fleet.HostID, phase fleet.Phase) {
	if c, ok := p.at(k); ok && c.Host == h && c.Phase != fleet.Gone {
		c.Phase, c.Changed = phase, time.Now().Add(p.skew)
		p.say(k, c, 0)
	}
}

// checkParked is what must hold when a drain says that nothing is left on its host
// but what is parked there.
func (x *watch) checkParked() {
	w, h := x.w, x.host()
	for _, k := range h.keys() {
		p := h.procs[k]
		young := p.stray && time.Since(p.born) < w.policy.Transient
		w.must(EmptyKnown, p.rests || young || x.excused(k), "parked while %s runs", k)
	}
	w.must(EmptyKnown, len(x.state.Parked()) > 0, "parked, with nothing that is")
}

// told takes note of a word on which something is to be resumed.
func (x *watch) told(before drain.State) {
	for k, it := range x.state.Items {
		if was := before.Items[k]; it.Resume != was.Resume {
			x.w.site(k).word = !it.Resume.IsZero()
		}
	}
}

// words are what somebody asks besides, of what is parked or could be.
func (w *World) words(id fleet.HostID, p *proc) {
	ctx, s := context.Background(), w.watches[id].state
	if p != nil && w.draw("park")%8 == 0 {
		_ = w.op.eng.Ask(ctx, id, s.Drain, drain.AskPark{Key: p.key, Ship: w.draw("ship")%2 == 0})
	}
	if len(s.Resumable(fleet.Key{})) == 0 || w.draw("resume")%3 > 0 {
		return
	}
	if _, err := w.op.eng.Resume(ctx, id, fleet.Key{}); err == nil {
		w.count("resume asked")
		w.consoles[w.draw("resumer")%len(w.consoles)].drive(id)
	}
}

// bringBack asks for all that is parked on a host, now that nothing goes wrong: each
// must run again, or be named.
func (w *World) bringBack(x *watch) {
	keys, err := w.op.eng.Resume(context.Background(), x.id, fleet.Key{})
	if err != nil || x.host().gone || x.another() {
		return
	}
	w.consoles[0].drive(x.id)
	w.run(time.Now().Add(10*time.Minute), func() bool { return !x.state.Resumes() })
	w.must(ItEnds, !x.state.Resumes(), "what is parked on %s is neither resumed nor given up\n%s", x.id, x.items())
	for _, k := range keys {
		if it := x.state.Items[k]; !it.Resumed.IsZero() {
			w.count("resumed")
		}
	}
}
