package fleetview

import (
	"slices"
	"strings"
	"time"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/widget"

	"ebb/tui/feed"
	"ebb/tui/words"
)

// forgotten is how long a cordon without a drain may stand before it rises by
// itself.
const forgotten = 24 * time.Hour

// row is one host with what is said about it.
type row struct {
	v          *fleet.HostView // in the frame, which nobody changes
	s          *drain.State    // its drain, unless that has been lifted
	role, word string
	hold       *fleet.Hold // the cordon, else the drain's, as the host last told
	also       string      // who else holds it
	since      time.Time   // of the state
	counts     drain.Counts
	dirty      int    // findings that need explaining
	needs      bool   // a person
	gone       string // since when it is terminated, or is being, and by whom
	parked     string // what is parked there, by name, and how it comes back
	resumes    bool   // it could be resumed now
	idle       bool   // its drain would go on if somebody drove it
	forsaken   bool   // and that for too long
	forgotten  bool
	rank       int // by attention
	heard      int // how well its agent is heard
	group      string
	sum        int // of workloads, where hosts are sorted by it
	place      int // in the frame
}

// kept is what the rows of one frame leave for those of the next, which come
// several times a second: their room, and their order, which is most often that
// of the next ones too. Of what the rows say nothing is kept: each frame has them
// made anew.
type kept struct {
	all   [2][]row // in turn, since the table asks the last ones where its cursor was
	at    [2][]*row
	order []int // places in the frame, as they stood last
	turn  int
}

// rows are the hosts of a frame as they stand. They hold until the next but one.
func (k *kept) rows(f feed.Frame, as Arrangement, now time.Time) []*row {
	k.turn = 1 - k.turn
	n := len(f.Snapshot.Hosts)
	all, at := slices.Grow(k.all[k.turn][:0], n)[:n], k.at[k.turn][:0]
	for i := range all {
		all[i] = makeRow(f, &f.Snapshot.Hosts[i], now)
		all[i].place, all[i].group = i, all[i].groupBy(as.Group)
		if as.Sort == "work" { // counted once, not for each comparison
			all[i].sum = all[i].work()
		}
	}
	if len(k.order) != n { // other hosts: any order will do to begin with
		k.order = make([]int, n)
		for i := range k.order {
			k.order[i] = i
		}
	}
	for _, i := range k.order {
		at = append(at, &all[i])
	}
	less := as.sorted().less
	slices.SortFunc(at, func(a, b *row) int { return as.compare(a, b, less) })
	for i, r := range at {
		k.order[i] = r.place
	}
	k.all[k.turn], k.at[k.turn] = all, at
	return at
}

// forget lets go of the frame before.
func (k *kept) forget() {
	clear(k.all[1-k.turn][:cap(k.all[1-k.turn])])
}

func makeRow(f feed.Frame, v *fleet.HostView, now time.Time) row {
	r := row{v: v}
	if found, ok := f.Drains[v.Host.ID]; ok { // most hosts have none
		s := found
		if words.Terminated(v, &s) != "" {
			return goneRow(v, s)
		}
		if r.parked, r.needs = words.ParkedHere(s); r.parked != "" {
			r.resumes = len(drain.Against(s, drain.AskResume{})) == 0
		}
		if s.Drain != "" && !s.Undone {
			r.s, r.counts = &s, s.Count()
			r.idle = s.Undriven() && !f.Driving[v.Host.ID]
			r.forsaken = r.idle && s.Forsaken(f.Clock(now))
		}
	}
	if on := words.Terminating(r.s); on != "" {
		r.gone, r.since, r.needs = on, r.s.Terminating.At, words.StuckTerminating(r.s, f.Clock(now))
		if r.needs {
			r.gone = "no outcome: look, then settle it; " + on
		}
		r.role, r.word = words.State(v, r.s)
		r.rank = r.attention()
		return r
	}
	r.role, r.word = words.State(v, r.s)
	holds, _, _ := v.Holds()
	r.hold = holds.Cordon
	if r.hold == nil {
		r.hold = holds.Drain
	} else if d := holds.Drain; d != nil && d.Who != r.hold.Who {
		r.also = d.Who
	}
	r.heard = silent(v, now)
	r.since = v.Unreachable
	if r.since.IsZero() && r.hold != nil {
		r.since = r.hold.Since
	}
	for _, fi := range v.Findings {
		// Without the facts there is nothing to compare claims with.
		if v.Facts.Status == fleet.OK && !fi.Verdict.Clean() {
			r.dirty++
		}
	}
	r.needs = r.needs || r.forsaken || r.s != nil && r.s.NeedsPerson() || r.role == themes.NeedsYou || r.counts.NeedsYou > 0
	r.forgotten = r.s == nil && holds.Drain == nil && holds.Cordon != nil && v.Unreachable.IsZero() &&
		now.Sub(holds.Cordon.Since) > forgotten
	r.rank = r.attention()
	return r
}

