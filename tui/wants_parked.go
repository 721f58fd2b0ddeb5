package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// wantElsewhere is about where workloads go, whose keys are all open ones.
func (m *Model) wantElsewhere(j job, w feed.Want) tea.Cmd {
	switch {
	case len(w.Keys) == 0:
		m.say(noteBad, string(w.Verb)+": none of the marked ones is in the drain any more")
		return nil
	case w.Verb == feed.TargetGone:
		return m.wantTargetGone(j, w)
	}
	return m.wantPark(j, w)
}

// wantPark chooses between parking and shipping, for each of the workloads to which
// the choice makes a difference; the others are named. It takes one key, since the
// other key takes it back for as long as nothing has begun.
func (m *Model) wantPark(j job, w feed.Want) tea.Cmd {
	if issues := m.fresh(w.Host); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	s, _ := m.drainOf(w.Host)
	var asks []drain.Body
	var names []fleet.Key
	var not []fleet.Issue
	for _, k := range w.Keys {
		ask := drain.AskPark{Key: k, Ship: w.Verb == feed.Ship}
		if issues := m.againstPark(s, ask); len(issues) > 0 {
			not = append(not, issues...)
			continue
		}
		asks, names = append(asks, ask), append(names, k)
	}
	if len(asks) == 0 {
		return m.refuse(j, not...)
	}
	said := words.Keys(names) + " is"
	if len(names) > 1 {
		said = words.Keys(names) + " are"
	}
	if w.Verb == feed.Park {
		said += " to be parked here, not shipped; S takes that back"
	} else {
		said += " to be restored elsewhere, not parked"
		if s.Refuses(drain.AskPark{Key: names[0]}) == "" {
			said += "; p takes that back"
		}
	}
	if len(not) > 0 {
		said += "; left as they are: " + issueText(not)
	}
	return m.askFor(j, asks, said+hidden(w))
}

// againstPark is what stands against a choice, also where the drain would take it
// and go on as before.
func (m *Model) againstPark(s drain.State, ask drain.AskPark) []fleet.Issue {
	s = s.Foreseen(ask.Key, m.view(s.Host), m.frame.Policy)
	issues := drain.Against(s, ask)
	if _, found := s.Items[ask.Key]; found && len(issues) == 0 && !ask.Ship {
		if why := s.WouldNotPark(ask.Key, m.view(s.Host), m.frame.Policy); !why.IsZero() {
			issues = append(issues, fleet.Issue{Key: ask.Key, Detail: words.Reason(why)})
		}
	}
	return issues
}

func issueText(all []fleet.Issue) string {
	text := make([]string, len(all))
	for i, is := range all {
		text[i] = words.Issue(is)
	}
	return strings.Join(text, "; ")
}

// wantResume brings back what is parked on a host: what was chosen, or all of it. It
// names each, and says what becomes of the drain and of the rest.
func (m *Model) wantResume(w feed.Want) tea.Cmd {
	j := job{verb: feed.Resume, host: w.Host, key: oneOf(w)}
	if issues := m.resumeIssues(w); len(issues) > 0 {
		if s, ok := m.drainOf(w.Host); ok && !s.Phase.Ended() && len(s.Resumable(fleet.Key{})) > 0 {
			issues = append(issues, because("on the board: s stop, then R"))
		}
		return m.refuse(j, issues...)
	}
	s := m.frame.Drains[w.Host]
	all := s.Resumable(fleet.Key{})
	chosen := w.Keys
	if len(chosen) == 0 {
		chosen = all
	}
	lines := append(m.parkedLines(s, chosen), "")
	if rest := slices.DeleteFunc(slices.Clone(all), func(k fleet.Key) bool { return slices.Contains(chosen, k) }); len(rest) > 0 {
		lines = append(lines, "parked as before: "+words.Keys(rest)+"; :resume "+widget.Name(w.Host.Name())+" brings back all")
	}
	if !s.Undone && s.Phase != drain.Stopped {
		lines = append(lines, "the drain ends with that ("+words.StillLeft(s)+"); both holds stay")
	}
	lines = append(lines, "each only if its state is here, is claimed here, and the host has what it was parked on")
	what := words.Key(chosen[0])
	if len(chosen) > 1 {
		what = fmt.Sprintf("%d workloads", len(chosen))
	}
	return m.ask(widget.Question{Title: "resume " + what + " on " + widget.Name(w.Host.Name()), Lines: lines, Act: "resume", Undoable: true}, func(m *Model) tea.Cmd {
		issues := m.resumeIssues(w)
		now := m.frame.Drains[w.Host]
		if len(issues) == 0 && (now.Drain != s.Drain || len(w.Keys) == 0 && !slices.Equal(now.Resumable(fleet.Key{}), all)) {
			issues = append(issues, because("it is not parked there any more as it was: look again"))
		}
		if len(issues) > 0 {
			return m.refuse(j, issues...)
		}
		asks := []drain.Body{drain.AskResume{}}
		if len(w.Keys) > 0 {
			asks = nil
			for _, k := range w.Keys {
				asks = append(asks, drain.AskResume{Key: k})
			}
		}
		return m.askFor(j, asks, words.Keys(chosen)+" asked for; the board shows how it goes"+hidden(w))
	})
}

