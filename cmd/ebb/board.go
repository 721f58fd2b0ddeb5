package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/fleet"
	"ebb/fleet/sshlink"
	"ebb/tui/logview"
	"ebb/tui/widget"
	"ebb/tui/words"
)

func boardCommand(a *app) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use: "board HOST", Short: "Show a host's drain: what is left by name, why, and until when",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			defer a.interruptible(cmd.Context())()
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				if err := s.NeedJournal(); err != nil {
					return err
				}
				return repeat(cmd.Context(), watch, func(ctx context.Context) error { return a.board(ctx, s, id) })
			})
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "print it again every two seconds, without moving the cursor")
	return a.outputFlag(c)
}

// repeat runs fn once, or until the context ends.
func repeat(ctx context.Context, again bool, fn func(context.Context) error) error {
	for {
		switch err := fn(ctx); {
		case again && ctx.Err() != nil:
			return nil // it was ended, whatever it was reading then
		case err != nil || !again:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func (a *app) board(ctx context.Context, s *station.Station, id fleet.HostID) error {
	st, err := s.State(ctx, id)
	if err != nil {
		return err
	}
	if st.Drain == "" {
		return &station.HintError{Err: fmt.Errorf("board %s: it has never been drained", id), Next: "ebb plan " + id.Name()}
	}
	now, err := s.Journal.Now(ctx)
	if err != nil {
		return err
	}
	return a.show(st, func(w io.Writer) error { return boardText(w, st, s.Policy, now) })
}

func boardText(w io.Writer, st drain.State, p drain.Policy, now time.Time) error {
	n := st.Count()
	purpose := ""
	if st.For != fleet.ForUnstated {
		purpose = " for " + string(st.For)
	}
	driver := "driven by " + st.Driver
	switch {
	case st.Undriven():
		driver = "nobody drives it: ebb drain " + st.Host.Name() + " takes it up"
	case st.Driver == "":
		driver = "nobody drives it"
	}
	if st.Undone {
		fmt.Fprintf(w, "%s  no drain runs; the last one, %s by %s, was undone: what it left\n", st.Host, st.Drain, st.By.Name)
	} else {
		fmt.Fprintf(w, "%s  %s%s  drain %s by %s  %s\n", st.Host, words.Phase(st.Phase), purpose, st.Drain, st.By.Name, driver)
	}
	parked := ""
	if n.Parked > 0 {
		parked = fmt.Sprintf("  %d parked here", n.Parked)
	}
	fmt.Fprintf(w, "%s  %s%s  %d need you  %d over budget  %d arrived late  %d lost\n", endsText(st, now), words.StillLeft(st), parked, n.NeedsYou, n.Overdue, n.Late, n.Lost)
	if !st.Waiting.IsZero() {
		fmt.Fprintf(w, "waits: %s\n", widget.Clean(words.Reason(st.Waiting)))
	}
	if !st.First && !st.Phase.Ended() {
		fmt.Fprintf(w, "its workloads are counted once the cordon has taken; ebb plan %s lists them\n", st.Host.Name())
	}
	t := newTable("", "CLASS", "WORKLOAD", "OWNER", "STEP", "WHY", "NEXT")
	for _, k := range boardOrder(st) {
		it := st.Items[k]
		if !it.Open() {
			t.add(mark(it), it.Class.String(), k.String(), orDot(it.Owner), string(it.End), words.Ending(it), it.EndAt.Local().Format("15:04:05"))
			continue
		}
		next := "·"
		if at, what := words.Next(it, st, p, now); !at.IsZero() {
			next = what + " " + at.Local().Format("15:04:05")
		}
		t.add(mark(it), it.Class.String(), k.String(), orDot(it.Owner), orDot(string(it.Step)), orDot(words.DoingIn(it, st, p, false)), next)
	}
	if err := t.print(w); err != nil {
		return err
	}
	for _, is := range st.Issues {
		fmt.Fprintf(w, "gate: %s\n", widget.Clean(is.Detail))
	}
	told := map[string]bool{} // what to type, once for what is answered alike
	for _, k := range boardOrder(st) {
		if verbs := answersTo(st.Items[k]); verbs != "" && !told[verbs] && st.Terminated.IsZero() && !st.Undone {
			told[verbs] = true
			fmt.Fprintf(w, "▲ answer it: ebb ask %s %s\n", sshlink.ShellQuote(widget.Clean(st.Host.Name()+"/"+k.String())), verbs)
		}
	}
	return nil
}

// answersTo is what can be asked of a workload that needs somebody.
func answersTo(it drain.Item) string {
	switch {
	case !it.Open() || !drain.NeedsPerson(it.Reason.Code) || !it.Resume.IsZero() || it.Parked():
		return ""
	case it.Reason.Code == drain.WaitTargetGone:
		return "target-gone"
	case it.Held:
		return "retry (or escalate, or keep --reason TEXT)"
	case drain.Claimless(it):
		return "keep --reason TEXT (or escalate)"
	}
	return "keep --reason TEXT (or escalate, or class CLASS)"
}

// endsText is until when a drain goes on, or since when it does not.
func endsText(st drain.State, now time.Time) string {
	switch {
	case st.Phase == drain.DeadlineReached:
		return "deadline " + st.Deadline.Local().Format("15:04:05") + " reached"
	case st.Phase.Ended():
		return words.Phase(st.Phase) + " since " + st.Since.Local().Format("15:04:05")
	}
	return "ends " + st.Deadline.Local().Format("15:04:05") + " (" + leftText(st.Deadline, now) + ")"
}

func mark(it drain.Item) string {
	switch {
	case it.End == drain.Lost:
		return "✕"
	case it.Open() && drain.NeedsPerson(it.Reason.Code):
		return "▲"
	case it.Late:
		return "late"
	}
	return ""
}

// boardOrder is open before ended, then by class, then by name.
func boardOrder(st drain.State) []fleet.Key {
	keys := make([]fleet.Key, 0, len(st.Items))
	for k := range st.Items {
		keys = append(keys, k)
	}
	rank := func(k fleet.Key) int {
		it := st.Items[k]
		r := slices.Index(fleet.Classes, it.Class)
		if !it.Open() {
			r += 10
		}
		return r
	}
	slices.SortFunc(keys, func(x, y fleet.Key) int {
		if d := rank(x) - rank(y); d != 0 {
			return d
		}
		return x.Compare(y)
	})
	return keys
}

func diffCommand(a *app) *cobra.Command {
	var watch, all bool
	c := &cobra.Command{
		Use: "diff HOST", Short: "Show where the control plane's claims and the host differ",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			defer a.interruptible(cmd.Context())()
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				return repeat(cmd.Context(), watch, func(ctx context.Context) error { return a.diff(ctx, s, id, all) })
			})
		},
	}
	c.Flags().BoolVar(&watch, "watch", false, "print it again every two seconds")
	c.Flags().BoolVar(&all, "all", false, "also what agrees")
	return a.outputFlag(c)
}