// goneRow is a host that was terminated: there is nothing to look for on it, and
// nobody is needed.
func goneRow(v *fleet.HostView, s drain.State) row {
	r := row{v: v, since: s.Terminated, gone: words.Terminated(v, &s)}
	r.role, r.word = words.State(v, &s)
	r.rank = r.attention()
	return r
}

// attention puts first what needs a person, then what goes wrong, then what is under
// way, and last what is as it should be.
func (r *row) attention() int {
	switch {
	case r.needs:
		return 0
	case r.role == themes.Lost:
		return 1
	case r.role == themes.Unreachable && (r.hold != nil || r.s != nil):
		return 2
	case r.role == themes.HostOnly, r.role == themes.PlaneOnly:
		return 3
	case r.forgotten:
		return 4
	case r.role == themes.Draining:
		return 5
	case r.role == themes.Unreachable:
		return 6
	case r.role == themes.Cordoning:
		return 7
	case r.role == themes.Cordoned, r.role == themes.Empty:
		return 8
	case r.role == "":
		return 9
	case r.gone != "" && r.word == "terminating":
		return 5
	case r.gone != "":
		return 12
	case r.dirty > 0:
		return 10
	}
	return 11
}

func filterable(r *row) widget.Filterable {
	text := string(r.v.Host.ID) + " " + r.word + " " + r.v.Problem
	fields := map[string]string{"state": r.word, "is": r.kind(), "host": r.v.Host.ID.Name(), "plane": r.v.Host.ID.Plane(), "pool": r.v.Host.Pool()}
	if r.needs || r.forgotten {
		fields["needs"] = "you"
	}
	if r.hold != nil {
		text += " " + r.hold.Who + " " + r.hold.Why
		fields["by"], fields["why"] = r.hold.Who, r.hold.Why
		text += " " + r.also
	}
	text += " " + r.parked
	return widget.Filterable{Text: text + r.claimed(), Labels: r.v.Host.Labels, Fields: fields}
}

// claimed names what the plane claims here, so that a workload finds its host.
func (r *row) claimed() string {
	var b strings.Builder
	for i := range r.v.Claims.Value {
		if c := &r.v.Claims.Value[i]; c.Phase != fleet.Gone {
			b.WriteString(" " + c.Key.Kind + "/" + c.Key.ID)
		}
	}
	return b.String()
}

// classes counts workloads in the order of [fleet.Classes]. ok is false while
// nothing is known about them.
func (r *row) classes() (n [6]int, ok bool) {
	if r.v.Summary.Status == fleet.OK {
		s := &r.v.Summary.Value
		for i, c := range fleet.Classes {
			n[i] = s.Classes[c]
		}
		n[5] += s.Unattributed
		return n, true
	}
	if _, known := r.v.Facts.Get(); !known {
		return n, false
	}
	for _, f := range r.v.Findings {
		if f.Workload == nil && f.Verdict != fleet.Unattributed {
			continue
		}
		i := slices.Index(fleet.Classes, f.Class)
		if i < 0 {
			i = 5
		}
		n[i]++
	}
	return n, true
}

// gpus is busy and all; ok is false while that is not known.
func (r *row) gpus() (busy, all int, ok bool) {
	if r.v.Summary.Status == fleet.OK {
		g := r.v.Summary.Value.GPUs
		return g[0], g[1], true
	}
	f, known := r.v.Facts.Get()
	if !known || f.GPUs.Status != fleet.OK {
		return 0, 0, known && f.GPUs.Status == fleet.NotApplicable
	}
	for _, g := range f.GPUs.Value {
		if len(g.Holders) > 0 {
			busy++
		}
	}
	return busy, len(f.GPUs.Value), true
}
