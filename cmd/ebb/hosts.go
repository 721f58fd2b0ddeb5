package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

// hostLine is one host of "ebb hosts -o json".
type hostLine struct {
	Host         fleet.HostID        `json:"host"`
	State        string              `json:"state"`
	Cordon       fleet.CordonState   `json:"cordon,omitempty"`
	Holds        fleet.Holds         `json:"holds"`
	Pool         string              `json:"pool,omitempty"`
	Classes      map[fleet.Class]int `json:"classes,omitempty"`
	Unattributed int                 `json:"unattributed"`
	Agent        string              `json:"agent,omitempty"` // version
	Read         time.Time           `json:"read,omitzero"`
	Unreachable  time.Time           `json:"unreachable,omitzero"`
	Problem      string              `json:"problem,omitempty"`
	Drain        *drainLine          `json:"drain,omitempty"`
	Parked       []parkedLine        `json:"parked,omitempty"`

	Terminating   time.Time `json:"terminating,omitzero"` // its terminator has had no outcome yet
	TerminatingBy string    `json:"terminating_by,omitempty"`
	Terminated    time.Time `json:"terminated,omitzero"`
	TerminatedBy  string    `json:"terminated_by,omitempty"`
}

type drainLine struct {
	ID       string      `json:"id"`
	Phase    drain.Phase `json:"phase"`
	Counted  bool        `json:"counted"` // the host was looked at: left and total say something
	Left     int         `json:"left"`
	Total    int         `json:"total"`
	Deadline time.Time   `json:"deadline"`

	says string // what is left, as the console says it
}

func hostsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "hosts", Short: "List hosts, holds, classes and how fresh each reading is", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(s *station.Station) error { return a.hosts(cmd.Context(), s) })
		},
	}
	return a.outputFlag(c)
}

func (a *app) hosts(ctx context.Context, s *station.Station) error {
	views, err := s.Survey(ctx)
	if len(views) == 0 && err == nil {
		a.note("no plane lists a host: see [[plane]] in %s", s.Config.Path)
	}
	lines := make([]hostLine, 0, len(views))
	for _, v := range views {
		lines = append(lines, lineOf(ctx, s, v))
	}
	if serr := a.show(lines, func(w io.Writer) error { return hostTable(w, lines) }); serr != nil {
		return serr
	}
	return err
}

func lineOf(ctx context.Context, s *station.Station, v fleet.HostView) hostLine {
	l := hostLine{Host: v.Host.ID, Cordon: v.Cordon, Pool: v.Host.Pool(), Unreachable: v.Unreachable, Problem: v.Problem, State: "serving"}
	if sum, ok := v.Summary.Get(); ok {
		l.Holds, l.Classes, l.Unattributed, l.Agent, l.Read = sum.Holds, sum.Classes, sum.Unattributed, sum.Version, v.Summary.At
	}
	switch {
	case !v.Unreachable.IsZero():
		l.State = "unreachable"
	case l.Holds.Drain != nil:
		l.State = "draining"
	case v.Cordon != fleet.Uncordoned:
		l.State = string(v.Cordon)
	}
	if s.Journal == nil {
		return l
	}
	st, err := s.Engine.State(ctx, v.Host.ID)
	if err == nil {
		l.Parked = parkedLines(st)
	}
	if err == nil && st.Drain != "" && !st.Undone {
		n := st.Count()
		l.Drain = &drainLine{ID: st.Drain, Phase: st.Phase, Counted: st.First, Left: n.Left, Total: n.Total, Deadline: st.Deadline, says: words.StillLeft(st)}
		if t := st.Terminating; !t.At.IsZero() {
			l.State, l.Terminating, l.TerminatingBy = "terminating", t.At, t.By
		}
		if !st.Terminated.IsZero() {
			l.State, l.Terminated, l.TerminatedBy, l.Drain = "terminated", st.Terminated, st.TerminatedBy, nil
		}
		switch {
		case st.NeedsPerson():
			l.State = "needs you"
		case l.State == "draining" && st.Phase != drain.Draining:
			l.State = string(st.Phase)
		}
	}
	return l
}

func hostTable(w io.Writer, lines []hostLine) error {
	now := time.Now()
	t := newTable("HOST", "STATE", "SINCE", "BY", "WHY", "E", "S", "P", "D", "X", "?", "AGENT", "DRAIN")
	for _, l := range lines {
		since, who, why := "·", "·", "·"
		for _, h := range []*fleet.Hold{l.Holds.Drain, l.Holds.Cordon} {
			if h != nil {
				since, who, why = agoOr(h.Since, now), h.Who, h.Why
			}
		}
		switch {
		case !l.Terminated.IsZero():
			since, who, why = agoOr(l.Terminated, now), l.TerminatedBy, "terminated"
		case !l.Terminating.IsZero():
			since, who, why = agoOr(l.Terminating, now), l.TerminatingBy, "terminating"
		case !l.Unreachable.IsZero():
			since, why = agoOr(l.Unreachable, now), short(l.Problem)
		}
		row := []string{string(l.Host), l.State, since, orDot(who), orDot(why)}
		for _, c := range fleet.Classes {
			n := l.Classes[c]
			if c == fleet.Unclassified {
				n += l.Unattributed
			}
			row = append(row, count(n))
		}
		row = append(row, agoOr(l.Read, now))
		row = append(row, drainCell(l.Drain, now))
		t.add(row...)
	}
	if err := t.print(w); err != nil {
		return err
	}
	return parkedText(w, lines, now)
}

// parkedText names what is parked, wherever that is.
func parkedText(w io.Writer, lines []hostLine, now time.Time) error {
	for _, l := range lines {
		for _, p := range l.Parked {
			if _, err := fmt.Fprintf(w, "parked on %s: %s of %s, %s, in a drain of %s (ebb resume %s)\n", l.Host, widget.Clean(p.Key.String()),
				orDot(widget.Clean(p.Owner)), agoOr(p.Since, now), widget.Clean(p.By), l.Host.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// short keeps a problem to one line of a table; -o json and doctor have all of it.
func short(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func drainCell(d *drainLine, now time.Time) string {
	if d == nil {
		return "·"
	}
	text := string(d.Phase) + " " + d.says
	if !d.Phase.Ended() {
		text += ", ends in " + widget.Clock(d.Deadline.Sub(now))
	}
	return text
}

func count(n int) string {
	if n == 0 {
		return "·"
	}
	return strconv.Itoa(n)
}