func (a *app) diff(ctx context.Context, s *station.Station, id fleet.HostID, all bool) error {
	v, err := s.Observer.Look(ctx, id)
	if err != nil {
		return err
	}
	findings := v.Findings
	if !all {
		findings = slices.DeleteFunc(slices.Clone(findings), func(f fleet.Finding) bool { return f.Verdict.Clean() })
	}
	err = a.show(struct {
		Host        fleet.HostID    `json:"host"`
		Stable      bool            `json:"stable"`
		Unreachable string          `json:"unreachable,omitempty"`
		Findings    []fleet.Finding `json:"findings"`
	}{id, v.Stable, v.Problem, findings}, func(w io.Writer) error { return diffText(w, v, findings) })
	if err == nil {
		err = a.unread(ctx, s, "diff", v)
	}
	return err
}

// unread is why a host could not be read, with what to type next.
func (a *app) unread(ctx context.Context, s *station.Station, verb string, v fleet.HostView) error {
	if v.Facts.Status == fleet.OK {
		return nil
	}
	if err := s.Reach(ctx, v.Host.ID); err != nil {
		return fmt.Errorf("%s %s: the host can't be read: %w", verb, v.Host.ID, err)
	}
	return fmt.Errorf("%s %s: the host can't be read: %s", verb, v.Host.ID, v.Facts.Error)
}

