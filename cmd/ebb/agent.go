package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/fleet"
	"ebb/tui/widget"
)

func agentCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Put the node agent on hosts"}
	var program string
	install := &cobra.Command{
		Use: "install HOST", Short: "Copy ebbd to a host over SSH and start it", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if program == "" {
				exe, err := os.Executable()
				if err != nil {
					return err
				}
				program = filepath.Join(filepath.Dir(exe), "ebbd")
			}
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				said, err := s.Install(cmd.Context(), id, program)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "%s: %s", id.Name(), widget.Clean(said))
				fmt.Fprintln(a.out)
				return nil
			})
		},
	}
	install.Flags().StringVar(&program, "program", "", "the ebbd to copy, for the host's system (default: the one beside ebb)")
	c.AddCommand(install, rebindCommand(a))
	return c
}

func rebindCommand(a *app) *cobra.Command {
	var confirm, reason string
	c := &cobra.Command{
		Use: "rebind HOST --confirm HOST", Short: "Say that the machine that answers now is the host, after it was reimaged or replaced",
		Long: `A host is bound to one machine with the first act on it. Where another machine
answers at its address, every act is refused, because it may not be the one that
is meant. Once you know that it is, bind the host to it. That is journaled with
both machines' ids, signed where the journal is shared.

A drain of the machine before stays one of that machine: end it with
ebb undrain HOST, and drain the host anew.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if confirm != args[0] {
				return &usageError{err: fmt.Errorf("rebind %s: repeat the host's name with --confirm %s", args[0], args[0])}
			}
			return a.withHost(cmd.Context(), args[0], func(s *station.Station, id fleet.HostID) error {
				if err := s.NeedJournal(); err != nil {
					return err
				}
				was, now, err := s.Engine.Rebind(cmd.Context(), id, confirm, reason)
				switch {
				case err != nil:
					return err
				case was == now:
					fmt.Fprintf(a.out, "%s: it is machine %s already\n", id, widget.Clean(now))
				default:
					fmt.Fprintf(a.out, "%s: bound to machine %s (it was %s)\n", id, widget.Clean(now), widget.Clean(cmp.Or(was, "unknown")))
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&confirm, "confirm", "", "the host's name once more")
	c.Flags().StringVar(&reason, "reason", "", "why")
	return c
}
