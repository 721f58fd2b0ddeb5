package words

import (
	"ebb/drain"
)

// Doing says what one workload of a drain is doing or waits for; with brief in
// few words.
func Doing(it drain.Item, brief bool) string {
	switch {
	case !it.Open():
		return join(" ", End(it.End, it.EndBy), HM(it.EndAt))
	case it.Held || it.Keep || drain.NeedsPerson(it.Reason.Code):
		return said(it, brief)
	case !it.KillAt.IsZero():
		return "KILL sent " + HM(it.KillAt)
	case !it.TermAt.IsZero() && !it.TermAt.Before(it.NoticeAt):
		return terms(it, brief)
	case !it.NoticeAt.IsZero() && !brief:
		return "owner told " + HM(it.NoticeAt) + unheard(it)
	}
	return said(it, brief)
}

// terms says what has been sent and told, and when.
func terms(it drain.Item, brief bool) string {
	text := "TERM " + HM(it.TermAt)
	switch {
	case it.Term2At.After(it.TermAt):
		text += " and " + HM(it.Term2At)
	case !brief:
		text = "TERM sent " + HM(it.TermAt)
	}
	if brief {
		return text
	}
	if !it.NoticeAt.IsZero() {
		text += ", owner told " + HM(it.NoticeAt) + unheard(it)
	}
	if it.Reason.Code == drain.WaitFailed || it.Reason.Code == drain.WaitNoReceiver {
		text += "; " + Reason(it.Reason)
	}
	return text
}

func unheard(it drain.Item) string {
	if it.Accepted {
		return ""
	}
	return ", not taken"
}

// said is the reason on record, or the step where there is none.
func said(it drain.Item, brief bool) string {
	text := Reason(it.Reason)
	if brief {
		text = Brief(it.Reason)
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
