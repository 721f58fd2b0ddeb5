package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain/engine"
	"ebb/fleet"
	"ebb/tui/widget"
)

// answersIn is how long host and plane may take to answer before that is said.
const answersIn = 3 * time.Second

func cordonCommand(a *app) *cobra.Command {
	var reason string
	var noWait bool
	var confirm int
	c := &cobra.Command{
		Use: "cordon HOST…", Short: "Keep new work away, at plane and host at once, and prove it",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, hosts []string) error {
			return a.with(cmd.Context(), func(s *station.Station) error {
				if err := bigShare(cmd.Context(), s, hosts, confirm); err != nil {
					return err
				}
				return a.each(cmd.Context(), s, hosts, func(ctx context.Context, id fleet.HostID) error {
					if err := a.cordon(ctx, s, id, reason, !noWait); err != nil || !cmd.Flags().Changed("reason") {
						return err
					}
					return a.reword(ctx, s, id, reason)
				})
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "on a hunch", "why, for everybody who finds the host cordoned")
	c.Flags().BoolVar(&noWait, "no-wait", false, "return once host and plane have confirmed, without waiting for the proof")
	c.Flags().IntVar(&confirm, "confirm", 0, "how many hosts, where they are more than a quarter of a pool")
	return a.outputFlag(c)
}

// bigShare wants the count of several hosts that are more than a quarter of a
// pool: a slip of a glob must not take a pool out of service. A plane that can't
// be read does not keep a cordon from being set.
func bigShare(ctx context.Context, s *station.Station, names []string, confirmed int) error {
	if len(names) < 2 || confirmed == len(names) {
		return nil
	}
	all, err := s.Hosts(ctx)
	if err != nil {
		return nil
	}
	size, share := map[string]int{}, map[string]int{}
	for _, h := range all {
		pool := h.ID.Plane() + "/" + h.Pool()
		size[pool]++
		if slices.Contains(names, h.ID.Name()) || slices.Contains(names, string(h.ID)) {
			share[pool]++
		}
	}
	for pool, n := range share {
		if n > 1 && 4*n > size[pool] {
			return &engine.Refused{Verb: "cordon", Host: fleet.HostID(names[0] + " …"), Issues: []fleet.Issue{{
				Detail: fmt.Sprintf("%d of the %d hosts of pool %s are more than a quarter of it: say how many hosts you mean with --confirm %d", n, size[pool], pool, len(names))}}}
		}
	}
	return nil
}

// each runs a verb for every host, goes on after a failure, and returns them all.
func (a *app) each(ctx context.Context, s *station.Station, names []string, verb func(context.Context, fleet.HostID) error) error {
	ids := make([]fleet.HostID, 0, len(names))
	for _, n := range names {
		id, err := s.Resolve(ctx, n)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	var errs []error
	for _, id := range ids {
		if err := verb(ctx, id); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (a *app) cordon(ctx context.Context, s *station.Station, id fleet.HostID, reason string, wait bool) error {
	slow := time.AfterFunc(answersIn, func() {
		a.note("%s: not both of host and plane have answered yet; trying on, Ctrl-C ends that", id.Name())
	})
	defer slow.Stop()
	r, err := s.Engine.Cordon(ctx, id, reason, wait, func(engine.CordonReport) {
		slow.Stop()
		if wait && a.output != "json" {
			a.note("%s: host and plane are told; proving it takes until the scheduler's cache window has passed", id.Name())
		}
	})
	if serr := a.show(r, func(w io.Writer) error { return cordonText(w, r, err) }); serr != nil {
		return serr
	}
	return err
}

// reword gives a cordon that was there before, and is one's own, the reason that
// was typed now. Another's keeps the words of whoever set it.
func (a *app) reword(ctx context.Context, s *station.Station, id fleet.HostID, reason string) error {
	err := s.Engine.Reword(ctx, id, reason)
	var refused *engine.Refused
	if errors.As(err, &refused) {
		a.note("%s: %s", id.Name(), refused.Issues[0].Detail)
		return nil
	}
	return err
}

func cordonText(w io.Writer, r engine.CordonReport, err error) error {
	if err != nil {
		return nil // the error says it
	}
	fmt.Fprintf(w, "%s: %s\n", r.Host, r.State)
	for _, p := range r.Proved {
		fmt.Fprintf(w, "  ✓ %s\n", widget.Clean(p))
	}
	for _, note := range []struct{ label, text string }{
		{"weaker", r.Weaker}, {"the plane's flag was set by", r.Theirs}, {"audit", r.Audit}, {"journal", r.Journal},
	} {
		if note.text != "" {
			fmt.Fprintf(w, "  ! %s: %s\n", note.label, widget.Clean(note.text))
		}
	}
	return nil
}

// stands says what becomes of a drain whose host is cordoned no more.
func (a *app) stands(ctx context.Context, s *station.Station, id fleet.HostID) string {
	if st, err := s.State(ctx, id); err != nil || st.Drain == "" || st.Over() || st.Phase.Ended() {
		return fmt.Sprintf(" (ebb undrain %s)", id.Name())
	}
	return fmt.Sprintf(", and does nothing until the cordon is back: ebb cordon %s, or ebb undrain %[1]s", id.Name())
}

func uncordonCommand(a *app) *cobra.Command {
	var theirs, leave bool
	var reason string
	c := &cobra.Command{
		Use: "uncordon HOST…", Short: "Lift the cordon, and nothing else",
		Long: `Where that was the last hold, what is parked on the host is resumed: see ebb resume.`,
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, hosts []string) error {
			return a.with(cmd.Context(), func(s *station.Station) error {
				return a.each(cmd.Context(), s, hosts, func(ctx context.Context, id fleet.HostID) error {
					left, err := s.Engine.Uncordon(ctx, id, reason, theirs)
					if err != nil {
						return err
					}
					switch {
					case left.Nothing && left.Drain != nil:
						fmt.Fprintf(a.out, "%s: it is not cordoned, nothing to lift; drain %s holds it (ebb undrain %s)\n", id, left.Drain.Drain, id.Name())
						return nil
					case left.Nothing:
						fmt.Fprintf(a.out, "%s: it is not cordoned, nothing to lift\n", id)
						return nil
					case left.Drain != nil:
						fmt.Fprintf(a.out, "%s: the cordon is lifted; drain %s still holds it%s\n", id, left.Drain.Drain, a.stands(ctx, s, id))
					default:
						fmt.Fprintf(a.out, "%s: serving\n", id)
					}
					return a.giveBack(ctx, s, id, left.Holds, leave)
				})
			})
		},
	}
	c.Flags().BoolVar(&theirs, "theirs", false, "lift a cordon that someone else set")
	c.Flags().BoolVar(&leave, "leave-parked", false, "leave what is parked there as it is")
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}
