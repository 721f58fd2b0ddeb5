package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

func drainCommand(a *app) *cobra.Command {
	var flags drainFlags
	var detach bool
	c := &cobra.Command{
		Use: "drain HOST --deadline 45m", Short: "Empty a host, class by class; take an unfinished drain up again",
		Long: `Cordons the host first if needed and proves it, then lets every workload leave in
the way of its class. Prints events as lines. Ctrl-C releases the drain: it stays,
the host stays held, and the same command takes it up again.

Exit status 4 means that the deadline was reached and workloads are left, 5 that
the drain was stopped.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := flags.request()
			if err != nil {
				return err
			}
			defer a.unhurried(cmd.Context())()
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				return a.drain(cmd.Context(), s, id, req, detach)
			})
		},
	}
	flags.register(c, 0)
	c.Flags().BoolVar(&detach, "detach", false, "leave the driving to a resident engine (ebb run)")
	return c
}

func (a *app) drain(ctx context.Context, s *station.Station, id fleet.HostID, req engine.Request, detach bool) error {
	if err := s.NeedJournal(); err != nil {
		return err
	}
	before, err := s.State(ctx, id)
	if err != nil {
		return err
	}
	fresh := before.Drain == "" || before.Over() || before.Phase == drain.Stopped
	if fresh && req.Deadline == 0 {
		return &usageError{err: fmt.Errorf("drain %s: an outer deadline is required, as in --deadline 45m", id.Name())}
	}
	if !fresh && req.Deadline > 0 && before.Driver != "" && !before.Phase.Ended() && !detach {
		return &engine.Refused{Verb: "drain", Host: id, Next: fmt.Sprintf("ebb board %s --watch follows it; ebb ask %[1]s extend TIME moves its deadline", id.Name()),
			Issues: []fleet.Issue{{Detail: words.Name(before.Driver) + " drives its drain " + before.Drain + ": nothing was changed"}}}
	}
	plan, err := a.plan(ctx, s, id, req)
	if err != nil {
		return err
	}
	if fresh {
		if err := planTable(a.out, plan); err != nil {
			return err
		}
	}
	if detach {
		if err := needResident(ctx, s, id); err != nil {
			return err
		}
	}
	drainID, resumed, err := s.Engine.Start(ctx, id, req, plan)
	if err != nil {
		return err
	}
	if resumed {
		a.note("drain %s is there already: taking it up", drainID)
		if err := a.resume(ctx, s, id, before, req); err != nil {
			return err
		}
	}
	if detach {
		return a.detach(ctx, s, id, drainID)
	}
	return a.drive(ctx, s, id)
}

// needResident refuses to leave a drain to nobody.
func needResident(ctx context.Context, s *station.Station, id fleet.HostID) error {
	residents, err := s.Residents(ctx)
	if err != nil {
		return err
	}
	if len(residents) == 0 {
		return &station.HintError{Err: fmt.Errorf("drain %s: no resident engine is there to drive it; nothing was begun", id.Name()),
			Next: "start one with: ebb run, or drive it here, without --detach"}
	}
	return nil
}

// detach leaves a drain to a resident, and says which there are.
func (a *app) detach(ctx context.Context, s *station.Station, id fleet.HostID, drainID string) error {
	residents, err := s.Residents(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "drain %s is left to %s; follow it with: ebb board %s --watch\n", drainID, strings.Join(residents, " or "), id.Name())
	return nil
}

// resume says that a person is there, for a drain that waits for one, and moves
// the deadline where a new one was given.
func (a *app) resume(ctx context.Context, s *station.Station, id fleet.HostID, before drain.State, req engine.Request) error {
	if before.Phase == drain.Stopped {
		return nil // Start has asked for it again
	}
	if req.Deadline > 0 {
		now, err := s.Journal.Now(ctx)
		if err != nil {
			return err
		}
		return s.Engine.Ask(ctx, id, before.Drain, drain.AskExtend{Until: now.Add(req.Deadline)})
	}
	if before.Phase == drain.DeadlineReached {
		a.note("its deadline has passed: give it more time with --deadline, or escalate by name with: ebb ask %s/KIND/ID escalate", id.Name())
	}
	return nil
}

// drive prints the drain's events until it ends, and says with the exit status
// how. A gap that only a person may close is closed: one has typed the command.
func (a *app) drive(ctx context.Context, s *station.Station, id fleet.HostID) error {
	var by lifter
	st, err := a.driven(ctx, s, id, by.hear)
	if err != nil {
		return err
	}
	if now, err := s.Engine.State(ctx, id); err == nil && now.Drain == st.Drain {
		st = now // others may have gone on since
	}
	switch {
	case st.Undone, st.Phase == drain.Stopped && by.undrains:
		return a.undone(ctx, s, id, st, by)
	case st.Phase == drain.Empty:
		if err := stillRead(ctx, s, id, st); err != nil {
			return err
		}
	}
	return a.ended(id, st)
}

// driven drives, prints every event, and shows each to hear, which may be nil.
func (a *app) driven(ctx context.Context, s *station.Station, id fleet.HostID, hear func(drain.Event)) (drain.State, error) {
	sink := func(ev drain.Event) {
		fmt.Fprintf(a.out, "%s  %s\n", ev.At.Local().Format("15:04:05"), widget.Clean(words.Event(ev)))
		if hear != nil {
			hear(ev)
		}
		if took, ok := decoded[drain.DriveTook](ev); ok && took.Person {
			if err := s.Engine.Ask(ctx, id, ev.Drain, drain.AskRetry{}); err != nil {
				a.note("could not let it go on: %v", err)
			}
		}
	}
	st, err := s.Engine.Drive(ctx, id, sink)
	_, others := driver(err)
	switch {
	case others:
		return st, &exitStatus{exitRefused, fmt.Errorf("%w: follow it with ebb board %s --watch", err, id.Name())}
	case ctx.Err() != nil && st.Resumes():
		a.note("released: what was parked on %s is not all resumed; ebb resume %s goes on with that", id.Name(), id.Name())
		return st, &exitStatus{code: exitStopped}
	case ctx.Err() != nil:
		a.note("released: drain %s stays and holds %s; ebb drain %s takes it up again", st.Drain, id.Name(), id.Name())
		return st, &exitStatus{code: exitStopped}
	}
	return st, err
}

// driver is who drives a drain that could not be taken for that reason.
func driver(err error) (drain.Lease, bool) {
	var taken interface{ Held() drain.Lease }
	if !errors.As(err, &taken) {
		return drain.Lease{}, false
	}
	return taken.Held(), true
}

func (a *app) ended(id fleet.HostID, st drain.State) error {
	n := st.Count()
	switch st.Phase {
	case drain.Empty:
		fmt.Fprintf(a.out, "%s is empty. Next: ebb verify %s --out proof.json\n", id.Name(), id.Name())
		return nil
	case drain.Parked:
		fmt.Fprintf(a.out, "nothing is left on %s but what is parked there:\n", id.Name())
		for _, l := range parkedLines(st) {
			fmt.Fprintf(a.out, "  %s  %s  since %s\n", widget.Clean(l.Key.String()), orDot(widget.Clean(l.Owner)), l.Since.Local().Format("15:04:05"))
		}
		fmt.Fprintf(a.out, "it may be rebooted, and stays held. Next: ebb resume %s; ebb undrain %s, ebb uncordon %s\n", id.Name(), id.Name(), id.Name())
		return nil
	case drain.DeadlineReached:
		fmt.Fprintf(a.out, "deadline reached with %d left:\n", len(st.Left))
		for _, l := range st.Left {
			if l.Key.IsZero() { // of the host, not of a workload
				fmt.Fprintf(a.out, "  %s: %s\n", id.Name(), widget.Clean(words.Reason(l.Reason)))
				continue
			}
			fmt.Fprintf(a.out, "  %s  %s  %s  %s\n", widget.Clean(l.Key.String()), l.Class, orDot(widget.Clean(l.Owner)), widget.Clean(words.Reason(l.Reason)))
		}
		fmt.Fprintf(a.out, "the host stays held. Next: ebb ask %s extend 30m, ebb ask %s/KIND/ID escalate, or ebb undrain %s\n", id.Name(), id.Name(), id.Name())
		return &exitStatus{code: exitDeadline}
	case drain.Stopped:
		fmt.Fprintf(a.out, "stopped with %d left; the host stays held. Next: ebb undrain %s, then ebb uncordon %s\n", n.Left, id.Name(), id.Name())
		return &exitStatus{code: exitStopped}
	}
	return nil
}

// decoded returns an event's body if it is of type B.
func decoded[B drain.Body](ev drain.Event) (B, bool) {
	var none B
	body, err := ev.Decode()
	if err != nil {
		return none, false
	}
	b, ok := body.(B)
	return b, ok
}

// lifter is who takes a drain back while it is driven here, by what the journal
// tells meanwhile.
type lifter struct {
	name     string
	undrains bool // it was stopped so that its hold can be lifted
}

func (l *lifter) hear(ev drain.Event) {
	if ask, ok := decoded[drain.AskStop](ev); ok {
		l.name, l.undrains = ev.By.Name, ask.Undrain
	}
	if _, ok := decoded[drain.RecUndrain](ev); ok {
		l.name = ev.By.Name
	}
}

// undone ends a drain that somebody has taken back: what holds its host is no
// more the drain's to say.
func (a *app) undone(ctx context.Context, s *station.Station, id fleet.HostID, st drain.State, by lifter) error {
	name := widget.Clean(cmp.Or(by.name, "somebody"))
	if !st.Undone {
		fmt.Fprintf(a.out, "stopped with %d left: %s is about to lift its hold; how it stands: ebb board %s\n", st.Count().Left, name, id.Name())
		return &exitStatus{code: exitStopped}
	}
	holds, read := fleet.Holds{}, false
	if v, err := s.Observer.Look(ctx, id); err == nil {
		holds, _, read = v.Holds()
	}
	fmt.Fprintf(a.out, "stopped with %d left: %s has lifted its hold; %s\n", st.Count().Left, name, heldText(id, holds, read))
	return &exitStatus{code: exitStopped}
}

// heldText says what holds a host whose drain was taken back.
func heldText(id fleet.HostID, holds fleet.Holds, read bool) string {
	switch {
	case !read:
		return fmt.Sprintf("whether a cordon still holds %s is not known: it can't be read", id.Name())
	case holds.Drain != nil:
		return fmt.Sprintf("drain %s holds %s now", widget.Clean(holds.Drain.Drain), id.Name())
	case holds.Cordon != nil:
		return fmt.Sprintf("%s is still cordoned by %s. Next: ebb uncordon %s", id.Name(), widget.Clean(holds.Cordon.Who), id.Name())
	}
	return id.Name() + " serves"
}

// stillRead returns an error where a drain that has ended with nothing left is
// that of a host which can't be read now: it is not known to be empty any more.
func stillRead(ctx context.Context, s *station.Station, id fleet.HostID, st drain.State) error {
	v, err := s.Observer.Look(ctx, id)
	if err != nil {
		return err
	}
	if _, ok := v.Facts.Get(); ok {
		return nil
	}
	return &station.HintError{Err: fmt.Errorf("drain %s: it was read as empty at %s; it can't be read now: %s", id.Name(), st.Since.Local().Format("15:04"), v.Facts.Error),
		Next: "ebb board " + id.Name()}
}

func undrainCommand(a *app) *cobra.Command {
	var theirs, leave bool
	c := &cobra.Command{
		Use: "undrain HOST", Short: "Stop the drain and lift its hold; the cordon stays",
		Long: `Where that was the last hold, what is parked on the host is resumed: see ebb resume.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				left, err := s.Engine.Undrain(cmd.Context(), id, theirs)
				if err != nil {
					return err
				}
				if left.Nothing {
					fmt.Fprintf(a.out, "%s: no drain holds it, nothing to lift\n", id)
					return nil
				}
				if left.Cordon != nil {
					fmt.Fprintf(a.out, "%s: the drain hold is lifted; still cordoned by %s (ebb uncordon %s)\n", id, widget.Clean(left.Cordon.Who), id.Name())
				} else {
					fmt.Fprintf(a.out, "%s: the drain hold is lifted\n", id)
				}
				return a.giveBack(cmd.Context(), s, id, left.Holds, leave)
			})
		},
	}
	c.Flags().BoolVar(&theirs, "theirs", false, "lift the hold of a drain that somebody else began, or that this journal does not know")
	c.Flags().BoolVar(&leave, "leave-parked", false, "leave what is parked there as it is")
	return c
}

// leftText is how long until a deadline, or how long past it.
func leftText(deadline, now time.Time) string { return widget.Left(deadline.Sub(now)) }
