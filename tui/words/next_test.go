package words

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ebb/drain"
	"ebb/fleet"
)

var t0 = time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)

func min5(n int) time.Time { return t0.Add(time.Duration(n) * time.Minute) }

func TestNext(t *testing.T) {
	p := drain.DefaultPolicy() // notice 1m, gap 30s, margin 30s, window 35s
	now := min5(5)
	running := drain.State{Drain: "d", Driver: "vm:1", Phase: drain.Draining, Deadline: min5(60), First: true}
	undriven := running
	undriven.Driver = ""
	over := drain.State{Drain: "d", Driver: "vm:1", Phase: drain.DeadlineReached, Deadline: min5(4), First: true}
	f := func(c fleet.Class) drain.Found {
		return drain.Found{Class: c, MayDie: true, Budget: fleet.Budget{Move: 20 * time.Minute, Grace: 10 * time.Minute}}
	}
	with := func(c fleet.Class, change func(*drain.Item)) drain.Item {
		it := drain.Item{Found: f(c)}
		change(&it)
		return it
	}
	for name, tc := range map[string]struct {
		it   drain.Item
		s    drain.State
		p    func(*drain.Policy)
		at   time.Time
		what string
	}{
		"ended":              {it: with(fleet.Stuck, func(i *drain.Item) { i.TermAt, i.End = t0, drain.LeftHost }), s: running},
		"held":               {it: with(fleet.Ephemeral, func(i *drain.Item) { i.Expires, i.Held = min5(9), true }), s: running},
		"expires":            {it: with(fleet.Ephemeral, func(i *drain.Item) { i.Expires = min5(9) }), s: running, at: min5(9), what: "expires"},
		"outlives":           {it: with(fleet.Ephemeral, func(i *drain.Item) { i.Expires = min5(90) }), s: running, at: min5(60).Add(-12 * time.Minute), what: "notice"},
		"outlives, no death": {it: with(fleet.Ephemeral, func(i *drain.Item) { i.Expires, i.MayDie = min5(90), false }), s: running},
		"told":               {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt = min5(5) }), s: running, at: min5(6), what: "TERM"},
		"expires alone":      {it: with(fleet.Ephemeral, func(i *drain.Item) { i.Expires = min5(9) }), s: undriven, at: min5(9), what: "expires"},
		"told, undriven":     {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt = min5(5) }), s: undriven},
		"missing, undriven":  {it: with(fleet.Durable, func(i *drain.Item) { i.MissingAt = min5(5) }), s: undriven},
		"TERM sent":          {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt = t0, min5(1) }), s: running, at: min5(11).Add(30 * time.Second), what: "KILL"},
		"more time":          {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt, i.Extra = t0, min5(1), 2*time.Minute }), s: running, at: min5(13).Add(30 * time.Second), what: "KILL"},
		"more time, anew": {it: with(fleet.Stuck, func(i *drain.Item) {
			i.NoticeAt, i.TermAt, i.Term2At, i.Extra = t0, min5(1), min5(11), 5*time.Minute
		}), s: running, at: min5(16).Add(30 * time.Second), what: "KILL"},
		"second TERM": {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt, i.Term2At = t0, t0, min5(10) }), s: running, at: min5(10).Add(30 * time.Second), what: "KILL"},
		"KILL sent":   {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.Term2At, i.KillAt = t0, t0, min5(5) }), s: running},
		"nobody told": {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt, i.Term2At = t0, t0, min5(10) }), s: running,
			p: func(p *drain.Policy) { p.Receivers = true }},
		"nobody told, in grace": {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt = t0, min5(1) }), s: running,
			p: func(p *drain.Policy) { p.Receivers = true }, at: min5(11), what: "TERM"},
		"not planned":        {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt, i.MayDie = t0, t0, false }), s: running},
		"moving":             {it: with(fleet.Stateless, func(i *drain.Item) { i.FirstAct, i.StartedAt = min5(1), min5(2) }), s: running, at: min5(21), what: "late"},
		"in the queue":       {it: with(fleet.Stateless, func(*drain.Item) {}), s: running},
		"overdue":            {it: with(fleet.Stateless, func(i *drain.Item) { i.FirstAct, i.Overdue = t0, true }), s: running},
		"retry":              {it: with(fleet.Stateless, func(i *drain.Item) { i.FirstAct, i.RetryAt = t0, min5(5) }), s: running, at: min5(5).Add(10 * time.Second), what: "retry"},
		"retiring":           {it: with(fleet.Stateless, func(i *drain.Item) { i.FlippedAt, i.TermAt = t0, min5(1) }), s: running, at: min5(60).Add(-12 * time.Minute), what: "notice"},
		"asked anew":         {it: with(fleet.Stateless, func(i *drain.Item) { i.FlippedAt, i.TermAt, i.NoticeAt = t0, min5(1), min5(5) }), s: running, at: min5(6), what: "TERM"},
		"missing":            {it: with(fleet.Durable, func(i *drain.Item) { i.MissingAt = min5(5) }), s: running, at: min5(5).Add(35 * time.Second), what: "lost"},
		"nobody's":           {it: with(fleet.Unclassified, func(i *drain.Item) { i.MissingAt, i.Verdict = min5(5), fleet.Unattributed }), s: running},
		"durable":            {it: with(fleet.Durable, func(*drain.Item) {}), s: running},
		"after the deadline": {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt = t0, min5(1) }), s: over},
		"escalated after it": {it: with(fleet.Durable, func(i *drain.Item) { i.NoticeAt, i.TermAt, i.Escalated = t0, min5(1), "mira" }), s: over, at: min5(11).Add(30 * time.Second), what: "KILL"},
		"waits for a person": {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt = t0, min5(1) }), s: drain.State{Drain: "d", Phase: drain.Draining, Deadline: min5(60), Person: true}},
		"stopped":            {it: with(fleet.Stuck, func(i *drain.Item) { i.NoticeAt, i.TermAt = t0, min5(1) }), s: drain.State{Drain: "d", Phase: drain.Stopped, Deadline: min5(60)}},
		"escalated by name":  {it: with(fleet.Durable, func(i *drain.Item) { i.NoticeAt, i.Escalated, i.MayDie = min5(5), "mira", false }), s: running, at: min5(6), what: "TERM"},
		"held after all":     {it: with(fleet.Durable, func(i *drain.Item) { i.NoticeAt, i.Escalated, i.Held = min5(5), "mira", true }), s: running},
	} {
		policy := p
		if tc.p != nil {
			tc.p(&policy)
		}
		if at, what := Next(tc.it, tc.s, policy, now); !at.Equal(tc.at) || what != tc.what {
			t.Errorf("%s: %v %q, want %v %q", name, at, what, tc.at, tc.what)
		}
	}
}

