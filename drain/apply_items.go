package drain

import (
	"slices"
	"time"

	"ebb/fleet"
)

// applyItems folds what the driver did and saw, workload by workload.
func applyItems(s State, e Event, body Body) (State, error) {
	switch b := body.(type) {
	case DriveFound:
		return applyFound(s, e, b), nil
	case DriveIntent:
		return applyIntent(s, e, b)
	case DriveOutcome:
		return applyOutcome(s, e, b)
	case DriveWaits:
		return applyWaits(s, b), nil
	case DriveEnded:
		return applyEnded(s, e, b), nil
	case DriveRecord:
		return applyRecord(s, e, b)
	case DriveMissing:
		return changeAll(s, b.Keys, func(it *Item) {
			if it.MissingAt = e.At; b.Back {
				it.MissingAt = time.Time{}
			}
		}), nil
	case DriveLate:
		return changeAll(s, b.Keys, func(it *Item) { it.Overdue = true }), nil
	}
	return s, nil
}

func applyFound(s State, e Event, b DriveFound) State {
	if s.Machine == "" {
		s.Machine = b.Machine
	}
	s.Bound = s.boundTo(b.Machine)
	if s.Boot == "" {
		s.Boot = b.Boot
	}
	s.First = true
	if len(b.Items) == 0 {
		return s
	}
	s.Seen = time.Time{}
	s.Items = s.ownItems()
	if s.Items == nil {
		s.Items = make(map[fleet.Key]Item, len(b.Items))
	}
	for _, f := range b.Items {
		if !usable(f.Key) {
			continue
		}
		old, known := s.Items[f.Key]
		switch {
		case !known:
			s.Items[f.Key] = Item{Found: f, FoundAt: e.At, Late: b.Late}
		case old.Open() && old.Run == f.Run:
			s.Items[f.Key] = refresh(old, f)
		default:
			s.Items[f.Key] = reincarnate(old, f, e.At, b.Late)
		}
	}
	return answerEarly(s)
}

// answerEarly folds the asks that came before their workloads were found. The
// map of items is the caller's own copy.
func answerEarly(s State) State {
	if len(s.Early) == 0 {
		return s
	}
	var wait []Event
	for _, e := range s.Early {
		body, err := e.Decode()
		if err != nil {
			continue
		}
		k := askedKey(body)
		it, known := s.Items[k]
		if !known {
			wait = append(wait, e)
			continue
		}
		if it.Open() && askLegal(body, it) == nil {
			it.asked(e, body)
			s.Items[k] = it
		}
	}
	s.Early = wait
	return s
}

// refresh takes over what was observed anew and keeps what the drain has done
// and what people chose.
func refresh(old Item, f Found) Item {
	class, rule, budget := old.Class, old.Rule, old.Budget
	if old.ClassBy == "" && !old.Replaced() {
		class, rule = f.Class, f.Rule
	}
	budget.Move = max(budget.Move, f.Budget.Move)
	switch {
	case class != old.Class && (old.TermAt.IsZero() || f.Budget.Grace == 0):
		budget.Grace = f.Budget.Grace // that of the class that it has now
	default:
		budget.Grace = max(budget.Grace, f.Budget.Grace)
	}
	park := old.Park
	old.Found = f
	old.Class, old.Rule, old.Budget = class, rule, budget
	if old.ParkBy != "" {
		old.Park = park
	}
	return old
}

