package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ebb/fleet"
	"ebb/probes/agent"
	"ebb/probes/wire"
)

func (c command) facts() *cobra.Command {
	var h hostFlags
	var format string
	cmd := &cobra.Command{
		Use: "facts", Short: "look at this host once, without the daemon", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "json" && format != "table" {
				return &exit{status: 2, err: fmt.Errorf("output %q: want table or json", format)}
			}
			loaded, err := h.load()
			if err != nil {
				return err
			}
			machine, boot, booted, err := loaded.identity()
			if err != nil {
				return err
			}
			now := time.Now()
			f := fleet.Facts{
				At: now, Machine: machine, Boot: boot, BootedAt: booted,
				Agent: fleet.AgentInfo{Version: versionText(), Scope: h.scope},
			}
			f.Hostname, _ = os.Hostname()
			if rec, err := agent.ReadHolds(loaded.stateDir); err == nil && rec.Machine == machine {
				f.Holds, f.Unheld = rec.Holds, rec.Unheld
			} else {
				f.Unheld = true
			}
			loaded.prober().Scan(cmd.Context(), now).Into(&f)
			wire.SortProcesses(f.Processes.Value)
			if format == "json" {
				enc := json.NewEncoder(c.out)
				enc.SetIndent("", "  ")
				return enc.Encode(f)
			}
			return c.factsTable(f)
		},
	}
	h.register(cmd)
	h.registerScope(cmd)
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

func (c command) factsTable(f fleet.Facts) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "machine\t%s\nboot\t%s\n\nPROBE\tSTATUS\tSOURCE\tTOOK\tERROR\n", f.Machine, f.Boot)
	for _, p := range f.Probes() {
		status := string(p.Status)
		if status == "" {
			status = "unknown"
		}
		fmt.Fprintf(w, "%s\t%s\t%q\t%v\t%q\n", p.Name, status, p.Source, p.Took.Round(time.Millisecond), p.Error)
	}
	fmt.Fprintf(w, "\nWORKLOAD\tPHASE\tCLASS\tRULE\tPROCESSES\n")
	for _, wl := range f.Workloads.Value {
		fmt.Fprintf(w, "%q\t%s\t%s\t%q\t%d\n", wl.Key.String(), wl.Phase, wl.Class, wl.Rule, len(wl.Runs))
	}
	fmt.Fprintf(w, "\nUNATTRIBUTED\tPID\tUID\n")
	for _, p := range f.Processes.Value {
		if p.Owner.IsZero() && p.System == "" && p.Kept == "" {
			fmt.Fprintf(w, "%q\t%d\t%d\n", p.Comm, p.Run.PID, p.UID)
		}
	}
	return w.Flush()
}

func (c command) initState() *cobra.Command {
	var h hostFlags
	cmd := &cobra.Command{
		Use: "init", Short: "record that nothing holds this new host", Args: cobra.NoArgs,
		Long: "Makes the state directory and records that nothing holds this host, so that its agent admits work.\n" +
			"Refuses where there is a record already: only uncordon and undrain lift holds.",
		RunE: func(*cobra.Command, []string) error {
			loaded, err := h.load()
			if err != nil {
				return err
			}
			machine, _, _, err := loaded.identity()
			if err != nil {
				return err
			}
			if err := agent.Init(loaded.stateDir, machine); err != nil {
				return &exit{status: 3, err: err}
			}
			return nil
		},
	}
	h.register(cmd)
	return cmd
}