// No countdown promises a KILL earlier than the rules allow one.
func TestNextNeverShowsAKillTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drain.DefaultPolicy()
		at := func(name string) time.Time {
			if !rapid.Bool().Draw(t, name+"?") {
				return time.Time{}
			}
			return min5(rapid.IntRange(0, 30).Draw(t, name))
		}
		it := drain.Item{Found: drain.Found{Class: rapid.SampledFrom(fleet.Classes).Draw(t, "class"), MayDie: rapid.Bool().Draw(t, "may"),
			Budget: fleet.Budget{Grace: time.Duration(rapid.IntRange(0, 600).Draw(t, "grace")) * time.Second}},
			NoticeAt: at("notice"), TermAt: at("term"), Term2At: at("term2"), FlippedAt: at("flip")}
		s := drain.State{Drain: "d", Driver: "vm:1", Phase: drain.Draining, Deadline: min5(40)}
		when, what := Next(it, s, p, min5(10))
		if what != "KILL" {
			return
		}
		if it.NoticeAt.IsZero() || it.TermAt.Before(it.NoticeAt) || !it.MayDie {
			t.Fatalf("KILL without notice and TERM, or of what may not die: %+v", it)
		}
		if when.Before(it.TermAt.Add(it.Budget.Grace + p.TermGap)) {
			t.Fatalf("KILL at %v after TERM at %v", when, it.TermAt)
		}
	})
}

