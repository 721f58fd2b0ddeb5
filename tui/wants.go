package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/widget"
	"ebb/tui/words"
)

const (
	defaultReason   = "on a hunch"
	defaultHold     = "being looked at"
	defaultDeadline = 45 * time.Minute
	defaultMore     = 15 * time.Minute
)

// want begins what a person asked for: at once where it can be undone with a
// key, behind a line of input or a question where not.
func (m *Model) want(w feed.Want) tea.Cmd {
	if m.film != nil {
		m.say(noteBad, isReplay(w.Verb))
		return nil
	}
	if w.Host == "" && len(w.Hosts) == 0 {
		m.say(noteBad, string(w.Verb)+": no host is chosen")
		return nil
	}
	if m.frame.Config.ReadOnly && !w.Verb.Reads() {
		m.say(noteBad, "read-only: this console was opened to look, not to "+string(w.Verb))
		return nil
	}
	if m.over != nil {
		return nil // it was asked for before the question that is open now
	}
	if gone := m.gone(w.Host); gone != "" && !w.Verb.Reads() && w.Verb != feed.HandOver && len(w.Hosts) < 2 {
		m.say(noteInfo, "nothing to "+string(w.Verb)+": "+widget.Name(w.Host.Name())+" was "+gone)
		return nil
	}
	switch w.Verb {
	case feed.Cordon:
		return m.wantCordon(w)
	case feed.Uncordon:
		return m.wantUncordon(w)
	case feed.Plan:
		return m.wantPlan(w)
	case feed.Drain:
		return m.wantDrain(w)
	case feed.Undrain:
		return m.wantUndrain(w)
	case feed.Check, feed.Verify:
		return m.readGate(w.Verb, w.Host)
	case feed.Clean:
		if len(w.Resources) > 0 {
			return m.wantCleanAll(w)
		}
		return m.wantClean(w)
	case feed.Accept:
		return m.wantAccept(w)
	case feed.Terminate:
		return m.wantTerminate(w)
	}
	return m.wantOfDrain(w)
}

// wantCordon needs one key. Only many hosts of one pool at once are asked about.
func (m *Model) wantCordon(w feed.Want) tea.Cmd {
	if len(w.Hosts) == 0 {
		w.Hosts = []fleet.HostID{w.Host}
	}
	if len(w.Hosts) == 1 {
		if holds, _, _ := m.holds(w.Hosts[0]); holds.Cordon != nil && m.view(w.Hosts[0]).Cordon != fleet.HostOnly {
			return m.wantReword(w, *holds.Cordon)
		}
	}
	if w.Edit {
		title := "reason to cordon " + m.names(w.Hosts)
		m.line = m.input(title, defaultReason, func(m *Model, reason string) tea.Cmd {
			w.Edit, w.Text = false, reason
			return m.wantCordon(w)
		})
		return nil
	}
	if w.Text == "" {
		w.Text = defaultReason
	}
	if pool, n, all := m.crowd(w.Hosts); n > 0 {
		lines := []string{fmt.Sprintf("%d of the %d hosts of pool %s, more than a quarter:", n, all, words.Name(pool))}
		for _, h := range w.Hosts {
			lines = append(lines, "  "+widget.Name(string(h)))
		}
		return m.ask(widget.Question{
			Title: fmt.Sprintf("cordon %d hosts", len(w.Hosts)), Lines: append(lines, "reason: "+words.Text(w.Text)),
			Act: "cordon them", Word: strconv.Itoa(len(w.Hosts)), Undoable: true,
		}, func(m *Model) tea.Cmd { return m.cordon(w) })
	}
	return m.cordon(w)
}

