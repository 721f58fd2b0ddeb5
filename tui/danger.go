package tui

import (
	"context"
	"fmt"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// fresh refuses on data that is too old to decide on.
func (m *Model) fresh(h fleet.HostID) []fleet.Issue {
	v, ok := m.frame.Snapshot.Host(h)
	if !ok {
		return []fleet.Issue{because("the host is not listed by any plane")}
	}
	if ok, why := feed.Fresh(v, m.env.Now()); !ok {
		return []fleet.Issue{{Check: fleet.CheckReach, Detail: why}}
	}
	return nil
}

// wantEscalate is about one incarnation of one workload, by name.
func (m *Model) wantEscalate(w feed.Want) tea.Cmd {
	j := job{verb: feed.Escalate, host: w.Host, key: w.Key}
	if issues := m.escalateIssues(w, ""); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	s, _ := m.drainOf(w.Host)
	it := s.Items[w.Key]
	word := wordFor(it)
	if word == "" {
		return m.refuse(j, because("its name can't be typed here: ebb ask "+words.Name(w.Host.Name())+"/KIND/ID escalate"))
	}
	lines := []string{
		words.Key(it.Key) + ", owner " + words.Name(it.Owner) + ", " + words.Class(it.Class),
		"run " + words.Name(it.Run.String()),
	}
	asked := "asked for; its owner is told first"
	if !m.frame.Policy.Receivers {
		asked = "asked for; " + words.NoReceiver
	}
	lines = append(lines, escalation(it, m.frame.Policy, m.frame.Clock(m.env.Now()))...)
	if n := len(it.Runs); n > 1 {
		lines = append(lines, fmt.Sprintf("%d processes:", n))
		for _, r := range it.Runs {
			lines = append(lines, "  pid "+strconv.Itoa(r.PID))
		}
	}
	return m.ask(widget.Question{Title: "escalate " + words.Key(it.Key) + " on " + widget.Name(w.Host.Name()), Lines: lines, Act: "escalate", Word: word},
		func(m *Model) tea.Cmd {
			if issues := m.escalateIssues(w, s.Drain); len(issues) > 0 {
				return m.refuse(j, issues...)
			}
			return m.askFor(j, []drain.Body{drain.AskEscalate{Key: w.Key, Run: w.Run}}, asked)
		})
}

// escalation is what would happen to a workload, from where it stands.
func escalation(it drain.Item, p drain.Policy, clock time.Time) []string {
	grace := p.Grace(it)
	var out []string
	told, term := it.NoticeAt, it.TermAt
	switch {
	case told.IsZero():
		if told = clock; p.Receivers {
			out = append(out, "now: its owner is told")
		} else {
			out = append(out, words.NoReceiver)
		}
	case it.Untold:
		out = append(out, words.NotTold)
	case it.Accepted || p.Receivers:
		out = append(out, "its owner was told at "+words.HMS(told))
	default:
		out = append(out, words.NoReceiver)
	}
	if term.Before(told) || term.IsZero() {
		term = told.Add(p.Notice)
		out = append(out, "at "+words.HMS(term)+": TERM, then its full grace of "+words.Duration(grace))
	} else {
		out = append(out, "TERM was sent at "+words.HMS(term)+", its grace of "+words.Duration(grace)+" runs")
	}
	kill := term.Add(grace)
	if it.Term2At.After(kill) {
		kill = it.Term2At
	}
	return append(out, "at "+words.HMS(kill.Add(p.TermGap))+": KILL, if it is still there. What it has not saved is lost.")
}

// escalateIssues is whether the workload that was on the screen is still there,
// as it was.
func (m *Model) escalateIssues(w feed.Want, drainID string) []fleet.Issue {
	issues := m.fresh(w.Host)
	s, ok := m.drainOf(w.Host)
	it, here := s.Items[w.Key]
	switch {
	case !ok || drainID != "" && s.Drain != drainID:
		issues = append(issues, because("the drain is another one now"))
	case !here:
		issues = append(issues, because(words.Key(w.Key)+" is not in the drain"))
	case !it.Open():
		issues = append(issues, because(words.Key(w.Key)+" has ended: "+words.Ending(it)))
	case it.Run != w.Run:
		issues = append(issues, because(words.Key(w.Key)+" is another incarnation now: "+words.Name(it.Run.String())+", not "+words.Name(w.Run.String())))
	case s.Phase == drain.Stopped:
		issues = append(issues, because("the drain is stopped: nothing is escalated"))
	}
	return issues
}

// wordFor is what has to be typed for a workload: its name, or for what can't be
// typed its pid.
func wordFor(it drain.Item) string {
	if it.Key.Kind != "process" && typable(it.Key.ID) {
		return it.Key.ID
	}
	if it.Run.PID > 0 {
		return strconv.Itoa(it.Run.PID)
	}
	return ""
}

// typable says whether a person can type a name as it is shown.
func typable(s string) bool {
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// wantClean shows what would be removed, and asks.
func (m *Model) wantClean(w feed.Want) tea.Cmd {
	j := job{verb: feed.Clean, host: w.Host, key: w.Key}
	if issues := m.cleanIssues(w); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	r := w.Resource
	lines := []string{"dry run: this would be removed, and nothing else", words.Key(r.Key), "identity " + words.Name(r.Identity)}
	if r.Detail != "" {
		lines = append(lines, words.Text(r.Detail))
	}
	lines = append(lines, "its owner "+words.Key(r.Owner)+" is gone"+since(r.Since))
	for _, u := range r.Users {
		lines = append(lines, fmt.Sprintf("still used by pid %d: it will be refused", u.PID))
	}
	lines = append(lines, "the host compares the identity again in the act")
	verbs := m.opt.Verbs
	return m.ask(widget.Question{Title: "clean " + words.Key(w.Key) + " on " + widget.Name(w.Host.Name()), Lines: lines, Act: "remove it", Undoable: true},
		func(m *Model) tea.Cmd {
			if issues := m.cleanIssues(w); len(issues) > 0 {
				return m.refuse(j, issues...)
			}
			return m.start(j, func(ctx context.Context) (string, error) { return verbs.Clean(ctx, w.Host, r) })
		})
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "; it is there since " + words.HM(t)
}

// cleanIssues is whether the very resource is still a leak on a held host.
func (m *Model) cleanIssues(w feed.Want) []fleet.Issue {
	issues := m.fresh(w.Host)
	v := m.view(w.Host)
	if holds, _, _ := v.Holds(); !holds.Any() {
		issues = append(issues, fleet.Issue{Check: fleet.CheckHolds, Detail: "only a held host is cleaned: cordon it first"})
	}
	for _, f := range v.Findings {
		if f.Key == w.Key && f.Verdict == fleet.Leak && f.Resource != nil && f.Resource.Identity == w.Resource.Identity {
			return issues
		}
	}
	return append(issues, fleet.Issue{Check: fleet.CheckLeaks, Key: w.Key, Detail: "it is not there as a leak any more, or it is another one of that name"})
}

// wantAccept asks for a reason, then for the name.
func (m *Model) wantAccept(w feed.Want) tea.Cmd {
	j := job{verb: feed.Accept, host: w.Host, key: w.Key}
	switch {
	case w.Key.IsZero() || !w.Issue.Acceptable:
		return m.refuse(j, because("that can't be accepted: "+words.Issue(w.Issue)))
	case !typable(w.Key.String()):
		return m.refuse(j, because("its name can't be typed here: ebb accept "+words.Name(w.Host.Name())+" KIND/ID --reason TEXT"))
	}
	if issues := m.fresh(w.Host); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	verbs := m.opt.Verbs
	m.line = m.input("reason to accept "+words.Key(w.Key), "", func(m *Model, reason string) tea.Cmd {
		if reason == "" {
			m.say(noteBad, "an exception needs a reason: nothing was accepted")
			return nil
		}
		word := w.Key.String()
		return m.ask(widget.Question{
			Title: "accept an exception on " + widget.Name(w.Host.Name()),
			Lines: []string{words.Issue(w.Issue), "reason: " + words.Text(reason), "it stands in the proof, with your name"},
			Act:   "accept it", Word: word,
		}, func(m *Model) tea.Cmd {
			if issues := m.acceptIssues(w); len(issues) > 0 {
				return m.refuse(j, issues...)
			}
			return m.start(j, func(ctx context.Context) (string, error) {
				return "accepted; it stands in the next proof", verbs.Accept(ctx, w.Host, w.Key, reason, word)
			})
		})
	})
	return nil
}

// acceptIssues is whether the gate still names what is to be accepted.
func (m *Model) acceptIssues(w feed.Want) []fleet.Issue {
	issues := m.fresh(w.Host)
	g, _, ok := m.panes.gate.now().Gate()
	if !ok || m.panes.gate.Host() != w.Host {
		return append(issues, because("the gate was not read"))
	}
	for _, is := range g.Issues {
		if is == w.Issue {
			return issues
		}
	}
	return append(issues, because("the gate does not name it any more: look again"))
}

// wantTerminate needs an open gate, the proof of this moment, and the host's
// name typed.
func (m *Model) wantTerminate(w feed.Want) tea.Cmd {
	j := job{verb: feed.Terminate, host: w.Host}
	if issues := m.terminateIssues(w.Host, ""); len(issues) > 0 {
		return m.refuse(j, issues...)
	}
	g, _, _ := m.panes.gate.now().Gate()
	v := m.view(w.Host)
	name := w.Host.Name()
	if !typable(name) {
		return m.refuse(j, because("its name can't be typed here: ebb terminate HOST --proof FILE --confirm HOST"))
	}
	digest := g.Proof.Digest
	lines := []string{
		words.Name(string(w.Host)) + ", instance " + words.Name(v.Host.Instance),
		"runs once: " + words.Text(g.Command),
		"with proof " + words.Name(digest[:min(12, len(digest))]) + ", good until " + words.HMS(g.Proof.Expires),
	}
	if m.frame.Config.Demo > 0 {
		lines = append(lines, "a demo host: its agent ends, and no real machine is touched")
	} else if g.Proof.Scope != "" {
		lines = append(lines, "the proof is only about the scope "+words.Name(g.Proof.Scope))
	}
	lines = append(lines, "This can't be undone.")
	verbs := m.opt.Verbs
	return m.ask(widget.Question{Title: "terminate " + widget.Name(name), Lines: lines, Act: "terminate", Word: name}, func(m *Model) tea.Cmd {
		if issues := m.terminateIssues(w.Host, digest); len(issues) > 0 {
			return m.refuse(j, issues...)
		}
		return m.start(j, func(ctx context.Context) (string, error) {
			return "done, and written down", verbs.Terminate(ctx, w.Host, name)
		})
	})
}

// terminateIssues is everything that shuts the gate as far as this console
// knows; the engine and the host have their own word in that instant. digest is
// that of the proof that was shown, once one was.
func (m *Model) terminateIssues(h fleet.HostID, digest string) []fleet.Issue {
	if gone := m.gone(h); gone != "" {
		return []fleet.Issue{because("the host was " + gone)}
	}
	issues := m.fresh(h)
	if holds, _, ok := m.holds(h); !ok || !holds.Both() {
		issues = append(issues, fleet.Issue{Check: fleet.CheckHolds, Detail: "both holds have to be there"})
	}
	g, _, ok := m.panes.gate.now().Gate()
	switch {
	case !ok || m.panes.gate.Host() != h:
		return append(issues, because("the gate was not read: verify first (v)"))
	case len(g.Issues) > 0:
		return append(issues, g.Issues...)
	case g.Proof == nil:
		return append(issues, because("there is no proof: verify first (v)"))
	case m.panes.gate.now().Life(m.env.Now()) <= 0:
		return append(issues, because("the proof has expired at "+words.HMS(g.Proof.Expires)+": verify again (v)"))
	case digest != "" && g.Proof.Digest != digest:
		return append(issues, because("the proof is another one than the one that was shown"))
	}
	return issues
}
