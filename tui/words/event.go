package words

import (
	"fmt"
	"strings"

	"ebb/drain"
	"ebb/fleet"
)

// Event says on one line what happened, without time, host and actor.
func Event(e drain.Event) string {
	body, err := e.Decode()
	if err != nil {
		return Name(string(e.Kind)) + ": its body can't be read: " + Text(err.Error())
	}
	return Body(body)
}

// Line is Event with its time, host and actor, for lines of output.
func Line(e drain.Event) string {
	return join("  ", HMS(e.At), Host(fleet.HostID(e.Stream)), Event(e), "("+Name(e.By.Name)+")")
}

// Body is what an event's body says.
func Body(b drain.Body) string {
	if text, ok := ask(b); ok {
		return text
	}
	if text, ok := record(b); ok {
		return text
	}
	if text, ok := drive(b); ok {
		return text
	}
	if u, ok := b.(drain.Unrecognised); ok {
		return fmt.Sprintf("%s, version %d: not known to this program: %s", Name(string(u.Name)), u.Version, Text(string(u.Raw)))
	}
	return Name(string(b.Kind()))
}

// because puts what somebody wrote behind what was done.
func because(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + Text(why)
}

func keyOr(k fleet.Key, or string) string {
	if k.IsZero() {
		return or
	}
	return Key(k)
}

func ask(b drain.Body) (string, bool) {
	switch a := b.(type) {
	case drain.AskStart:
		text := "asked for a drain until " + HM(a.Deadline)
		if a.For != "" {
			text += " for " + Name(string(a.For))
		}
		text = because(text, a.Reason)
		if len(a.MayDie) > 0 {
			text += " (may die: " + Keys(a.MayDie) + ")"
		}
		return text, true
	case drain.AskExtend:
		return "moved the deadline to " + HM(a.Until), true
	case drain.AskStop:
		return because("stopped the drain; both holds stay", a.Reason), true
	case drain.AskClass:
		return Key(a.Key) + " is " + Class(a.Class) + " from now on", true
	case drain.AskMoreTime:
		return Key(a.Key) + " gets " + Duration(a.By) + " more", true
	case drain.AskHold:
		return because(Key(a.Key)+" is left alone", a.Reason), true
	case drain.AskRetry:
		return keyOr(a.Key, "the drain") + " is taken up again", true
	case drain.AskEscalate:
		return "escalate " + Key(a.Key) + ", asked for by name", true
	case drain.AskKeep:
		return because(Key(a.Key)+" may stay", a.Reason), true
	case drain.AskTargetGone:
		return because(Host(a.Target)+" is gone for good, and what was started there of "+Key(a.Key), a.Reason), true
	case drain.AskPark:
		if a.Ship {
			return Key(a.Key) + " is restored elsewhere, not parked", true
		}
		return Key(a.Key) + " is parked on its host, not shipped", true
	case drain.AskResume:
		return "resume " + keyOr(a.Key, "what is parked here") + "; the drain is over, its holds stay", true
	case drain.AskRebind:
		return because("bound the host anew, to machine "+Name(a.Machine)+" instead of "+Name(a.Was), a.Reason), true
	case drain.AskHandover:
		return because(join(" to ", "handed over", nameOf(a.To)), a.Note), true
	}
	return "", false
}

func record(b drain.Body) (string, bool) {
	switch r := b.(type) {
	case drain.RecCordon:
		if r.Reword {
			return because("the reason of the cordon is now", r.Reason), true
		}
		return because("cordoning", r.Reason), true
	case drain.RecCordoned:
		return cordoned(r), true
	case drain.RecUncordon:
		return because("uncordoned"+theirs(r.Theirs), r.Reason), true
	case drain.RecUndrain:
		return "lifted the drain hold" + theirs(r.Theirs) + "; the cordon stays", true
	case drain.RecCleaned:
		if r.Done {
			return "cleaned " + Key(r.Key) + " (" + Name(r.Identity) + ")", true
		}
		return because("did not clean "+Key(r.Key), r.Error), true
	case drain.RecAccepted:
		return because("accepted the exception "+Key(r.Key), r.Reason), true
	case drain.RecProof:
		return "the host signed a proof, " + Name(head(r.Digest)) + ", good until " + HM(r.Expires), true
	case drain.RecTerminateIntent:
		text := join(", to ", "terminating by "+Name(r.Type), nameOf(r.To))
		return because(text, strings.Join(r.Run, " ")), true
	case drain.RecTerminateOutcome:
		if r.Done {
			return "terminated", true
		}
		return because("terminate did not succeed", r.Error), true
	case drain.RecBound:
		return "this host is machine " + Name(r.Machine), true
	case drain.RecReach:
		if !r.OK {
			return Name(r.Driver) + " can't reach it by itself: " + Text(r.Error), true
		}
		return Name(r.Driver) + " can reach it by itself", true
	case drain.RecRefused:
		return "refused to " + Name(r.Verb) + ": " + issues(r.Issues), true
	}
	return "", false
}

func cordoned(r drain.RecCordoned) string {
	text := "cordon: " + Name(string(r.State))
	switch r.State {
	case fleet.Uncordoned:
		text = "the cordon did not take"
	case fleet.Cordoning:
		text = "plane and host are told, the cordon is being proved"
	case fleet.Cordoned:
		text = "cordoned, proved"
	case fleet.HostOnly:
		text = "the host is cordoned, its plane does not know"
	case fleet.PlaneOnly:
		text = "the plane is told, the host does not know"
	}
	proved := make([]string, len(r.Proved))
	for i, p := range r.Proved {
		proved[i] = Text(p)
	}
	text = join(" by ", text, strings.Join(proved, ", "))
	if r.Weaker != "" {
		text += "; weaker, not read back: " + Text(r.Weaker)
	}
	return because(text, r.Error)
}

func theirs(is bool) string {
	if is {
		return ", set by someone else"
	}
	return ""
}

func head(digest string) string { return digest[:min(len(digest), 12)] }

// issues names the first few, and says how many more there are.
func issues(all []fleet.Issue) string {
	parts := make([]string, len(all))
	for i, is := range all {
		parts[i] = Issue(is)
	}
	return few(parts, "; ")
}

// Keys names several, or as many of them as a sentence bears.
func Keys(all []fleet.Key) string {
	parts := make([]string, len(all))
	for i, k := range all {
		parts[i] = Key(k)
	}
	return few(parts, ", ")
}

// few keeps a list in a sentence to names that can be read.
func few(parts []string, sep string) string {
	const most = 6
	if len(parts) > most {
		return strings.Join(parts[:most], sep) + fmt.Sprintf("%sand %d more", sep, len(parts)-most)
	}
	return strings.Join(parts, sep)
}