// wantReword is cordon where the host is cordoned: what is left to say is why.
func (m *Model) wantReword(w feed.Want, c fleet.Hold) tea.Cmd {
	h, name := w.Hosts[0], widget.Name(w.Hosts[0].Name())
	if c.Who != m.frame.Config.Operator {
		m.say(noteInfo, name+" is cordoned by "+words.Name(c.Who)+" since "+words.HM(c.Since)+why(c.Why))
		return nil
	}
	verbs := m.opt.Verbs
	take := func(m *Model, reason string) tea.Cmd {
		if reason == "" || reason == c.Why {
			m.say(noteInfo, name+" stays cordoned as it is"+why(c.Why))
			return nil
		}
		return m.start(job{verb: feed.Cordon, host: h}, func(ctx context.Context) (string, error) { return verbs.Reword(ctx, h, reason) })
	}
	if w.Text != "" {
		return take(m, w.Text)
	}
	m.line = m.input(name+" is cordoned; why", widget.Clean(c.Why), take)
	return nil
}

func (m *Model) cordon(w feed.Want) tea.Cmd {
	verbs := m.opt.Verbs
	var cmds []tea.Cmd
	all := &batch{verb: feed.Cordon, tail: hidden(w)}
	again := ""
	if w.Text == defaultReason && m.cur == keys.Fleet {
		again = "; c again says why"
	}
	for _, h := range w.Hosts {
		cmd := m.start(job{verb: feed.Cordon, host: h}, func(ctx context.Context) (string, error) {
			text, err := verbs.Cordon(ctx, h, w.Text)
			if len(w.Hosts) == 1 {
				text += hidden(w)
				text += again
			}
			return text, err
		})
		if len(w.Hosts) > 1 {
			cmd = all.part(cmd)
		}
		cmds = append(cmds, cmd)
	}
	return tea.Batch(cmds...)
}

// hidden says which marked rows an act did not reach.
func hidden(w feed.Want) string {
	if w.Hidden == 0 {
		return ""
	}
	return fmt.Sprintf("; %d marked ones that the filter hides were left alone", w.Hidden)
}

// crowd finds a pool of which more than a quarter is meant, among several hosts.
func (m *Model) crowd(hosts []fleet.HostID) (pool string, meant, all int) {
	if len(hosts) < 2 {
		return "", 0, 0
	}
	type count struct{ meant, all int }
	pools := map[string]count{}
	for _, v := range m.frame.Snapshot.Hosts {
		c := pools[v.Host.Pool()]
		c.all++
		if slices.Contains(hosts, v.Host.ID) {
			c.meant++
		}
		pools[v.Host.Pool()] = c
	}
	for p, c := range pools {
		if c.meant > 1 && c.meant*4 > c.all && c.meant > meant {
			pool, meant, all = p, c.meant, c.all
		}
	}
	return pool, meant, all
}

func (m *Model) names(hosts []fleet.HostID) string {
	var out []string
	for _, h := range hosts {
		out = append(out, widget.Name(h.Name()))
	}
	if len(out) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:3], ", "), len(out)-3)
	}
	return strings.Join(out, ", ")
}

// wantUncordon asks, and names whose cordon it is.
func (m *Model) wantUncordon(w feed.Want) tea.Cmd {
	v := m.view(w.Host)
	holds, _, _ := v.Holds()
	var lines []string
	theirs := false
	switch c := holds.Cordon; {
	case c != nil:
		lines = append(lines, "cordoned by "+words.Name(c.Who)+" since "+words.HM(c.Since)+why(c.Why))
		if theirs = c.Who != m.frame.Config.Operator; theirs {
			lines = append(lines, "it is THEIRS, not yours ("+words.Name(m.frame.Config.Operator)+")")
		}
	case v.Host.Draining:
		lines = append(lines, "the host knows of no cordon; its plane was told by "+words.Name(v.Host.DrainWho)+why(v.Host.DrainWhy))
		theirs = v.Host.DrainWho != m.frame.Config.Operator
	default:
		m.say(noteInfo, widget.Name(w.Host.Name())+" is not cordoned")
		return nil
	}
	if holds.Drain != nil {
		lines = append(lines, "its drain hold stays")
	} else {
		lines = append(lines, "it takes new work again")
	}
	verbs := m.opt.Verbs
	was := holds.Cordon
	j := job{verb: feed.Uncordon, host: w.Host}
	return m.ask(widget.Question{Title: "uncordon " + widget.Name(w.Host.Name()), Lines: lines, Act: "uncordon", Undoable: true}, func(m *Model) tea.Cmd {
		now, _, _ := m.holds(w.Host)
		if was != nil && now.Cordon != nil && (now.Cordon.Who != was.Who || !now.Cordon.Since.Equal(was.Since)) {
			return m.refuse(j, because("it is another cordon now: by "+words.Name(now.Cordon.Who)+" since "+words.HM(now.Cordon.Since)))
		}
		return m.start(j, func(ctx context.Context) (string, error) { return verbs.Uncordon(ctx, w.Host, theirs) })
	})
}

