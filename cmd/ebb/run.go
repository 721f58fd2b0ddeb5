package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/tui/widget"
)

// residentUnit lets systemd keep a resident engine running.
const residentUnit = `[Unit]
Description=ebb resident engine
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/local/bin/ebb run
Restart=always
RestartSec=2s
# Drives are released on TERM, so that another engine takes them up at once.
KillSignal=SIGTERM
TimeoutStopSec=20s
DynamicUser=yes
StateDirectory=ebb
Environment=XDG_STATE_HOME=/var/lib
LoadCredential=ssh:/etc/ebb/id_ed25519

[Install]
WantedBy=multi-user.target
`

func runCommand(a *app) *cobra.Command {
	var unit bool
	c := &cobra.Command{
		Use: "run", Short: "Stay, and drive every drain that has no driver",
		Long: `A resident engine. As many as wanted may run; a drain's lease lets one drive it.
A drain whose driver ends without a word is taken up within 20 seconds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if unit {
				fmt.Fprint(a.out, residentUnit)
				return nil
			}
			defer a.unhurried(cmd.Context())()
			return a.with(cmd.Context(), func(s *station.Station) error { return a.resident(cmd.Context(), s) })
		},
	}
	c.Flags().BoolVar(&unit, "unit", false, "print a systemd unit")
	return c
}

func (a *app) resident(ctx context.Context, s *station.Station) error {
	if err := s.NeedJournal(); err != nil {
		return err
	}
	station.Frugal()
	s.Observe(ctx)
	r := station.NewResident(s)
	r.Say = func(line string) {
		fmt.Fprintf(a.out, "%s  %s\n", time.Now().Format("15:04:05"), widget.Clean(line))
	}
	r.Say("resident " + s.Holder + " is there; journal " + s.Journal.Name())
	return r.Run(ctx)
}
