package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/demo"
)

func demoCommand(a *app) *cobra.Command {
	var o demo.Options
	var script string
	var plain bool
	names := make([]string, 0, 5)
	for _, s := range demo.Scripts() {
		names = append(names, s.Name)
	}
	c := &cobra.Command{
		Use: "demo", Short: "Start a fleet on this machine and open the console on it, or play a script",
		Long: `Starts hosts on this machine (real agents, SSH servers on loopback, real
processes; no root, no network) and opens the console on them. Everything ends
with it.

With --script, a story is played instead, step by step: ` + strings.Join(names, ", ") + `.
The exit status is 0 only if every step really held.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if script != "" {
				return a.playScript(cmd.Context(), script, o)
			}
			if plain {
				return &usageError{err: fmt.Errorf("--plain goes with --script")}
			}
			return a.playFleet(cmd.Context(), o)
		},
	}
	c.Flags().IntVar(&o.Hosts, "hosts", 12, "how many hosts")
	c.Flags().Float64Var(&o.Speed, "speed", 1, "divide every configured duration by this")
	c.Flags().StringVar(&o.Dir, "dir", "", "keep the fleet's files here (default: a temporary directory)")
	c.Flags().StringVar(&o.Journal, "journal", "", "with --script: write the journal to this file in the end, for ebb replay")
	c.Flags().StringVar(&o.Agent, "agent", "", "the ebbd to run (default: the one beside ebb)")
	c.Flags().StringVar(&script, "script", "", "play a script: "+strings.Join(names, ", "))
	c.Flags().BoolVar(&plain, "plain", false, "with --script: print lines only, as it does anyway")
	_ = c.RegisterFlagCompletionFunc("script", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) playScript(ctx context.Context, name string, o demo.Options) error {
	script, err := demo.Find(name)
	if err != nil {
		return &usageError{err: err}
	}
	return demo.Play(ctx, script, o, a.out)
}

func (a *app) playFleet(ctx context.Context, o demo.Options) error {
	o.Work = true
	a.note("starting %d hosts on this machine…", o.Hosts)
	f, err := demo.Start(ctx, o)
	if err != nil {
		return err
	}
	defer f.Stop()
	a.config = f.Config()
	getenv := a.getenv
	a.getenv = func(name string) string { // what the console keeps, its proofs, ends with the fleet
		if name == "XDG_STATE_HOME" {
			return filepath.Join(f.Dir, "state")
		}
		return getenv(name)
	}
	if a.logFile == "" {
		a.logFile = f.Dir + "/ebb.log"
	}
	a.note("the fleet is up; from another terminal: EBB_CONFIG=%s ebb hosts", f.Config())
	if !isTerminal(a.out) {
		a.note("Ctrl-C ends it.")
		<-ctx.Done()
		return nil
	}
	a.demo = len(f.Hosts)
	err = a.console(ctx)
	a.note("the demo is over: its %d hosts, and what ran on them, end with it", a.demo)
	return err
}

// workloadCommand is what the demo's hosts run: workloads, and the commands that
// start them and ask whether they answer. It is hidden: people have no use for
// it.
func workloadCommand() *cobra.Command {
	var root, token, catalog, until string
	var o demo.RunOptions
	c := &cobra.Command{
		Use: "demo-workload run|start|health|unready", Hidden: true, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, id := os.Getenv("EBB_KIND"), os.Getenv("EBB_ID")
			switch args[0] {
			case "start":
				exe, err := os.Executable()
				if err != nil {
					return err
				}
				return demo.LaunchNamed(demo.Place{Root: root, Token: token, Exe: exe}, catalog, kind, id)
			case "health":
				ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
				defer cancel()
				return demo.Healthy(ctx, root, kind, id)
			case "unready":
				return demo.Unready(root, kind, id)
			case "run":
				o.Root = root
				if until != "" {
					t, err := time.Parse(time.RFC3339Nano, until)
					if err != nil {
						return err
					}
					o.Until = t
				}
				return demo.Run(context.WithoutCancel(cmd.Context()), o)
			}
			return &usageError{err: fmt.Errorf("demo-workload %s", strconv.Quote(strings.Join(args, " ")))}
		},
	}
	c.Flags().StringVar(&root, "root", "", "")
	c.Flags().StringVar(&token, "token", "", "")
	c.Flags().StringVar(&catalog, "catalog", "", "")
	c.Flags().StringVar(&until, "until", "", "")
	c.Flags().StringVar(&o.Spec.Kind, "kind", "", "")
	c.Flags().StringVar(&o.Spec.ID, "id", "", "")
	c.Flags().StringVar(&o.Trainer, "trainer", "", "")
	c.Flags().BoolVar(&o.Spec.Serve, "serve", false, "")
	c.Flags().StringVar(&o.Spec.As, "as", "", "")
	c.Flags().StringVar(&o.Spec.Log, "log", "", "")
	c.Flags().BoolVar(&o.IgnoreTerm, "ignore-term", false, "")
	return c
}

// demoLeverCommand is a lever of the demo's fleet. It is hidden, as its workloads
// are.
func demoLeverCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "demo-lever NAME", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.RunLever(args[0], dir, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "")
	return c
}
