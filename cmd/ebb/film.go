package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"ebb/demo/record"
	"ebb/tui"
	"ebb/tui/replay"
)

// film writes the pictures of a replay, each behind its stamp, for a recorder
// that holds the other end of the terminal. Of this machine it takes the size of
// that terminal alone.
func (a *app) film(ctx context.Context, name string, t *replay.Tape, script string) error {
	f, ok := a.out.(*os.File)
	if !ok || !isTerminal(f) {
		return &usageError{err: fmt.Errorf("a film is made in a terminal"), command: "ebb replay"}
	}
	if _, err := term.MakeRaw(int(f.Fd())); err != nil { // what is sent must arrive as it is
		return fmt.Errorf("film: %w", err)
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("film: %w", err)
	}
	shots, length, err := parseShots(script)
	if err != nil {
		return &usageError{err: err, command: "ebb replay"}
	}
	p := replay.NewPlayer(strings.TrimSuffix(name, ".jsonl"), t)
	env := map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
	o := tui.Options{Replay: &p, Theme: "dark", Local: time.UTC, Getenv: func(k string) string { return env[k] }}
	return tui.Film(ctx, o, width, height, shots, length, func(at time.Duration, data []byte) error {
		_, err := io.WriteString(f, record.Stamp(at)+string(data))
		return err
	})
}

// parseShots reads "2s=+ 8s=n 12s=end": keys of one character, and the end.
func parseShots(script string) (shots []tui.Shot, length time.Duration, err error) {
	for _, word := range strings.Fields(script) {
		when, key, ok := strings.Cut(word, "=")
		at, err := time.ParseDuration(when)
		switch {
		case !ok || err != nil:
			return nil, 0, fmt.Errorf("film: %q: want AT=KEY", word)
		case key == "end":
			return shots, at, nil
		case key == "space":
			shots = append(shots, tui.Shot{At: at, Key: tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}})
		case utf8.RuneCountInString(key) == 1:
			r, _ := utf8.DecodeRuneInString(key)
			shots = append(shots, tui.Shot{At: at, Key: tea.KeyPressMsg{Code: r, Text: key}})
		default:
			return nil, 0, fmt.Errorf("film: no key is called %q", key)
		}
	}
	return nil, 0, fmt.Errorf("film: it has no end")
}
