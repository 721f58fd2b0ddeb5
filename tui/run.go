package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ebb/themes"
	"ebb/tui/feed"
	"ebb/tui/paint"
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

	Slow  bool // spare the line: four frames a second, one for what counts by itself
	Sync  Sync // whether the terminal shows larger changes at once
	Mouse bool // take clicks and the wheel

	colours int // that the terminal shows: 256 or 16; 0: all

	shell func() bool // whether ctrl-z has somewhere to go; default: hasShell

	Input  io.Reader           // default: the terminal
	Output io.Writer           // default: os.Stdout
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
	if o.shell == nil {
		o.shell = hasShell
	}
	if o.Output == nil {
		o.Output = os.Stdout
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
	th, err := themes.LoadFrom(o.themesDir(), name)
	if err != nil {
		return themes.Theme{}, err
	}
	glyphs := themes.DetectGlyphs(o.Getenv)
	if o.ASCII {
		glyphs = themes.ASCIIGlyphs()
	}
	return th.With(glyphs).In(o.colours), nil
}

// themesDir is where a person's own themes lie.
func (o Options) themesDir() string {
	if dir := o.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "ebb", "themes")
	}
	if home := o.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "ebb", "themes")
	}
	return ""
}

// shutdown is how long Run waits for a terminal that no longer takes anything.
const shutdown = 2 * time.Second

// Run shows the console until it is quit or ctx ends. It returns within two
// seconds of that even where the terminal is stuck: nothing of a drain depends
// on it.
func Run(ctx context.Context, o Options) error {
	o = o.defaults()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := New(ctx, o)
	if err != nil {
		return err
	}
	to, out := newTerminal(o.Output)
	defer out.Close(shutdown)
	m.canvas.out, m.canvas.slow = out, o.Slow
	out.SetSync(o.Sync == SyncOn)
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(to), tea.WithFilter(o.Sync.filter(out))}
	if o.Input != nil {
		opts = append(opts, tea.WithInput(o.Input))
	}
	p := tea.NewProgram(m, append(opts, o.Extra...)...)
	done := make(chan error, 1)
	go func() {
		_, err := p.Run()
		done <- err
	}()
	select {
	case err = <-done:
	case <-out.Lost():
		cancel()
		select {
		case <-done:
		case <-time.After(shutdown):
		}
		return fmt.Errorf("console: the terminal is lost: %w", out.Err())
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

// Sync says whether the terminal is told to show a larger change at once (mode
// 2026), which spares the eye and costs a few bytes.
type Sync string

// With auto, the terminal is asked where it is known to answer; not over SSH.
const (
	SyncAuto Sync = "auto"
	SyncOn   Sync = "on"
	SyncOff  Sync = "off"
)

// filter keeps the terminal's answer from the program's own renderer, which has
// nothing to draw, and gives it to ours.
func (s Sync) filter(out *paint.Output) func(tea.Model, tea.Msg) tea.Msg {
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		if r, ok := msg.(tea.ModeReportMsg); ok && r.Mode == ansi.ModeSynchronizedOutput {
			if s != SyncOn && s != SyncOff {
				out.SetSync(r.Value == ansi.ModeReset)
			}
			return nil
		}
		return msg
	}
}
