package drain

import (
	"slices"
	"strings"
	"time"

	"ebb/fleet"
)

// checkEvent is what must hold when an event is decided upon.
func (w *world) checkEvent(v View, b Body) {
	w.t.Helper()
	switch b := b.(type) {
	case DriveEnded:
		for _, end := range b.Ends {
			if n := w.endings(end.Key); n != 1 {
				w.t.Fatalf("%s ended %d times in one life\n%s", end.Key, n, w.dump())
			}
			if end.End == LeftHost && !slices.Contains([]string{"lever", "ttl", "owner", "itself"}, end.By) {
				w.t.Fatalf("%s left by %q", end.Key, end.By)
			}
		}
	case DriveDeadline:
		for k, it := range w.s.Items {
			if it.Open() && !slices.ContainsFunc(b.Left, func(l Left) bool { return l.Key == k && !l.Reason.IsZero() }) {
				w.t.Fatalf("%s is open at the deadline and not named", k)
			}
		}
		for _, f := range v.Source.Findings {
			if f.Workload != nil && w.s.Machine == w.machine && w.s.Boot == w.boot && !slices.ContainsFunc(b.Left, func(l Left) bool { return l.Key == f.Key }) {
				w.t.Fatalf("%s is on the host at the deadline and not named", f.Key)
			}
		}
		if v.Source.Facts.Status != fleet.OK && len(b.Left) == 0 {
			w.t.Fatalf("a deadline without names on a host that can't be read")
		}
	case DrivePhase:
		if b.Phase == Empty {
			w.checkEmpty(v)
		}
	}
}

// endings counts how often a workload ended since it was last found anew.
func (w *world) endings(k fleet.Key) int {
	n := 0
	for _, e := range w.log {
		body, _ := e.Decode()
		switch b := body.(type) {
		case DriveFound:
			if n > 0 && slices.ContainsFunc(b.Items, func(f Found) bool { return f.Key == k }) {
				n = 0
			}
		case DriveEnded:
			if slices.ContainsFunc(b.Ends, func(x Ended) bool { return x.Key == k }) {
				n++
			}
		}
	}
	return n
}

func (w *world) checkEmpty(v View) {
	w.t.Helper()
	for k, it := range w.s.Items {
		if it.Open() && !it.Excepted && it.Kept == "" {
			w.t.Fatalf("empty while %s is open", k)
		}
	}
	for k, p := range w.procs {
		if it := w.s.Items[k]; !it.Excepted && it.Kept == "" && w.now.Sub(p.born) >= w.p.Transient {
			w.t.Fatalf("empty while %s runs\n%s", k, w.dump())
		}
	}
	for _, l := range w.s.Lost {
		if _, ok := w.s.Accepted[l.Key]; !ok {
			w.t.Fatalf("empty although %s was lost", l.Key)
		}
	}
	if len(w.issues) > 0 || w.probe != "" || w.factsDown || w.planeDown || w.unstable {
		w.t.Fatalf("empty while something is not known")
	}
	if !w.holds.Both() || len(w.s.Open) > 0 {
		w.t.Fatalf("empty without its holds, or with an act on its way")
	}
	for _, d := range w.did {
		if !d.at.Before(v.Source.Facts.Value.At) {
			w.t.Fatalf("empty by a reading that is not younger than the last act")
		}
	}
}

