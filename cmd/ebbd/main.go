// Command ebbd is the agent on each host.
//
//	ebbd serve                     the daemon
//	ebbd dial-stdio --role R       what a console runs through SSH
//	ebbd admit OP --key KIND/ID    asks whether this host takes something
//	ebbd facts                     one look at the host, without the daemon
//	ebbd init                      records that nothing holds a new host
//	ebbd unit                      the systemd unit, sudoers and key examples
//
// It only reads flags and files and wires packages together. Exit status: 0
// done, 1 error, 2 usage, 3 refused; "admit" says 75 for refused, which init
// systems and batch schedulers take for "try again".
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

	"github.com/spf13/cobra"

	"ebb/cmd/version"
)

// linked is a version that the linker may set for a package's own numbering.
var linked string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return execute(ctx, command{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv}, os.Args[1:])
}

// command is what every subcommand needs of the world.
type command struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env func(string) string
}

// exit is an error with an exit status and, perhaps, what to do about it.
type exit struct {
	status int
	err    error
	hint   string
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

func execute(ctx context.Context, c command, args []string) int {
	root := &cobra.Command{
		Use: "ebbd", Short: "the agent of ebb on this host", Version: versionText(),
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetArgs(args)
	usage := false
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		usage = true
		return err
	})
	root.AddCommand(c.serve(), c.dialStdio(), c.admit(), c.facts(), c.initState(), c.unit(), c.version())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(c.err, "error: %v\n", err)
	var e *exit
	if errors.As(err, &e) {
		if e.hint != "" {
			fmt.Fprintf(c.err, "hint: %s\n", e.hint)
		}
		return e.status
	}
	if usage || strings.HasPrefix(err.Error(), "unknown command") || strings.Contains(err.Error(), "arg(s)") || strings.HasPrefix(err.Error(), "required flag") {
		return 2
	}
	return 1
}

func (c command) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.out, versionText())
			return err
		},
	}
}

// versionText is one word: it stands in the magic line.
func versionText() string {
	return strings.Join(strings.Fields(cmp.Or(linked, version.Version)), "-")
}