func TestComing(t *testing.T) {
	p := drain.DefaultPolicy()
	a, b := fleet.Key{Kind: "ci", ID: "88213"}, fleet.Key{Kind: "job", ID: "etl-legacy"}
	s := drain.State{Drain: "d", Driver: "vm:1", Phase: drain.Draining, Deadline: min5(60), First: true, Items: map[fleet.Key]drain.Item{
		a: {Found: drain.Found{Key: a, Class: fleet.Ephemeral, Expires: min5(29)}},
		b: {Found: drain.Found{Key: b, Class: fleet.Stuck, MayDie: true, Budget: fleet.Budget{Grace: 10 * time.Minute}}, NoticeAt: min5(20), TermAt: min5(21)},
	}}
	var got []string
	for _, d := range Coming(s, p, min5(26)) {
		got = append(got, ComingText(d))
	}
	want := []string{"14:29 88213 expires", "14:31:30 KILL etl-legacy", "15:00 deadline"}
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
	if at := Expected(s, p, min5(26)); !at.Equal(min5(31).Add(30 * time.Second)) {
		t.Errorf("expected %v", at)
	}
}

// What a lever of ours ended says how: it went elsewhere, or a signal ended it.
func TestEnding(t *testing.T) {
	at := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	left := func(change func(*drain.Item)) drain.Item {
		it := drain.Item{End: drain.LeftHost, EndBy: "lever", EndAt: at}
		change(&it)
		return it
	}
	for want, it := range map[string]drain.Item{
		"moved to gpu-044":            left(func(i *drain.Item) { i.Target, i.FlippedAt, i.TermAt = "p/gpu-044", at, at }),
		"ended by KILL":               left(func(i *drain.Item) { i.TermAt, i.KillAt = at, at }),
		"ended on TERM":               left(func(i *drain.Item) { i.TermAt = at }),
		"left: stopped by this drain": left(func(*drain.Item) {}),
		"left: it expired":            left(func(i *drain.Item) { i.EndBy, i.TermAt = "ttl", at }),
	} {
		if got := Ending(it); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Nobody is said to be told where there was no receiver, whatever the policy is
// now: a replay has none.
func TestUntold(t *testing.T) {
	for _, p := range []drain.Policy{{}, {Receivers: true}} {
		it := drain.Item{Found: drain.Found{MayDie: true}, NoticeAt: min5(0), Accepted: true, Untold: true, Reason: fleet.Because(drain.WaitNotice)}
		told := it
		told.Untold = false
		if got := []string{Doing(it, p, false), Doing(it, p, true), ToldAt(it)}; !slices.Equal(got, []string{NotTold, NotTold, NotTold}) {
			t.Errorf("%q", got)
		}
		if got := []string{Doing(told, p, false), Doing(told, p, true), ToldAt(told)}; !slices.Equal(got, []string{"owner told 14:00", "owner told", "14:00:00"}) {
			t.Errorf("told: %q", got)
		}
		it.TermAt = min5(1)
		if got := Doing(it, p, false); got != "TERM sent 14:01:00, "+NotTold {
			t.Errorf("%q", got)
		}
	}
	e := drain.DriveOutcome{Act: "d1/job/etl/notice/1", Key: fleet.Key{Kind: "job", ID: "etl"}, Result: drain.Done, Reason: fleet.Because(drain.Untold), Detail: "no receiver is configured"}
	if got := Body(e); got != "job/etl notice: done, the owner is not told: no receiver is configured" {
		t.Errorf("%q", got)
	}
}