// reincarnate makes the item of a new incarnation. What people said about the
// workload stands, and so does its replacement; nothing that was sent to the old
// processes counts for the new ones. The counts of acts go on, because an act's
// id is never used twice.
func reincarnate(old Item, f Found, at time.Time, late bool) Item {
	it := Item{Found: f, FoundAt: at, Late: late, Held: old.Held, Keep: old.Keep, Tries: old.Tries}
	if old.ClassBy != "" {
		it.Class, it.ClassBy, it.Rule = old.Class, old.ClassBy, old.Rule
		it.Budget.Move, it.Budget.Grace = max(f.Budget.Move, old.Budget.Move), max(f.Budget.Grace, old.Budget.Grace)
	}
	if it.Held || it.Keep {
		it.Reason = old.Reason
	}
	if old.ParkBy != "" {
		it.Park, it.ParkBy = old.Park, old.ParkBy
	}
	if old.Open() {
		if f.Phase == fleet.AtRest { // what its move brings to rest has not arrived
			it.Late = old.Late
		}
		it.StartedAt, it.HealthyAt, it.FlippedAt, it.FlippedTo, it.Unsure, it.Remains, it.Move = old.StartedAt, old.HealthyAt, old.FlippedAt, old.FlippedTo, old.Unsure, old.Remains, old.Move
		it.Target, it.FirstAct, it.Overdue = old.Target, old.FirstAct, old.Overdue
		if it.Move.Resting() || it.Move.Resuming() { // it is the same one, that rests or comes back
			it.Resume, it.Fails, it.RetryAt, it.Reason, it.Step = old.Resume, old.Fails, old.RetryAt, old.Reason, old.Step
			it.FoundAt, it.Late = old.FoundAt, old.Late
		}
		if it.Replaced() && it.ClassBy == "" {
			it.Class, it.Rule, it.Budget = old.Class, old.Rule, old.Budget
		}
	}
	return it
}

func applyIntent(s State, e Event, b DriveIntent) (State, error) {
	a := b.Act
	it, known := s.Items[a.Key]
	_, open := s.Open[a.ID]
	switch {
	case a.ID == "":
		return s, illegal("an act without an id")
	case open:
		return s, illegal("act %s begun twice", a.ID)
	case s.Phase == Stopped && a.Op == "":
		return s, illegal("act %s begun in a stopped drain", a.ID)
	case a.Kind == ActCordon:
		s.Open, s.Seen = set(s.Open, a.ID, a), time.Time{}
		return s, nil
	case !known || !it.Open():
		return s, illegal("act %s on something that is not there", a.ID)
	case a.Op == OpUndo && a.Step == StepStart:
		if it.Remains != (Remains{a.Lever, a.Target}) {
			return s, illegal("act %s: nothing of a start is left on %s", a.ID, a.Target)
		}
	case a.Op != "" && len(it.Move.Steps) == 0 && len(a.Steps) == 0 && (a.Op != OpDo || s.Phase == Stopped) && a.Of == "":
		return s, illegal("act %s: there is no move", a.ID)
	case a.moves(it) && it.Move.legal(a, s.Phase) != nil:
		return s, it.Move.legal(a, s.Phase)
	case a.Step == StepResume && a.Op == OpDo && it.Resume.IsZero():
		return s, illegal("act %s: nobody has asked for %s to be resumed", a.ID, a.Key)
	case a.Step == StepStart && !it.Unsure.IsZero() && a.Absent.IsZero():
		return s, illegal("act %s: what became of the start of %s on %s is not known", a.ID, a.Key, it.Target)
	case a.Step == StepStart && !it.Remains.IsZero():
		return s, illegal("act %s: what a start has left of %s on %s is not taken back", a.ID, a.Key, it.Remains.Target)
	case a.Signal == "KILL" && !killable(it, a):
		return s, illegal("act %s: KILL without notice, TERM, grace, TERM or record, or of what nobody named", a.ID)
	}
	s.Open, s.Seen = set(s.Open, a.ID, a), time.Time{}
	return change(s, a.Key, func(it *Item) {
		it.Step = a.Step
		it.Tries = set(it.Tries, a.tag(), it.Tries[a.tag()]+1)
		it.FirstAct = first(it.FirstAct, e.At)
		if a.Target != "" && a.Target != s.Host {
			it.Target = a.Target
		}
		if a.Places() {
			it.Placed = e.Seq
		}
		if a.Park {
			it.Target = ""
		}
		if a.Step == StepStart && a.Op != OpUndo {
			it.Unsure = Unsure{} // its own outcome says
		}
		if a.moves(*it) {
			it.Move = it.Move.begin(a, *it, e.At)
		}
	}), nil
}

