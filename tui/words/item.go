package words

import (
	"ebb/drain"
)

// Doing says what one workload of a drain is doing or waits for; with brief in
// few words. The policy says whether there is anybody who can tell its owner.
func Doing(it drain.Item, p drain.Policy, brief bool) string {
	switch {
	case !it.Open():
		return join(" ", Ending(it), HM(it.EndAt))
	case it.Held || it.Keep || drain.NeedsPerson(it.Reason.Code):
		return said(it, p, brief)
	case !it.KillAt.IsZero():
		return "KILL sent " + HMS(it.KillAt)
	case !it.TermAt.IsZero() && !it.TermAt.Before(it.NoticeAt):
		return terms(it, p, brief)
	case !it.NoticeAt.IsZero() && !brief:
		return told(it, p)
	}
	return said(it, p, brief)
}

// DoingIn is Doing in its drain: while that is stopped, nothing comes that it would
// have done.
func DoingIn(it drain.Item, s drain.State, p drain.Policy, brief bool) string {
	if s.Phase == drain.Stopped && it.Open() && !it.Held && !it.Keep {
		switch it.Reason.Code {
		case drain.WaitOutlives, drain.WaitNotice, drain.WaitGrace, drain.WaitTermGap, drain.WaitTurn, drain.WaitNoTime:
			return "as it is: the drain is stopped"
		}
	}
	return Doing(it, p, brief)
}

// terms says what has been sent and told, and when.
func terms(it drain.Item, p drain.Policy, brief bool) string {
	text := "TERM " + HM(it.TermAt)
	switch {
	case it.Term2At.After(it.TermAt):
		text += " and " + HM(it.Term2At)
	case !brief:
		text = "TERM sent " + HMS(it.TermAt)
	}
	if brief {
		return text
	}
	if !it.NoticeAt.IsZero() {
		text += ", " + told(it, p)
	}
	if it.Reason.Code == drain.WaitFailed || it.Reason.Code == drain.WaitNoReceiver {
		text += "; " + Reason(it.Reason)
	}
	return text
}

// told says whether the owner of a workload was told.
func told(it drain.Item, p drain.Policy) string {
	switch {
	case it.Untold:
		return NotTold
	case it.Accepted:
		return "owner told " + HM(it.NoticeAt)
	case !p.Receivers:
		return NoReceiver
	}
	return "owner told " + HM(it.NoticeAt) + ", not taken"
}

// NoReceiver is what there is to say of a notice where none can be delivered.
const NoReceiver = "no receiver: the owner is not told"

// NotTold is the same of a notice that is over.
const NotTold = "owner not told: no receiver"

// ToldAt says when a notice was sent, if anybody could take it.
func ToldAt(it drain.Item) string {
	if it.Untold {
		return NotTold
	}
	return HMS(it.NoticeAt)
}

// Forced reports whether a signal of ours ended a workload that went nowhere else.
func Forced(it drain.Item) bool {
	moved := it.Replaced() && it.Target != ""
	signalled := !it.KillAt.IsZero() || !it.TermAt.IsZero()
	return it.End == drain.LeftHost && it.EndBy == "lever" && signalled && !moved
}

// Ending says how a workload left the host, from all that was done to it.
func Ending(it drain.Item) string {
	if it.End != drain.LeftHost || it.EndBy != "lever" {
		return End(it.End, it.EndBy)
	}
	switch {
	case it.Replaced() && it.Target != "":
		return "moved to " + Host(it.Target)
	case !it.KillAt.IsZero():
		return "ended by KILL"
	case !it.TermAt.IsZero():
		return "ended on TERM"
	}
	return End(it.End, it.EndBy)
}

// said is the reason on record, or the step where there is none.
func said(it drain.Item, p drain.Policy, brief bool) string {
	text := Reason(it.Reason)
	if brief {
		text = Brief(it.Reason)
	}
	if doing, ok := leverDoing(it, brief); ok {
		text = doing
	}
	if it.Reason.Code == drain.WaitNotice {
		switch {
		case it.Untold:
			text = NotTold
		case !p.Receivers && !it.Accepted:
			text = NoReceiver
		}
	}
	if text == "" && it.Move.Underway() {
		text = Underway(it.Move.Next(), it.Target, it.Move.Says)
	}
	if text == "" {
		text = Step(it.Step)
		if it.Target != "" {
			text += " on " + Host(it.Target)
		}
	}
	if it.Overdue && !brief {
		text = "late: " + text
	}
	return text
}
