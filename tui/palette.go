package tui

import (
	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/keys"
	"ebb/tui/words"
)

// takes is what stands behind a command's name.
type takes int

const (
	nothing   takes = iota
	aHost           // at most one host; none is the one under the cursor
	someHosts       // any number of hosts, then words of one's own
	hostText        // a host, then words of one's own
	anItem          // a host, a workload or thing on it, then words of one's own
	value           // one word out of a list, or words of one's own
)

// command is one thing that can be typed behind ":".
type command struct {
	name string
	args string // how they are written, for the list
	says string
	takes
	values func(*Model) []string // what it can be completed with
	do     func(*Model, typed) tea.Cmd
}

// typed is a command with all that was named behind it.
type typed struct {
	command
	host  fleet.HostID
	hosts []fleet.HostID // someHosts: all that were named
	named bool           // a host was named, it is not just the cursor's
	key   fleet.Key
	text  string // the rest
}

// commands are all of them, in the order in which they are listed.
func commands() []command {
	verb := func(v feed.Verb, t takes, args, says string) command {
		return command{name: string(v), args: args, says: says, takes: t, do: (*Model).typedVerb}
	}
	all := []command{
		verb(feed.Cordon, someHosts, "HOST… [REASON]", "keep new work away from hosts"),
		verb(feed.Uncordon, aHost, "HOST", "let a host take new work again"),
		{name: "plan", args: "HOST…", says: "what a drain would do, to one host or several", takes: someHosts, do: (*Model).typedPlan},
		verb(feed.Drain, hostText, "HOST [REASON]", "have every workload leave, inside a deadline"),
		verb(feed.Undrain, aHost, "HOST", "end the drain and lift its hold; the cordon stays"),
		verb(feed.Extend, hostText, "HOST 15m", "move the drain's deadline"),
		verb(feed.Stop, hostText, "HOST [REASON]", "end the drain where it is; both holds stay"),
		verb(feed.MoreTime, anItem, "HOST KIND/ID 15m", "give one workload more time"),
		verb(feed.Reclass, anItem, "HOST KIND/ID CLASS", "say how one workload leaves"),
		verb(feed.Hold, anItem, "HOST KIND/ID [REASON]", "leave one workload alone until retry"),
		verb(feed.Retry, anItem, "HOST [KIND/ID]", "take one workload, or the drain, up again"),
		verb(feed.Keep, anItem, "HOST KIND/ID [REASON]", "let one workload stay; the gate names it"),
		verb(feed.Park, anItem, "HOST KIND/ID", "keep one workload at rest on its host, until resume"),
		verb(feed.Ship, anItem, "HOST KIND/ID", "restore one workload elsewhere, whatever its rule says"),
		verb(feed.Resume, anItem, "HOST [KIND/ID]", "bring back what is parked on a host; its drain ends"),
		verb(feed.TargetGone, anItem, "HOST KIND/ID [REASON]", "say that where one was begun anew is gone for good"),
		verb(feed.Escalate, anItem, "HOST KIND/ID", "end one workload: notice, TERM, grace, KILL"),
		verb(feed.Clean, anItem, "HOST KIND/ID", "remove a leaked resource, after a dry run"),
		verb(feed.Check, aHost, "HOST", "read the gate anew"),
		verb(feed.Verify, aHost, "HOST", "read host and claims anew, and have a proof signed"),
		verb(feed.Accept, anItem, "HOST KIND/ID", "accept an exception at the gate, typed"),
		verb(feed.Terminate, aHost, "HOST", "terminate a proved host, its name typed"),
		{name: "handover", args: "[HOST TEXT]", says: "the page of the shift; with a text, word for the next", takes: hostText, do: (*Model).typedHandover},
		{name: "sort", args: "[-]ORDER", says: "sort hosts; - turns it round", takes: value, values: func(*Model) []string { return orders() }, do: (*Model).typedSort},
		{name: "group", args: "LABEL", says: "put hosts of one label together", takes: value, values: func(m *Model) []string { return append(m.panes.fleet.now().Groups(), "none") }, do: (*Model).typedGroup},
		{name: "filter", args: "TEXT", says: "show only what matches; nothing: all", takes: value, values: func(*Model) []string { return filterExamples }, do: (*Model).typedFilter},
		{name: "theme", args: "NAME", says: "colours", takes: value, values: func(m *Model) []string { return themes.Names(m.opt.themesDir()) }, do: (*Model).typedTheme},
	}
	for _, s := range keys.Screens() {
		if s == keys.Plan || s == keys.Handover {
			continue // they are there, with what they take
		}
		all = append(all, command{name: string(s), args: screenArgs(s), says: screenSays, takes: aHost, do: (*Model).typedScreen})
	}
	return append(all,
		command{name: "help", says: "the keys of this screen", do: func(m *Model, _ typed) tea.Cmd { return m.show(m.help()) }},
		command{name: "quit", says: "leave; drains that run here are named before", do: func(m *Model, _ typed) tea.Cmd { return m.quit() }})
}

