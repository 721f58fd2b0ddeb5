package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/cmd/version"
	"ebb/fleet"
	"ebb/tui/widget"
)

// app is what every command needs: streams, environment, and the flags of the
// root.
type app struct {
	in     io.Reader
	out    io.Writer
	errs   io.Writer
	getenv func(string) string

	config   string
	output   string
	readOnly bool
	ascii    bool
	theme    string
	screen   screenFlags
	logFile  string
	filter   widget.Filter // of the log
	demo     int           // hosts that end with this program
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "ebb",
		Short: "Take hosts out of service without losing what runs on them",
		Long: `ebb takes hosts out of service without losing what runs on them.

Three verbs, apart: cordon (cheap, undone with uncordon), drain (every workload
leaves in its own way, inside a deadline), terminate (only with a proof that the
host itself confirms). Without a command, ebb opens the console.`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context()) },
	}
	root.PersistentFlags().StringVar(&a.config, "config", "", "fleet.toml (default $EBB_CONFIG, then the user's, then /etc/ebb/fleet.toml)")
	root.PersistentFlags().StringVar(&a.logFile, "log-file", "", "write a log of what ebb itself does to this file")
	a.screenFlags(root)
	root.SetFlagErrorFunc(badFlag)
	root.AddCommand(
		hostsCommand(a), cordonCommand(a), uncordonCommand(a), planCommand(a), drainCommand(a), undrainCommand(a), resumeCommand(a),
		askCommand(a), acceptCommand(a), boardCommand(a), diffCommand(a), cleanCommand(a), verifyCommand(a),
		proofCommand(a), terminateCommand(a), logCommand(a), replayCommand(a), handoverCommand(a), doctorCommand(a), agentCommand(a), demoCommand(a), leverCommand(a), workloadCommand(), demoLeverCommand(), runCommand(a),
		manCommand(a),
	)
	document(root)
	usageArgs(root)
	return root
}

// usageArgs makes a wrong number of arguments a usage error, for exit status 2,
// and has each command's usage errors point at its own help.
// A command that is only a group of others shows its help, and refuses a word that
// is none of them.
func usageArgs(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		c.Args, c.RunE = cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{err: wrongArgs(cmd, args, err), command: cmd.CommandPath()}
			}
			return nil
		}
	}
	if do := c.RunE; do != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error { return ofCommand(cmd, do(cmd, args)) }
	}
	if pre := c.PreRunE; pre != nil {
		c.PreRunE = func(cmd *cobra.Command, args []string) error { return ofCommand(cmd, pre(cmd, args)) }
	}
	for _, sub := range c.Commands() {
		usageArgs(sub)
	}
}

// ofCommand makes the hint of a usage error that of the command that was typed.
func ofCommand(cmd *cobra.Command, err error) error {
	var usage *usageError
	if errors.As(err, &usage) && usage.command == "" {
		usage.command = cmd.CommandPath()
	}
	return err
}

// wrongArgs says which argument is missing, or which one is too many.
func wrongArgs(cmd *cobra.Command, args []string, err error) error {
	if cmd.HasSubCommands() && len(args) > 0 {
		return badCommand(cmd, args[0])
	}
	want := strings.Fields(cmd.Use)[1:]
	if i := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(w, "-") || strings.HasPrefix(w, "[") }); i >= 0 {
		want = want[:i]
	}
	switch {
	case len(args) < len(want):
		return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), strings.TrimRight(want[len(args)], "…"))
	case len(args) > len(want):
		return fmt.Errorf("%s: what is %q for?", cmd.CommandPath(), args[len(want)])
	}
	return err
}

// open connects to the fleet; the caller closes.
func (a *app) open(ctx context.Context) (*station.Station, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	return station.Open(ctx, station.Options{Config: a.config, Getenv: a.getenv, Log: log})
}

// with opens the fleet around fn.
func (a *app) with(ctx context.Context, fn func(*station.Station) error) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	err = fn(s)
	if cerr := s.Close(); cerr != nil && err == nil && !errors.Is(cerr, context.Canceled) {
		a.note("close: %v", cerr)
	}
	return err
}

// withHost opens the fleet and finds one host by the name that was typed.
func (a *app) withHost(ctx context.Context, name string, fn func(*station.Station, fleet.HostID) error) error {
	return a.with(ctx, func(s *station.Station) error {
		id, err := s.Resolve(ctx, name)
		if err != nil {
			return err
		}
		return fn(s, id)
	})
}

func (a *app) logger() (*slog.Logger, error) {
	path := a.logFile
	if path == "" {
		path = a.getenv("EBB_LOG")
	}
	if path == "" {
		return slog.New(slog.DiscardHandler), nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelDebug})), nil
}

// outputFlag adds -o to a command that reads.
func (a *app) outputFlag(c *cobra.Command) *cobra.Command {
	c.Flags().StringVarP(&a.output, "output", "o", "table", "table or json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	pre := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains([]string{"table", "json"}, a.output) {
			return &usageError{err: fmt.Errorf("output %q: want table or json", a.output)}
		}
		if pre != nil {
			return pre(cmd, args)
		}
		return nil
	}
	return c
}

// show prints v as JSON if that was asked for, and calls table otherwise.
func (a *app) show(v any, table func(io.Writer) error) error {
	if a.output != "json" {
		return table(a.out)
	}
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// note tells the person something beside the output.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.errs, widget.Clean(fmt.Sprintf(format, args...)))
}

// completeHosts offers the names of hosts.
func (a *app) completeHosts(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var names []string
	_ = a.with(cmd.Context(), func(s *station.Station) error {
		hosts, err := s.Hosts(cmd.Context())
		for _, h := range hosts {
			if name := h.ID.Name(); strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
