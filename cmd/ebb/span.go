package main

import (
	"time"

	"ebb/tui/words"
)

// span is a duration as a flag: a number without its unit is told which ones there
// are.
type span time.Duration

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	d, err := words.ReadDuration(text)
	*s = span(d)
	return err
}

// String implements pflag.Value; nothing is no default.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return words.Duration(time.Duration(*s))
}

// Type implements pflag.Value.
func (s *span) Type() string { return "duration" }
