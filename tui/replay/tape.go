package replay

import (
	"maps"
	"slices"
	"sort"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
)

// Tape is a journal that was read. It is immutable once made.
type Tape struct {
	Notes []string // what was odd about the file, a sentence each

	events []drain.Event
	times  []time.Time // of each event, never running back
	needs  []int       // the positions at which a person came to be needed
	marks  []fold      // the fold at every markEvery-th position
	words  []int       // the places of the words left for the next shift
	hosts  []fleet.HostID
	policy drain.Policy
}

// markEvery is how far apart the folds are that are kept.
const markEvery = 512

// fold is what the first n events say.
type fold struct {
	n     int
	hosts map[fleet.HostID]told
}

// told is what a journal says of one host.
type told struct {
	drain   drain.State
	cordon  *fleet.Hold
	state   fleet.CordonState
	holds   *fleet.Hold // the drain's
	asked   time.Time   // of the cordon that is being set
	why     string
	who     string
	cordons bool // the journal has said something about its cordon
	at      time.Time
}

// Len is how many events the tape has.
func (t *Tape) Len() int { return len(t.events) }

// Events are the events, in order. They are not to be changed.
func (t *Tape) Events() []drain.Event { return t.events }

// Hosts are the hosts that the journal is about, in order.
func (t *Tape) Hosts() []fleet.HostID { return t.hosts }

// Start and End are the times of the first and of the last event.
func (t *Tape) Start() time.Time { return t.times[0] }

// End is the time of the last event.
func (t *Tape) End() time.Time { return t.times[len(t.times)-1] }

// wordsUpTo are the newest words among the first n events.
func (t *Tape) wordsUpTo(n int) []drain.Event {
	to := sort.SearchInts(t.words, n)
	var out []drain.Event
	for _, i := range t.words[max(0, to-feed.WordsKept):to] {
		out = append(out, t.events[i])
	}
	return out
}

// upTo is how many events there are up to a moment.
func (t *Tape) upTo(at time.Time) int {
	return sort.Search(len(t.times), func(i int) bool { return t.times[i].After(at) })
}

// index makes what moving about needs: times that never run back, folds on the
// way, and where a person was needed.
func (t *Tape) index() {
	t.times = make([]time.Time, len(t.events))
	hosts := map[fleet.HostID]bool{}
	for i, e := range t.events {
		t.times[i] = e.At
		if i > 0 && e.At.Before(t.times[i-1]) {
			t.times[i] = t.times[i-1]
		}
		if fleet.HostID(e.Stream) != feed.Shift {
			hosts[fleet.HostID(e.Stream)] = true
		}
		if e.Kind == (drain.AskHandover{}).Kind() {
			t.words = append(t.words, i)
		}
	}
	t.hosts = slices.Sorted(maps.Keys(hosts))
	t.policy = learn(t.events)
	f := fold{hosts: map[fleet.HostID]told{}}
	t.marks = append(t.marks, fold{hosts: map[fleet.HostID]told{}})
	for i, e := range t.events {
		h := fleet.HostID(e.Stream)
		was := f.hosts[h]
		now := was.next(e)
		f.hosts[h] = now
		if calls(was, now, e) {
			t.needs = append(t.needs, i+1)
		}
		if f.n = i + 1; f.n%markEvery == 0 {
			t.marks = append(t.marks, fold{f.n, maps.Clone(f.hosts)})
		}
	}
}

// calls says whether an event made a person needed: one more that is blocked or
// lost, a drain that waits, a deadline reached, a refusal.
func calls(was, now told, e drain.Event) bool {
	if e.Kind == (drain.RecRefused{}).Kind() {
		return true
	}
	if now.drain.Undone || !now.drain.Terminated.IsZero() {
		return false
	}
	a, b := was.drain.Count(), now.drain.Count()
	return b.NeedsYou > a.NeedsYou || len(now.drain.Lost) > len(was.drain.Lost) ||
		now.drain.Phase == drain.DeadlineReached && was.drain.Phase != drain.DeadlineReached
}