func diffText(w io.Writer, v fleet.HostView, findings []fleet.Finding) error {
	counts := map[fleet.Verdict]int{}
	for _, f := range v.Findings {
		counts[f.Verdict]++
	}
	fmt.Fprintf(w, "%s: %d agreed, %d at rest, %d ghosts, %d orphans, %d leaks, %d unattributed, %d unknown\n", v.Host.ID,
		counts[fleet.Agreed], counts[fleet.Resting], counts[fleet.Ghost], counts[fleet.Orphan], counts[fleet.Leak], counts[fleet.Unattributed], counts[fleet.UnknownV])
	if len(findings) == 0 {
		return nil
	}
	t := newTable("VERDICT", "WHAT", "OWNER", "SINCE", "EVIDENCE")
	for _, f := range findings {
		var says []string
		for _, e := range f.Evidence {
			says = append(says, e.Source+": "+e.Says)
		}
		t.add(words.Verdict(f.Verdict), f.Key.String(), orDot(f.Owner), agoOr(f.Since, time.Now()), strings.Join(says, "; "))
	}
	return t.print(w)
}

func logCommand(a *app) *cobra.Command {
	var follow bool
	var filter, export string
	c := &cobra.Command{
		Use: "log [HOST]", Short: "Print the journal, of one host or of all",
		Long: `Prints the journal, of one host or of all.

--filter takes what / takes on the console's log: words that an event must have,
!words that it must not, and kind:, by:, host:, workload: or drain: with the
beginning of a value. --export writes the journal as it is, an event a line, for
ebb replay or to be read into another journal.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if export != "" && (follow || filter != "") {
				return &usageError{err: fmt.Errorf("--export writes the whole journal, once: without --follow and --filter"), command: cmd.CommandPath()}
			}
			defer a.interruptible(cmd.Context())()
			return a.with(cmd.Context(), func(s *station.Station) error {
				if err := s.NeedJournal(); err != nil {
					return err
				}
				var only fleet.HostID
				var err error
				if len(args) == 1 {
					if only, err = s.Resolve(cmd.Context(), args[0]); err != nil {
						return err
					}
				}
				if export != "" {
					return a.exportJournal(cmd.Context(), s, only, export)
				}
				if a.filter, err = widget.ParseFilter(filter); err != nil {
					return &usageError{err: err, command: cmd.CommandPath()}
				}
				return a.log(cmd.Context(), s, only, follow)
			})
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on printing what is added")
	c.Flags().StringVar(&filter, "filter", "", "print only what matches: words, !words, kind:drive.waits, by:mira, workload:web-7")
	c.Flags().StringVar(&export, "export", "", "write the whole journal to this file instead, an event a line (- for the output)")
	return a.outputFlag(c)
}

func (a *app) log(ctx context.Context, s *station.Station, only fleet.HostID, follow bool) error {
	after := uint64(0)
	line := func(events []drain.Event) error {
		for _, ev := range events {
			after = ev.Seq
			if only != "" && ev.Stream != string(only) || !a.filter.Match(logview.Filterable(ev)) {
				continue
			}
			if err := a.logLine(ev); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		events, err := s.Journal.All(ctx, after, 500)
		switch {
		case follow && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := line(events); err != nil {
			return err
		}
		if len(events) < 500 {
			break
		}
	}
	if !follow {
		return nil
	}
	err := s.Journal.Watch(ctx, after, line)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *app) logLine(ev drain.Event) error {
	if a.output == "json" {
		return json.NewEncoder(a.out).Encode(ev)
	}
	_, err := fmt.Fprintf(a.out, "%s  %-16s  %-12s  %s\n", ev.At.Local().Format("2006-01-02 15:04:05"), widget.Clean(ev.Stream),
		widget.Clean(ev.By.Name), widget.Clean(words.Event(ev)))
	return err
}
