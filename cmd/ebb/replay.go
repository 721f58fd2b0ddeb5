package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ebb/cmd/ebb/station"
	"ebb/fleet"
	"ebb/tui"
	"ebb/tui/replay"
)

func replayCommand(a *app) *cobra.Command {
	var plain bool
	var shots string
	c := &cobra.Command{
		Use: "replay FILE", Short: "Play a journal again, on the console's screens or as lines",
		Long: `Plays a journal again that was written with ebb log --export, on the console's
own screens: space pauses, + and - change the speed, . goes on by one event, n to
the next that needs a person, > to the end, @ to a time. Every line is marked,
and nothing can be done in a replay.

With --plain, or without a terminal, it prints the events as lines. - reads from
the input, and prints lines.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.tape(args[0])
			if err != nil {
				return err
			}
			if shots != "" {
				return a.film(cmd.Context(), filepath.Base(args[0]), t, shots)
			}
			if plain || args[0] == "-" || !isTerminal(a.out) {
				return replay.Lines(a.out, t, time.Local)
			}
			p := replay.NewPlayer(filepath.Base(args[0]), t)
			return tui.Run(cmd.Context(), tui.Options{Replay: &p, Theme: a.theme, ASCII: a.ascii, Getenv: a.getenv})
		},
	}
	c.Flags().BoolVar(&plain, "plain", false, "print lines only")
	c.Flags().StringVar(&shots, "film", "", "write the pictures of a film instead: AT=KEY …, and AT=end")
	_ = c.Flags().MarkHidden("film")
	c.Flags().BoolVar(&a.ascii, "ascii", false, "draw with ASCII signs only")
	c.Flags().StringVar(&a.theme, "theme", "", "name or path of a theme")
	return c
}

// tape reads a journal from a file, or from the input.
func (a *app) tape(path string) (*replay.Tape, error) {
	in := a.in
	if path != "-" {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &station.HintError{Err: fmt.Errorf("replay %s: there is no such file", path), Next: "ebb log --export " + path}
		}
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		defer f.Close()
		in = f
	}
	t, err := replay.Read(in)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	return t, nil
}

// exportJournal writes a journal as it is. A file takes its name only once it is
// whole.
func (a *app) exportJournal(ctx context.Context, s *station.Station, only fleet.HostID, path string) error {
	write := func(w io.Writer) error { return s.Journal.Export(ctx, w, string(only)) }
	if path == "-" {
		return write(a.out)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ebb-journal-*")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer os.Remove(f.Name()) // of no use once it has its name
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	a.note("%s: written; ebb replay %s plays it", path, path)
	return nil
}