// killable is the last look before a KILL: everything before it stands in the
// journal, and it names no process that the record does not.
func killable(it Item, a Act) bool {
	told := !it.NoticeAt.IsZero() && !it.TermAt.Before(it.NoticeAt) && !it.Term2At.Before(it.TermAt.Add(a.Grace)) && !it.RecordAt.Before(it.Term2At)
	if !told || it.RecordAt.IsZero() || a.Record != it.Record || len(a.Runs) == 0 || !it.MayDie && it.Escalated == "" {
		return false
	}
	return !slices.ContainsFunc(a.Runs, func(r fleet.Run) bool { return !slices.Contains(it.RecordRuns, r) })
}

func applyOutcome(s State, e Event, b DriveOutcome) (State, error) {
	act, open := s.Open[b.Act]
	if !open {
		return s, illegal("outcome of %s without an intent", b.Act)
	}
	s.Open = without(s.Open, b.Act)
	if act.Kind == ActCordon {
		s.CordonAt, s.CordonFailed = e.At, b.Result != Done
		if s.CordonFailed {
			s.Waiting = b.Reason
			if s.Waiting.IsZero() {
				s.Waiting = fleet.Because(WaitFailed, "step", "cordon", "detail", b.Detail)
			}
		}
		return s, nil
	}
	return change(s, act.Key, func(it *Item) {
		if !it.meant(act) {
			return
		}
		defer it.heard(e.At, b.Heard)
		if b.Result == Withdrawn {
			it.withdrawn(act, b, e.At)
			return
		}
		if act.Op != "" {
			it.leverAnswered(act, b, e.At)
			return
		}
		if b.Result == Done {
			it.succeeded(act, e.At)
			if act.Step == StepNotice { // the times are the same, whoever heard it
				it.Untold = b.Reason.Code == Untold
			}
			return
		}
		it.failed(act, b, e.At)
	}), nil
}

// heard counts what waits between two tries from when the driver heard of the
// last one, where that is earlier than its stamp.
func (it *Item) heard(stamp, at time.Time) {
	if at.IsZero() || !at.Before(stamp) {
		return
	}
	for _, t := range []*time.Time{&it.RetryAt, &it.Move.AskAt} {
		if t.Equal(stamp) {
			*t = at
		}
	}
}

// meant reports whether an act was about this incarnation. A replacement belongs
// to the workload; a notice or a signal to the processes it named.
func (it *Item) meant(a Act) bool {
	if !it.Open() {
		return false
	}
	switch a.Step {
	case StepStart, StepHealth, StepFlip:
		return true
	}
	if a.Op != "" {
		return true
	}
	return len(a.Runs) == 0 || it.Run.IsZero() || slices.Contains(a.Runs, it.Run)
}

func (it *Item) succeeded(a Act, at time.Time) {
	it.RetryAt, it.Fails = time.Time{}, 0
	if !it.Held && !it.Keep {
		it.Reason = fleet.Reason{}
	}
	switch a.Step {
	case StepNotice:
		it.noticed(at)
		it.Accepted, it.AcceptedAt = true, first(it.AcceptedAt, at)
	case StepStart:
		it.StartedAt, it.Unsure = at, Unsure{}
	case StepHealth:
		if !it.Unsure.IsZero() && !a.Present {
			it.Unsure.Answers = "yes"
			break
		}
		it.StartedAt, it.HealthyAt, it.Unsure = first(it.StartedAt, at), at, Unsure{}
	case StepFlip, StepRepoint:
		it.FlippedAt, it.FlippedTo = at, a.Target
	case StepUnready:
		it.UnreadyAt = at
	case StepQuiesce:
		it.QuietAt = at
	case StepTerm: // one before the notice was only a polite question
		if it.TermAt.IsZero() || it.TermAt.Before(it.NoticeAt) {
			it.TermAt = at
		}
	case StepTerm2:
		if it.Term2At.Before(it.TermAt.Add(a.Grace)) { // zero, or sent before more grace was given
			it.Term2At = at
		}
	case StepKill:
		it.KillAt = first(it.KillAt, at)
	}
	if a.Kind == ActSignal {
		it.SignalAt = first(it.SignalAt, at)
	}
}

