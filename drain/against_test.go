package drain

import (
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

// An ask that would change nothing, or comes too late, is told so; folding it all
// the same leaves the state as it was.
func TestAgainst(t *testing.T) {
	run := fleet.Run{Boot: "b", PID: 7, Start: 70}
	item := func(change func(*Item)) State {
		it := Item{Found: Found{Key: wk("a"), Class: fleet.Stateless, Run: run, Verdict: fleet.Agreed, Budget: fleet.Budget{Move: time.Minute}}}
		change(&it)
		return State{Drain: "d", Phase: Draining, First: true, Items: map[fleet.Key]Item{it.Key: it}}
	}
	plain := item(func(*Item) {})
	left := item(func(it *Item) { it.End, it.EndAt = LeftHost, noon })
	lost := item(func(it *Item) { it.End, it.EndAt = Lost, noon })
	killed := item(func(it *Item) { it.KillAt = noon })
	orphan := item(func(it *Item) { it.Verdict, it.Class = fleet.Orphan, fleet.Unclassified })
	kept := item(func(it *Item) { it.Keep = true })
	failed := item(func(it *Item) { it.Fails, it.RetryAt = 1, noon })
	doomed := item(func(it *Item) { it.Class, it.Budget = fleet.Stuck, fleet.Budget{Grace: time.Minute} })
	running := item(func(it *Item) { it.Class, it.Budget, it.TermAt = fleet.Stuck, fleet.Budget{Grace: time.Minute}, noon })
	vm := item(func(it *Item) { it.Class = fleet.Pausable })
	byRule := item(func(it *Item) { it.Class, it.Park = fleet.Pausable, true })
	resting := item(func(it *Item) {
		it.Class, it.Phase = fleet.Pausable, fleet.AtRest
		it.Move = Move{Park: true, Done: map[Step]time.Time{StepPark: noon}}
	})
	parked := func(p Phase, undone bool) State { s := resting; s.Phase, s.Undone = p, undone; return s }
	starting := item(func(it *Item) { it.Target, it.StartedAt = "prod/t1", noon })
	drain := func(change func(*State)) State {
		s := plain
		change(&s)
		return s
	}
	unread := drain(func(s *State) { s.First, s.Items = false, nil })
	for name, c := range map[string]struct {
		s    State
		ask  Body
		want string // empty: it can be asked
	}{
		"hold":                      {plain, AskHold{Key: wk("a")}, ""},
		"hold what has left":        {left, AskHold{Key: wk("a")}, "has left at 12:00:00 UTC"},
		"keep what was lost":        {lost, AskKeep{Key: wk("a")}, "was lost"},
		"class of what has left":    {left, AskClass{Key: wk("a"), Class: fleet.Stuck}, "has left"},
		"escalate what has left":    {left, AskEscalate{Key: wk("a"), Run: run}, "has left"},
		"hold behind a KILL":        {killed, AskHold{Key: wk("a")}, "too late"},
		"escalate behind a KILL":    {killed, AskEscalate{Key: wk("a"), Run: run}, ""},
		"not in the drain":          {plain, AskHold{Key: wk("z")}, "is not in the drain"},
		"not found yet":             {unread, AskHold{Key: wk("z")}, ""},
		"class":                     {plain, AskClass{Key: wk("a"), Class: fleet.Stuck}, ""},
		"the same class":            {plain, AskClass{Key: wk("a"), Class: fleet.Stateless}, "is stateless already"},
		"class of an orphan":        {orphan, AskClass{Key: wk("a"), Class: fleet.Stuck}, "is claimed by nobody"},
		"escalate an orphan":        {orphan, AskEscalate{Key: wk("a"), Run: run}, ""},
		"escalate another run":      {plain, AskEscalate{Key: wk("a"), Run: fleet.Run{Boot: "b", PID: 8}}, "another incarnation"},
		"more of a budget":          {plain, AskMoreTime{Key: wk("a"), By: time.Minute}, ""},
		"more of a grace":           {running, AskMoreTime{Key: wk("a"), By: time.Minute}, ""},
		"more of nothing":           {doomed, AskMoreTime{Key: wk("a"), By: time.Minute}, "no time that could be lengthened"},
		"more for what is parked":   {resting, AskMoreTime{Key: wk("a"), By: time.Minute}, "is parked"},
		"retry what goes on":        {plain, AskRetry{Key: wk("a")}, "nothing to take up again"},
		"retry what is kept":        {kept, AskRetry{Key: wk("a")}, ""},
		"retry what failed":         {failed, AskRetry{Key: wk("a")}, ""},
		"nothing is in doubt":       {plain, AskTargetGone{Key: wk("a"), Target: "prod/t1"}, "in doubt on another host"},
		"stop":                      {plain, AskStop{}, ""},
		"stop what is stopped":      {drain(func(s *State) { s.Phase = Stopped }), AskStop{}, "stopped already"},
		"escalate when stopped":     {drain(func(s *State) { s.Phase = Stopped }), AskEscalate{Key: wk("a"), Run: run}, "nothing is escalated"},
		"extend":                    {plain, AskExtend{}, ""},
		"extend an empty one":       {drain(func(s *State) { s.Phase = Empty }), AskExtend{}, "the host is empty"},
		"park what is stateless":    {plain, AskPark{Key: wk("a")}, "only what is pausable"},
		"park":                      {vm, AskPark{Key: wk("a")}, ""},
		"park by rule, asked for":   {byRule, AskPark{Key: wk("a")}, "is to be parked already"},
		"ship, against its rule":    {byRule, AskPark{Key: wk("a"), Ship: true}, ""},
		"ship what is shipped":      {vm, AskPark{Key: wk("a"), Ship: true}, "is to be shipped already"},
		"park what is parked":       {resting, AskPark{Key: wk("a")}, "is parked already"},
		"its target is gone":        {starting, AskTargetGone{Key: wk("a"), Target: "prod/t1"}, ""},
		"another target is gone":    {starting, AskTargetGone{Key: wk("a"), Target: "prod/t2"}, "in doubt on another host"},
		"resume":                    {parked(Parked, false), AskResume{}, ""},
		"resume one":                {parked(Stopped, false), AskResume{Key: wk("a")}, ""},
		"resume another":            {parked(Stopped, false), AskResume{Key: wk("z")}, "z is not parked here"},
		"resume nothing":            {plain, AskResume{}, "nothing is parked here"},
		"resume while it drains":    {resting, AskResume{}, "would park it again"},
		"resume behind the drain":   {parked(Draining, true), AskResume{}, ""},
		"resume what is terminated": {drain(func(s *State) { s.Terminated = noon }), AskResume{}, "was terminated"},
		"extend a parked one":       {drain(func(s *State) { s.Phase = Parked }), AskExtend{}, "what is parked"},
		"extend a stopped one":      {drain(func(s *State) { s.Phase = Stopped }), AskExtend{}, "begun anew"},
		"go on":                     {plain, AskRetry{}, "does not wait for a word"},
		"go on after a gap":         {drain(func(s *State) { s.Person, s.Waiting = true, fleet.Because(WaitBlind) }), AskRetry{}, ""},
		"go on behind a lost hold":  {drain(func(s *State) { s.Waiting = fleet.Because(WaitHold) }), AskRetry{}, ""},
		"a lifted drain":            {drain(func(s *State) { s.Undone = true }), AskHold{Key: wk("a")}, "has no drain"},
		"a host that is gone":       {drain(func(s *State) { s.Terminated = noon }), AskExtend{}, "was terminated"},
		"a host that has no drain":  {State{}, AskStop{}, "has no drain"},
		"a word for the next shift": {plain, AskHandover{Note: "x"}, ""},
	} {
		got := Against(c.s, c.ask)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: refused: %v", name, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Detail, c.want)):
			t.Errorf("%s: %v, not %q", name, got, c.want)
		}
	}
}

// What is just expiring by itself is not escalated in that moment, nor does it
// need anybody; what outlives it is, in time.
func TestTheMomentOfAnExpiry(t *testing.T) {
	for name, c := range map[string]struct {
		expires time.Duration
		then    string
	}{
		"time for an escalation": {10 * time.Minute, WaitOutlives},
		"none any more":          {44*time.Minute + 30*time.Second, WaitNoTime},
	} {
		w := newWorld(t)
		w.add("a", fleet.Ephemeral, ttl(c.expires), overstays)
		w.start(45 * time.Minute)
		w.until(time.Minute, "waits for its expiry", w.reason("a", WaitExpires))
		for moment := noon.Add(c.expires + w.p.Transient); w.now.Before(moment); w.tick(time.Second) {
			if it := w.s.Items[wk("a")]; it.Reason.Code != WaitExpires || w.s.Count().NeedsYou > 0 {
				t.Fatalf("%s: at %s, %s before the moment is over: %v", name, w.now, moment.Sub(w.now), it.Reason)
			}
		}
		w.until(10*time.Second, "it has outlived its time", w.reason("a", c.then))
	}
}