// checkAct is what must hold in the moment before an act is carried out.
func (w *world) checkAct(a Act) {
	w.t.Helper()
	for _, d := range w.did {
		if d.act.ID == a.ID {
			w.t.Fatalf("act %s twice", a.ID)
		}
	}
	if a.Kind == ActCordon {
		return
	}
	it := w.s.Items[a.Key]
	if a.Op != "" && (a.Op == OpUndo || it.Move.NoReturn) {
		return // goes on whatever the drain does: Move.legal has looked at it
	}
	switch {
	case it.Held, it.Keep, it.Excepted && it.Escalated == "":
		w.t.Fatalf("%s of %s, which is held or kept", a.Step, a.Key)
	case !it.Open():
		w.t.Fatalf("%s of %s, which has ended", a.Step, a.Key)
	case it.Escalated != "":
	case it.Class == fleet.Unclassified, it.Verdict == fleet.Orphan && !it.Replaced(), it.Verdict == fleet.Unattributed:
		w.t.Fatalf("%s of %s: class %s, verdict %s", a.Step, a.Key, it.Class, it.Verdict)
	case !w.now.Before(w.s.Deadline), w.s.Phase == DeadlineReached:
		w.t.Fatalf("%s of %s after the deadline", a.Step, a.Key)
	case w.s.Phase != Draining:
		w.t.Fatalf("%s of %s in phase %s", a.Step, a.Key, w.s.Phase)
	case a.Step == StepNotice && it.NoticeAt.IsZero() && w.now.Add(w.p.Notice+a.Grace+w.p.TermGap).After(w.s.Deadline):
		w.t.Fatalf("an escalation of %s begins that can't end before the deadline", a.Key)
	}
	if a.Step == StepStart && !w.holds.Both() {
		w.t.Fatalf("a start without the holds")
	}
	if a.Kind == ActSignal {
		if w.machine != w.s.Machine {
			w.t.Fatalf("a signal on another machine")
		}
		if p := w.procs[a.Key]; p == nil || !slices.Contains(a.Runs, p.run) {
			w.t.Fatalf("%s names %v, which is not %v", a.ID, a.Runs, p)
		}
	}
	if a.Signal == "KILL" {
		w.checkKill(a, it)
	}
}

// checkKill measures on what was really carried out, against that very run.
func (w *world) checkKill(a Act, it Item) {
	w.t.Helper()
	run := it.Run
	if it.Escalated == "" && !w.mayDie(a.Key) || it.Escalated != "" && !w.named[run] {
		w.t.Fatalf("KILL of %s, which nobody named", a.Key)
	}
	var notice, heard, last time.Time
	var terms []time.Time
	for _, d := range w.did {
		if d.act.Key != a.Key || !slices.Contains(d.act.Runs, run) {
			continue
		}
		switch d.act.Step {
		case StepNotice:
			notice = first(notice, d.at)
			if d.result == Done {
				heard = first(heard, d.at)
			}
		case StepTerm, StepTerm2:
			if d.result == Done {
				terms = append(terms, d.at)
				last = d.at
			}
		}
	}
	grace := w.p.Defaults[it.Class].Grace
	if grace == 0 {
		grace = w.p.Defaults[fleet.Stuck].Grace
	}
	full := slices.ContainsFunc(terms, func(t time.Time) bool {
		return !notice.IsZero() && t.Sub(notice) >= w.p.Notice && last.Sub(t) >= grace
	})
	if !full || w.now.Sub(last) < w.p.TermGap {
		w.t.Fatalf("KILL of %s too early: notice %v terms %v now %v grace %v\n%s", a.Key, notice, terms, w.now, grace, w.dump())
	}
	if w.p.Receivers && it.Escalated == "" && (heard.IsZero() || w.now.Sub(heard) < w.p.Notice) {
		w.t.Fatalf("KILL of %s, whose owner has not heard of it in time", a.Key)
	}
	for _, e := range w.log {
		body, _ := e.Decode()
		if rec, ok := body.(DriveRecord); ok && e.ID == a.Record && rec.Key == a.Key {
			for _, r := range a.Runs {
				if !slices.Contains(rec.Runs, r) {
					w.t.Fatalf("KILL of %v, which the record does not name", r)
				}
			}
			return
		}
	}
	w.t.Fatalf("KILL without its record %q", a.Record)
}

func (w *world) mayDie(k fleet.Key) bool {
	may := false
	for _, e := range w.log {
		body, _ := e.Decode()
		if st, ok := body.(AskStart); ok && strings.HasPrefix(string(e.Kind), "ask.start") {
			may = slices.Contains(st.MayDie, k)
		}
	}
	return may
}
