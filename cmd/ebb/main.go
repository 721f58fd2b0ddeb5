// Command ebb takes hosts out of service without losing what runs on them.
//
// Exit status: 0 done; 1 error; 2 usage; 3 refused (gate closed, not permitted,
// theirs); 4 deadline reached with workloads left; 5 stopped.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"ebb/drain/engine"
	"ebb/tui/widget"
)

// The exit statuses.
const (
	exitDone     = 0
	exitError    = 1
	exitUsage    = 2
	exitRefused  = 3
	exitDeadline = 4
	exitStopped  = 5
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer, getenv func(string) string) int {
	notes := &outbox{to: errs}
	defer notes.Flush(ctx)
	root := newRoot(&app{in: in, out: out, errs: notes, getenv: getenv})
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(notes)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	report(notes, err)
	return exitCode(err)
}

// exitError carries an exit status; its text may be empty where everything has
// been said.
type exitStatus struct {
	code int
	err  error
}

func (e *exitStatus) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitStatus) Unwrap() error { return e.err }

// usageError is a command line that makes no sense.
type usageError struct {
	err     error
	command string // whose help to read; empty: ebb's
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return cmp.Or(e.command, "ebb") + " --help" }

func exitCode(err error) int {
	var status *exitStatus
	var usage *usageError
	var refused *engine.Refused
	var taken *engine.HoldTaken
	var final engine.Final
	switch {
	case errors.As(err, &status):
		return status.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &refused), errors.As(err, &taken), errors.As(err, &final) && final.Final():
		return exitRefused
	case errors.Is(err, context.Canceled):
		return exitStopped
	}
	return exitError
}

// report prints an error, every reason of a refusal, and what to type next.
func report(w io.Writer, err error) {
	if text := err.Error(); text != "" {
		fmt.Fprintf(w, "error: %s\n", widget.Clean(text))
	}
	var refused *engine.Refused
	if errors.As(err, &refused) && len(refused.Issues) > 1 {
		for _, is := range refused.Issues {
			fmt.Fprintf(w, "  - %s\n", widget.Clean(is.Detail))
		}
	}
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		if hint := strings.TrimSpace(hinted.Hint()); hint != "" {
			fmt.Fprintf(w, "hint: %s\n", widget.Clean(hint))
		}
	}
}
