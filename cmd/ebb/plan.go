package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/drain"
	"ebb/drain/engine"
	"ebb/fleet"
)

// drainFlags are the flags that say what kind of drain is wanted.
type drainFlags struct {
	deadline span
	purpose  string
	evacuate bool
	reason   string
}

func (f *drainFlags) register(c *cobra.Command, deadline time.Duration) {
	f.deadline = span(deadline)
	c.Flags().Var(&f.deadline, "deadline", "outer deadline: when the drain stops trying and names what is left")
	c.Flags().StringVar(&f.purpose, "for", "", "kernel, driver, engine, hardware or retire")
	c.Flags().BoolVar(&f.evacuate, "evacuate", false, "existing work goes on only until it has been moved")
	c.Flags().StringVar(&f.reason, "reason", "", "why, for owners and for whoever finds the host")
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"kernel", "driver", "engine", "hardware", "retire"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *drainFlags) request() (engine.Request, error) {
	p := fleet.Purpose(f.purpose)
	if p != fleet.ForUnstated && !slices.Contains(fleet.Purposes, p) {
		return engine.Request{}, &usageError{err: fmt.Errorf("purpose %q: want kernel, driver, engine, hardware or retire", f.purpose)}
	}
	return engine.Request{Deadline: time.Duration(f.deadline), For: p, Evacuate: f.evacuate, Reason: f.reason}, nil
}

func planCommand(a *app) *cobra.Command {
	var flags drainFlags
	c := &cobra.Command{
		Use: "plan HOST", Short: "Say what a drain would do to each workload, what would block it, and who may die",
		Long: `Changes nothing. Every workload stands with its class and the rule that gave it
that, its strategy, its likely target, its budget (to move, and between the two
TERMs), when it should be gone, whether it may be killed, and why it would stay.
Levers are asked whether they could move theirs; one that does not answer within
ten seconds is named.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := flags.request()
			if err != nil {
				return err
			}
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				p, err := a.plan(cmd.Context(), s, id, req)
				if err != nil {
					return err
				}
				return a.show(p, func(w io.Writer) error { return planTable(w, p) })
			})
		},
	}
	flags.register(c, 45*time.Minute)
	return a.outputFlag(c)
}

// plan needs to know the other hosts, as targets; a command has no observer
// running, so it surveys them once.
func (a *app) plan(ctx context.Context, s *station.Station, id fleet.HostID, req engine.Request) (drain.Plan, error) {
	s.Observe(ctx)
	if err := s.Observed(ctx, id); err != nil {
		return drain.Plan{}, err
	}
	return s.Engine.Plan(ctx, id, req)
}
