package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"ebb/tui/paint"
)

// Shot is a key that is pressed while a replay is filmed.
type Shot struct {
	At  time.Duration // since the film began
	Key tea.KeyPressMsg
}

// Film plays a replay on a clock of its own, presses the keys of the shots, and
// hands over what a terminal of true colours would be sent for each picture that
// differs from the one before. Nothing of it depends on this machine: place,
// theme and environment are those of the options, which must have them.
func Film(ctx context.Context, o Options, width, height int, shots []Shot, length time.Duration, picture func(at time.Duration, data []byte) error) error {
	if o.Replay == nil || o.Theme == "" || o.Getenv == nil || o.Local == nil {
		return errors.New("film: it wants a replay, and a theme, an environment and a place of its own")
	}
	began, at := o.Replay.Now(), time.Duration(0)
	o.Now = func() time.Time { return began.Add(at) }
	m, err := New(ctx, o)
	if err != nil {
		return err
	}
	m.update(tea.WindowSizeMsg{Width: width, Height: height})
	m.rolls()
	pen := paint.NewPen(colorprofile.TrueColor)
	last := ""
	for ; at <= length; at += rollEvery {
		m.update(rolledMsg{m.film.gen})
		for len(shots) > 0 && shots[0].At <= at {
			m.update(shots[0].Key)
			shots = shots[1:]
		}
		screen := m.Screen()
		if screen == last {
			continue
		}
		last = screen
		if err := picture(at, pen.Draw(screen, width, height)); err != nil {
			return err
		}
	}
	return nil
}
