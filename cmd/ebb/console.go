package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ebb/cmd/ebb/station"
	"ebb/tui"
	"ebb/tui/plain"
	"ebb/tui/widget"
)

// screenFlags are how the console draws.
type screenFlags struct {
	slow, mouse, plain bool
	sync               string
}

func (a *app) screenFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&a.readOnly, "read-only", false, "the console refuses every act")
	f.BoolVar(&a.ascii, "ascii", false, "draw with ASCII signs only")
	f.StringVar(&a.theme, "theme", "", "name or path of a theme")
	f.BoolVar(&a.screen.slow, "slow", false, "spare the line: 4 frames a second, 1 for countdowns (automatic where it can't keep up)")
	f.StringVar(&a.screen.sync, "sync", "auto", "have the terminal show larger changes at once: auto, on or off")
	f.BoolVar(&a.screen.mouse, "mouse", false, "take the wheel of the mouse")
	f.BoolVar(&a.screen.plain, "plain", false, "a line an event and nothing else, for screen readers and logs")
	_ = c.RegisterFlagCompletionFunc("sync", cobra.FixedCompletions([]string{"auto", "on", "off"}, cobra.ShellCompDirectiveNoFileComp))
}

// console opens the interactive console on the fleet, or writes what happens as
// lines.
func (a *app) console(ctx context.Context) error {
	sync := tui.Sync(a.screen.sync)
	switch {
	case sync != "" && sync != tui.SyncAuto && sync != tui.SyncOn && sync != tui.SyncOff:
		return &usageError{err: fmt.Errorf("--sync %q: want auto, on or off", a.screen.sync)}
	case !a.screen.plain && !isTerminal(a.out):
		return &usageError{err: fmt.Errorf("the console needs a terminal; --plain and the commands work without one")}
	}
	if a.getenv("TERM") == "dumb" && !a.screen.plain {
		a.note("TERM is dumb: what happens is printed as lines, as with --plain")
		a.screen.plain = true
	}
	if a.screen.plain {
		defer a.unhurried(ctx)()
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	// What the console drives outlives the signal that ends it: its drains are
	// handed over first.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.Observe(live)
	s.Demo = a.demo
	c := station.NewConsole(live, s, a.readOnly || a.screen.plain)
	if a.screen.plain {
		err = plain.Run(ctx, c, a.out, time.Now)
	} else {
		err = tui.Run(ctx, tui.Options{Source: c, Verbs: c, Theme: a.theme, ASCII: a.ascii, Getenv: a.getenv,
			Slow: a.screen.slow, Sync: sync, Mouse: a.screen.mouse})
	}
	for _, line := range c.HandOver(live) {
		a.note("%s", widget.Clean(line))
	}
	cancel()
	c.Wait()
	if cerr := s.Close(); err == nil && cerr != nil {
		a.note("close: %v", cerr)
	}
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
