package words

import (
	"cmp"
	"slices"
	"time"

	"ebb/drain"
	"ebb/fleet"
)

// Due is when a workload's present step ends, and what happens then.
type Due struct {
	Key  fleet.Key
	From time.Time // when that step began; a bar runs from here to At
	At   time.Time // zero: nothing is due, the reason says why
	What string    // "expires", "TERM", "KILL", "late", "retry", "notice", "lost"
}

// IsZero reports whether nothing is due.
func (d Due) IsZero() bool { return d.At.IsZero() }

// Done is how much of the step is over, from 0 to 1.
func (d Due) Done(now time.Time) float64 {
	whole := d.At.Sub(d.From)
	if d.From.IsZero() || whole <= 0 {
		return 0
	}
	return min(max(float64(now.Sub(d.From))/float64(whole), 0), 1)
}

// Next is when an item's present step ends and what happens then, as far as the
// state and the policy already say it. A zero time means that nothing is due.
func Next(it drain.Item, s drain.State, p drain.Policy, now time.Time) (at time.Time, what string) {
	d := DueOf(it, s, p, now)
	return d.At, d.What
}

// byDriver reports whether what is due is done by whoever drives: while nobody
// does, it does not come.
func byDriver(what string) bool {
	switch what {
	case "TERM", "KILL", "notice", "retry", "lost":
		return true
	}
	return false
}

// DueOf is Next with what a bar needs. Times are those of the journal's clock,
// like those in the state. A gap that the policy does not have, as in a replay,
// is not known: what hangs on it has no time. Neither has what a driver would do
// while there is none, or while the drain waits for a person.
func DueOf(it drain.Item, s drain.State, p drain.Policy, now time.Time) Due {
	d := due(it, s, p, now)
	d.Key = it.Key
	if d.At.IsZero() || (s.Driver == "" || drain.NeedsPerson(s.Waiting.Code)) && byDriver(d.What) {
		return Due{Key: it.Key}
	}
	if d.From.IsZero() {
		d.From = it.FoundAt
	}
	return d
}

func due(it drain.Item, s drain.State, p drain.Policy, now time.Time) Due {
	escalated := it.Escalated != ""
	running := !s.Phase.Ended() && s.Phase != drain.NoDrain && !s.Undone && !s.Person
	goesOn := s.Phase == drain.DeadlineReached && escalated && !s.Undone
	switch {
	case !it.Open(), !running && !goesOn:
		return Due{}
	case !it.MissingAt.IsZero() && (!it.TermAt.IsZero() || it.Verdict == fleet.Unattributed || it.Verdict == fleet.Orphan):
		return Due{} // it left: by our signal, or nobody claimed it
	case !it.MissingAt.IsZero() && p.CacheWindow == 0:
		return Due{}
	case !it.MissingAt.IsZero():
		return Due{From: it.MissingAt, At: it.MissingAt.Add(p.CacheWindow), What: "lost"}
	case it.Held, it.Keep, !it.KillAt.IsZero():
		return Due{}
	case escalated, !it.NoticeAt.IsZero():
		return escalation(it, p)
	case it.Class == fleet.Stateless && !it.FlippedAt.IsZero():
		return retiring(it, s, p, now)
	case it.Class == fleet.Ephemeral:
		return expiry(it, s, p, now)
	case it.Class == fleet.Stateless, it.Move.Underway():
		return move(it, p)
	}
	return Due{}
}

// escalation is when TERM or KILL comes. While a grace runs the KILL is shown,
// not the second TERM before it: it is the one that can't be taken back.
func escalation(it drain.Item, p drain.Policy) Due {
	asked := it.TermAt.Add(p.Grace(it))
	byPerson := it.Escalated != ""
	unheard := p.Receivers && !it.Accepted && !byPerson
	kill := it.Term2At
	switch {
	case it.NoticeAt.IsZero(), !it.MayDie && !byPerson:
		return Due{}
	case p.Notice == 0 || p.TermGap == 0 || p.Grace(it) == 0:
		return Due{}
	case it.TermAt.Before(it.NoticeAt): // or not sent yet
		return Due{From: it.NoticeAt, At: it.NoticeAt.Add(p.Notice), What: "TERM"}
	case it.Term2At.Before(asked) && unheard:
		return Due{From: it.TermAt, At: asked, What: "TERM"}
	case unheard:
		return Due{}
	case it.Term2At.Before(asked):
		kill = asked
	}
	return Due{From: it.TermAt, At: kill.Add(p.TermGap), What: "KILL"}
}

