package tui

import (
	"fmt"
	"os"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"ebb/fleet"
	"ebb/tui/widget"
)

// suspend stops the process until a shell takes it up again. Where it drives
// drains it asks first, and says what becomes of them meanwhile.
func (m *Model) suspend() tea.Cmd {
	switch {
	case m.terminating():
		m.say(noteBad, "a terminate is under way: its outcome must be written down first")
		return nil
	case !m.opt.shell():
		m.say(noteInfo, "no shell is behind this console that could take it up again")
		return nil
	}
	driven := m.drivenHere()
	if len(driven) == 0 {
		return m.stop()
	}
	var lines []string
	for _, h := range driven {
		lines = append(lines, widget.Name(h.Name())+": nobody drives its drain while this stands still; it stays held")
	}
	lines = append(lines, "a resident engine takes them over within seconds; else they go on with fg",
		"no grace runs out meanwhile, but the deadlines come nearer")
	return m.ask(widget.Question{Title: "suspend, while this console drives drains", Lines: lines, Act: "suspend", Undoable: true},
		(*Model).stop)
}

// stop stops the process. Until it is taken up again no key counts: one that was
// typed meanwhile lies in the terminal, and may be read before the program knows
// that it is back.
func (m *Model) stop() tea.Cmd {
	m.stopped = true
	return tea.Suspend
}

// drivenHere lists the hosts whose drains this console drives.
func (m *Model) drivenHere() []fleet.HostID {
	var out []fleet.HostID
	for _, v := range m.frame.Snapshot.Hosts {
		if m.frame.Driving[v.Host.ID] {
			out = append(out, v.Host.ID)
		}
	}
	return out
}

// resumed draws what may have changed, and asks anew whether an open question is
// before somebody's eyes.
func (m *Model) resumed() tea.Cmd {
	m.stopped = false
	m.say(noteInfo, fmt.Sprintf("back; what is shown was read before %s", m.frame.Clock(m.env.Now()).UTC().Format("15:04:05")))
	return m.guard.Reopen(m.env.Now())
}

// hasShell says whether a job that stops itself would be taken up again: its
// parent is in the same session, but in another process group. Without that the
// system ignores the stop, and the console would wait for ever.
func hasShell() bool {
	parent := os.Getppid()
	mine, err := unix.Getsid(0)
	theirs, perr := unix.Getsid(parent)
	if err != nil || perr != nil || mine != theirs {
		return false
	}
	group, err := unix.Getpgid(parent)
	return err == nil && group != unix.Getpgrp()
}
