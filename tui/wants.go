package tui

import (
	"context"
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
	lines = append(lines, m.givenBack(w.Host, feed.Uncordon, holds.Drain == nil)...)
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
	holds, _, _ := m.holds(w.Host)
	lines = append(lines, m.givenBack(w.Host, feed.Undrain, holds.Cordon == nil)...)
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