// noticed notes the first notice. A TERM before it was only a polite question, and
// stays before it where a journal whose clock was set back gives both one time.
func (it *Item) noticed(at time.Time) {
	if !it.NoticeAt.IsZero() {
		return
	}
	if it.NoticeAt = at; !it.TermAt.IsZero() && !it.TermAt.Before(at) {
		it.TermAt = at.Add(-1)
	}
}

// failed keeps the reason and the time before which it is not tried again. A
// notice that nobody took has still been sent: the escalation goes on, but KILL
// will wait for one that is taken. One that its driver did not come to send is
// sent again. A signal that was interrupted may have arrived.
func (it *Item) failed(act Act, b DriveOutcome, at time.Time) {
	switch {
	case act.Step == StepNotice && b.Result == NotDone:
	case act.Step == StepNotice:
		it.noticed(at)
	case act.Kind == ActSignal && b.Result == Interrupted:
		it.SignalAt = first(it.SignalAt, at)
	case act.Step == StepStart && b.unsure():
		it.Unsure = Unsure{At: at}
	case act.Step == StepHealth && !it.Unsure.IsZero() && !b.unsure():
		it.Unsure.Answers = "no"
	}
	it.RetryAt = at // the strategy adds its delay
	it.Fails++
	if it.Held || it.Keep {
		return
	}
	detail := b.Detail
	if detail == "" {
		detail = string(b.Result)
	}
	if act.Kind == ActQuiet && b.Result == FailedAct {
		it.Reason = fleet.Because(WaitBusy, "detail", detail)
		return
	}
	it.Reason = fleet.Because(WaitFailed, "step", string(act.Step), "detail", detail, "code", b.Reason.Code)
}

func applyRecord(s State, e Event, b DriveRecord) (State, error) {
	it, ok := s.Items[b.Key]
	if !ok || !it.Open() || it.Term2At.IsZero() {
		return s, illegal("%s is recorded for a KILL before its second TERM", b.Key)
	}
	return change(s, b.Key, func(it *Item) {
		it.RecordAt, it.Record, it.RecordRuns, it.Step = e.At, e.ID, slices.Clone(b.Runs), StepRecord
	}), nil
}

func applyWaits(s State, b DriveWaits) State {
	cloned := false
	for _, w := range b.Reasons {
		if w.Key.IsZero() {
			s.Waiting = w.Reason
			continue
		}
		it, ok := s.Items[w.Key]
		if !ok {
			continue
		}
		if !cloned {
			s.Items, cloned = s.ownItems(), true
		}
		it.Reason = w.Reason
		s.Items[w.Key] = it
	}
	return s
}

// applyEnded ends each workload once.
func applyEnded(s State, e Event, b DriveEnded) State {
	cloned := false
	for _, end := range b.Ends {
		it, ok := s.Items[end.Key]
		if !ok || !it.Open() {
			continue
		}
		if !cloned {
			s.Items, s.Lost, cloned = s.ownItems(), slices.Clone(s.Lost), true
		}
		it.End, it.EndBy, it.EndAt, it.Reason = end.End, end.By, e.At, fleet.Reason{}
		s.Items[end.Key] = it
		if end.End == Lost {
			s.Lost = append(s.Lost, LostItem{Key: end.Key, Owner: it.Owner, How: end.By, At: e.At})
		}
	}
	return s
}

func first(have, now time.Time) time.Time {
	if have.IsZero() {
		return now
	}
	return have
}