// lastStart is when an escalation begins at the latest, to be over in time; zero
// where that is not known.
func lastStart(it drain.Item, s drain.State, p drain.Policy) time.Time {
	if p.Notice == 0 || p.TermGap == 0 || p.Margin == 0 {
		return time.Time{}
	}
	return s.Deadline.Add(-(p.Notice + p.Grace(it) + p.TermGap + p.Margin))
}

// retiring is an old copy whose replacement answers: it was asked to end, and is
// given all the time there is before it is escalated.
func retiring(it drain.Item, s drain.State, p drain.Policy, now time.Time) Due {
	if it.TermAt.IsZero() || !it.MayDie {
		return Due{}
	}
	at := lastStart(it, s, p)
	if at.IsZero() {
		return Due{}
	}
	if end := it.TermAt.Add(p.Grace(it)); end.After(at) {
		at = end
	}
	if !at.After(now) {
		return Due{}
	}
	return Due{From: it.TermAt, At: at, What: "notice"}
}

// expiry is when an ephemeral workload ends by itself, or when its owner is told
// because it won't in time.
func expiry(it drain.Item, s drain.State, p drain.Policy, now time.Time) Due {
	if !it.Expires.IsZero() && !it.Expires.After(s.Deadline) && it.Expires.After(now) {
		return Due{At: it.Expires, What: "expires"}
	}
	start := lastStart(it, s, p)
	if !it.MayDie || !start.After(now) {
		return Due{}
	}
	return Due{At: start, What: "notice"}
}

// move is when a move counts as late, from its first act.
func move(it drain.Item, p drain.Policy) Due {
	if !it.RetryAt.IsZero() && it.StartedAt.IsZero() {
		if p.Retry == 0 {
			return Due{}
		}
		return Due{From: it.RetryAt, At: it.RetryAt.Add(p.Retry << min(max(it.Fails-1, 0), 3)), What: "retry"}
	}
	if it.FirstAct.IsZero() || it.Overdue || it.Budget.Move == 0 {
		return Due{}
	}
	return Due{From: it.FirstAct, At: it.FirstAct.Add(it.Budget.Move), What: "late"}
}

// Blocked says whether nothing will end a workload's wait by itself, as far as is
// known: no time is set for it, no move of it is under way.
func Blocked(it drain.Item, s drain.State, p drain.Policy, now time.Time) bool {
	if !it.Open() || it.Keep || it.Move.Underway() || s.Phase == drain.Planned || s.Phase == drain.Cordoning {
		return false
	}
	switch it.Reason.Code {
	case "", drain.WaitTurn, drain.WaitMissing, drain.WaitStarting, drain.WaitFlip, drain.WaitLever, drain.WaitRunning, drain.WaitUnready, drain.WaitBusy, drain.WaitKill:
		return false // its turn comes, or something is being done
	}
	return due(it, s, p, now).IsZero()
}

// Coming is what happens next in a drain, soonest first: each item's next due,
// and the outer deadline. What is due but has not happened yet comes first.
func Coming(s drain.State, p drain.Policy, now time.Time) []Due {
	var out []Due
	for _, it := range s.Items {
		if d := DueOf(it, s, p, now); !d.IsZero() {
			out = append(out, d)
		}
	}
	if !s.Phase.Ended() && s.Phase != drain.NoDrain && !s.Deadline.IsZero() {
		out = append(out, Due{From: s.Started, At: s.Deadline, What: "deadline"})
	}
	slices.SortFunc(out, func(a, b Due) int {
		return cmp.Or(a.At.Compare(b.At), a.Key.Compare(b.Key))
	})
	return out
}

// ComingText is one line of what happens next: "14:31 KILL etl-legacy".
func ComingText(d Due) string {
	if d.Key.IsZero() {
		return join(" ", HM(d.At), d.What)
	}
	name := Name(d.Key.ID)
	switch d.What {
	case "expires":
		return HM(d.At) + " " + name + " expires"
	case "late":
		return HM(d.At) + " " + name + " counts as late"
	case "notice":
		return HM(d.At) + " " + name + " escalates"
	case "lost":
		return HM(d.At) + " " + name + " counts as lost"
	}
	if d.What == "TERM" || d.What == "KILL" {
		return HMS(d.At) + " " + d.What + " " + name
	}
	return HM(d.At) + " " + d.What + " " + name
}

// Expected is when the last open item should be gone; zero where any one has no
// such time.
func Expected(s drain.State, p drain.Policy, now time.Time) time.Time {
	var last time.Time
	for _, it := range s.Items {
		if !it.Open() || it.Keep {
			continue
		}
		d := DueOf(it, s, p, now)
		if d.IsZero() {
			return time.Time{}
		}
		at := d.At
		if d.What == "notice" {
			at = s.Deadline.Add(-p.Margin)
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}
