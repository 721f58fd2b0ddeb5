package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/drain"
	"ebb/drain/levers"
	"ebb/fleet"
	"ebb/tui/widget"
)

// leverCommand tries levers out: programs that carry strategies out beside the
// engine.
func leverCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "lever", Short: "Try programs out that move workloads (levers)", Args: cobra.NoArgs}
	c.AddCommand(leverTestCommand(a))
	return c
}

func leverTestCommand(a *app) *cobra.Command {
	var workload, steps, witness string
	var timeout, wait time.Duration
	c := &cobra.Command{
		Use: "test PROGRAM [ARG…]", Short: "Check that a program keeps to the contract of levers",
		Long: `Does every step for real, twice, asks about it, and takes it back in reverse
order; kills the program in mid-step; sends it TERM; asks it nonsense. Use a
workload that may be moved to and fro. Steps behind one that answers no_return
are not tried. The contract stands in the documentation of ebb/drain/levers.

--workload FILE holds what the program is told, as JSON:

  {"workload": {"kind": "notebook", "id": "try-1", "class": "pausable"},
   "source":   {"id": "lab/a", "address": "a"},
   "target":   {"id": "lab/b", "address": "b"}}

A lever that only says that it has done something is believed, unless --witness
names a program that looks for itself: it is called with STEP KIND ID and ends
with 0 where the step stands, 1 where it does not, 2 where that can't be told.

Prints ok, FAIL or skip for each check. Exit status 0 if all hold, 1 otherwise.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := levers.Trial{Wait: wait, Report: func(c levers.Check) { a.leverLine(c) }}
			var err error
			if t.Program, err = leverProgram(args, timeout); err != nil {
				return err
			}
			if t.Sample, err = leverSample(workload); err != nil {
				return err
			}
			if t.Steps, err = leverSteps(steps, t.Sample.Workload.Class); err != nil {
				return &usageError{err: err}
			}
			if t.Witness, err = leverWitness(witness, t.Sample.Workload); err != nil {
				return err
			}
			if !t.Conform(cmd.Context()) {
				return errors.New("the lever does not keep to its contract")
			}
			return nil
		},
	}
	c.Flags().StringVar(&workload, "workload", "", "JSON file with workload, source and target (default: a made-up one)")
	c.Flags().StringVar(&steps, "steps", "", "the steps that it does, in their order, with commas (default: all of the workload's class)")
	c.Flags().StringVar(&witness, "witness", "", "program that looks whether a step stands")
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "of one call")
	c.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long a step may go on running")
	c.Flags().SetInterspersed(false)
	return c
}

func (a *app) leverLine(c levers.Check) {
	switch {
	case c.Skipped:
		fmt.Fprintf(a.out, "skip  %s: %s\n", c.Name, widget.Clean(c.Err.Error()))
	case c.Err != nil:
		fmt.Fprintf(a.out, "FAIL  %s: %s\n", c.Name, widget.Clean(c.Err.Error()))
	default:
		fmt.Fprintf(a.out, "ok    %s\n", c.Name)
	}
}

// leverWitness is the program that looks for itself; nil without one.
func leverWitness(program string, w levers.Workload) (func(context.Context, drain.Step) (bool, bool, error), error) {
	if program == "" {
		return nil, nil
	}
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", program, err)
	}
	return func(ctx context.Context, s drain.Step) (stands, known bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err = exec.CommandContext(ctx, path, string(s), w.Kind, w.ID).Run()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return true, true, nil
		case errors.As(err, &exit) && exit.ExitCode() == 1:
			return false, true, nil
		case errors.As(err, &exit) && exit.ExitCode() == 2:
			return false, false, nil
		}
		return false, false, err
	}, nil
}

func leverProgram(args []string, timeout time.Duration) (levers.Program, error) {
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return levers.Program{}, fmt.Errorf("lever %s: %w", args[0], err)
	}
	return levers.Program{Name: filepath.Base(path), Run: append([]string{path}, args[1:]...), Timeout: timeout}, nil
}

func leverSample(file string) (levers.Request, error) {
	r := levers.Request{
		Workload: levers.Workload{Kind: "try", ID: "try-1", Class: fleet.Pausable, Owner: "nobody"},
		Source:   levers.Place{ID: "try/a", Address: "a"}, Target: levers.Place{ID: "try/b", Address: "b"},
	}
	if file == "" {
		return r, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	r = levers.Request{}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	if r.Workload.Kind == "" || r.Workload.ID == "" {
		return r, fmt.Errorf("%s: names no workload", file)
	}
	return r, nil
}

func leverSteps(list string, class fleet.Class) ([]drain.Step, error) {
	if list == "" {
		if steps := drain.WayOf(class); len(steps) > 0 {
			return steps, nil
		}
		return nil, fmt.Errorf("a workload of class %s has no way of its own: say --steps", class)
	}
	var steps []drain.Step
	for s := range strings.SplitSeq(list, ",") {
		steps = append(steps, drain.Step(strings.TrimSpace(s)))
	}
	return steps, nil
}
