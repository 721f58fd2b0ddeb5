package tui

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"ebb/fleet"
	"ebb/tui/feed"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// wantCleanAll shows which of the marked leaks would be removed, each with its
// identity, and asks once. Each is compared again, by itself, in the act.
func (m *Model) wantCleanAll(w feed.Want) tea.Cmd {
	one := func(r fleet.Resource) feed.Want {
		return feed.Want{Verb: feed.Clean, Host: w.Host, Key: r.Key, Resource: r}
	}
	j := job{verb: feed.Clean, host: w.Host}
	lines := []string{"dry run: these would be removed, and nothing else"}
	for _, r := range w.Resources {
		if issues := m.cleanIssues(one(r)); len(issues) > 0 {
			return m.refuse(j, issues...)
		}
		line := words.Key(r.Key) + ", identity " + words.Name(r.Identity) + ", its owner " + words.Key(r.Owner) + " is gone"
		if len(r.Users) > 0 {
			line += fmt.Sprintf("; still used by %d processes: it will be refused", len(r.Users))
		}
		lines = append(lines, line)
	}
	lines = append(lines, "the host compares each identity again in the act"+hidden(w))
	verbs := m.opt.Verbs
	return m.ask(widget.Question{Title: fmt.Sprintf("clean %d leaks on %s", len(w.Resources), widget.Name(w.Host.Name())), Lines: lines, Act: "remove them", Undoable: true},
		func(m *Model) tea.Cmd {
			var cmds []tea.Cmd
			for _, r := range w.Resources {
				if issues := m.cleanIssues(one(r)); len(issues) > 0 {
					return tea.Batch(append(cmds, m.refuse(j, issues...))...)
				}
				cmds = append(cmds, m.start(job{verb: feed.Clean, host: w.Host, key: r.Key}, func(ctx context.Context) (string, error) {
					return verbs.Clean(ctx, w.Host, r)
				}))
			}
			return tea.Batch(cmds...)
		})
}
