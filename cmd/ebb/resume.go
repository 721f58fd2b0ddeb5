package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/fleet"
	"ebb/tui/widget"
	"ebb/tui/words"
)

func resumeCommand(a *app) *cobra.Command {
	var detach bool
	c := &cobra.Command{
		Use: "resume HOST[/KIND/ID]", Short: "Resume what a drain has parked on its host",
		Long: `A drain parks what is pausable where its rule, or a person, says so: its state is
kept at rest on the host, through a reboot, and nothing resumes by itself. This is
the word on which it comes back: one workload, or all of them. A drain that is still
at work would park it again, so nothing is resumed before that is stopped, with
ebb ask HOST stop; one that has ended is over with it. Both holds stay, until
ebb undrain and ebb uncordon lift them. Those say the word too, where they lift the
last hold.

Before a workload is resumed its state must be there, be claimed on this host, and
the host must have the versions that it was parked on. What is not resumed stays as
it is, with the reason; the same command tries again.

Prints events as lines. Exit status 1 means that something was not resumed.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, key, err := splitTarget(args[0])
			if err != nil {
				return err
			}
			return a.withHost(cmd.Context(), host, func(s *station.Station, id fleet.HostID) error {
				return a.resumeParked(cmd.Context(), s, id, key, detach)
			})
		},
	}
	c.Flags().BoolVar(&detach, "detach", false, "leave it to a resident engine (ebb run)")
	return c
}

func (a *app) resumeParked(ctx context.Context, s *station.Station, id fleet.HostID, key fleet.Key, detach bool) error {
	if err := s.NeedJournal(); err != nil {
		return err
	}
	if detach {
		if err := needResident(ctx, s, id); err != nil {
			return err
		}
	}
	keys, err := s.Engine.Resume(ctx, id, key)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s: resuming %s\n", id.Name(), planNames(keys))
	if detach {
		st, err := s.Engine.State(ctx, id)
		if err != nil {
			return err
		}
		return a.detach(ctx, s, id, st.Drain)
	}
	st, err := a.driven(ctx, s, id, nil)
	if err != nil {
		return a.resumedByOther(ctx, s, id, keys, err)
	}
	return a.cameBack(id, st, keys)
}

// resumedByOther says who carries a resume out that could not be driven here:
// whoever drives the drain reads the same ask, and may even be done with it.
func (a *app) resumedByOther(ctx context.Context, s *station.Station, id fleet.HostID, keys []fleet.Key, err error) error {
	if l, others := driver(err); others {
		fmt.Fprintf(a.out, "%s resumes it: ebb board %s\n", widget.Clean(l.Holder), id.Name())
		return nil
	}
	if st, serr := s.Engine.State(ctx, id); serr == nil && !st.Resumes() {
		return a.cameBack(id, st, keys)
	}
	return err
}

// cameBack says what of that which was asked for runs again.
func (a *app) cameBack(id fleet.HostID, st drain.State, keys []fleet.Key) error {
	var not []string
	for _, k := range keys {
		it := st.Items[k]
		switch {
		case !it.Resumed.IsZero() && it.Open() && !it.Move.Resting():
			fmt.Fprintf(a.out, "%s runs on %s again\n", widget.Clean(k.String()), id.Name())
		case !it.Open():
			not = append(not, k.String()+": "+words.Ending(it))
		default:
			not = append(not, k.String()+": "+words.Reason(it.Reason))
		}
	}
	if len(not) > 0 {
		return &station.HintError{Err: fmt.Errorf("resume %s: not resumed: %s", id.Name(), widget.Clean(strings.Join(not, "; "))),
			Next: "look, and say it again: ebb resume " + id.Name()}
	}
	return nil
}

// giveBack resumes what is parked on a host from which the last hold was lifted,
// unless it is to be left.
func (a *app) giveBack(ctx context.Context, s *station.Station, id fleet.HostID, left fleet.Holds, leave bool) error {
	if s.Journal == nil {
		return nil
	}
	st, err := s.Engine.State(ctx, id)
	if err != nil { // the hold is lifted all the same
		a.note("%s: whether anything is parked there is not known: %v", id.Name(), err)
		return nil
	}
	parked := st.Parked()
	switch {
	case len(parked) == 0:
		return nil
	case left.Any() || leave:
		fmt.Fprintf(a.out, "%s: parked there, until ebb resume %s: %s\n", id, id.Name(), planNames(parked))
		return nil
	}
	return a.resumeParked(ctx, s, id, fleet.Key{}, false)
}

// parkedLine is one workload that is parked on a host, and whose doing that was.
type parkedLine struct {
	Key   fleet.Key `json:"key"`
	Owner string    `json:"owner,omitempty"`
	Since time.Time `json:"since"`
	By    string    `json:"by"`
}

func parkedLines(st drain.State) []parkedLine {
	var lines []parkedLine
	for _, k := range st.Parked() {
		it := st.Items[k]
		by := it.ParkBy
		if by == "" {
			by = st.By.Name
		}
		lines = append(lines, parkedLine{Key: k, Owner: it.Owner, Since: it.ParkedAt(), By: by})
	}
	return lines
}
