package tui

import (
	"errors"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// wantOfDrain is what is asked of a drain that runs, or of its workloads.
func (m *Model) wantOfDrain(w feed.Want) tea.Cmd {
	if w.Verb == feed.HandOver {
		return m.wantHandover(w)
	}
	if w.Verb == feed.Resume {
		return m.wantResume(w)
	}
	s, ok := m.drainOf(w.Host)
	if !ok {
		m.say(noteInfo, widget.Name(w.Host.Name())+" has no drain")
		return nil
	}
	j := job{verb: w.Verb, host: w.Host, key: oneOf(w)}
	switch w.Verb {
	case feed.Extend:
		if issues := drain.Against(s, drain.AskExtend{}); len(issues) > 0 {
			return m.refuse(j, issues...)
		}
		if w.Text != "" {
			return m.extend(j, w.Text)
		}
		m.line = m.input("extend the deadline by", words.Duration(defaultMore), func(m *Model, text string) tea.Cmd { return m.extend(j, text) })
		m.line.check = readable
		return nil
	case feed.Stop:
		return m.wantStop(w, s)
	case feed.Escalate:
		return m.wantEscalate(w)
	}
	if w.Key.IsZero() && w.Verb != feed.Retry {
		m.say(noteBad, string(w.Verb)+": no workload is chosen")
		return nil
	}
	switch w.Verb {
	case feed.Park, feed.Ship, feed.TargetGone:
		return m.wantElsewhere(j, w)
	}
	return m.ofItems(j, w)
}

// oneOf is the workload that is meant, where it is only one: of several marked ones the
// one under the cursor need not be any.
func oneOf(w feed.Want) fleet.Key {
	switch len(w.Keys) {
	case 0:
		return w.Key
	case 1:
		return w.Keys[0]
	}
	return fleet.Key{}
}

func (m *Model) ofItems(j job, w feed.Want) tea.Cmd {
	who := words.Key(oneOf(w))
	if len(w.Keys) > 1 {
		who = fmt.Sprintf("%d workloads", len(w.Keys))
	}
	if issues := m.against(w); len(issues) > 0 && len(issues) == max(len(w.Keys), 1) {
		return m.refuse(j, issues...)
	}
	rest := hidden(w)
	given := func(title, value string, take func(*Model, string) tea.Cmd) tea.Cmd {
		if w.Text != "" { // typed behind the command
			return take(m, w.Text)
		}
		m.line = m.input(title, value, take)
		return nil
	}
	each := func(body func(fleet.Key) drain.Body) []drain.Body {
		var out []drain.Body
		for _, k := range w.Keys {
			out = append(out, body(k))
		}
		return out
	}
	switch w.Verb {
	case feed.MoreTime:
		cmd := given("more time for "+who, words.Duration(defaultMore), func(m *Model, text string) tea.Cmd {
			d, err := words.ReadDuration(text)
			if err != nil {
				m.say(noteBad, err.Error())
				return nil
			}
			return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskMoreTime{Key: k, By: d} }), words.Duration(d)+" more for "+who+rest)
		})
		if m.line != nil {
			m.line.check = readable
		}
		return cmd
	case feed.Hold:
		return m.wantHold(j, w, who+" is left alone until retry"+rest, each)
	case feed.Keep:
		cmd := given("why may "+who+" stay", "", func(m *Model, text string) tea.Cmd {
			return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskKeep{Key: k, Reason: text} }), who+" may stay, and the gate names it; r takes that back"+rest)
		})
		if m.line != nil {
			m.line.check = needed("the gate shows it")
		}
		return cmd
	case feed.Retry:
		if len(w.Keys) == 0 {
			return m.askFor(j, []drain.Body{drain.AskRetry{}}, "the drain goes on")
		}
		return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskRetry{Key: k} }), who+" is taken up again"+rest)
	case feed.Reclass:
		if c := fleet.Class(w.Text); c.Valid() {
			return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskClass{Key: k, Class: c} }), who+": "+words.Class(c)+" from now on")
		}
		return m.wantClass(j, who, each)
	default:
		m.say(noteBad, "not known: "+string(w.Verb))
	}
	return nil
}

// against is what stands against an ask as far as this console knows, before
// anything more is asked of a person. Where it stands against some of the marked
// ones only, the others are asked for, and the answer names those.
func (m *Model) against(w feed.Want) []fleet.Issue {
	s, _ := m.drainOf(w.Host)
	about := func(k fleet.Key) drain.Body {
		switch w.Verb {
		case feed.MoreTime:
			return drain.AskMoreTime{Key: k}
		case feed.Reclass:
			return drain.AskClass{Key: k, Class: fleet.Class(w.Text)}
		case feed.Retry:
			return drain.AskRetry{Key: k}
		}
		return drain.AskHold{Key: k}
	}
	if len(w.Keys) == 0 {
		return drain.Against(s, about(w.Key))
	}
	var issues []fleet.Issue
	for _, k := range w.Keys {
		issues = append(issues, drain.Against(s, about(k))...)
	}
	return issues
}