// resumeIssues is what stands against bringing back what was chosen, or all.
func (m *Model) resumeIssues(w feed.Want) []fleet.Issue {
	s := m.frame.Drains[w.Host]
	keys := w.Keys
	if len(keys) == 0 {
		keys = []fleet.Key{w.Key}
	}
	var issues []fleet.Issue
	for _, k := range keys {
		issues = append(issues, drain.Against(s, drain.AskResume{Key: k})...)
	}
	if len(issues) == 0 {
		issues = m.fresh(w.Host)
	}
	return issues
}

// parkedLines name what is parked, one a line, with whose it is and since when.
func (m *Model) parkedLines(s drain.State, keys []fleet.Key) []string {
	var lines []string
	for _, k := range keys {
		it := s.Items[k]
		text := words.Key(k) + of(it.Owner) + ", " + words.Doing(it, m.frame.Policy, false)
		lines = append(lines, "  "+text)
	}
	return lines
}

// givenBack says what becomes of what is parked when a hold is lifted.
func (m *Model) givenBack(h fleet.HostID, verb feed.Verb, last bool) []string {
	s := m.frame.Drains[h]
	parked := s.Parked()
	switch {
	case len(parked) == 0:
		return nil
	case !last:
		return append([]string{"stays parked until R, or until the last hold is lifted:"}, m.parkedLines(s, parked)...)
	}
	lines := append([]string{"it is the last hold, so this is resumed with it:"}, m.parkedLines(s, parked)...)
	return append(lines, "to leave it parked: ebb "+string(verb)+" "+widget.Name(h.Name())+" --leave-parked")
}

// wantTargetGone says that a host will run nothing again, so that what was begun
// there may be begun elsewhere. If it does run again, there are two of it: the
// host's name has to be typed, and one that answers is not gone.
func (m *Model) wantTargetGone(j job, w feed.Want) tea.Cmd {
	s, _ := m.drainOf(w.Host)
	target, _ := s.InDoubt(w.Keys[0])
	if issues := m.targetGoneIssues(w, s.Drain, target); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	name := target.Name()
	if !typable(name) {
		return m.refuse(j, because("its name can't be typed here: ebb ask "+words.Name(w.Host.Name())+"/KIND/ID target-gone"))
	}
	lines := []string{words.Name(string(target)) + " " + m.heardOf(target), "", "begun there, and not known to answer:"}
	for _, k := range w.Keys {
		it := s.Items[k]
		text := "  " + words.Key(k) + of(it.Owner)
		if at := it.StartedAt; !at.IsZero() {
			text += ", begun " + words.HMS(at)
		}
		if !it.Open() {
			text += ", and has left this host"
		}
		lines = append(lines, text)
	}
	lines = append(lines, "", "what runs there counts for nothing from now on, and each is begun on another host",
		"if "+widget.Name(name)+" comes back, there are two of each")
	return m.ask(widget.Question{Title: "target gone: " + widget.Name(name) + " will never run anything again", Lines: lines, Act: "say that it is gone", Word: name},
		func(m *Model) tea.Cmd {
			if issues := m.targetGoneIssues(w, s.Drain, target); len(issues) > 0 {
				return m.refuse(j, issues...)
			}
			var asks []drain.Body
			for _, k := range w.Keys {
				asks = append(asks, drain.AskTargetGone{Key: k, Target: target, Reason: w.Text})
			}
			return m.askFor(j, asks, widget.Name(name)+" is taken for gone: "+words.Keys(w.Keys)+" is begun on another host"+hidden(w))
		})
}

// heardOf says whether and when a host was heard of.
func (m *Model) heardOf(h fleet.HostID) string {
	v, listed := m.frame.Snapshot.Host(h)
	at := feed.ReadAt(&v)
	switch {
	case !listed:
		return "is listed by no plane"
	case at.IsZero():
		return "has not been read"
	}
	return "was last read " + widget.Ago(m.env.Now().Sub(at))
}

// targetGoneIssues is whether the target that was shown is the one in doubt, of each,
// and does not answer.
func (m *Model) targetGoneIssues(w feed.Want, drainID string, target fleet.HostID) []fleet.Issue {
	s, ok := m.drainOf(w.Host)
	if !ok || s.Drain != drainID {
		return []fleet.Issue{because("the drain is another one now")}
	}
	var issues []fleet.Issue
	for _, k := range w.Keys {
		on, doubt := s.InDoubt(k)
		if doubt && target != "" && on != target {
			issues = append(issues, fleet.Issue{Key: k, Detail: "it was begun on " + on.Name() + ", not on " + target.Name() + ": one host at a time"})
			continue
		}
		issues = append(issues, drain.Against(s, drain.AskTargetGone{Key: k, Target: target})...)
	}
	if v, listed := m.frame.Snapshot.Host(target); listed && len(issues) == 0 {
		if answers, _ := feed.Fresh(v, m.env.Now()); answers {
			issues = append(issues, because(widget.Name(target.Name())+" answers, last read "+widget.Ago(m.env.Now().Sub(feed.ReadAt(&v)))+": it is not gone"))
		}
	}
	if len(issues) == 0 {
		issues = m.fresh(w.Host)
	}
	return issues
}