// at returns the fold of the first n events, beginning with one that is known.
func (t *Tape) at(n int, known fold) fold {
	mark := t.marks[min(n/markEvery, len(t.marks)-1)]
	if known.hosts == nil || known.n > n || known.n < mark.n {
		known = mark
	}
	if known.n == n {
		return known
	}
	hosts := maps.Clone(known.hosts)
	for _, e := range t.events[known.n:n] {
		h := fleet.HostID(e.Stream)
		hosts[h] = hosts[h].next(e)
	}
	return fold{n, hosts}
}

// next folds one event. What does not fit is passed over, as the journal's
// readers do.
func (h told) next(e drain.Event) told {
	h.drain, _ = drain.Apply(h.drain, e)
	h.at = e.At
	body, err := e.Decode()
	if err != nil {
		return h
	}
	switch b := body.(type) {
	case drain.RecCordon:
		if c := h.cordon; b.Reword && c != nil {
			reworded := *c
			reworded.Why = b.Reason
			h.cordon = &reworded
			break
		}
		h.asked, h.who, h.why = e.At, e.By.Name, b.Reason
	case drain.RecCordoned:
		h.cordoned(e, b)
	case drain.RecUncordon:
		h.cordons, h.cordon, h.state = true, nil, fleet.Uncordoned
	case drain.DriveOutcome:
		if s := h.drain; b.Result == drain.Done && !s.CordonAt.IsZero() && s.CordonAt.Equal(e.At) && !s.CordonFailed {
			h.drained()
		}
	case drain.RecUndrain:
		h.holds = nil
	}
	return h
}

// cordoned is a cordon that was set, as far as it took. The first word of one
// that stands is who set it: repeating it does not make it another's.
func (h *told) cordoned(e drain.Event, b drain.RecCordoned) {
	h.cordons, h.state = true, b.State
	if b.State == fleet.Uncordoned || b.State == fleet.PlaneOnly {
		h.cordon = nil
		return
	}
	if h.cordon == nil {
		since, who := h.asked, h.who
		if since.IsZero() {
			since, who = e.At, e.By.Name
		}
		h.cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: who, Why: h.why, Since: since}
	}
}

// drained is the host's answer that it holds for its drain, and so for a cordon.
func (h *told) drained() {
	s := h.drain
	h.holds = &fleet.Hold{Kind: fleet.DrainHold, Who: s.By.Name, Why: s.Reason, Since: s.CordonAt, Drain: s.Drain, Epoch: s.Epoch, Deadline: s.Deadline, For: s.For, Evacuate: s.Evacuate}
	if h.cordon == nil {
		h.cordon = &fleet.Hold{Kind: fleet.CordonHold, Who: s.By.Name, Why: s.Reason, Since: s.CordonAt}
		h.cordons = true
	}
}

// learn finds the configured gaps that the journal itself shows. What it does not
// show stays zero, which means that it is not known.
func learn(events []drain.Event) drain.Policy {
	var p drain.Policy
	notices := map[string]bool{}
	least := func(have *time.Duration, d time.Duration) {
		if d > 0 && (*have == 0 || d < *have) {
			*have = d
		}
	}
	for _, e := range events {
		body, err := e.Decode()
		if err != nil {
			continue
		}
		switch b := body.(type) {
		case drain.DriveIntent:
			if b.Act.Kind == drain.ActNotice && !b.Act.At.IsZero() {
				least(&p.Notice, b.Act.At.Sub(e.At).Round(time.Second/10))
				notices[b.Act.ID] = true
			}
		case drain.DriveOutcome:
			p.Receivers = p.Receivers || notices[b.Act] && b.Result == drain.Done
		case drain.DriveRecord:
			least(&p.TermGap, e.At.Sub(b.Term2).Round(time.Second/10))
		}
	}
	return p
}