// wantHold leaves workloads alone in the moment the key is pressed: a countdown
// does not wait for a sentence. The reason can be said behind it.
func (m *Model) wantHold(j job, w feed.Want, said string, each func(func(fleet.Key) drain.Body) []drain.Body) tea.Cmd {
	hold := func(m *Model, reason, said string) tea.Cmd {
		return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskHold{Key: k, Reason: reason} }), said)
	}
	if w.Text != "" {
		return hold(m, w.Text, said)
	}
	cmd := hold(m, defaultHold, said)
	if cmd == nil {
		return nil
	}
	m.line = m.input("held; why (esc leaves it held)", defaultHold, func(m *Model, reason string) tea.Cmd {
		if reason == "" || reason == defaultHold {
			return nil
		}
		return hold(m, reason, said)
	})
	m.line.behind, m.line.gaveUp = j, nil
	return cmd
}

// needed is the check of a line that may not stay empty, and says what for.
func needed(what string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("a reason is needed: " + what)
		}
		return nil
	}
}

func (m *Model) wantClass(j job, who string, each func(func(fleet.Key) drain.Body) []drain.Body) tea.Cmd {
	var options []widget.Option
	for _, c := range fleet.Classes {
		if c.Valid() {
			options = append(options, widget.Option{Key: strings.ToLower(words.Letter(c)), Label: words.Class(c), Note: words.Strategy(c)})
		}
	}
	return m.show(&choice{title: "class of " + who, options: options, chosen: func(m *Model, o widget.Option) tea.Cmd {
		c := fleet.Class(o.Label)
		return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskClass{Key: k, Class: c} }), who+": "+words.Class(c)+" from now on")
	}})
}

// extend moves the deadline from where it is, or from now where it has passed.
func (m *Model) extend(j job, text string) tea.Cmd {
	d, err := words.ReadDuration(text)
	if err != nil {
		m.say(noteBad, err.Error())
		return nil
	}
	s, ok := m.drainOf(j.host)
	if !ok {
		return nil
	}
	if issues := drain.Against(s, drain.AskExtend{}); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	from := s.Deadline
	if now := m.frame.Clock(m.env.Now()); from.Before(now) {
		from = now
	}
	until := from.Add(d)
	return m.askFor(j, []drain.Body{drain.AskExtend{Until: until}}, "the deadline moves to "+words.HM(until))
}

func (m *Model) wantStop(w feed.Want, s drain.State) tea.Cmd {
	c := s.Count()
	j := job{verb: feed.Stop, host: w.Host}
	if issues := drain.Against(s, drain.AskStop{}); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	return m.ask(widget.Question{
		Title: "stop the drain of " + widget.Name(w.Host.Name()),
		Lines: []string{fmt.Sprintf("%d of %d are left where they are; both holds stay", c.Left, c.Total), "ebb drain, or d, takes it up again"},
		Act:   "stop", Undoable: true,
	}, func(m *Model) tea.Cmd {
		if now, ok := m.drainOf(w.Host); !ok || now.Drain != s.Drain {
			return m.refuse(j, because("the drain is another one now"))
		}
		return m.askFor(j, []drain.Body{drain.AskStop{Reason: w.Text}}, "the drain stops; both holds stay")
	})
}

// wantHandover writes a word for the next shift, or takes over: every drain of
// the page, each journaled on its own host. Drives of other consoles come to this
// one; a drain that a resident engine drives stays with it.
func (m *Model) wantHandover(w feed.Want) tea.Cmd {
	me := m.frame.Config.Operator
	j := job{verb: feed.HandOver, host: w.Host}
	word := func(m *Model, text string) tea.Cmd {
		return m.askFor(j, []drain.Body{drain.AskHandover{Note: text}}, "written down")
	}
	switch {
	case w.Text != "":
		return word(m, w.Text)
	case w.Edit:
		title := "word for whoever goes on with " + widget.Name(w.Host.Name())
		if w.Host == feed.Shift {
			title = "word for the next shift"
		}
		m.line = m.input(title, "", func(m *Model, text string) tea.Cmd {
			if text == "" {
				m.say(noteBad, "there is nothing to leave without a word: nothing was written down")
				return nil
			}
			return m.askFor(j, []drain.Body{drain.AskHandover{Note: text}}, "written down; the handover page shows it")
		})
		return nil
	case w.Host != feed.Shift && len(w.Hosts) == 0:
		w.Hosts = []fleet.HostID{w.Host}
	}
	title := "take over " + m.names(w.Hosts) + ", saying"
	if len(w.Hosts) == 0 {
		title, w.Hosts = "take the shift, saying", []fleet.HostID{feed.Shift}
	}
	m.line = m.input(title, "taken over", func(m *Model, text string) tea.Cmd {
		all := &batch{verb: feed.HandOver}
		var cmds []tea.Cmd
		for _, h := range w.Hosts {
			cmd := m.askFor(job{verb: feed.HandOver, host: h}, []drain.Body{drain.AskHandover{To: me, Note: text}}, "taken over by "+words.Name(me))
			if len(w.Hosts) > 1 {
				cmd = all.part(cmd)
			}
			cmds = append(cmds, cmd)
		}
		return tea.Batch(cmds...)
	})
	return nil
}
