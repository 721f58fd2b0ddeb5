package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"ebb/cmd/ebb/station"
	"ebb/tui"
	"ebb/tui/widget"
)

// console opens the interactive console on the fleet.
func (a *app) console(ctx context.Context) error {
	if !isTerminal(a.out) {
		return &usageError{err: fmt.Errorf("the console needs a terminal; commands work without one")}
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s.Observe(ctx)
	c := station.NewConsole(ctx, s, a.readOnly)
	err = tui.Run(ctx, tui.Options{Source: c, Verbs: c, Theme: a.theme, ASCII: a.ascii, Getenv: a.getenv})
	for _, line := range c.HandOver(context.WithoutCancel(ctx)) {
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