func why(text string) string {
	if text == "" {
		return ""
	}
	return ": " + words.Text(text)
}

func (m *Model) wantUndrain(w feed.Want) tea.Cmd {
	s, ok := m.drainOf(w.Host)
	if !ok {
		m.say(noteInfo, widget.Name(w.Host.Name())+" has no drain here")
		return nil
	}
	lines := []string{fmt.Sprintf("drain %s of %s, %s, %s", words.Name(s.Drain), words.Name(s.By.Name), words.Phase(s.Phase), words.StillLeft(s)),
		"the drain ends and its hold is lifted; the cordon stays"}
	verbs := m.opt.Verbs
	j := job{verb: feed.Undrain, host: w.Host}
	return m.ask(widget.Question{Title: "undrain " + widget.Name(w.Host.Name()), Lines: lines, Act: "undrain", Undoable: true}, func(m *Model) tea.Cmd {
		if now, ok := m.drainOf(w.Host); !ok || now.Drain != s.Drain {
			return m.refuse(j, because("the drain is another one now"))
		}
		return m.start(j, func(ctx context.Context) (string, error) { return verbs.Undrain(ctx, w.Host) })
	})
}

// gone says when a host was terminated, and by whom.
func (m *Model) gone(h fleet.HostID) string {
	s, ok := m.frame.Drains[h]
	if !ok {
		return ""
	}
	v := m.view(h)
	return words.Terminated(&v, &s)
}

// drainOf is the drain of a host that has not been lifted.
func (m *Model) drainOf(h fleet.HostID) (drain.State, bool) {
	s, ok := m.frame.Drains[h]
	return s, ok && s.Drain != "" && !s.Undone && m.gone(h) == ""
}

// wantOfDrain is what is asked of a drain that runs, or of its workloads.
func (m *Model) wantOfDrain(w feed.Want) tea.Cmd {
	if w.Verb == feed.HandOver {
		return m.wantHandover(w)
	}
	s, ok := m.drainOf(w.Host)
	if !ok {
		m.say(noteInfo, widget.Name(w.Host.Name())+" has no drain")
		return nil
	}
	j := job{verb: w.Verb, host: w.Host, key: w.Key}
	switch w.Verb {
	case feed.Extend:
		if issues := drain.Against(s, drain.AskExtend{}); len(issues) > 0 {
			return m.refuse(j, issues...)
		}
		if w.Text != "" {
			return m.extend(j, w.Text)
		}
		m.line = m.input("extend the deadline by", words.Duration(defaultMore), func(m *Model, text string) tea.Cmd { return m.extend(j, text) })
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
	return m.ofItems(j, w)
}

func (m *Model) ofItems(j job, w feed.Want) tea.Cmd {
	who := words.Key(w.Key)
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
		return given("more time for "+who, words.Duration(defaultMore), func(m *Model, text string) tea.Cmd {
			d, err := words.ReadDuration(text)
			if err != nil {
				m.say(noteBad, err.Error())
				return nil
			}
			return m.askFor(j, each(func(k fleet.Key) drain.Body { return drain.AskMoreTime{Key: k, By: d} }), words.Duration(d)+" more for "+who+rest)
		})
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
	m.line = m.input("held; why", defaultHold, func(m *Model, reason string) tea.Cmd {
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
