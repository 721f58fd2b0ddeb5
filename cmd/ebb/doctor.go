package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
)

func doctorCommand(a *app) *cobra.Command {
	var sample bool
	c := &cobra.Command{
		Use: "doctor", Short: "Look at everything a drain will need, and say what to do about what is missing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample {
				fmt.Fprint(a.out, station.Sample)
				return nil
			}
			return a.with(cmd.Context(), func(s *station.Station) error {
				checks := s.Doctor(cmd.Context())
				if err := a.show(checks, func(w io.Writer) error { return doctorText(w, checks) }); err != nil {
					return err
				}
				for _, c := range checks {
					if c.Result == "fail" {
						return &exitStatus{code: exitError}
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&sample, "sample", false, "print a configuration to start from")
	return a.outputFlag(c)
}

func doctorText(w io.Writer, checks []station.Checkup) error {
	t := newTable("", "WHAT", "FOUND", "DO")
	for _, c := range checks {
		t.add(c.Result, c.What, c.Detail, orDot(c.Do))
	}
	return t.print(w)
}
