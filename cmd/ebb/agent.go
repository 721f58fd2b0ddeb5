package main

import (
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
	c.AddCommand(install)
	return c
}
