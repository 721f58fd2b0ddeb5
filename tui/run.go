package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/replay"
)

// Options are what a console is made of.
type Options struct {
	Source feed.Source
	Verbs  feed.Verbs
	Replay *replay.Player // play this instead; Source may be nil then

	Theme  string              // name or path; empty: by the environment and the terminal
	ASCII  bool                // plain signs only, whatever the locale says
	Getenv func(string) string // default: os.Getenv
	Now    func() time.Time    // default: time.Now
	Local  *time.Location      // default: time.Local

	Input  io.Reader // default: the terminal
	Output io.Writer
	Extra  []tea.ProgramOption // for tests
}

func (o Options) defaults() Options {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Local == nil {
		o.Local = time.Local
	}
	return o
}

// theme loads what was asked for, or what suits the environment; dark is a guess
// until the terminal has answered.
func (o Options) theme(dark bool) (themes.Theme, error) {
	name := o.Theme
	if name == "" {
		name = themes.Detect(o.Getenv, dark)
	}
	th, err := themes.Load(name)
	if err != nil {
		return themes.Theme{}, err
	}
	glyphs := themes.DetectGlyphs(o.Getenv)
	if o.ASCII {
		glyphs = themes.ASCIIGlyphs()
	}
	return th.With(glyphs), nil
}

// shutdown is how long Run waits for a terminal that no longer takes anything.
const shutdown = 2 * time.Second

// Run shows the console until it is quit or ctx ends. It returns within two
// seconds of that even where the terminal is stuck: nothing of a drain depends
// on it.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := New(ctx, o)
	if err != nil {
		return err
	}
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler()}
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		opts = append(opts, tea.WithOutput(o.Output))
	}
	p := tea.NewProgram(m, append(opts, o.Extra...)...)
	done := make(chan error, 1)
	go func() {
		_, err := p.Run()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(shutdown):
			return nil
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}