func screenArgs(s keys.Scope) string {
	if ofOneHost(s) || s == keys.Log {
		return "[HOST]"
	}
	return ""
}

// screenSays stands beside the commands that only go somewhere.
const screenSays = "go to this screen"

// filterExamples are what a filter may look like, to be completed to.
var filterExamples = []string{"state:cordoned", "state:draining", "is:holding", "needs:you", "pool=", "by:", "!state:serving"}

// commandNamed finds a command; "q" is quit, as elsewhere.
func commandNamed(name string) (command, bool) {
	if name == "q" {
		name = "quit"
	}
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// typedVerb asks for a verb as a key would.
func (m *Model) typedVerb(t typed) tea.Cmd {
	w := feed.Want{Verb: feed.Verb(t.name), Host: t.host, Hosts: t.hosts, Text: t.text}
	if t.takes != anItem {
		return m.want(w)
	}
	if t.key.IsZero() {
		if cmd, ok := m.ofCursor(w.Verb, t); ok {
			return cmd
		}
		return m.want(w)
	}
	return m.want(m.about(w, t.key))
}

// ofCursor is a verb about the workload under the cursor, or the marked ones,
// where none was named: what its key would do.
func (m *Model) ofCursor(v feed.Verb, t typed) (tea.Cmd, bool) {
	all := v == feed.Resume && t.named // of a host, not of a row
	if all || m.film != nil || m.cur != keys.Board || m.panes.board.Host() != t.host || t.text != "" {
		return nil, false
	}
	return m.panes.board.now().Ask(v), true
}

// about completes what is asked of one thing by its name: the incarnation that
// is there now, the leak, the issue of the gate.
func (m *Model) about(w feed.Want, k fleet.Key) feed.Want {
	w.Key, w.Keys = k, []fleet.Key{k}
	if s, ok := m.drainOf(w.Host); ok {
		w.Run = s.Items[k].Run
	}
	for _, f := range m.view(w.Host).Findings {
		if f.Key == k && f.Resource != nil {
			w.Resource = *f.Resource
		}
	}
	if g, _, ok := m.panes.gate.now().Gate(); ok && m.panes.gate.Host() == w.Host {
		for _, is := range g.Issues {
			if is.Key == k {
				w.Issue = is
			}
		}
	}
	return w
}

func (m *Model) typedPlan(t typed) tea.Cmd {
	return m.planOf(t.hosts)
}

func (m *Model) typedHandover(t typed) tea.Cmd {
	if t.text == "" {
		return m.open(keys.Handover, "")
	}
	return m.want(feed.Want{Verb: feed.HandOver, Host: t.host, Text: t.text})
}

func (m *Model) typedScreen(t typed) tea.Cmd {
	s := keys.Scope(t.name)
	if s == keys.Log && !t.named {
		return m.open(s, "") // the journal of all
	}
	return m.open(s, t.host)
}

func (m *Model) typedSort(t typed) tea.Cmd {
	return m.arrange(m.panes.fleet.now().Sort(t.text))
}

func (m *Model) typedGroup(t typed) tea.Cmd {
	return m.arrange(m.panes.fleet.now().Group(t.text))
}

func (m *Model) typedFilter(t typed) tea.Cmd {
	m.filter[m.cur] = t.text
	m.refilter(m.cur)
	return nil
}

func (m *Model) typedTheme(t typed) tea.Cmd {
	if err := m.wear(t.text, m.env.Theme.Dark); err != nil {
		m.say(noteBad, words.Text(err.Error()))
	}
	return nil
}

// whyNot says why a verb can't be done to a host now, in few words; "" where
// nothing is known to be in the way. It is for the list of commands: what is
// asked for is checked again, in full, where it is carried out.
func (m *Model) whyNot(v feed.Verb, h fleet.HostID) string {
	s, drains := m.drainOf(h)
	view := m.view(h)
	holds, _, _ := view.Holds()
	switch {
	case m.frame.Config.ReadOnly && !v.Reads():
		return "read-only"
	case h == "":
		return "no host is chosen"
	case m.gone(h) != "":
		return "the host was terminated"
	}
	switch v {
	case feed.Cordon, feed.Plan, feed.Check:
		return ""
	case feed.Uncordon:
		if holds.Cordon == nil && !view.Host.Draining {
			return "it is not cordoned"
		}
	case feed.Drain:
		if m.frame.Driving[h] {
			return "this console drives its drain already"
		}
		if drains && s.Driver != "" && !s.Phase.Ended() {
			return words.Name(s.Driver) + " drives it already"
		}
	case feed.Verify:
		if ok, why := feed.Fresh(view, m.env.Now()); !ok {
			return why
		}
	case feed.Terminate:
		if issues := m.terminateIssues(h, ""); len(issues) > 0 {
			return words.Issue(issues[0])
		}
	case feed.Clean:
		switch {
		case view.Count(fleet.Leak) == 0:
			return "nothing leaked there"
		case !holds.Any():
			return "only a held host is cleaned"
		}
	case feed.Accept:
		return m.whyNotAccept(h)
	case feed.Resume:
		if issues := m.resumeIssues(feed.Want{Host: h}); len(issues) > 0 {
			return words.Issue(issues[0])
		}
	case feed.Park, feed.Ship, feed.TargetGone:
		if none := map[feed.Verb]string{feed.Park: "nothing there can be parked that is not to be", feed.Ship: "nothing there is to be parked",
			feed.TargetGone: "nothing of it is in doubt on another host"}[v]; drains && len(m.fitting(typed{command: command{name: string(v)}, host: h})) == 0 {
			return none
		}
		return whyNotOfDrain(v, s, drains)
	default:
		return whyNotOfDrain(v, s, drains)
	}
	return ""
}

func (m *Model) whyNotAccept(h fleet.HostID) string {
	g, _, ok := m.panes.gate.now().Gate()
	if !ok || m.panes.gate.Host() != h {
		return "the gate was not read: 4"
	}
	for _, is := range g.Issues {
		if is.Acceptable {
			return ""
		}
	}
	return "the gate names nothing that can be accepted"
}

func whyNotOfDrain(v feed.Verb, s drain.State, drains bool) string {
	switch {
	case !drains:
		return "it has no drain"
	case s.Phase == drain.Stopped && (v == feed.Stop || v == feed.Escalate):
		return "the drain is stopped"
	case v == feed.Undrain, v == feed.Extend, v == feed.Stop, v == feed.HandOver, v == feed.Retry:
		return ""
	case s.Count().Left == 0:
		return "nothing of the drain is left"
	}
	return ""
}
