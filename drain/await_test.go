package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ebb/fleet"
)

// until ticks until the condition holds.
func (w *world) until(limit time.Duration, what string, cond func() bool) {
	w.t.Helper()
	for end := w.now.Add(limit); w.now.Before(end); w.tick(5 * time.Second) {
		if cond() {
			return
		}
	}
	if !cond() {
		w.t.Fatalf("not within %v: %s\n%s", limit, what, w.dump())
	}
}

// idle only lets time pass.
func (w *world) idle(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.tick(5 * time.Second)
	}
}

func (w *world) phase(p Phase) func() bool { return func() bool { return w.s.Phase == p } }

func (w *world) reason(id, code string) func() bool {
	return func() bool { return w.s.Items[wk(id)].Reason.Code == code }
}

func (w *world) ended(id string, end End, by string) func() bool {
	return func() bool {
		it := w.s.Items[wk(id)]
		return it.End == end && strings.Contains(it.EndBy, by)
	}
}

// acted lists the steps carried out on a workload.
func (w *world) acted(k fleet.Key) []Step {
	var steps []Step
	for _, d := range w.did {
		if d.act.Key == k && d.act.Kind != ActCordon {
			steps = append(steps, d.act.Step)
		}
	}
	return steps
}

func (w *world) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s phase %s waiting %v issues %v person %v\n", w.now.Sub(noon), w.s.Phase, w.s.Waiting, w.s.Issues, w.s.Person)
	for _, k := range sortedKeys(w.s.Items) {
		it := w.s.Items[k]
		fmt.Fprintf(&b, "  %s %s %s step %s end %s/%s reason %v\n", k, it.Class, it.Verdict, it.Step, it.End, it.EndBy, it.Reason)
	}
	b.WriteString(w.dumpSites())
	for _, e := range w.log[max(0, len(w.log)-15):] {
		fmt.Fprintf(&b, "  #%d %s %s %s\n", e.Num, e.At.Sub(noon), e.Kind, e.Body)
	}
	return b.String()
}

// A journal whose clock is ahead does not make an end of a loss: a time has run out
// only where the host's clock says so too.
func TestATimeThatOnlyTheJournalSaysHasRunOut(t *testing.T) {
	for _, c := range []struct {
		behind time.Duration
		end    End
		by     string
	}{{0, LeftHost, "ttl"}, {time.Hour, Lost, "vanished"}} {
		w := newWorld(t)
		w.behind = c.behind
		p := w.add("a", fleet.Ephemeral, func(p *proc) {
			p.expires, p.overstays = w.now.Add(5*time.Minute), true
		})
		w.start(45 * time.Minute)
		w.until(time.Minute, "draining", w.phase(Draining))
		w.idle(10 * time.Minute)
		w.crash(p)
		w.until(5*time.Minute, string(c.end), w.ended("a", c.end, c.by))
	}
}

// A journal whose clock was set back by an hour stamps what comes with the time of
// its last event. What was tried before is tried again at once, and what fails
// since then is, after its wait by the driver's clock.
func TestRetriesWithAClockThatWasSetBack(t *testing.T) {
	p := DefaultPolicy()
	last := noon.Add(time.Hour) // what the journal stamps; it is noon
	act := Act{ID: "d1/a/health/1", Kind: ActExec, Step: StepHealth, Key: wk("a")}
	it := Item{Found: Found{Key: wk("a")}, RetryAt: last, Fails: 1}
	d := &decider{p: p, now: noon}
	if d.delayed(it) {
		t.Fatalf("it waits for %v", d.out.Wake)
	}
	s := State{Drain: "d1", Items: map[fleet.Key]Item{it.Key: it}, Open: map[string]Act{act.ID: act}}
	s, err := applyOutcome(s, Event{At: last}, DriveOutcome{Act: act.ID, Key: act.Key, Result: FailedAct, Heard: noon})
	if err != nil {
		t.Fatal(err)
	}
	d = &decider{p: p, now: noon.Add(time.Millisecond)}
	if !d.delayed(s.Items[it.Key]) || d.out.Wake.After(noon.Add(8*p.Retry)) {
		t.Fatalf("woken at %v, %+v", d.out.Wake, s.Items[it.Key])
	}
	d.now = d.out.Wake
	if d.delayed(s.Items[it.Key]) {
		t.Fatal("it waits on")
	}
}

// One that had a TERM as the last step of its move, and is escalated later, has one
// more after the notice, also where a journal whose clock was set back gives the
// notice the time of the first.
func TestTermBeforeTheNoticeDoesNotCount(t *testing.T) {
	for _, result := range []Result{Done, FailedAct} {
		run := fleet.Run{Boot: "b", PID: 7}
		act := Act{ID: "d1/a/notice/1", Kind: ActNotice, Step: StepNotice, Key: wk("a"), Runs: []fleet.Run{run}}
		it := Item{Found: Found{Key: wk("a"), Run: run, Runs: []fleet.Run{run}, Class: fleet.Stateless}, TermAt: noon, Escalated: "ann"}
		s := State{Drain: "d1", Items: map[fleet.Key]Item{it.Key: it}, Open: map[string]Act{act.ID: act}}
		s, err := applyOutcome(s, Event{At: noon}, DriveOutcome{Act: act.ID, Key: act.Key, Result: result, Heard: noon})
		if err != nil {
			t.Fatal(err)
		}
		p := DefaultPolicy()
		d := &decider{s: s, p: p, now: noon.Add(p.Notice), seen: map[fleet.Key]*Found{it.Key: &it.Found}}
		d.escalate(s.Items[it.Key], "ann", true)
		if len(d.out.Acts) != 1 || d.out.Acts[0].Step != StepTerm {
			t.Errorf("the notice was %s: %+v", result, d.out.Acts)
		}
	}
}
